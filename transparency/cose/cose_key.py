"""COSE_Key: a public key as a CBOR map (RFC 9052 §7), read strictly and written in one form.

These functions stand between a map and the key object of `cryptography`; `PublicKey` is what the rest of the package
uses. A map with private members is refused: who hands those over has made a mistake that should be noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from transparency.cose import labels
from transparency.cose.algorithms import CURVES, MLDSA_CLASSES, Curve, RawPublicKey, algorithm, kty_name
from transparency.cose.edwards import check_ed25519_point
from transparency.errors import MalformedError, UnsupportedAlgorithmError

_BY_CRV = {curve.crv: curve for curve in CURVES.values()}


def read_cose_key(key: Mapping[Any, Any]) -> RawPublicKey:
    """Give the key object of a COSE_Key map."""
    kty = _integer(key, labels.KEY_KTY, "kty")
    _check_private(key, kty)
    _check_key_ops(key)
    if kty == labels.KTY_EC2:
        return _read_ec2(key)
    if kty == labels.KTY_OKP:
        return _read_okp(key)
    if kty == labels.KTY_RSA:
        n = _unsigned(_bytes(key, labels.KEY_RSA_N, "n"), "n")
        return rsa_key(n, _unsigned(_bytes(key, labels.KEY_RSA_E, "e"), "e"))
    if kty == labels.KTY_AKP:
        # RFC 9964 §4: an AKP key is nothing without its algorithm.
        name = algorithm(_integer(key, labels.KEY_ALG, "alg")).name
        return akp_key(name, _bytes(key, labels.KEY_AKP_PUB, "pub"))
    msg = f"COSE_Key: key type {kty} is not supported"
    raise UnsupportedAlgorithmError(msg)


def write_cose_key(key: RawPublicKey) -> dict[int, Any]:
    """Give the members that RFC 9679 §4 puts into a thumbprint: what is needed to have the key, and nothing more."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        curve = CURVES[key.curve.name]
        point = key.public_numbers()
        return {
            labels.KEY_KTY: labels.KTY_EC2,
            labels.KEY_CRV: curve.crv,
            labels.KEY_X: point.x.to_bytes(curve.width, "big"),
            labels.KEY_Y: point.y.to_bytes(curve.width, "big"),
        }
    if isinstance(key, ed25519.Ed25519PublicKey):
        return {
            labels.KEY_KTY: labels.KTY_OKP,
            labels.KEY_CRV: labels.CRV_ED25519,
            labels.KEY_X: key.public_bytes_raw(),
        }
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        return {
            labels.KEY_KTY: labels.KTY_RSA,
            labels.KEY_RSA_N: minimal_bytes(numbers.n),
            labels.KEY_RSA_E: minimal_bytes(numbers.e),
        }
    return {
        labels.KEY_KTY: labels.KTY_AKP,
        labels.KEY_ALG: algorithm(kty_name(key).removeprefix("AKP ")).id,
        labels.KEY_AKP_PUB: key.public_bytes_raw(),
    }


def ec_key(curve: Curve, x: bytes, y: bytes | bool) -> ec.EllipticCurvePublicKey:  # noqa: FBT001 - RFC 9053 §7.1.1: y may be a sign bit
    """Give the key at a point, which must lie on the curve; coordinates have the curve's full width."""
    if len(x) != curve.width or (isinstance(y, bytes) and len(y) != curve.width):
        msg = f"a coordinate on {curve.name} has {curve.width} bytes"
        raise MalformedError(msg)
    point = b"\x04" + x + y if isinstance(y, bytes) else (b"\x03" if y else b"\x02") + x
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(curve.curve, point)
    except ValueError:
        msg = f"the point is not on {curve.name}"
        raise MalformedError(msg) from None


def okp_key(x: bytes) -> ed25519.Ed25519PublicKey:
    """Give the Ed25519 key of 32 bytes."""
    check_ed25519_point(x)
    return ed25519.Ed25519PublicKey.from_public_bytes(x)


