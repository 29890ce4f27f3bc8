"""The period: what a compliance witness attests of a stretch of a log, in figures, as a statement of its own.

It says which entries were looked at, up to which checkpoint, what each check came to how often, what was not available,
what the *log* did wrong, and by which software. It names entries and checks, and repeats nothing of what a record says.

Deterministic CBOR: what is accepted prints back the same. ``first`` to ``end - 1`` are the entries; ``checkpoint`` is
the note of size ``end``, with the witness' own lines if it ``cosigned``; ``previous`` is the entry id of the period
before, or empty; ``policies`` are the first and the last policy generation in force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.compliance.examined import ERASED, HASH_ONLY, NOT_PERMITTED
from transparency.compliance.finding import Verdict
from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.fields import as_map, number, read_map, text
from transparency.statements.statement import parse_entry_id

SUBJECT: Final = "witness-period"
NOT_AVAILABLE: Final = (HASH_ONLY, NOT_PERMITTED, ERASED)
MAX_LISTED: Final = 50
MAX_BYTES: Final = 64 * 1024
_MAX_CHECKPOINT: Final = 24 * 1024
_MAX_TEXT: Final = 300
_MAX_NAME: Final = 8_192
_MAX_CHECKS: Final = 256
_MAX_ITEMS: Final = 8_192
_NUMBERS: Final = ("number", "first", "end", "time", "failing", "misbehaviours")
_COUNTS: Final = ("entries", "outcomes", "not_available")
_MEMBERS: Final = frozenset({
    "log", "witness", "number", "previous", "first", "end", "checkpoint", "cosigned", "time", "entries", "outcomes",
    "not-available", "checks", "failing", "failed", "misbehaviours", "misbehaviour", "policies", "software",
})  # fmt: skip
_FAILED: Final = frozenset({"index", "entry", "checks"})
_MISBEHAVIOUR: Final = frozenset({"code", "index", "entry", "what"})


@dataclass(frozen=True, slots=True)
class Failed:
    """An entry with a record of which checks say *fail*."""

    index: int
    entry: str
    checks: tuple[str, ...]

    def to_map(self) -> dict[str, Any]:
        return {"index": self.index, "entry": self.entry, "checks": list(self.checks)}

    @classmethod
    def from_map(cls, value: object) -> Failed:
        said = as_map(value, "a failed entry of a period", _FAILED)
        checks = tuple(text(check, "period.failed.checks", _MAX_TEXT) for check in _list(said["checks"], _MAX_CHECKS))
        return cls(number(said["index"], "period.failed.index"), _entry(said["entry"]), checks)


@dataclass(frozen=True, slots=True)
class Misbehaviour:
    """What the log did wrong. *index* is -1, and *entry* empty, where it is not about one entry."""

    code: str
    index: int
    entry: str
    what: str

    def to_map(self) -> dict[str, Any]:
        return {"code": self.code, "index": self.index, "entry": self.entry, "what": self.what}

    @classmethod
    def from_map(cls, value: object) -> Misbehaviour:
        said = as_map(value, "a misbehaviour in a period", _MISBEHAVIOUR)
        index = -1 if said["index"] == -1 else number(said["index"], "period.misbehaviour.index")
        entry = said["entry"] if said["entry"] == "" else _entry(said["entry"])
        what = text(said["what"], "period.misbehaviour.what", 2 * _MAX_TEXT)
        return cls(text(said["code"], "period.misbehaviour.code", _MAX_TEXT), index, entry, what)


@dataclass(frozen=True, slots=True)
class Period:
    """``failing`` and ``misbehaviours`` count what ``failed`` and ``misbehaviour`` list the first MAX_LISTED of.

    ``misbehaviours`` are those that stood when the period ended, whenever they were found.
    """

    log: str
    witness: str
    number: int
    previous: str
    first: int
    end: int
    checkpoint: bytes
    cosigned: bool
    time: int
    software: str
    policies: tuple[int, int] = (0, 0)
    entries: Mapping[str, int] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    not_available: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    failing: int = 0
    failed: tuple[Failed, ...] = ()
    misbehaviours: int = 0
    misbehaviour: tuple[Misbehaviour, ...] = ()

    def to_bytes(self) -> bytes:
        value: dict[str, Any] = {name: getattr(self, name) for name in ("log", "witness", "previous", "software")}
        value |= {name: getattr(self, name) for name in _NUMBERS}
        value |= {name.replace("_", "-"): dict(getattr(self, name)) for name in _COUNTS}
        value |= {"checkpoint": self.checkpoint, "cosigned": self.cosigned, "policies": list(self.policies)}
        value["checks"] = {check: dict(counts) for check, counts in self.checks.items()}
        value["failed"] = [each.to_map() for each in self.failed]
        value["misbehaviour"] = [each.to_map() for each in self.misbehaviour]
        return cbor.encode(value)

    @classmethod
    def from_bytes(cls, data: bytes) -> Period:
        """Read one; MalformedError for whatever is not the one form."""
        if len(data) > MAX_BYTES:
            raise MalformedError(f"a period has at most {MAX_BYTES} bytes")
        said = read_map(data, "a period", _MEMBERS, max_items=_MAX_ITEMS)
        checkpoint, checks = said["checkpoint"], said["checks"]
        if not isinstance(checkpoint, bytes) or len(checkpoint) > _MAX_CHECKPOINT or type(said["cosigned"]) is not bool:
            raise MalformedError("period.checkpoint is not a note, or period.cosigned neither true nor false")
        if not isinstance(checks, dict) or len(checks) > _MAX_CHECKS:
            raise MalformedError("period.checks is not a map of checks")
        policies = _list(said["policies"], 2)
        numbers = {name: number(said[name], f"period.{name}") for name in _NUMBERS}
        if len(policies) != 2 or numbers["first"] > numbers["end"]:
            raise MalformedError("period.policies are not two generations, or it ends before it begins")
        period = cls(
            **numbers,
            log=text(said["log"], "period.log", _MAX_NAME),
            witness=text(said["witness"], "period.witness", _MAX_NAME),
            previous="" if said["previous"] == "" else _entry(said["previous"]),
            checkpoint=checkpoint,
            cosigned=said["cosigned"],
            software=text(said["software"], "period.software", _MAX_TEXT),
            policies=(number(policies[0], "period.policies"), number(policies[1], "period.policies")),
            entries=_counts(said["entries"]),
            outcomes=_counts(said["outcomes"]),
            not_available=_counts(said["not-available"], NOT_AVAILABLE),
            checks={text(name, "period.checks", _MAX_TEXT): _counts(each, Verdict) for name, each in checks.items()},
            failed=tuple(Failed.from_map(each) for each in _list(said["failed"], MAX_LISTED)),
            misbehaviour=tuple(Misbehaviour.from_map(each) for each in _list(said["misbehaviour"], MAX_LISTED)),
        )
        if period.to_bytes() != data:
            raise MalformedError("a period is deterministic CBOR")
        return period


def _counts(value: object, names: Sequence[str] | type[Verdict] | None = None) -> dict[str, int]:
    if not isinstance(value, dict) or len(value) > _MAX_CHECKS:
        raise MalformedError("a count of a period is not a map")
    counts = {text(name, "a count of a period", _MAX_TEXT): number(each, name) for name, each in value.items()}
    if names is not None and not counts.keys() <= set(map(str, names)):
        raise MalformedError(f"a count of a period names something else than {', '.join(map(str, names))}")
    return counts


def _entry(value: object) -> str:
    entry = text(value, "an entry id of a period", _MAX_TEXT)
    parse_entry_id(entry)
    return entry


def _list(value: object, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise MalformedError(f"a list of a period is not one of at most {most}")
    return value
