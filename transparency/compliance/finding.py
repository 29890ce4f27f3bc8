"""A finding: what one check says of one record or log, in figures, with places to look at.

A finding is evidence, not a judgement of law: nothing here says that anyone complies with anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

# Enough to look at by hand; ``more`` says how many were left out.
MAX_POINTERS: Final = 20


class Verdict(StrEnum):
    """*attest*: the data cannot show it, and somebody must state it. *n-a*: there is nothing that could be judged."""

    PASS = "pass"  # noqa: S105 - a verdict
    WARN = "warn"
    FAIL = "fail"
    NOT_APPLICABLE = "n-a"
    ATTEST = "attest"


# From the worst: what is wrong, what is odd, what nobody has stated yet, what is fine, what was not there to judge.
_WORST: Final = (Verdict.FAIL, Verdict.WARN, Verdict.ATTEST, Verdict.PASS, Verdict.NOT_APPLICABLE)


NO_COUNTS: Final[Mapping[str, int | str]] = {}
# Beside *n-a*: there is a record, and it could not be read. That is no evidence that nothing was to be found in it.
NOT_READ: Final[Mapping[str, int | str]] = {"not-read": 1}


class Finding(NamedTuple):
    """``summary`` is one short sentence with the figures; text of strangers stands in it only cut and made safe.

    ``pointers`` are JSON pointers into the canonical record (record checks) or entry ids (log checks), at most
    MAX_POINTERS of them. A tuple: 36 are made for each session, and a frozen dataclass takes four times as long.
    """

    check: str
    verdict: Verdict
    summary: str
    counts: Mapping[str, int | str] = NO_COUNTS
    pointers: tuple[str, ...] = ()
    more: int = 0

    @property
    def is_unread(self) -> bool:
        """Whether it says *n-a* because there was nothing to read, and not because of what was read."""
        return self.verdict is Verdict.NOT_APPLICABLE and self.counts == NOT_READ

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "verdict": str(self.verdict),
            "summary": self.summary,
            "counts": dict(self.counts),
            "pointers": list(self.pointers),
            "more": self.more,
        }


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one verdict over several: fail > warn > attest > pass > n-a; of none it is n-a."""
    seen = set(verdicts)
    return next((verdict for verdict in _WORST if verdict in seen), Verdict.NOT_APPLICABLE)
