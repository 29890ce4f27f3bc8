"""Why there is no path: the one reason a person can do something about, found after the fact.

``cryptography`` says that candidates are exhausted. Here the chain is walked once more, from the leaf along issuer
names and signatures, until the step that does not go on. Nothing is decided here: the path has been refused already.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import SignatureAlgorithmOID as Oid

from transparency.cose.x509 import Certificate, readable
from transparency.errors import CertificateError

_CHAIN_ALGORITHMS: Final = frozenset({
    Oid.ECDSA_WITH_SHA256, Oid.ECDSA_WITH_SHA384, Oid.ECDSA_WITH_SHA512,
    Oid.RSA_WITH_SHA256, Oid.RSA_WITH_SHA384, Oid.RSA_WITH_SHA512, Oid.RSASSA_PSS,
})  # fmt: skip
_NOISE: Final = re.compile(
    r"^validation failed: |candidates exhausted: |fatal error: |Python extension validator failed: \w+: "
    r"| \(encountered processing .*$",
    re.DOTALL,
)


def check_time(certificate: Certificate, now: int) -> None:
    """CertificateError where *now* is before or after the certificate's own validity."""
    if now < certificate.not_before:
        raise CertificateError(f"{certificate.name} is not valid yet: it begins at {_time(certificate.not_before)}")
    if now > certificate.not_after:
        raise CertificateError(f"{certificate.name} has expired: it ended at {_time(certificate.not_after)}")


def why_no_path(
    certificates: Sequence[Certificate], anchors: Sequence[Certificate], now: int, said: str
) -> CertificateError:
    """The reason why no path leads from ``certificates[0]`` to one of *anchors*; *said* is what the validator said."""
    try:
        for certificate in _walk(certificates, anchors):
            check_time(certificate, now)
    except CertificateError as error:
        return error
    return CertificateError(f"the certificate path is not valid: {_NOISE.sub('', said)[:200]}")


def _walk(certificates: Sequence[Certificate], anchors: Sequence[Certificate]) -> list[Certificate]:
    """The certificates from the leaf to an anchor, by names and signatures alone; CertificateError where it breaks."""
    path = [certificates[0]]
    left = list(certificates[1:])
    while True:
        current = path[-1]
        _check_algorithm(current)
        anchor = next((item for item in anchors if _issued(item, current)), None)
        if anchor is not None:
            return [*path, anchor]
        above = next((item for item in left if _issued(item, current)), None)
        if above is None:
            raise _broken(current, certificates, anchors)
        left.remove(above)
        path.append(above)


def _broken(
    current: Certificate, certificates: Sequence[Certificate], anchors: Sequence[Certificate]
) -> CertificateError:
    issuer = readable(current.issuer)
    if any(item.subject == current.issuer for item in anchors):
        return CertificateError(f"wrong root: {current.name} was not issued by the registered root {issuer}, but by "
                                "another of the same name")  # fmt: skip
    if current.issuer == current.subject:
        return CertificateError(f"wrong root: the chain ends at {current.name}, which is not registered")
    if any(item.subject == current.issuer for item in certificates):
        return CertificateError(f"{current.name} was not signed by the certificate {issuer} in the chain")
    registered = ", ".join(readable(item.subject) for item in anchors[:3])
    return CertificateError(
        f"incomplete chain or wrong root: the certificate of {issuer}, which issued {current.name}, is neither in the "
        f"chain nor registered (registered: {registered})"
    )


def _check_algorithm(certificate: Certificate) -> None:
    if certificate.parsed.signature_algorithm_oid not in _CHAIN_ALGORITHMS:
        raise CertificateError(
            f"{certificate.name} is signed with an algorithm that is not supported for chains: they are of ECDSA and "
            "RSA with SHA-256, SHA-384 or SHA-512 (register the key itself instead)"
        )


def _issued(issuer: Certificate, certificate: Certificate) -> bool:
    if issuer.subject != certificate.issuer:
        return False
    try:
        certificate.parsed.verify_directly_issued_by(issuer.parsed)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
