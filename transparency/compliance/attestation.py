"""An attestation: an operator states, signed, what no data can show (clocks, people, completeness, access …).

It fills *attest* verdicts of the checks that it names, of what it speaks of, until it expires. It fills nothing else:
what a check found wrong stays wrong. The payload is deterministic CBOR; what is accepted prints back the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from transparency.compliance.review import MAX_NAME, words
from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.policy.fields import number, read_map, text

CONTENT_TYPE: Final = "application/vnd.agent-transparency.attestation+cbor"
MAX_STATEMENT: Final = 8_000
MAX_CHECKS: Final = 64
MAX_SUBJECT: Final = 64
_MAX_ISS: Final = 2_048
_SUBJECT: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_CHECK: Final = re.compile(r"R(?:[1-9]|1[01])\.[1-9]|L(?:[1-9]|1[0-3])")
_MEMBERS: Final = frozenset({"subject", "checks", "scope", "statement", "by", "expires"})
_SCOPE: Final = frozenset({"iss", "from", "to"})


@dataclass(frozen=True, slots=True)
class Attestation:
    """That *by* vouches for *subject*: for *checks*, of *iss* or all, registered within times, until *expires*.

    Times are in seconds since 1970. Without checks it speaks for clauses that ask for its subject.
    """

    subject: str
    checks: tuple[str, ...]
    statement: str
    by: str
    expires: int
    iss: str = ""
    since: int | None = None
    until: int | None = None

    def covers(self, iss: str, time: int) -> bool:
        """Whether it speaks of something that *iss* registered at *time* (of a log as a whole: iss is "")."""
        if self.iss and iss and self.iss != iss:
            return False
        return (self.since is None or time >= self.since) and (self.until is None or time < self.until)

    @property
    def covers_all(self) -> bool:
        """Whether it speaks of everything on the log."""
        return not self.iss and self.since is None and self.until is None

    def stands(self, now: int) -> bool:
        return now < self.expires

    def to_bytes(self) -> bytes:
        scope = {"iss": self.iss or None, "from": self.since, "to": self.until}
        value: dict[str, Any] = {name: getattr(self, name) for name in ("subject", "statement", "by", "expires")}
        value["checks"] = list(self.checks)
        value["scope"] = {name: each for name, each in scope.items() if each is not None}
        return cbor.encode(value)

    @classmethod
    def from_bytes(cls, data: bytes) -> Attestation:
        """Read one; MalformedError for whatever is not the one form."""
        said = read_map(data, "an attestation", _MEMBERS, max_items=4 * MAX_CHECKS)
        scope, checks = said["scope"], said["checks"]
        if not isinstance(scope, dict) or not scope.keys() <= _SCOPE:
            raise MalformedError(f"attestation.scope is a map of some of {', '.join(sorted(_SCOPE))}")
        if not isinstance(checks, list) or len(checks) > MAX_CHECKS:
            raise MalformedError(f"attestation.checks is a list of at most {MAX_CHECKS}")
        since, until = (
            number(scope[name], f"attestation.scope.{name}") if name in scope else None for name in ("from", "to")
        )
        if since is not None and until is not None and since >= until:
            raise MalformedError("attestation.scope ends before it begins")
        attestation = cls(
            _named(
                said["subject"], "attestation.subject", _SUBJECT, "lower-case words joined by hyphens, as clock-sync"
            ),
            tuple(_named(check, "attestation.checks", _CHECK, "a check, as R3.2 or L3") for check in checks),
            words(said["statement"], "attestation.statement", MAX_STATEMENT),
            text(said["by"], "attestation.by", MAX_NAME),
            number(said["expires"], "attestation.expires"),
            text(scope["iss"], "attestation.scope.iss", _MAX_ISS) if "iss" in scope else "",
            since,
            until,
        )
        if attestation.to_bytes() != data or len(set(attestation.checks)) != len(attestation.checks):
            raise MalformedError("an attestation is deterministic CBOR, and names no check twice")
        return attestation


def _named(value: object, what: str, form: re.Pattern[str], meant: str) -> str:
    name = text(value, what, MAX_SUBJECT)
    if not form.fullmatch(name):
        raise MalformedError(f"{what} is {meant}")
    return name
