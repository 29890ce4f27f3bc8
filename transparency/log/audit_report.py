"""What an audit found: one outcome for every entry, and what is wrong, each by its index and entry id. Plain data."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

MAX_FINDINGS: Final = 1_000


class Outcome(StrEnum):
    """What became of an entry: one word each."""

    REPRODUCED = "reproduced"
    # Taken away by an order that is on the log: its admission cannot be replayed any more.
    ERASED = "erased"
    FAILED = "failed"
    # Behind a policy or key set that does not hold: nobody can say what was in force.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """*index* is -1 where it is not about one entry."""

    index: int
    entry: str
    what: str


@dataclass(slots=True)
class AuditReport:
    origin: str = ""
    size: int = 0
    heads: int = 0
    generations: int = 0
    key_sets: int = 0
    manifests: int = 0
    # Entries that were judged with certificates which no manifest vouches for.
    unproven: int = 0
    # Orders to erase what a hold by issuer or session may have kept: whose it was cannot be told any more.
    holds_untold: int = 0
    entries: Counter[Outcome] = field(default_factory=Counter)
    findings: list[AuditFinding] = field(default_factory=list)
    findings_made: int = 0

    def add(self, index: int, entry: str, what: str) -> None:
        """Count every finding, keep the first thousand."""
        self.findings_made += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(AuditFinding(index, entry, what))

    @property
    def clean(self) -> bool:
        return not self.findings_made

    @property
    def certain(self) -> bool:
        """Whether there was enough to say of every entry, erased ones apart, whether it was rightly admitted."""
        return not self.unproven and not self.entries[Outcome.UNKNOWN]
