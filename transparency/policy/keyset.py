"""The service's own keys, as registered on the log: entry 1, and one entry more for each rotation.

Keys are single-purpose (RFC 9943 §9.4): *receipts* sign tree heads, *checkpoints* sign C2SP notes, *policy* signs
policies and key sets, *operations* signs what the service states about itself. A retired key stays listed for ever,
with the time until which it was used, so that old receipts stay verifiable (KEY-8).

A key is in use at a time if since ≤ time < until. A ``since`` in the future announces a key: everybody can fetch and
pin it before the first head carries it, and which key signs a head follows from the key set and the head's time alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from transparency.cose import base64url
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError, RefusedError
from transparency.policy.toml import Table, key_lines, load, quote, write_time

SUBJECT = "keys"
VERSION = 1
RECEIPTS = "receipts"
CHECKPOINTS = "checkpoints"
POLICY = "policy"
OPERATIONS = "operations"
ROLES = (RECEIPTS, CHECKPOINTS, POLICY, OPERATIONS)
# EdDSA is Ed25519 under the number of before RFC 9864, which some verifiers still ask for.
RECEIPT_ALGORITHMS = ("ES256", "ES384", "Ed25519", "EdDSA", "ML-DSA-65")
# The algorithms of a role's new keys, unless another is asked for. Receipts in the one that every independent verifier
# takes (RFC 9942 §7.1); checkpoints in the two that the C2SP ecosystem asks for (AMB-14), always exchanged together.
DEFAULT_ALGORITHMS = {
    RECEIPTS: ("ES256",),
    CHECKPOINTS: ("Ed25519", "ML-DSA-44"),
    POLICY: ("Ed25519",),
    OPERATIONS: ("Ed25519",),
}
MAX_OVERLAP = 366 * 86_400


# RFC 3986 §2.3 unreserved characters: a kid of these is a path segment as it is, unless it is a step in the path.
_SAFE_SEGMENT = re.compile(rb"[A-Za-z0-9._~-]+")
_STEPS = (b".", b"..")


@dataclass(frozen=True, slots=True)
class ServiceKey:
    role: str
    key: PublicKey
    since: int
    until: int | None = None
    compromised_since: int | None = None

    def in_use(self, time: int) -> bool:
        return self.since <= time and (self.until is None or time < self.until)

    @property
    def never_used(self) -> bool:
        """Announced, and replaced before its time came."""
        return self.until is not None and self.until <= self.since


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
            if item.compromised_since is not None:
                lines.append(f"compromised-since = {write_time(item.compromised_since)}")
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
        self._check_receipts_keys()
        if any(item.compromised_since is not None and item.until is None for item in self.keys):
            raise MalformedError("a compromised key is still in use in this key set; another must take its place")

    def _check_receipts_keys(self) -> None:
        """One after the other without a gap, so that at any time exactly one signs."""
        if len(self.current(RECEIPTS)) != 1:
            raise MalformedError("a key set has exactly one receipts key in use")
        used = [item for item in self.keys if item.role == RECEIPTS and not item.never_used]
        used.sort(key=lambda item: item.since)
        for before, after in itertools.pairwise(used):
            if before.until != after.since:
                raise MalformedError("a receipts key is used until the next one's since: no gap, and never two at once")

    def current(self, role: str) -> tuple[PublicKey, ...]:
        """The last of a role: those in use, or announced to take over."""
        return tuple(item.key for item in self.keys if item.role == role and item.until is None)

    def at(self, role: str, time: int) -> tuple[PublicKey, ...]:
        """The keys of a role that are in use at *time*."""
        return tuple(item.key for item in self.keys if item.role == role and item.in_use(time))

    def from_then_on(self, role: str, time: int) -> tuple[PublicKey, ...]:
        """The keys of a role that are in use at *time* or announced for later."""
        mine = (item for item in self.keys if item.role == role and not item.never_used)
        return tuple(item.key for item in mine if item.until is None or time < item.until)

    def ever(self, role: str) -> tuple[PublicKey, ...]:
        """All keys of a role, the retired too: those in use first, the youngest before the older."""
        mine = [item for item in self.keys if item.role == role]
        mine.sort(key=lambda item: (item.until is not None, -item.since))
        return tuple(item.key for item in mine)

    def by_kid(self, role: str, kid: bytes) -> PublicKey | None:
        return next((item.key for item in self.keys if item.role == role and item.key.kid == kid), None)

    def rotated(self, role: str, *keys: PublicKey, previous: str, now: int, since: int | None = None) -> ServiceKeys:
        """The next generation, in which *keys* take the place of those of *role*: at once, or announced for *since*.

        One key a role; of checkpoints the whole pair, because each algorithm is one line of a checkpoint (AMB-14).
        """
        return self._followed_by(self._replaced(role, keys, now if since is None else since), previous)

    def compromised(
        self, item: ServiceKey, *replacements: PublicKey, since: int, previous: str, now: int
    ) -> ServiceKeys:
        """The next generation, which says that a key is in other hands since *since*.

        One that is not retired needs *replacements*, which take its place at once.
        """
        if item not in self.keys or (item.compromised_since is not None and item.compromised_since <= since):
            raise RefusedError("the key set lists no such key, or says so already")
        keys = self._replaced(item.role, replacements, now) if replacements else self.keys
        thumbprint = item.key.thumbprint
        told = (replace(each, compromised_since=since) if each.key.thumbprint == thumbprint else each for each in keys)
        return self._followed_by(tuple(told), previous)

    def _replaced(self, role: str, new: Sequence[PublicKey], since: int) -> tuple[ServiceKey, ...]:
        kinds = [[key.kty_name for key in some] for some in (self.current(role), new)]
        if role == CHECKPOINTS and kinds[0] and sorted(kinds[0]) != sorted(kinds[1]):
            raise MalformedError(f"the checkpoint keys are rotated together: one each of {', '.join(kinds[0])}")
        if role != CHECKPOINTS and len(new) != 1:
            raise MalformedError(f"there is one {role} key at a time")
        kept = (_ended(item, since) if item.role == role else item for item in self.keys)
        return (*kept, *(ServiceKey(role, key, since=since) for key in new))

    def _followed_by(self, keys: tuple[ServiceKey, ...], previous: str) -> ServiceKeys:
        key_set = replace(self, generation=self.generation + 1, previous=previous, keys=keys)
        key_set.check()
        return key_set

    def check_follows(self, old: ServiceKeys) -> None:
        """Nothing that *old* says of a key is forgotten or taken back: old keys stay resolvable for ever (KEY-8)."""
        have = {(item.role, item.key.kid, item.key.thumbprint): item for item in self.keys}
        for before in old.keys:
            after = have.get((before.role, before.key.kid, before.key.thumbprint))
            if after is None:
                raise RefusedError("the key set leaves out a key this log has used; old keys stay resolvable for ever")
            if after.since != before.since:
                raise RefusedError("the key set says another time of a key's first use than its predecessor")
            if before.until is not None and (after.until is None or after.until > before.until):
                raise RefusedError("the key set puts a retired key to use again; make a new one")
            if before.compromised_since is not None and (
                after.compromised_since is None or after.compromised_since > before.compromised_since
            ):
                raise RefusedError("the key set takes back that a key is compromised")


def _ended(item: ServiceKey, time: int) -> ServiceKey:
    """*item* with its end at *time*, if it has not ended before; one whose time had not come is never used."""
    if item.until is not None and item.until <= time:
        return item
    return replace(item, until=max(item.since, time))


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
        compromised_since=table.optional_time("compromised-since"),
        key=table.key(),
    )
    table.done()
    return item
