"""Whom a verifier trusts: keys, and the identities they are trusted for.

A log's keys are trusted for one issuer and one origin, with the leaf convention its entries use (LEAF-5: it is never
guessed) and with what is known of each key's end. A key given bare, without an identity, still verifies; issuer and
origin are then only what its holder claims.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from transparency.verifier.report import Check

if TYPE_CHECKING:
    from transparency.cose.keys import PublicKey
    from transparency.cose.x509_path import Root

Leaf = Literal["digest", "raw", "nil-payload"]
"""``digest``: entry = SHA-256(N), ours (LEAF-2); ``raw``: entry = N; ``nil-payload``: SHA-256(N without payload)."""

LEAVES: tuple[Leaf, ...] = get_args(Leaf)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key, and when it stopped being good (seconds since 1970)."""

    key: PublicKey
    not_after: int | None = None
    compromised_since: int | None = None


@dataclass(frozen=True, slots=True)
class LogTrust:
    """A log: who runs it, its origin, its keys. None for what is not pinned."""

    keys: tuple[TrustedKey, ...]
    iss: str | None = None
    origin: str | None = None
    leaf: Leaf = "digest"

    @property
    def bare(self) -> bool:
        """Whether these are keys without an identity."""
        return self.iss is None and self.origin is None


@dataclass(frozen=True, slots=True)
class IssuerTrust:
    """An issuer of statements: its keys, and the roots its certificates lead to; iss None for those given bare.

    ``ended`` repeats those of the keys, or of the keys its certificates name, that are retired or compromised.
    """

    keys: tuple[PublicKey, ...]
    iss: str | None = None
    roots: tuple[Root, ...] = ()
    ended: tuple[TrustedKey, ...] = ()


@dataclass(frozen=True, slots=True)
class TrustStore:
    """All logs and issuers a verifier knows."""

    logs: tuple[LogTrust, ...] = ()
    issuers: tuple[IssuerTrust, ...] = ()

    @classmethod
    def from_keys(
        cls,
        log_keys: Iterable[PublicKey] = (),
        issuer_keys: Iterable[PublicKey] = (),
        issuer_roots: Iterable[Root] = (),
    ) -> TrustStore:
        """Trust in bare keys and roots: signatures are checked, iss and sub are only *claimed*."""
        logs = tuple(TrustedKey(key) for key in log_keys)
        issuer = IssuerTrust(tuple(issuer_keys), roots=tuple(issuer_roots))
        return cls((LogTrust(logs),) if logs else (), (issuer,) if issuer.keys or issuer.roots else ())

    @classmethod
    def from_toml(cls, data: bytes, folder: Path | None = None) -> TrustStore:
        """Read ``trust.toml`` (see trust_file.py for its form); key files are relative to ``folder``."""
        from transparency.verifier.trust_file import read_trust  # noqa: PLC0415 - it builds on this module

        return read_trust(data, folder)

    @classmethod
    def from_file(cls, path: Path) -> TrustStore:
        """Read a ``trust.toml``; key files named in it are relative to where it stands."""
        return cls.from_toml(path.read_bytes(), path.parent)

    def merged(self, other: TrustStore) -> TrustStore:
        """Everything that either of the two trusts."""
        return TrustStore(self.logs + other.logs, self.issuers + other.issuers)


@dataclass(frozen=True, slots=True)
class LogKey:
    """One key with the log it belongs to: what a receipt is checked against."""

    log: LogTrust
    trusted: TrustedKey


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One key with the issuer it belongs to: what a statement is checked against, and what is said when it signed."""

    issuer: IssuerTrust
    key: PublicKey
    known: Check

    @classmethod
    def of(cls, issuer: IssuerTrust, key: PublicKey) -> IssuerKey:
        trusted_for = "given by hand; the issuer is claimed" if issuer.iss is None else "trusted for this iss"
        evidence = {"key": key.thumbprint.hex(), "type": key.kty_name}
        return cls(issuer, key, Check("issuer-key", "passed", trusted_for, evidence))


class KeyIndex:
    """Finds the keys that may have signed something, by the hints it carries. Built once for each verifier."""

    def __init__(self, trust: TrustStore) -> None:
        self.has_issuers = any(issuer.keys or issuer.roots for issuer in trust.issuers)
        self._logs = [LogKey(log, trusted) for log in trust.logs for trusted in log.keys]
        self._pinned = [item for item in self._logs if not item.log.bare]
        self._logs_by_kid: dict[bytes, list[LogKey]] = {}
        for item in self._logs:
            for name in {item.trusted.key.kid, item.trusted.key.thumbprint}:
                self._logs_by_kid.setdefault(name, []).append(item)
        self._issuers: dict[str | None, list[IssuerKey]] = {}
        for issuer in trust.issuers:
            for key in issuer.keys:
                self._issuers.setdefault(issuer.iss, []).append(IssuerKey.of(issuer, key))
        self._ended = {
            (issuer.iss, trusted.key.thumbprint): trusted for issuer in trust.issuers for trusted in issuer.ended
        }
        self._pinned_issuers = frozenset(issuer.iss for issuer in trust.issuers)
        self._certified: dict[str | None, IssuerTrust] = {}
        for issuer in trust.issuers:
            if issuer.roots:
                known = self._certified.get(issuer.iss, IssuerTrust((), issuer.iss))
                self._certified[issuer.iss] = IssuerTrust((), issuer.iss, known.roots + issuer.roots)

    def logs(self, kid: bytes | None, iss: str | None, sub: str | None) -> list[LogKey]:
        """The keys that may have signed a receipt with this kid, iss and sub.

        A bare key never speaks for a log that is pinned: not in the pinned key's place, and not under the name
        or origin of that log. Without a kid: the keys of the log that the receipt names, else all bare ones.
        """
        if kid is not None:
            items = self._logs_by_kid.get(kid, [])
            pinned = [item for item in items if not item.log.bare]
            if pinned or not items:
                return pinned
        else:
            items = [item for item in self._logs if item.log.bare]
        named = [] if iss is None and sub is None else [item for item in self._pinned if _names(item.log, iss, sub)]
        if named:
            return [] if kid is not None else named
        return items

    def issuers(self, kid: bytes | None, iss: str | None) -> list[IssuerKey]:
        """The keys of this iss if it is pinned, else the bare ones; those that the kid names, if it names any.

        A kid that no key has leaves out the keys of a pinned issuer, but not the bare ones: whoever gives a key
        asks whether *this* key signed, and a foreign kid may spell the same key in another way.
        """
        pinned = self._issuers.get(iss, []) if iss in self._pinned_issuers and iss is not None else None
        items = self._issuers.get(None, []) if pinned is None else pinned
        if kid is None:
            return items
        matching = [item for item in items if kid in (item.key.kid, item.key.thumbprint)]
        return matching or (items if pinned is None else [])

    def end_of(self, signer: IssuerKey) -> TrustedKey | None:
        """What is known of the end of this issuer's key; None while it is good."""
        return self._ended.get((signer.issuer.iss, signer.key.thumbprint)) if self._ended else None

    @property
    def has_roots(self) -> bool:
        return bool(self._certified)

    def certified(self, iss: str | None) -> IssuerTrust | None:
        """The roots of this iss if it is pinned, else those given bare; None where there are none."""
        return self._certified.get(iss if iss in self._pinned_issuers else None)


def _names(log: LogTrust, iss: str | None, sub: str | None) -> bool:
    return (log.iss is not None and log.iss == iss) or (log.origin is not None and log.origin == sub)
