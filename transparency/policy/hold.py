"""The legal hold: the service states that content of an entry, an issuer or a session stays, whatever its term says.

Canonical CBOR, a hold ``{"log", "scope", "value", "authoriser", "reason", "time"}`` with scope ``entry`` (an entry id),
``issuer`` (an iss) or ``session``; a release ``{"log", "hold", "authoriser", "reason", "time"}`` that names the entry
id of the hold it ends. Both stay on the log for ever.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.erasure import MAX_LOG, MAX_NAME, MAX_RULE
from transparency.policy.fields import number, read_map, text
from transparency.statements.statement import MAX_ISS_CHARS, parse_entry_id

ENTRY: Final = "entry"
ISSUER: Final = "issuer"
SESSION: Final = "session"
SCOPES: Final = (ENTRY, ISSUER, SESSION)
_HOLD: Final = frozenset({"log", "scope", "value", "authoriser", "reason", "time"})
_RELEASE: Final = frozenset({"log", "hold", "authoriser", "reason", "time"})


@dataclass(frozen=True, slots=True)
class Hold:
    log: str
    scope: str
    value: str
    authoriser: str
    reason: str
    time: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Hold:
        members = read_map(data, "a hold", _HOLD)
        if members["scope"] not in SCOPES:
            raise MalformedError(f"hold.scope is one of {', '.join(SCOPES)}")
        value = text(members["value"], "hold.value", MAX_ISS_CHARS)
        if members["scope"] == ENTRY:
            parse_entry_id(value)
        hold = cls(
            text(members["log"], "hold.log", MAX_LOG),
            members["scope"],
            value,
            text(members["authoriser"], "hold.authoriser", MAX_NAME),
            text(members["reason"], "hold.reason", MAX_RULE),
            number(members["time"], "hold.time"),
        )
        if hold.to_bytes() != data:
            raise MalformedError("a hold is deterministic CBOR")
        return hold

    def to_bytes(self) -> bytes:
        return cbor.encode(asdict(self))


@dataclass(frozen=True, slots=True)
class Release:
    log: str
    hold: str
    authoriser: str
    reason: str
    time: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Release:
        members = read_map(data, "a release", _RELEASE)
        hold = text(members["hold"], "release.hold", MAX_NAME)
        parse_entry_id(hold)
        release = cls(
            text(members["log"], "release.log", MAX_LOG),
            hold,
            text(members["authoriser"], "release.authoriser", MAX_NAME),
            text(members["reason"], "release.reason", MAX_RULE),
            number(members["time"], "release.time"),
        )
        if release.to_bytes() != data:
            raise MalformedError("a release is deterministic CBOR")
        return release

    def to_bytes(self) -> bytes:
        return cbor.encode(asdict(self))


def read_hold(data: bytes) -> Hold | Release:
    """Whichever of the two *data* is."""
    value = cbor.decode(data, max_depth=2, max_items=64)
    return Release.from_bytes(data) if isinstance(value, dict) and "hold" in value else Hold.from_bytes(data)
