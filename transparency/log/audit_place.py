"""The place that a replay has come to: everything it knows besides what lies in its tables. It can be put away.

Canonical CBOR, written in the same transaction as the tables: whoever goes on from it has seen every entry before it
once, and none after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.log.audit_report import AuditReport, Outcome
from transparency.merkle.compact_range import CompactRange
from transparency.policy.fields import number, read_map

_COUNTS: Final = ("size", "heads", "generations", "key_sets", "manifests", "holds_untold", "findings_made")
_NUMBERS: Final = ("time", "covered", "audited")
_FLAGS: Final = ("lost", "roots_hold")
_MEMBERS: Final = frozenset({"origin", "manifest", "edge", "leaves", "entries", *_COUNTS, *_NUMBERS, *_FLAGS})


@dataclass(slots=True)
class Place:
    """Mutable; the replay owns it."""

    # A document that does not hold: from there on nobody can say what was in force.
    lost: bool = False
    edge: CompactRange = field(default_factory=CompactRange)
    roots_hold: bool = True
    time: int = 0
    covered: int = 0
    manifest: str = ""
    # Entries below this index were replayed before, says an audit that stands on the log.
    audited: int = 0

    def to_bytes(self, report: AuditReport) -> bytes:
        """This place, and what *report* has counted so far; its findings are kept by whoever keeps this."""
        value: dict[str, object] = {name: getattr(report, name) for name in _COUNTS}
        value |= {name: getattr(self, name) for name in (*_NUMBERS, *_FLAGS)}
        value |= {"origin": report.origin, "manifest": self.manifest}
        value |= {"leaves": self.edge.size, "edge": list(self.edge.hashes)}
        value["entries"] = {str(outcome): report.entries[outcome] for outcome in Outcome}
        return cbor.encode(value)

    @classmethod
    def from_bytes(cls, data: bytes, report: AuditReport) -> Place:
        """The place, and *report* as it was there."""
        said = read_map(data, "the place of a replay", _MEMBERS, max_items=256)
        for name in _COUNTS:
            setattr(report, name, number(said[name], name))
        report.origin = str(said["origin"])
        for outcome in Outcome:
            report.entries[outcome] = number(said["entries"].get(str(outcome)), outcome)
        try:
            edge = CompactRange(said["leaves"], said["edge"])
        except (ValueError, TypeError) as error:
            raise MalformedError(f"the place of a replay: {error}") from error
        time, covered, audited = (number(said[name], name) for name in _NUMBERS)
        lost, roots_hold = (said[name] is True for name in _FLAGS)
        return cls(lost, edge, roots_hold, time, covered, str(said["manifest"]), audited)
