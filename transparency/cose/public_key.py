"""PublicKey: what checks signatures. One object for every key type, made from COSE_Key, JWK, PEM or DER.

The key is loaded, judged and prepared once; after that `verify` adds a dictionary lookup to what `cryptography` does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from transparency.cose import cbor, labels
from transparency.cose.algorithms import (
    MAX_RSA_BITS,
    MAX_RSA_EXPONENT_BITS,
    MIN_RSA_BITS,
    RawPublicKey,
    Verifier,
    algorithm,
    algorithms_for,
    kty_name,
)
from transparency.cose.cose_key import read_cose_key, spki, write_cose_key
from transparency.cose.edwards import check_ed25519_point
from transparency.cose.jwk import read_jwk, write_jwk
from transparency.errors import MalformedError, UnsupportedAlgorithmError

_MAX_KID: Final = 1024
_PEM: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----[ \t\r]*\n[A-Za-z0-9+/=\s]+-----END PUBLIC KEY-----", re.ASCII)


class PublicKey:
    """A public key, its kid, and the algorithm it is restricted to, if any. Immutable; equal by thumbprint and kid."""

    __slots__ = (
        "_digest_verifiers",
        "_given_kid",
        "_raw",
        "_verifiers",
        "alg",
        "default_alg",
        "kid",
        "kty_name",
        "thumbprint",
    )

    alg: int | None
    default_alg: int
    kid: bytes
    kty_name: str
    thumbprint: bytes

    def __init__(self, raw: RawPublicKey, *, kid: bytes | None = None, alg: int | None = None) -> None:
        self.kty_name = kty_name(raw)
        _check_sizes(raw)
        if kid is not None and not 0 < len(kid) <= _MAX_KID:
            msg = f"a key id is 1 to {_MAX_KID} bytes"
            raise MalformedError(msg)
        fitting = algorithms_for(self.kty_name)
        if alg is not None:
            fitting = tuple(each for each in fitting if each.id == algorithm(alg).id)
            if not fitting:
                msg = f"{algorithm(alg).name} is not an algorithm of {self.kty_name} keys"
                raise UnsupportedAlgorithmError(msg)
        elif self.kty_name.startswith("AKP"):
            alg = fitting[0].id
        self._raw = raw
        self._given_kid = kid
        self._verifiers: dict[int, Verifier] = {each.id: each.verifier(raw) for each in fitting}
        self._digest_verifiers: dict[int, Verifier | None] = {each.id: each.digest_verifier(raw) for each in fitting}
        self.alg = alg
        self.default_alg = fitting[0].id
        self.thumbprint = hashlib.sha256(cbor.encode(write_cose_key(raw))).digest()
        self.kid = self.thumbprint if kid is None else kid

    def verify(self, alg: int, data: bytes, signature: bytes) -> None:
        """Check a signature over ``data``; raises SignatureInvalidError, or UnsupportedAlgorithmError."""
        try:
            check = self._verifiers[alg]
        except (KeyError, TypeError):
            allowed = ", ".join(algorithm(each).name for each in self._verifiers)
            msg = f"algorithm {alg!r:.60} does not fit this {self.kty_name} key, which takes {allowed}"
            raise UnsupportedAlgorithmError(msg) from None
        check(data, signature)

    def verify_digest(self, alg: int, digest: bytes, signature: bytes) -> bool:
        """Check a signature over data whose SHA-256 *digest* is known already; raises SignatureInvalidError.

        False, and nothing is checked, where the algorithm signs something else, or does not fit: then it is for
        :meth:`verify`.
        """
        check = self._digest_verifiers.get(alg)
        if check is None:
            return False
        check(digest, signature)
        return True

    def with_kid(self, kid: bytes) -> PublicKey:
        """Give the same key under another id."""
        return PublicKey(self._raw, kid=kid, alg=self.alg)

    def with_alg(self, alg: int) -> PublicKey:
        """Give the same key, restricted to one of its algorithms."""
        return PublicKey(self._raw, kid=self._given_kid, alg=alg)

    # --- COSE_Key --------------------------------------------------------------------------------------------------

    @classmethod
    def from_cose_key(cls, key: object) -> Self:
        """Read a COSE_Key map (RFC 9052 §7). Members that are not understood are ignored, private ones refused."""
        if not isinstance(key, Mapping):
            msg = "COSE_Key: a map belongs here"
            raise MalformedError(msg)
        raw = read_cose_key(key)
        kid, alg = key.get(labels.KEY_KID), key.get(labels.KEY_ALG)
        if labels.KEY_KID in key and not isinstance(kid, bytes):
            msg = "COSE_Key: kid (2) must be bytes"
            raise MalformedError(msg)
        return cls(raw, kid=kid, alg=None if labels.KEY_ALG not in key else algorithm(alg).id)

    @classmethod
    def from_cose_key_bytes(cls, data: bytes) -> Self:
        """Read an encoded COSE_Key."""
        return cls.from_cose_key(cbor.decode(data))

    def to_cose_key(self) -> dict[int, Any]:
        """Give the COSE_Key map, always with its kid."""
        key = write_cose_key(self._raw) | {labels.KEY_KID: self.kid}
        return key if self.alg is None else key | {labels.KEY_ALG: self.alg}

    def to_cose_key_bytes(self) -> bytes:
        """Give the encoded COSE_Key."""
        return cbor.encode(self.to_cose_key())

    # --- JWK -------------------------------------------------------------------------------------------------------

    @classmethod
    def from_jwk(cls, jwk: object) -> Self:
        """Read a JWK. Its kid is text, so the key's id here is that text in UTF-8."""
        if not isinstance(jwk, Mapping):
            msg = "JWK: an object belongs here"
            raise MalformedError(msg)
        raw = read_jwk(jwk)
        kid, alg = jwk.get("kid"), jwk.get("alg")
        if ("kid" in jwk and not isinstance(kid, str)) or ("alg" in jwk and not isinstance(alg, str)):
            msg = "JWK: kid and alg must be text"
            raise MalformedError(msg)
        if alg is not None and algorithm(alg).jose_name != alg:
            msg = f"JWK: {alg} is not an algorithm of JOSE"
            raise UnsupportedAlgorithmError(msg)
        try:
            kid_bytes = None if kid is None else kid.encode()
        except UnicodeEncodeError:
            msg = "JWK: kid has no UTF-8 form"
            raise MalformedError(msg) from None
        return cls(raw, kid=kid_bytes, alg=None if alg is None else algorithm(alg).id)

    def to_jwk(self) -> dict[str, str]:
        """Give the JWK; a kid that is the thumbprint is left out, another one must be text."""
        jwk = write_jwk(self._raw)
        if self.alg is not None:
            jose_name = algorithm(self.alg).jose_name
            if jose_name is None:
                msg = f"a key for {algorithm(self.alg).name} only has no JWK form: JOSE does not know that name"
                raise UnsupportedAlgorithmError(msg)
            jwk["alg"] = jose_name
        if self.kid != self.thumbprint:
            try:
                jwk["kid"] = self.kid.decode()
            except UnicodeDecodeError:
                msg = "the key's id is not text, so it has no JWK form; give the key another one first"
                raise MalformedError(msg) from None
        return jwk

    # --- PEM and DER -----------------------------------------------------------------------------------------------

    @classmethod
    def from_pem(cls, data: bytes) -> Self:
        """Read exactly one ``PUBLIC KEY`` block."""
        if b"PRIVATE KEY-----" in data:
            msg = "PEM: this holds a private key; give the public part only"
            raise MalformedError(msg)
        blocks = _PEM.findall(data)
        if len(blocks) != 1 or data.count(b"-----BEGIN") != 1:
            msg = "PEM: one block BEGIN PUBLIC KEY belongs here"
            raise MalformedError(msg)
        return cls._from_loader(serialization.load_pem_public_key, blocks[0], "PEM")

    @classmethod
    def from_der(cls, data: bytes) -> Self:
        """Read a DER SubjectPublicKeyInfo."""
        return cls._from_loader(serialization.load_der_public_key, data, "DER")

    @classmethod
    def _from_loader(cls, load: Any, data: bytes, form: str) -> Self:  # noqa: ANN401 - one of cryptography's two loaders
        try:
            raw = load(data)
        except UnsupportedAlgorithm as error:
            msg = f"{form}: {error}"
            raise UnsupportedAlgorithmError(msg) from None
        except (ValueError, TypeError):
            msg = f"{form}: not a SubjectPublicKeyInfo"
            raise MalformedError(msg) from None
        return cls(raw)

    def to_pem(self) -> bytes:
        """Give a ``PUBLIC KEY`` block; it has no room for a kid."""
        return self._raw.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def to_der(self) -> bytes:
        """Give the DER SubjectPublicKeyInfo; it has no room for a kid."""
        return spki(self._raw)

    # --- identity --------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PublicKey):
            return NotImplemented
        return self.thumbprint == other.thumbprint and self.kid == other.kid

    def __hash__(self) -> int:
        return hash((self.thumbprint, self.kid))

    def __repr__(self) -> str:
        return f"<PublicKey {self.kty_name} kid={self.kid.hex()}>"


def _check_sizes(raw: RawPublicKey) -> None:
    """Judge what a loader does not; every way to a PublicKey passes here."""
    if isinstance(raw, ed25519.Ed25519PublicKey):
        check_ed25519_point(raw.public_bytes_raw())
    if isinstance(raw, rsa.RSAPublicKey):
        if not MIN_RSA_BITS <= raw.key_size <= MAX_RSA_BITS:
            msg = f"an RSA key has {MIN_RSA_BITS} to {MAX_RSA_BITS} bits, this one {raw.key_size}"
            raise UnsupportedAlgorithmError(msg)
        if raw.public_numbers().e.bit_length() > MAX_RSA_EXPONENT_BITS:
            msg = f"an RSA exponent has at most {MAX_RSA_EXPONENT_BITS} bits"
            raise UnsupportedAlgorithmError(msg)
