"""The issuer by certificate: the path from the statement's leaf to a trusted root, at the time it was registered.

Certificates are taken from the protected header, or from beside it where the protected header names the leaf (x5t, or
its key's thumbprint as kid; AMB-10). A path is judged at the earliest time that a receipt shows; without one at the
time the issuer states (iat), which is only the issuer's word; without that, now.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from transparency.cose.x509 import Certificate
from transparency.cose.x509_path import validate
from transparency.display import iso_utc
from transparency.errors import CertificateError, CertificateMissingError, TransparencyError
from transparency.statements.certificates import identify_message
from transparency.verifier.report import Check
from transparency.verifier.statement_checks import issued_at
from transparency.verifier.trust import IssuerKey, IssuerTrust

if TYPE_CHECKING:
    from transparency.cose.x509_path import Path
    from transparency.verifier.receipt_checks import Registration
    from transparency.verifier.statement_checks import Subject
    from transparency.verifier.trust import KeyIndex

MAX_PATHS: Final = 1024
_ID: Final = "issuer-certificate"
_REGISTERED: Final = "when the log had it (the receipt's time)"
_STATED: Final = "when its issuer says it was signed (iat; no receipt shows it)"
_NOW: Final = "now (it has no receipt that counts, and no iat)"


class _Moment(NamedTuple):
    time: int
    which: str


class CertificateChecks:
    """Validates paths under one trust store; one that was found good is remembered for as long as it is valid."""

    def __init__(self, keys: KeyIndex, now: int | None) -> None:
        self._keys = keys
        self._now = now
        self._paths: dict[tuple[str | None, tuple[bytes, ...]], Path] = {}

    def check(
        self, subject: Subject, keys: list[IssuerKey], registration: Registration | None
    ) -> tuple[list[Check], list[IssuerKey]]:
        """The check, and the keys that may have signed: the certificate's, or *keys* where it is not asked (SS-5)."""
        issuer = self._keys.certified(subject.iss)
        if issuer is None:
            return [], keys
        named = [item for item in keys if subject.kid in (item.key.kid, item.key.thumbprint)]
        try:
            found = identify_message(subject.message, subject.kid)
            if found is None or (found.from_unprotected and named):
                return ([], keys) if keys else ([_unnamed()], [])
            check, path = self._judge(subject, found.chain, issuer, registration)
            if path is not None and named and all(item.key.thumbprint != path.key.thumbprint for item in named):
                raise CertificateError("the kid names another key than the certificate")
        except CertificateMissingError as error:
            return [Check(_ID, "not_checked", str(error))], []
        except TransparencyError as error:
            return [Check(_ID, "failed", str(error))], []
        return [check], [] if path is None else [_certified(issuer, path)]

    def _judge(
        self, subject: Subject, chain: tuple[bytes, ...], issuer: IssuerTrust, registration: Registration | None
    ) -> tuple[Check, Path | None]:
        moment = self._moment(subject, registration)
        if moment is None:
            detail = "there is no time to judge the certificate at: no receipt that counts, no iat, and none was given"
            return Check(_ID, "not_checked", detail), None
        path = self._validate(chain, issuer, moment.time)
        detail = f"valid at {iso_utc(moment.time)}, {moment.which}"
        leaf = Certificate.from_der(path.certificates[0])
        evidence = {
            "subject": leaf.subject.rfc4514_string(),
            "certificate": hashlib.sha256(leaf.der).hexdigest(),
            "root": hashlib.sha256(path.root).hexdigest(),
        }
        if moment.which is _STATED and self._now is not None and not path.not_before <= self._now <= path.not_after:
            # Whoever has the key of an old certificate can write an old time.
            detail = f"{detail}; by now ({iso_utc(self._now)}) the certificate is not valid"
            return Check(_ID, "warned", detail, evidence), path
        return Check(_ID, "passed", detail, evidence), path

    def _moment(self, subject: Subject, registration: Registration | None) -> _Moment | None:
        registered = None if registration is None else registration.earliest
        if registered is not None:
            return _Moment(registered, _REGISTERED)
        stated = issued_at(subject.message.headers)
        if stated is not None:
            return _Moment(stated, _STATED)
        return None if self._now is None else _Moment(self._now, _NOW)

    def _validate(self, chain: tuple[bytes, ...], issuer: IssuerTrust, time: int) -> Path:
        known = self._paths.get((issuer.iss, chain))
        if known is not None and known.not_before <= time <= known.not_after:
            return known
        path = validate(chain, issuer.roots, time)
        if len(self._paths) >= MAX_PATHS:
            self._paths.clear()
        self._paths[issuer.iss, chain] = path
        return path


def _unnamed() -> Check:
    detail = "the statement names no certificate: it has no x5chain, and no x5t or thumbprint kid with one beside it"
    return Check(_ID, "not_checked", detail)


def _certified(issuer: IssuerTrust, path: Path) -> IssuerKey:
    detail = "named by a certificate under a trusted root"
    if issuer.iss is None:
        detail = f"{detail} that was given by hand; the issuer is claimed"
    evidence = {"key": path.key.thumbprint.hex(), "type": path.key.kty_name}
    return IssuerKey(issuer, path.key, Check("issuer-key", "passed", detail, evidence))
