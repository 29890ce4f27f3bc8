"""From a leaf certificate to a root that is trusted: path validation (RFC 5280 §6) for certificates that sign.

``cryptography.x509.verification`` builds and checks the path: signatures, validity at one time, basicConstraints with
path lengths, name constraints, critical extensions it does not know. It bounds its own work. It is made for TLS, so the
extensions are judged by a policy of our own: a leaf that signs needs no subjectAltName and no clientAuth, but it must
not be a CA, must have digitalSignature where it has a keyUsage, and where it has an extendedKeyUsage one that is about
signing. It takes chains of ECDSA and RSA only.

Revocation is not looked up: a decision must be reproducible from what the log keeps. Whoever runs the log takes a
root, or narrows what it asks for, in the next generation of the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from transparency.cose.public_key import PublicKey
from transparency.cose.x509 import MAX_CERTIFICATES, Certificate
from transparency.cose.x509_names import any_name_matches, subject_has
from transparency.cose.x509_reasons import check_time, why_no_path
from transparency.errors import CertificateError

ANY_PURPOSE: Final = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE.dotted_string
DOCUMENT_SIGNING: Final = "1.3.6.1.5.5.7.3.36"  # RFC 9336
SIGNING_PURPOSES: Final = frozenset({ExtendedKeyUsageOID.CODE_SIGNING.dotted_string, DOCUMENT_SIGNING, ANY_PURPOSE})
"""The extended key usages that let a leaf sign statements where its root asks for none in particular."""


@dataclass(frozen=True, slots=True)
class Root:
    """A CA certificate that is trusted, and what it is trusted for: leaves of this subject, these names, these uses."""

    der: bytes
    subject: Mapping[str, str] = field(default_factory=dict)
    sans: tuple[str, ...] = ()
    ekus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A validated path: its leaf's key, the certificates below the root (leaf first), and when all of it is valid."""

    key: PublicKey
    certificates: tuple[bytes, ...]
    not_before: int
    not_after: int
    root: bytes


def validate(chain: Sequence[bytes], roots: Sequence[Root], now: int) -> Path:
    """The path from ``chain[0]`` to one of *roots* at time *now* (SS-7); CertificateError with one reason why not."""
    if not 1 <= len(chain) <= MAX_CERTIFICATES:
        raise CertificateError(f"a chain has 1 to {MAX_CERTIFICATES} certificates, this one has {len(chain)}")
    certificates = [Certificate.from_der(der) for der in chain]
    leaf = certificates[0]
    check_leaf(leaf)
    check_time(leaf, now)
    if not roots:
        raise CertificateError("no root certificate is registered for this issuer")
    anchors = [(root, Certificate.from_der(root.der)) for root in roots]
    refusal: CertificateError | None = None
    said = ""
    for root, anchor in anchors:
        try:
            path = _build(certificates, anchor, now, frozenset(root.ekus))
        except VerificationError as error:
            said = said or str(error)
            continue
        except CertificateError as error:
            refusal = error
            continue
        try:
            _check_requirements(leaf, root)
        except CertificateError as error:
            refusal = error
        else:
            return path
    raise refusal or why_no_path(certificates, [anchor for _, anchor in anchors], now, said)


def check_root(der: bytes) -> None:
    """CertificateError unless *der* is a certificate that paths can end at: for whoever registers one."""
    anchor = Certificate.from_der(der)
    constraints = anchor.extension(x509.BasicConstraints)
    usage = anchor.extension(x509.KeyUsage)
    if constraints is None or not constraints.ca or (usage is not None and not usage.key_cert_sign):
        raise CertificateError(f"{anchor.name} is not a CA certificate, so no path can end at it")
    if not anchor.key.kty_name.startswith(("EC", "RSA")):
        raise CertificateError(f"{anchor.name} has a key of type {anchor.key.kty_name}; paths are of EC and RSA keys")


def _build(certificates: list[Certificate], anchor: Certificate, now: int, ekus: frozenset[str]) -> Path:
    purposes = _Purposes(ekus)
    builder = (
        PolicyBuilder()
        .time(datetime.fromtimestamp(now, UTC))
        .store(Store([anchor.parsed]))
        .max_chain_depth(MAX_CERTIFICATES)
        .extension_policies(ca_policy=_ca_policy(purposes), ee_policy=_LEAF_POLICY)
    )
    leaf, *others = (certificate.parsed for certificate in certificates)
    try:
        verified = builder.build_client_verifier().verify(leaf, others)
    except VerificationError:
        if purposes.refused:
            raise CertificateError(purposes.refused) from None
        raise
    known = {certificate.parsed: certificate for certificate in [*certificates, anchor]}
    path = [known[item] for item in verified.chain]
    if len(path) == 1:
        raise CertificateError("the registered root is the signing certificate itself; register the CA that issued it")
    return Path(
        key=path[0].key,
        certificates=tuple(item.der for item in path[:-1]),
        not_before=max(item.not_before for item in path),
        not_after=min(item.not_after for item in path),
        root=path[-1].der,
    )


