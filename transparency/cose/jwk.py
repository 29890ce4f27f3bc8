"""JWK: a public key as a JSON object (RFC 7517, RFC 7518 §6, RFC 8037, RFC 9964 §4 for AKP)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from transparency.cose import base64url
from transparency.cose.algorithms import CURVES, RawPublicKey, algorithm, kty_name
from transparency.cose.cose_key import PrivateMaterialError, akp_key, ec_key, minimal_bytes, okp_key, rsa_key
from transparency.errors import MalformedError, UnsupportedAlgorithmError

_BY_NAME = {curve.name: curve for curve in CURVES.values()}
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv"})


def read_jwk(jwk: Mapping[str, Any]) -> RawPublicKey:
    """Give the key object of a JWK."""
    if not _PRIVATE.isdisjoint(jwk):
        msg = "JWK: this holds a private key; give the public part only"
        raise PrivateMaterialError(msg)
    _check_use(jwk)
    kty = _text(jwk, "kty")
    if kty == "EC":
        curve = _BY_NAME.get(_text(jwk, "crv"))
        if curve is None:
            msg = f"JWK: curve {jwk['crv']!r:.40} is not supported for EC"
            raise UnsupportedAlgorithmError(msg)
        return ec_key(curve, _bytes(jwk, "x"), _bytes(jwk, "y"))
    if kty == "OKP":
        if _text(jwk, "crv") != "Ed25519":
            msg = f"JWK: curve {jwk['crv']!r:.40} is not supported for OKP"
            raise UnsupportedAlgorithmError(msg)
        return okp_key(_bytes(jwk, "x"))
    if kty == "RSA":
        return rsa_key(_unsigned(jwk, "n"), _unsigned(jwk, "e"))
    if kty == "AKP":
        return akp_key(algorithm(_text(jwk, "alg")).name, _bytes(jwk, "pub"))
    msg = f"JWK: key type {kty!r:.40} is not supported"
    raise UnsupportedAlgorithmError(msg)


def write_jwk(key: RawPublicKey) -> dict[str, str]:
    """Give the required members of the key's JWK."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        curve = CURVES[key.curve.name]
        point = key.public_numbers()
        return {
            "kty": "EC",
            "crv": curve.name,
            "x": base64url.encode(point.x.to_bytes(curve.width, "big")),
            "y": base64url.encode(point.y.to_bytes(curve.width, "big")),
        }
    if isinstance(key, ed25519.Ed25519PublicKey):
        return {"kty": "OKP", "crv": "Ed25519", "x": base64url.encode(key.public_bytes_raw())}
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {
            "kty": "RSA",
            "n": base64url.encode(minimal_bytes(numbers.n)),
            "e": base64url.encode(minimal_bytes(numbers.e)),
        }
    return {"kty": "AKP", "alg": kty_name(key).removeprefix("AKP "), "pub": base64url.encode(key.public_bytes_raw())}


def _check_use(jwk: Mapping[str, Any]) -> None:
    # RFC 7517 §4.2, §4.3: a key set aside for something else is not for checking signatures.
    if jwk.get("use", "sig") != "sig":
        msg = "JWK: use is not sig"
        raise MalformedError(msg)
    ops = jwk.get("key_ops", ["verify"])
    if not isinstance(ops, list) or "verify" not in ops:
        msg = "JWK: key_ops does not allow verifying"
        raise MalformedError(msg)


def _text(jwk: Mapping[str, Any], name: str) -> str:
    value = jwk.get(name)
    if not isinstance(value, str):
        msg = f"JWK: {name} must be text"
        raise MalformedError(msg)
    return value


def _bytes(jwk: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64url.decode(_text(jwk, name))
    except MalformedError as error:
        msg = f"JWK: {name}: {error}"
        raise MalformedError(msg) from None


def _unsigned(jwk: Mapping[str, Any], name: str) -> int:
    data = _bytes(jwk, name)
    if not data or data[0] == 0:
        msg = f"JWK: {name} must have no leading zero bytes (RFC 7518 §2)"
        raise MalformedError(msg)
    return int.from_bytes(data, "big")
