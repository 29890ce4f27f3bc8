"""Several public keys at once: the COSE_KeySet, and files of whatever form people have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from transparency.cose import cbor
from transparency.cose.cose_key import PrivateMaterialError
from transparency.cose.public_key import PublicKey
from transparency.errors import MalformedError, UnsupportedAlgorithmError

# Loading a key costs some work, and the set may be a stranger's.
_MAX_KEYS: Final = 1000
_MAX_FILE: Final = 4 << 20
_PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----.*?-----END \1-----", re.DOTALL)


def encode_key_set(keys: Iterable[PublicKey]) -> bytes:
    """Give a COSE_KeySet (RFC 9052 §7: an array of COSE_Key)."""
    return cbor.encode([key.to_cose_key() for key in keys])


def decode_key_set(data: bytes) -> tuple[PublicKey, ...]:
    """Read a COSE_KeySet.

    RFC 9052 §7: each element is processed independently, and one that is malformed or not understood is ignored, so
    that a set can gain keys of new types. Private members are another matter: those spoil the set. So does a set of
    which nothing is usable.
    """
    elements = cbor.decode(data)
    if not isinstance(elements, list) or not 0 < len(elements) <= _MAX_KEYS:
        msg = f"COSE_KeySet: an array of 1 to {_MAX_KEYS} keys belongs here"
        raise MalformedError(msg)
    return _usable(elements, PublicKey.from_cose_key, "COSE_KeySet")


def read_public_keys(data: bytes) -> tuple[PublicKey, ...]:
    """Read public keys in any form: PEM (one or several blocks), DER, JWK, JWK set, COSE_Key, COSE_KeySet."""
    if len(data) > _MAX_FILE:
        msg = f"{len(data)} bytes are too many for a file of public keys"
        raise MalformedError(msg)
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        msg = "no public key: there is nothing here"
        raise MalformedError(msg)
    if b"-----BEGIN" in text:
        return _read_pem(text)
    if text.startswith((b"{", b"[")):
        return _read_json(text)
    # The first byte of the binary forms: DER SEQUENCE, CBOR array, CBOR map.
    if data[0] == 0x30:
        return (PublicKey.from_der(data),)
    if data[0] >> 5 == 4:
        return decode_key_set(data)
    if data[0] >> 5 == 5:
        return (PublicKey.from_cose_key_bytes(data),)
    msg = "no public key: this is neither PEM, DER, JSON nor CBOR of a key"
    raise MalformedError(msg)


def _read_pem(data: bytes) -> tuple[PublicKey, ...]:
    if b"PRIVATE KEY-----" in data:
        msg = "PEM: this holds a private key; give the public part only"
        raise PrivateMaterialError(msg)
    begun, ended = data.count(b"-----BEGIN "), data.count(b"-----END ")
    # Counted first: a search for the end of each block would be quadratic in blocks that have none.
    if begun != ended or begun > _MAX_KEYS:
        msg = f"PEM: {begun} blocks begin, {ended} end, and at most {_MAX_KEYS} are read"
        raise MalformedError(msg)
    keys: list[PublicKey] = []
    for part in data.split(b"-----BEGIN ")[1:]:
        block = _PEM_BLOCK.match(b"-----BEGIN " + part)
        if block is None:
            msg = f"PEM: block {len(keys) + 1} is not whole"
            raise MalformedError(msg)
        if block[1] != b"PUBLIC KEY":
            msg = f"PEM: a block {block[1].decode()} was seen; PUBLIC KEY belongs here"
            raise MalformedError(msg)
        keys.append(PublicKey.from_pem(block[0]))
    return tuple(keys)


def _read_json(data: bytes) -> tuple[PublicKey, ...]:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        msg = "JSON: not a JWK or JWK set: the JSON is broken or says something twice"
        raise MalformedError(msg) from None
    if isinstance(value, dict) and "keys" not in value:
        return (PublicKey.from_jwk(value),)
    elements = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(elements, list) or not 0 < len(elements) <= _MAX_KEYS:
        msg = f"JSON: a JWK, or an object with 1 to {_MAX_KEYS} keys, belongs here"
        raise MalformedError(msg)
    # RFC 7517 §5: keys of a set that are not understood should be ignored.
    return _usable(elements, PublicKey.from_jwk, "JWK set")


def _usable(elements: list[Any], read: Any, form: str) -> tuple[PublicKey, ...]:  # noqa: ANN401 - one of PublicKey's readers
    keys: list[PublicKey] = []
    reason = ""
    for element in elements:
        try:
            keys.append(read(element))
        except PrivateMaterialError:
            raise
        except (MalformedError, UnsupportedAlgorithmError) as error:
            reason = str(error)
    if not keys:
        msg = f"{form}: none of {len(elements)} keys is usable; the last: {reason}"
        raise MalformedError(msg)
    return tuple(keys)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        msg = "a member occurs twice"
        raise ValueError(msg)
    return result


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is not JSON"
    raise ValueError(msg)
