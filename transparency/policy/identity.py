"""Who signed: the key that a statement's kid or certificates name for its issuer (RFC 9943 §5.1.1.1, SS-5 to SS-7).

Certificates of the unprotected header are the one unsigned thing that is ever looked at, and only to complete a path
for what the protected header names. Where the kid is a registered key they are not asked.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from transparency.cose.keys import PublicKey
from transparency.cose.x509_path import Path, Root, validate
from transparency.errors import CertificateError, MalformedError
from transparency.policy.issuer import Issuer, Validity
from transparency.policy.rules import FOREVER, Case
from transparency.policy.toml import write_time
from transparency.statements.certificates import identify, write_collateral

_PATHS: Final = 1024
_POLICY_KEY: Final = "a policy key signs policies only, by the admin route"
_NO_ROOT: Final = "the policy registers no X.509 root for this issuer; sign with a registered key and its kid"
_NO_KEY: Final = "the kid names no key that is registered for this issuer"


@dataclass(frozen=True, slots=True)
class _Key:
    key: PublicKey
    not_before: int
    not_after: int
    refusal: str

    @classmethod
    def of(cls, key: PublicKey, bounds: Validity, policy_key: PublicKey) -> _Key:
        refusal = ""
        if key.thumbprint == policy_key.thumbprint:
            refusal = _POLICY_KEY
        elif bounds.compromised_since is not None:
            refusal = f"the key is compromised since {write_time(bounds.compromised_since)}, and signs nothing new"
        not_after = FOREVER if bounds.not_after is None else bounds.not_after
        return cls(key, bounds.not_before or 0, not_after, refusal)

    @property
    def always(self) -> bool:
        return not self.not_before and self.not_after == FOREVER and not self.refusal

    def refuses(self, case: Case) -> str:
        if self.refusal:
            return self.refusal
        if case.now < self.not_before:
            return f"the key signs from {write_time(self.not_before)} on (not-before)"
        if case.now > self.not_after:
            return f"the key signed until {write_time(self.not_after)} (not-after)"
        case.bound(self.not_before, self.not_after)
        return ""


class RegisteredKey:
    """The kid names one of the issuer's keys: by the id it has in the policy, or by its thumbprint (RFC 9679).

    A thumbprint that several of its keys have, or one has as its id, is no second name: what a kid means never varies.
    """

    __slots__ = ("_always", "_bounded", "_kids")

    name: ClassVar[str] = "key"

    def __init__(self, issuer: Issuer, policy_key: PublicKey) -> None:
        keys = [_Key.of(key, issuer.validity_of(key.kid), policy_key) for key in issuer.keys]
        # Most keys have no bounds, and most statements come under those: one look-up.
        self._kids = frozenset(each.key.kid for each in keys)
        named = [(each.key.kid, each) for each in keys]
        often = Counter(each.key.thumbprint for each in keys)
        named += [
            (each.key.thumbprint, each)
            for each in keys
            if often[each.key.thumbprint] == 1 and each.key.thumbprint not in self._kids
        ]
        self._always: Mapping[bytes | None, PublicKey] = {name: each.key for name, each in named if each.always}
        self._bounded: Mapping[bytes | None, _Key] = {name: each for name, each in named if not each.always}

    def refuses(self, case: Case) -> str:
        key = case.key = self._always.get(case.statement.kid)
        if key is not None:
            return ""
        bounded = self._bounded.get(case.statement.kid)
        if bounded is None:
            # SS-7: an identity by x5t or x5chain counts only with a whole path to a registered root; there is none.
            return _NO_KEY if case.statement.kid is not None else _NO_ROOT
        case.key = bounded.key
        return bounded.refuses(case)

    def accepts(self, case: Case) -> str:
        return f"the kid names a registered {case.key.kty_name} key" if case.key else ""

    def knows(self, kid: bytes | None) -> bool:
        """Whether *kid* is an id in the policy. Certificates beside a mere thumbprint are asked as ever."""
        return kid in self._kids


class CertifiedKey:
    """The issuer has roots: certificates of the protected header, or that it names, lead to one of them.

    A kid that is registered beside them counts too; where a statement has both, both must name one key (SS-5).
    """

    __slots__ = ("_bounded", "_paths", "_policy_key", "_registered", "_roots")

    name: ClassVar[str] = "key"

    def __init__(self, issuer: Issuer, policy_key: PublicKey, paths: Paths) -> None:
        self._registered = RegisteredKey(issuer, policy_key)
        self._policy_key = policy_key.thumbprint
        self._roots = issuer.roots
        self._paths = paths
        # Bounds are the key's, whichever way a statement names it.
        keys = (_Key.of(key, issuer.validity_of(key.kid), policy_key) for key in issuer.keys)
        self._bounded = {each.key.thumbprint: each for each in keys if not each.always}

    def refuses(self, case: Case) -> str:
        registered = self._registered.knows(case.statement.kid)
        try:
            found = identify(case.statement)
            if found is None or (registered and found.from_unprotected):
                return self._registered.refuses(case)
            path = self._paths.validate(found.chain, self._roots, case.now)
        except (CertificateError, MalformedError) as error:
            return str(error)
        reason = self._registered.refuses(case) if registered else ""
        reason = reason or self._objection(path.key, case)
        if reason:
            return reason
        case.key = case.key or path.key
        case.bound(path.not_before, path.not_after)
        if found.from_unprotected:
            case.collateral = write_collateral(path.certificates)
        return ""

    def _objection(self, certified: PublicKey, case: Case) -> str:
        if case.key is not None and case.key.thumbprint != certified.thumbprint:
            return "the kid names another key than the certificate"
        if certified.thumbprint == self._policy_key:
            return _POLICY_KEY
        bounded = self._bounded.get(certified.thumbprint)
        return "" if bounded is None else bounded.refuses(case)

    def accepts(self, case: Case) -> str:
        if case.key is None:
            return ""
        return f"a registered key or a certificate path to a registered root names this {case.key.kty_name} key"


class Paths:
    """Validated paths by chain and roots, those used last: a chain is mostly seen again.

    Each step on the dictionary is whole by itself, so that judges in several threads may share one.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Path] = {}

    def validate(self, chain: tuple[bytes, ...], roots: tuple[Root, ...], now: int) -> Path:
        # The roots are an issuer's tuple, which lives as long as the judge that owns this.
        key = (id(roots), hashlib.sha256(write_collateral(chain)).digest())
        path = self._known.pop(key, None)
        if path is None or not path.not_before <= now <= path.not_after:
            path = validate(chain, roots, now)
        self._known[key] = path  # the newest is the last
        if len(self._known) > _PATHS:
            self._known.pop(next(iter(self._known.copy())), None)
        return path
