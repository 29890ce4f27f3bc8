"""X.509 certificates as COSE carries them (RFC 9360): x5chain (33), x5t (34), and what is read of one certificate.

Everything here comes from strangers. A chain is bounded in count and bytes before any of it is parsed, and a
certificate is read whole, at once: what cannot be understood is an error here and never later.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from transparency.cose import labels
from transparency.cose.public_key import PublicKey
from transparency.errors import CertificateError, MalformedError, TransparencyError

MAX_CERTIFICATES: Final = 8
MAX_CERTIFICATE_BYTES: Final = 16 * 1024

_HASHES: Final[Mapping[int, Callable[[bytes], Any]]] = {
    labels.HASH_SHA256: hashlib.sha256,
    labels.HASH_SHA384: hashlib.sha384,
    labels.HASH_SHA512: hashlib.sha512,
}
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_PEM: Final = re.compile(_BEGIN + rb"[ \t\r]*\n[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----", re.ASCII)


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate, parsed to the end. ``not_before`` and ``not_after`` are seconds since 1970, both inclusive."""

    der: bytes
    parsed: x509.Certificate
    key: PublicKey
    subject: x509.Name
    issuer: x509.Name
    not_before: int
    not_after: int
    extensions: x509.Extensions

    @classmethod
    def from_der(cls, der: bytes) -> Certificate:
        """Read one DER certificate and nothing after it; CertificateError where it is none, or its key is of no use."""
        if len(der) > MAX_CERTIFICATE_BYTES:
            raise CertificateError(f"a certificate has {len(der)} bytes, {MAX_CERTIFICATE_BYTES} are read")
        try:
            parsed = x509.load_der_x509_certificate(der)
            spki = parsed.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            fields = (
                parsed.subject,
                parsed.issuer,
                int(parsed.not_valid_before_utc.timestamp()),
                int(parsed.not_valid_after_utc.timestamp()),
                parsed.extensions,
            )
        except UnsupportedAlgorithm:
            raise CertificateError("a certificate's key is of an algorithm that is not supported") from None
        except Exception as error:
            # cryptography names no closed set for what parsing may raise (ValueError, DuplicateExtension, ...).
            raise CertificateError("a certificate is not DER that can be read (RFC 5280 §4.1)") from error
        if not der.endswith(_signature_field(parsed.signature)):
            # X.690 §11.2.1: no signature here ends inside a byte. The parser takes a count of unused bits where those
            # happen to be zero, which would give one certificate two forms.
            raise CertificateError("a certificate's signature is not whole bytes (RFC 5280 §4.1.1.3)")
        try:
            key = PublicKey.from_der(spki)
        except TransparencyError as error:
            raise CertificateError(f"a certificate's key cannot be used: {error}") from error
        return cls(der, parsed, key, *fields)

    @property
    def name(self) -> str:
        """The subject for messages: bounded, and without characters that could write over a terminal."""
        return readable(self.subject)

    def extension(self, kind: type[x509.ExtensionType]) -> Any | None:  # noqa: ANN401 - of the kind asked for
        """The value of one extension, None where it is absent."""
        return next((item.value for item in self.extensions if isinstance(item.value, kind)), None)


class Thumbprint(NamedTuple):
    """x5t: the hash algorithm (COSE number or name) and the digest of a DER certificate (RFC 9360 §2)."""

    alg: int | str
    digest: bytes

    def names(self, der: bytes) -> bool:
        """Whether *der* is the certificate meant; CertificateError where the hash is not one we take."""
        function = _HASHES.get(self.alg) if isinstance(self.alg, int) else None
        if function is None:
            raise CertificateError("x5t (34) uses a hash that is not SHA-256, SHA-384 or SHA-512")
        return bool(function(der).digest() == self.digest)


def _signature_field(signature: bytes) -> bytes:
    """The BIT STRING that ends a certificate: tag, length, no unused bits, the signature."""
    length = len(signature) + 1
    if length < 0x80:
        head = bytes((length,))
    else:
        size = (length.bit_length() + 7) // 8
        head = bytes((0x80 | size,)) + length.to_bytes(size, "big")
    return b"\x03" + head + b"\x00" + signature


def read_chain(value: object) -> tuple[bytes, ...]:
    """The certificates of an x5chain value, leaf first: a byte string, or an array of two or more (RFC 9360 §2)."""
    chain = value if isinstance(value, list | tuple) else [value]
    if isinstance(value, list | tuple) and not 2 <= len(value) <= MAX_CERTIFICATES:
        msg = f"x5chain (33) is one byte string, or an array of 2 to {MAX_CERTIFICATES} (RFC 9360 §2)"
        raise MalformedError(msg)
    for der in chain:
        if not isinstance(der, bytes):
            raise MalformedError("x5chain (33) holds something that is not a byte string (RFC 9360 §2)")
        if not 0 < len(der) <= MAX_CERTIFICATE_BYTES:
            raise MalformedError(f"x5chain (33): a certificate has 1 to {MAX_CERTIFICATE_BYTES} bytes")
    return tuple(chain)


def write_chain(chain: Iterable[bytes]) -> bytes | list[bytes]:
    """The x5chain value of *chain*: one certificate alone is no array (RFC 9360 §2)."""
    certificates = list(chain)
    return certificates[0] if len(certificates) == 1 else certificates


def read_x5t(value: object) -> Thumbprint:
    """An x5t value: ``[hash algorithm, digest]`` (RFC 9360 §2)."""
    match value:
        case [int() | str() as alg, bytes() as digest] if not isinstance(alg, bool) and digest:
            return Thumbprint(alg, digest)
    raise MalformedError("x5t (34) is not an array of a hash algorithm and a digest (RFC 9360 §2)")


def write_x5t(der: bytes) -> list[int | bytes]:
    """The x5t value that names *der* by SHA-256."""
    return [labels.HASH_SHA256, hashlib.sha256(der).digest()]


def leaf_key(der: bytes) -> PublicKey:
    """The key a certificate is about; its kid is the RFC 9679 thumbprint."""
    return Certificate.from_der(der).key


def read_certificates(data: bytes) -> tuple[bytes, ...]:
    """Every certificate of a file, in its order: PEM blocks (what stands between them is not looked at), or one DER."""
    if b"-----BEGIN" not in data:
        return (Certificate.from_der(data).der,)
    blocks = _PEM.findall(data)
    if not blocks or len(blocks) != data.count(_BEGIN):
        raise CertificateError("PEM: blocks of BEGIN CERTIFICATE belong here")
    if len(blocks) > MAX_CERTIFICATES:
        raise CertificateError(f"PEM: there are {len(blocks)} certificates, {MAX_CERTIFICATES} are read")
    try:
        chain = tuple(
            x509.load_pem_x509_certificate(block).public_bytes(serialization.Encoding.DER) for block in blocks
        )
    except ValueError:
        raise CertificateError("PEM: a block is not a certificate") from None
    return tuple(Certificate.from_der(der).der for der in chain)


def readable(name: x509.Name) -> str:
    """A distinguished name in a message."""
    return f"{name.rfc4514_string()!r:.120}" if list(name) else "(a certificate without a subject)"
