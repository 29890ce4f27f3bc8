"""A certificate authority in a few lines, for tests of X.509 issuers: every key and certificate made at run time.

root = Authority.create("Acme Root")
leaf = root.authority("Acme Issuing").leaf("agent-7")
leaf.chain   # DER, leaf first, without the root
leaf.signer  # signs statements
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from transparency.cose.keys import PrivateKey

BEGINS: Final = 1_767_225_600
"""2026-01-01: when certificates made here begin to be valid, unless told otherwise."""
ENDS: Final = 1_798_761_600
"""2027-01-01: when they end."""
CODE_SIGNING: Final = "1.3.6.1.5.5.7.3.3"

CertificateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
Extensions = Sequence[tuple[x509.ExtensionType, bool]]
"""Extensions and whether each is critical."""


def make_key(kind: str = "P-256") -> CertificateKey:
    """A new key: P-256, P-384, P-521, Ed25519 or RSA."""
    if kind == "RSA":
        return rsa.generate_private_key(65537, 2048)
    if kind == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}[kind])


@dataclass(frozen=True)
class Holder:
    """A certificate, its key, and the certificates between it and its root."""

    certificate: x509.Certificate
    key: CertificateKey
    above: tuple[bytes, ...] = ()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def chain(self) -> tuple[bytes, ...]:
        """DER, leaf first, as x5chain carries it; without the root."""
        return (self.der, *self.above)

    @property
    def chain_pem(self) -> bytes:
        return b"".join(x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM) for der in self.chain)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def signer(self) -> PrivateKey:
        return PrivateKey.from_pem(self.key_pem)


class Authority(Holder):
    """A CA, root or intermediate."""

    @classmethod
    def create(cls, name: str, *, kind: str = "P-256", key: CertificateKey | None = None, **options: Any) -> Authority:  # noqa: ANN401 - those of issue()
        """A new root; a *key* makes another root of a known key."""
        key = key or make_key(kind)
        return cls(issue(_name(name), key, _name(name), key, **(_CA | options)), key)

    def authority(
        self, name: str, *, kind: str = "P-256", key: CertificateKey | None = None, path_length: int | None = None,
        **options: Any,  # noqa: ANN401 - those of issue()
    ) -> Authority:  # fmt: skip
        """A CA below this one; a known *key* makes a cross-signed one."""
        key = key or make_key(kind)
        options = _CA | {"path_length": path_length} | options
        return Authority(issue(_name(name), key, self.certificate.subject, self.key, **options), key, self._below)

    def leaf(
        self, name: str = "agent", *, kind: str = "P-256", key: CertificateKey | None = None, **options: Any  # noqa: ANN401 - those of issue()
    ) -> Holder:  # fmt: skip
        """A certificate that signs; no extensions unless told."""
        key = key or make_key(kind)
        return Holder(issue(_name(name), key, self.certificate.subject, self.key, **options), key, self._below)

    @property
    def _below(self) -> tuple[bytes, ...]:
        is_root = self.certificate.subject == self.certificate.issuer
        return () if is_root else (self.der, *self.above)


def key_usage(*uses: str) -> x509.KeyUsage:
    """A keyUsage extension with these uses, as ``key_usage("digital_signature")``."""
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")  # fmt: skip
    return x509.KeyUsage(**{name: name in uses for name in names})


def extended_key_usage(*oids: str) -> x509.ExtendedKeyUsage:
    """An extendedKeyUsage extension of dotted numbers."""
    return x509.ExtendedKeyUsage([x509.ObjectIdentifier(oid) for oid in oids])


_CA: Final[dict[str, Any]] = {"ca": True, "extensions": ((key_usage("key_cert_sign", "crl_sign"), True),)}


def issue(
    subject: x509.Name,
    key: CertificateKey,
    issuer: x509.Name,
    issuer_key: CertificateKey,
    *,
    begins: int = BEGINS,
    ends: int = ENDS,
    ca: bool = False,
    path_length: int | None = None,
    extensions: Extensions = (),
) -> x509.Certificate:
    """One certificate, exactly as told."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(begins, UTC))
        .not_valid_after(datetime.fromtimestamp(ends, UTC))
    )
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name([
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"), x509.NameAttribute(NameOID.COMMON_NAME, common)
    ])  # fmt: skip
