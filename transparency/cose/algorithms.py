"""Signature algorithms of COSE: which key each takes, how its signatures look, how to make and check one.

Code points: RFC 9053 (ES*, EdDSA, PS*), RFC 9864 (the fully specified ESP*, Ed25519), RFC 9964 (ML-DSA). RFC 9053 lets
ES256 meet any curve; here each ES* takes the curve its name suggests, which is what RFC 9864 made of it.

A signature has one form: r || s of the curve's width (RFC 9053 §2.1), 64 bytes for Ed25519, the modulus' length for RSA
with a salt as long as the hash (RFC 8230 §2), FIPS 204's length for ML-DSA. Anything else is not a signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature, encode_dss_signature

from transparency.cose import labels
from transparency.errors import SignatureInvalidError, UnsupportedAlgorithmError

Verifier = Callable[[bytes, bytes], None]
"""Takes data and signature; raises SignatureInvalidError."""
SignFunction = Callable[[bytes], bytes]

MLDSAPublicKey = mldsa.MLDSA44PublicKey | mldsa.MLDSA65PublicKey | mldsa.MLDSA87PublicKey
MLDSAPrivateKey = mldsa.MLDSA44PrivateKey | mldsa.MLDSA65PrivateKey | mldsa.MLDSA87PrivateKey
RawPublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey | MLDSAPublicKey
RawPrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | MLDSAPrivateKey

MIN_RSA_BITS: Final = 2048
# Checking costs grow with the modulus and the exponent, and both come from strangers.
MAX_RSA_BITS: Final = 8192
MAX_RSA_EXPONENT_BITS: Final = 64
_GENERATED_RSA_BITS: Final = 3072
_ED25519_SIGNATURE_SIZE: Final = 64


@dataclass(frozen=True, slots=True)
class Curve:
    """A NIST curve: its COSE and JOSE names, the width of a coordinate."""

    name: str
    crv: int
    width: int
    curve: ec.EllipticCurve

    @property
    def order(self) -> int:
        """How many points the group has: r and s lie below it."""
        return self.curve.group_order

    @property
    def kty_name(self) -> str:
        """The name of keys on this curve."""
        return f"EC {self.name}"


P256: Final = Curve("P-256", labels.CRV_P256, 32, ec.SECP256R1())
P384: Final = Curve("P-384", labels.CRV_P384, 48, ec.SECP384R1())
P521: Final = Curve("P-521", labels.CRV_P521, 66, ec.SECP521R1())
CURVES: Final[Mapping[str, Curve]] = MappingProxyType({"secp256r1": P256, "secp384r1": P384, "secp521r1": P521})

ED25519_KTY_NAME: Final = "OKP Ed25519"
RSA_KTY_NAME: Final = "RSA"


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One signature algorithm of the COSE registry."""

    id: int
    name: str
    kty_name: str
    jose_name: str | None
    _verifier: Callable[[Any], Verifier]
    _signer: Callable[[Any], SignFunction]
    _generate: Callable[[], RawPrivateKey]
    # Only where what is signed is the SHA-256 digest of the data.
    _digest_verifier: Callable[[Any], Verifier] | None = None

    def verifier(self, key: RawPublicKey) -> Verifier:
        """Give the check of this algorithm's signatures by ``key``, with everything that can be prepared prepared."""
        self._must_fit(kty_name(key))
        return self._verifier(key)

    def digest_verifier(self, key: RawPublicKey) -> Verifier | None:
        """Give the same check for who has the SHA-256 digest of the data; None where that is not what is signed."""
        self._must_fit(kty_name(key))
        return None if self._digest_verifier is None else self._digest_verifier(key)

    def signer(self, key: RawPrivateKey) -> SignFunction:
        """Give the function that signs with ``key``."""
        self._must_fit(kty_name(key.public_key()))
        return self._signer(key)

    def generate(self) -> RawPrivateKey:
        """Make a new key for this algorithm."""
        return self._generate()

    def _must_fit(self, name: str) -> None:
        if name != self.kty_name:
            msg = f"{self.name} takes a key of type {self.kty_name}, this one is {name}"
            raise UnsupportedAlgorithmError(msg)


