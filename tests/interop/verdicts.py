"""One verdict for two verifiers: what `transparency.verifier` and mini_verify both say, or the test fails."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from tests.interop import mini_verify
from tests.interop.trees import ISS, LOG_ISS, ORIGIN, RECEIPTS, TIME, private_key, tree_around
from transparency.cose.cbor import bstr, encode
from transparency.cose.key_sets import encode_key_set, read_public_keys
from transparency.cose.sign1 import sig_structure
from transparency.verifier import TrustStore, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.cose.keys import PrivateKey

KNOWN: Final = ("ES256", "ES384", "ES512", "EdDSA", "Ed25519", "ESP256", "ESP384", "ESP512")


def key_set(*keys: PrivateKey) -> bytes:
    return encode_key_set([key.public for key in keys])


LOG_KEYS: Final = key_set(*(private_key(alg, "log") for alg in KNOWN))
ISSUER_KEYS: Final = key_set(*(private_key(alg) for alg in KNOWN))


def ours(
    data: bytes, content: bytes | None = None, log_keys: bytes = LOG_KEYS, issuer_keys: bytes = ISSUER_KEYS
) -> str:
    trust = TrustStore.from_keys(read_public_keys(log_keys), read_public_keys(issuer_keys))
    verdict = verify(data, trust, payload=content).verdict
    return "verified" if verdict == "warnings" else verdict


def mini(
    data: bytes, content: bytes | None = None, log_keys: bytes = LOG_KEYS, issuer_keys: bytes = ISSUER_KEYS
) -> str:
    """Any other exception than ValueError is a fault of mini_verify and fails the test."""
    try:
        keys = [mini_verify.read_keys(each) for each in (log_keys, issuer_keys)]
        undecided = mini_verify.verify(data, keys[0], keys[1], content)
    except ValueError:
        return "failed"
    return "cannot-tell" if undecided else "verified"


def agreed(data: bytes, content: bytes | None = None, **keys: bytes) -> str:
    verdict = ours(data, content, **keys)
    assert mini(data, content, **keys) == verdict
    return verdict


def signed(headers: Mapping[Any, Any], key: PrivateKey, content: bytes, unprotected: Mapping[Any, Any]) -> bytes:
    """A message with any headers at all, properly signed."""
    protected = encode(dict(headers))
    signature = key.sign(sig_structure(protected, content))
    return b"\xd2\x84" + bstr(protected) + encode(dict(unprotected)) + bstr(content) + bstr(signature)


KID: Final = private_key("ES256").public.kid
HEADERS: Final[dict[Any, Any]] = {1: -7, 3: "text/plain", 4: KID, 15: {1: ISS, 2: "urn:example:odd"}}
LOG_HEADERS: Final[dict[Any, Any]] = {
    1: -7,
    4: private_key("ES256", "log").public.kid,
    15: {1: LOG_ISS, 2: ORIGIN, 6: TIME, -70110: 6},
    395: 1,
}


def registered(unregistered: bytes) -> bytes:
    """With a receipt for whatever it is, as place 4 of 6."""
    protected, unprotected, content, signature = mini_verify.decode(unregistered, 1, -99)
    normalised = b"\xd2\x84" + bstr(protected) + b"\xa0" + bstr(content) + bstr(signature)
    receipt = tree_around(hashlib.sha256(normalised).digest(), 4, 6).receipt(4)
    return b"\xd2" + encode([protected, {RECEIPTS: [receipt], **unprotected}, content, signature])


def rebuilt_odd(message: bytes, content: bytes | None) -> bytes:
    """As `rebuilt`, for a message that our reader may refuse."""
    protected, unprotected, _, signature = mini_verify.decode(message, 1, -1)
    return b"\xd2" + encode([protected, unprotected, content, signature])