class _Purposes:
    """A CA's extendedKeyUsage bounds what its leaves may do; one without it bounds nothing."""

    def __init__(self, ekus: frozenset[str]) -> None:
        self._allowed = (ekus or SIGNING_PURPOSES) | {ANY_PURPOSE}
        self.refused = ""

    def check(self, _policy: Policy, certificate: x509.Certificate, usage: x509.ExtendedKeyUsage | None) -> None:
        if usage is not None and self._allowed.isdisjoint(item.dotted_string for item in usage):
            name = Certificate.from_der(certificate.public_bytes(Encoding.DER)).name
            self.refused = f"the CA {name} is not permitted to issue certificates that sign (extendedKeyUsage)"
            raise ValueError(self.refused)


def _check_ca(_policy: Policy, _certificate: x509.Certificate, constraints: x509.BasicConstraints) -> None:
    if not constraints.ca:
        msg = "a certificate in the path is not a CA certificate"
        raise ValueError(msg)


def _check_ca_usage(_policy: Policy, _certificate: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    if usage is not None and not usage.key_cert_sign:
        msg = "a CA certificate in the path may not sign certificates (keyUsage)"
        raise ValueError(msg)


def _check_constraints(_policy: Policy, _certificate: x509.Certificate, names: x509.NameConstraints | None) -> None:
    """A constraint that would be passed over is refused: cryptography does so only where the extension is critical."""
    subtrees = [] if names is None else [*(names.permitted_subtrees or ()), *(names.excluded_subtrees or ())]
    if any(isinstance(item, x509.DirectoryName) for item in subtrees):
        msg = "a CA certificate in the path has a name constraint on directory names, which is not supported"
        raise ValueError(msg)


def _ca_policy(purposes: _Purposes) -> ExtensionPolicy:
    return (
        ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, _check_ca)
        .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _check_ca_usage)
        .may_be_present(x509.NameConstraints, Criticality.AGNOSTIC, _check_constraints)
        .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, purposes.check)
    )


# Criticality as RFC 5280 §4.2 has it; what the values must say is check_leaf's and _check_requirements'.
_LEAF_POLICY: Final = (
    ExtensionPolicy.permit_all()
    .may_be_present(x509.AuthorityKeyIdentifier, Criticality.NON_CRITICAL, None)
    .may_be_present(x509.SubjectKeyIdentifier, Criticality.NON_CRITICAL, None)
    .may_be_present(x509.AuthorityInformationAccess, Criticality.NON_CRITICAL, None)
    .may_be_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
    .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, None)
    .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, None)
    .may_be_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)
    .require_not_present(x509.NameConstraints)
)


def check_leaf(leaf: Certificate) -> None:
    """CertificateError where a certificate says that its key is for something else than signing."""
    if leaf.parsed.version is not x509.Version.v3:
        raise CertificateError(f"{leaf.name} is an X.509 v1 certificate; one with extensions (v3) is needed")
    constraints, usage = leaf.extension(x509.BasicConstraints), leaf.extension(x509.KeyUsage)
    if constraints is not None and constraints.ca:
        raise CertificateError(f"{leaf.name} is a CA certificate: not permitted for signing statements")
    if usage is not None and not usage.digital_signature:
        raise CertificateError(f"{leaf.name} is not permitted for signing (keyUsage lacks digitalSignature)")
    if usage is not None and usage.key_cert_sign:
        raise CertificateError(f"{leaf.name} is not permitted for signing statements (keyUsage has keyCertSign)")


def _check_requirements(leaf: Certificate, root: Root) -> None:
    usage = leaf.extension(x509.ExtendedKeyUsage)
    uses = {item.dotted_string for item in usage or ()}
    if root.ekus:
        if uses.isdisjoint(root.ekus):
            wanted = ", ".join(root.ekus)
            raise CertificateError(f"{leaf.name} is not permitted for what its root is registered for (eku {wanted})")
    elif usage is not None and uses.isdisjoint(SIGNING_PURPOSES):
        raise CertificateError(f"{leaf.name} is not permitted for signing (extendedKeyUsage is for something else)")
    missing = subject_has(leaf.subject, root.subject)
    if missing:
        raise CertificateError(
            f"{leaf.name} is not named as required: subject {missing} must be {root.subject[missing]!r}"
        )
    if not any_name_matches(leaf.extension(x509.SubjectAlternativeName), root.sans):
        wanted = ", ".join(root.sans)
        raise CertificateError(f"{leaf.name} is not named as required: no subjectAltName is one of {wanted}")
