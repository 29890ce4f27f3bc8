"""What a monitor says: alarms, each with its own code, and entries that it was asked to watch for."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.verifier.evidence import Evidence

Code = Literal[
    "split-view", "rollback", "frozen", "missing-quorum", "unreachable", "bad-tile", "bad-checkpoint", "watch-failed"
]

MEANINGS: Final[Mapping[Code, str]] = MappingProxyType({
    "split-view": "the log signed two trees of which neither continues the other",
    "rollback": "the log shows a smaller tree than before",
    "frozen": "the log shows nothing new",
    "missing-quorum": "not enough witnesses have cosigned what the log shows",
    "unreachable": "a log or a witness does not answer",
    "bad-tile": "the log serves tiles or entries that are not those of its checkpoint",
    "bad-checkpoint": "the log serves something that is no checkpoint signed by a known key of it",
    "watch-failed": "the log could not be searched for what is being watched",
})  # fmt: skip

STAYING: Final = frozenset[Code]({"split-view"})
"""What was signed stays signed: such an alarm never ends by itself."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something is wrong with a log, at *place*: a URL of it, or a witness. *detail* says what was seen."""

    code: Code
    origin: str
    place: str
    detail: str
    evidence: Evidence | None = None

    @property
    def key(self) -> str:
        """What makes it the same alarm in the next round, so that it is told once."""
        return f"{self.code} {self.place}"

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "alarm",
            "code": self.code,
            "meaning": MEANINGS[self.code],
            "log": self.origin,
            "place": self.place,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that was watched for, as the log's search says; nothing of it is proven by that."""

    origin: str
    place: str
    watch: str
    value: str
    index: int
    entry_id: str

    def to_json(self) -> dict[str, Any]:
        return {
            "event": "match",
            "log": self.origin,
            "place": self.place,
            self.watch: self.value,
            "index": self.index,
            "entry": self.entry_id,
        }