def rsa_key(n: int, e: int) -> rsa.RSAPublicKey:
    """Give the RSA key of a modulus and an exponent; `check_raw_key` judges their sizes."""
    try:
        return rsa.RSAPublicNumbers(e, n).public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        msg = f"not an RSA key: {error}"
        raise MalformedError(msg) from None


def akp_key(name: str, public: bytes) -> RawPublicKey:
    """Give the ML-DSA key of its encoded bytes."""
    if name not in MLDSA_CLASSES:
        msg = f"{name} is not an algorithm of AKP keys"
        raise MalformedError(msg)
    try:
        return MLDSA_CLASSES[name][0].from_public_bytes(public)
    except (ValueError, UnsupportedAlgorithm) as error:
        msg = f"not an {name} key: {error}"
        raise MalformedError(msg) from None


def minimal_bytes(value: int) -> bytes:
    """Give a positive integer in as few bytes as it needs (RFC 8230 §4)."""
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def spki(key: RawPublicKey) -> bytes:
    """Give the key as a DER SubjectPublicKeyInfo."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _read_ec2(key: Mapping[Any, Any]) -> ec.EllipticCurvePublicKey:
    crv = _integer(key, labels.KEY_CRV, "crv")
    curve = _BY_CRV.get(crv)
    if curve is None:
        msg = f"COSE_Key: curve {crv} is not supported for EC2"
        raise UnsupportedAlgorithmError(msg)
    y = key.get(labels.KEY_Y)
    if not isinstance(y, bytes | bool):
        msg = "COSE_Key: y must be bytes or a sign bit"
        raise MalformedError(msg)
    return ec_key(curve, _bytes(key, labels.KEY_X, "x"), y)


def _read_okp(key: Mapping[Any, Any]) -> ed25519.Ed25519PublicKey:
    crv = _integer(key, labels.KEY_CRV, "crv")
    if crv != labels.CRV_ED25519:
        msg = f"COSE_Key: curve {crv} is not supported for OKP"
        raise UnsupportedAlgorithmError(msg)
    return okp_key(_bytes(key, labels.KEY_X, "x"))


def _check_private(key: Mapping[Any, Any], kty: int) -> None:
    private: frozenset[int] = {
        labels.KTY_EC2: frozenset({labels.KEY_EC_D}),
        labels.KTY_OKP: frozenset({labels.KEY_EC_D}),
        labels.KTY_RSA: labels.KEY_RSA_PRIVATE,
        labels.KTY_AKP: frozenset({labels.KEY_AKP_PRIV}),
    }.get(kty, frozenset())
    if not private.isdisjoint(key):
        msg = "COSE_Key: this holds a private key; give the public part only"
        raise PrivateMaterialError(msg)


def _check_key_ops(key: Mapping[Any, Any]) -> None:
    ops = key.get(labels.KEY_OPS)
    if ops is None:
        return
    if not isinstance(ops, list) or labels.KEY_OP_VERIFY not in ops:
        msg = "COSE_Key: key_ops does not allow verifying"
        raise MalformedError(msg)


def _integer(key: Mapping[Any, Any], label: int, name: str) -> int:
    value = key.get(label)
    if not isinstance(value, int) or isinstance(value, bool):
        msg = f"COSE_Key: {name} ({label}) must be an integer"
        raise MalformedError(msg)
    return value


def _bytes(key: Mapping[Any, Any], label: int, name: str) -> bytes:
    value = key.get(label)
    if not isinstance(value, bytes):
        msg = f"COSE_Key: {name} ({label}) must be bytes"
        raise MalformedError(msg)
    return value


def _unsigned(data: bytes, name: str) -> int:
    if not data or data[0] == 0:
        msg = f"COSE_Key: {name} must have no leading zero bytes"
        raise MalformedError(msg)
    return int.from_bytes(data, "big")


class PrivateMaterialError(MalformedError):
    """Private members where only a public key belongs."""
