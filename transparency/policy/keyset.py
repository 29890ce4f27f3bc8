"""The service's own keys, as registered on the log: entry 1, and one entry more for each rotation.

Keys are single-purpose (RFC 9943 §9.4): *receipts* sign tree heads, *checkpoints* sign C2SP notes, *policy* signs
policies and key sets, *operations* signs what the service states about itself. A retired key stays listed for ever,
with the time until which it was used, so that old receipts stay verifiable (KEY-8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from transparency.cose import base64url
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError
from transparency.policy.toml import Table, key_lines, load, quote

SUBJECT = "keys"
VERSION = 1
RECEIPTS = "receipts"
CHECKPOINTS = "checkpoints"
POLICY = "policy"
OPERATIONS = "operations"
ROLES = (RECEIPTS, CHECKPOINTS, POLICY, OPERATIONS)


# RFC 3986 §2.3 unreserved characters: a kid of these is a path segment as it is, unless it is a step in the path.
_SAFE_SEGMENT = re.compile(rb"[A-Za-z0-9._~-]+")
_STEPS = (b".", b"..")


@dataclass(frozen=True, slots=True)
class ServiceKey:
    role: str
    key: PublicKey
    since: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    log: str
    iss: str
    generation: int
    previous: str
    keys: tuple[ServiceKey, ...]

    @classmethod
    def from_toml(cls, data: bytes) -> ServiceKeys:
        top = Table(load(data, "key set"), "keys")
        if top.number("version") != VERSION:
            raise MalformedError(f"keys.version is not {VERSION}, the one this software reads")
        key_set = cls(
            log=top.text("log"),
            iss=top.text("iss"),
            generation=top.number("generation"),
            previous=top.text("previous"),
            keys=tuple(_service_key(table) for table in top.tables("key")),
        )
        top.done()
        key_set.check()
        return key_set

    def to_toml(self) -> bytes:
        lines = [
            f"version = {VERSION}",
            f"log = {quote(self.log)}",
            f"iss = {quote(self.iss)}",
            f"generation = {self.generation}",
            f"previous = {quote(self.previous)}",
        ]
        for item in self.keys:
            lines += ["", "[[key]]", f"role = {quote(item.role)}", f"since = {item.since}"]
            if item.until is not None:
                lines.append(f"until = {item.until}")
            lines += key_lines(item.key)
        return ("\n".join(lines) + "\n").encode("utf-8")

    def check(self) -> None:
        if not self.log or not self.iss or self.generation < 1:
            raise MalformedError("keys.log or keys.iss is empty, or keys.generation is not 1 or more")
        if (self.generation == 1) != (self.previous == ""):
            raise MalformedError("keys.previous is empty in generation 1, and only there")
        if len({item.key.kid for item in self.keys}) != len(self.keys):
            raise MalformedError("two of the service's keys have one kid")
        if len({item.key.thumbprint for item in self.keys}) != len(self.keys):
            raise MalformedError("one key serves two roles; the service's keys are single-purpose (RFC 9943 §9.4)")
        if any(item.role not in ROLES for item in self.keys):
            raise MalformedError(f"a key's role is one of {', '.join(ROLES)}")
        segments = [segment for key in self.ever(RECEIPTS) for segment in segments_of(key.kid)]
        if len(set(segments)) != len(segments):
            # SCRAPI §2.2: raw(A) == base64url(B) would make one path name two keys, for ever (KEY-6).
            raise MalformedError("two receipts keys share a path segment (SCRAPI §2.2); give one of them another kid")
        if len(self.current(RECEIPTS)) != 1:
            raise MalformedError("a key set has exactly one receipts key in use")

    def current(self, role: str) -> tuple[PublicKey, ...]:
        return tuple(item.key for item in self.keys if item.role == role and item.until is None)

    def ever(self, role: str) -> tuple[PublicKey, ...]:
        """All keys of a role, the retired too: those in use first, the youngest before the older."""
        mine = [item for item in self.keys if item.role == role]
        mine.sort(key=lambda item: (item.until is not None, -item.since))
        return tuple(item.key for item in mine)

    def by_kid(self, role: str, kid: bytes) -> PublicKey | None:
        return next((item.key for item in self.keys if item.role == role and item.key.kid == kid), None)

    def rotated(self, role: str, key: PublicKey, *, previous: str, now: int) -> ServiceKeys:
        """The next generation, in which *key* takes the place of those in use for *role*."""
        kept = tuple(
            replace(item, until=now) if item.role == role and item.until is None else item for item in self.keys
        )
        key_set = replace(
            self,
            generation=self.generation + 1,
            previous=previous,
            keys=(*kept, ServiceKey(role, key, since=now)),
        )
        key_set.check()
        return key_set


def segments_of(kid: bytes) -> tuple[str, ...]:
    """The path segments under which a key is served: base64url(kid), and the kid itself if it can be one (KEY-5)."""
    encoded = base64url.encode(kid)
    if not _SAFE_SEGMENT.fullmatch(kid) or kid in _STEPS or kid.decode("ascii") == encoded:
        return (encoded,)
    return (encoded, kid.decode("ascii"))


def _service_key(table: Table) -> ServiceKey:
    item = ServiceKey(
        role=table.text("role"),
        since=table.number("since"),
        until=table.optional_number("until"),
        key=table.key(),
    )
    table.done()
    return item
