"""What a statement says in a form that this package knows, so that no record is looked for in it.

Our own content types are registered as ordinary statements, by issuers whom the policy accepts. Reading one never
fails: what is not what its type says is nothing that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.cose import cbor
from transparency.errors import TransparencyError

REVIEW: Final = "application/vnd.agent-transparency.review+cbor"
ATTESTATION: Final = "application/vnd.agent-transparency.attestation+cbor"
PERIOD: Final = "application/vnd.agent-transparency.witness-period+cbor"
REPORT: Final = "application/vnd.agent-transparency.report+json"
CONTENT_TYPES: Final = frozenset({REVIEW, ATTESTATION, PERIOD, REPORT})
# The word of a replay that admitted an entry rightly (log/audit_report.py); who was not admitted states nothing.
REPRODUCED: Final = "reproduced"
ACCEPTED: Final = "accepted"
REVIEW_VERDICTS: Final = (ACCEPTED, "concern", "rejected")
_MAX_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Review:
    """That a person looked at an entry."""

    entry: str
    verdict: str
    reviewer: str
    time: int


@dataclass(frozen=True, slots=True)
class Attestation:
    """That an operator vouches for what no data shows: for *checks*, of *iss* or all, within times, until *expires*."""

    subject: str
    checks: tuple[str, ...]
    by: str
    iss: str = ""
    since: int | None = None
    until: int | None = None
    expires: int | None = None

    def covers(self, iss: str, time: int) -> bool:
        """Whether it speaks of something that *iss* registered at *time* (of a log as a whole: iss is "")."""
        if self.iss and iss and self.iss != iss:
            return False
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)

    def stands(self, now: int) -> bool:
        return self.expires is None or now < self.expires


def read_stated(content_type: object, payload: bytes) -> object:
    """What *payload* states, None where it is no form that is known here."""
    reader = READERS.get(content_type) if isinstance(content_type, str) else None
    if reader is None or len(payload) > _MAX_BYTES:
        return None
    try:
        return reader(payload)
    except (TransparencyError, ValueError, TypeError, KeyError):
        return None


def _review(payload: bytes) -> Review | None:
    said = _map(payload)
    verdict = said["verdict"]
    if verdict not in REVIEW_VERDICTS:
        return None
    return Review(_text(said["entry"]), verdict, _text(said["reviewer"]), _number(said["time"]))


def _attestation(payload: bytes) -> Attestation:
    said = _map(payload)
    scope = said.get("scope") or {}
    if not isinstance(scope, Mapping):
        raise TypeError("scope")
    return Attestation(
        _text(said["subject"]),
        tuple(_text(check) for check in said["checks"]),
        _text(said["by"]),
        _text(scope.get("iss", "")),
        _optional(scope.get("from")),
        _optional(scope.get("to")),
        _optional(said.get("expires")),
    )


# The one place where a reader of our own statements is entered.
READERS: Final[dict[str, Callable[[bytes], object]]] = {REVIEW: _review, ATTESTATION: _attestation}


def _map(payload: bytes) -> Mapping[str, Any]:
    value = cbor.decode(payload, max_depth=4, max_items=256)
    if not isinstance(value, dict):
        raise TypeError("a map")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value[:1_024]


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("a number")
    return value


def _optional(value: object) -> int | None:
    return None if value is None else _number(value)