def kty_name(key: object) -> str:
    """Name a key's type and curve, or refuse a key no algorithm here takes."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        curve = CURVES.get(key.curve.name)
        if curve is not None:
            return curve.kty_name
        msg = f"a key on the curve {key.curve.name} is not supported"
        raise UnsupportedAlgorithmError(msg)
    if isinstance(key, ed25519.Ed25519PublicKey):
        return ED25519_KTY_NAME
    if isinstance(key, rsa.RSAPublicKey):
        return RSA_KTY_NAME
    for algorithm_name, (public, _) in MLDSA_CLASSES.items():
        if isinstance(key, public):
            return f"AKP {algorithm_name}"
    msg = f"a key of type {type(key).__name__.removesuffix('PublicKey')} is not supported"
    raise UnsupportedAlgorithmError(msg)


def algorithm(id_or_name: object) -> Algorithm:
    """Look an algorithm up by its COSE number or its name."""
    # A bool is an int to Python, and True would find what 1 names.
    if isinstance(id_or_name, int) and not isinstance(id_or_name, bool):
        found = ALGORITHMS.get(id_or_name)
    else:
        found = _BY_NAME.get(id_or_name) if isinstance(id_or_name, str) else None
    if found is None:
        known = ", ".join(sorted(_BY_NAME))
        msg = f"signature algorithm {id_or_name!r:.60} is not supported; these are: {known}"
        raise UnsupportedAlgorithmError(msg)
    return found


def _invalid(why: str = "the signature is not by this key over these bytes") -> SignatureInvalidError:
    return SignatureInvalidError(why)


def _ecdsa_verifier(
    curve: Curve, digest: hashes.HashAlgorithm | Prehashed
) -> Callable[[ec.EllipticCurvePublicKey], Verifier]:
    width, order = curve.width, curve.order
    checking = ec.ECDSA(digest)

    def verifier(key: ec.EllipticCurvePublicKey) -> Verifier:
        key_verify = key.verify

        def verify(data: bytes, signature: bytes) -> None:
            if len(signature) != 2 * width:
                raise _invalid(f"an ECDSA signature over {curve.name} has {2 * width} bytes, this one {len(signature)}")
            r = int.from_bytes(signature[:width], "big")
            s = int.from_bytes(signature[width:], "big")
            if not (0 < r < order and 0 < s < order):
                raise _invalid("the signature's r or s is out of range")
            try:
                key_verify(encode_dss_signature(r, s), data, checking)
            except InvalidSignature:
                raise _invalid() from None

        return verify

    return verifier


def _ecdsa_signer(curve: Curve, digest: hashes.HashAlgorithm) -> Callable[[ec.EllipticCurvePrivateKey], SignFunction]:
    width = curve.width
    # RFC 6979: the nonce comes from the message, so a poor random source cannot give the key away.
    signing = ec.ECDSA(digest, deterministic_signing=True)

    def signer(key: ec.EllipticCurvePrivateKey) -> SignFunction:
        def sign(data: bytes) -> bytes:
            r, s = decode_dss_signature(key.sign(data, signing))
            return r.to_bytes(width, "big") + s.to_bytes(width, "big")

        return sign

    return signer


def _es(id_: int, name: str, curve: Curve, digest: hashes.HashAlgorithm, jose_name: str | None) -> Algorithm:
    return Algorithm(
        id_,
        name,
        curve.kty_name,
        jose_name,
        _ecdsa_verifier(curve, digest),
        _ecdsa_signer(curve, digest),
        lambda: ec.generate_private_key(curve.curve),
        _ecdsa_verifier(curve, Prehashed(digest)) if isinstance(digest, hashes.SHA256) else None,
    )


def _eddsa(id_: int, name: str) -> Algorithm:
    def verifier(key: ed25519.Ed25519PublicKey) -> Verifier:
        def verify(data: bytes, signature: bytes) -> None:
            if len(signature) != _ED25519_SIGNATURE_SIZE:
                raise _invalid(f"an Ed25519 signature has 64 bytes, this one {len(signature)}")
            try:
                key.verify(signature, data)
            except InvalidSignature:
                raise _invalid() from None

        return verify

    def signer(key: ed25519.Ed25519PrivateKey) -> SignFunction:
        return key.sign

    generate = ed25519.Ed25519PrivateKey.generate
    return Algorithm(id_, name, ED25519_KTY_NAME, name, verifier, signer, generate)


def _pss(id_: int, name: str, digest: hashes.HashAlgorithm) -> Algorithm:
    # RFC 8230 §2: the salt is as long as the hash, and MGF1 uses the same hash.
    scheme = padding.PSS(mgf=padding.MGF1(digest), salt_length=digest.digest_size)

    def verifier(key: rsa.RSAPublicKey) -> Verifier:
        size = (key.key_size + 7) // 8

        def verify(data: bytes, signature: bytes) -> None:
            if len(signature) != size:
                raise _invalid(f"a signature by this RSA key has {size} bytes, this one {len(signature)}")
            try:
                key.verify(signature, data, scheme, digest)
            except InvalidSignature:
                raise _invalid() from None

        return verify

    def signer(key: rsa.RSAPrivateKey) -> SignFunction:
        return lambda data: key.sign(data, scheme, digest)

    def generate() -> RawPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=_GENERATED_RSA_BITS)

    return Algorithm(id_, name, RSA_KTY_NAME, name, verifier, signer, generate)


MLDSA_CLASSES: Final[Mapping[str, tuple[type[MLDSAPublicKey], type[MLDSAPrivateKey]]]] = MappingProxyType(
    {
        "ML-DSA-44": (mldsa.MLDSA44PublicKey, mldsa.MLDSA44PrivateKey),
        "ML-DSA-65": (mldsa.MLDSA65PublicKey, mldsa.MLDSA65PrivateKey),
        "ML-DSA-87": (mldsa.MLDSA87PublicKey, mldsa.MLDSA87PrivateKey),
    }
)


def _mldsa(id_: int, name: str, signature_size: int) -> Algorithm:
    def verifier(key: MLDSAPublicKey) -> Verifier:
        def verify(data: bytes, signature: bytes) -> None:
            if len(signature) != signature_size:
                raise _invalid(f"an {name} signature has {signature_size} bytes, this one {len(signature)}")
            try:
                # RFC 9964 §3: pure ML-DSA with an empty context.
                key.verify(signature, data)
            except InvalidSignature:
                raise _invalid() from None

        return verify

    def signer(key: MLDSAPrivateKey) -> SignFunction:
        return key.sign

    return Algorithm(id_, name, f"AKP {name}", name, verifier, signer, MLDSA_CLASSES[name][1].generate)


ES256: Final = _es(-7, "ES256", P256, hashes.SHA256(), "ES256")
ES384: Final = _es(-35, "ES384", P384, hashes.SHA384(), "ES384")
ES512: Final = _es(-36, "ES512", P521, hashes.SHA512(), "ES512")
# JOSE has no ESP*: its ES* are fully specified already (RFC 9864 §2.1), so these have no JOSE name of their own.
ESP256: Final = _es(-9, "ESP256", P256, hashes.SHA256(), None)
ESP384: Final = _es(-51, "ESP384", P384, hashes.SHA384(), None)
ESP512: Final = _es(-52, "ESP512", P521, hashes.SHA512(), None)
EDDSA: Final = _eddsa(-8, "EdDSA")
ED25519: Final = _eddsa(-19, "Ed25519")
PS256: Final = _pss(-37, "PS256", hashes.SHA256())
PS384: Final = _pss(-38, "PS384", hashes.SHA384())
PS512: Final = _pss(-39, "PS512", hashes.SHA512())
ML_DSA_44: Final = _mldsa(-48, "ML-DSA-44", 2420)
ML_DSA_65: Final = _mldsa(-49, "ML-DSA-65", 3309)
ML_DSA_87: Final = _mldsa(-50, "ML-DSA-87", 4627)

_ALL: Final = (
    ES256, ES384, ES512, EDDSA, PS256, PS384, PS512, ESP256, ESP384, ESP512, ED25519, ML_DSA_44, ML_DSA_65, ML_DSA_87,
)  # fmt: skip

ALGORITHMS: Final[Mapping[int, Algorithm]] = MappingProxyType({each.id: each for each in _ALL})
_BY_NAME: Final[Mapping[str, Algorithm]] = {each.name: each for each in _ALL}


def algorithms_for(name: str) -> tuple[Algorithm, ...]:
    """Give the algorithms that take keys of this type name; the first is the one to sign with (AMB-11)."""
    return tuple(each for each in _ALL if each.kty_name == name)
