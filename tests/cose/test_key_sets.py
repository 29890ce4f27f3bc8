"""Several keys at once: COSE_KeySet, and files in whatever form people have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose import PrivateKey, PublicKey, decode, decode_key_set, encode, encode_key_set, read_public_keys
from transparency.errors import MalformedError, TransparencyError, UnsupportedAlgorithmError

PRIVATE = PrivateKey.generate(-7)
ONE, TWO, THREE = PRIVATE.public, PrivateKey.generate(-8).public, PrivateKey.generate(-48).public.with_kid(b"pq")


def test_a_key_set_survives_its_encoding() -> None:
    data = encode_key_set([ONE, TWO, THREE])
    assert decode_key_set(data) == (ONE, TWO, THREE)
    assert len(decode(data)) == 3


def test_keys_that_are_not_understood_are_passed_over() -> None:
    """RFC 9052 §7: each element is processed independently."""
    elements = [{1: 99}, ONE.to_cose_key(), "no key", {1: 2, -1: 1}, TWO.to_cose_key()]
    assert decode_key_set(encode(elements)) == (ONE, TWO)


@pytest.mark.parametrize("value", [[], {}, [{1: 99}], ["x"], None, ONE.to_cose_key(), [{}] * 1001])
def test_a_set_without_a_usable_key_is_refused(value: Any) -> None:
    with pytest.raises(MalformedError):
        decode_key_set(encode(value))


def test_a_private_member_spoils_the_whole_set() -> None:
    with pytest.raises(MalformedError, match="private"):
        decode_key_set(encode([ONE.to_cose_key(), TWO.to_cose_key() | {-4: b"secret"}]))


FORMS = {
    "PEM": (ONE.to_pem(), 1),
    "several PEM blocks with remarks between": (b"the first\n" + ONE.to_pem() + b"the second\n" + TWO.to_pem(), 2),
    "PEM with Windows line ends": (ONE.to_pem().replace(b"\n", b"\r\n"), 1),
    "DER": (ONE.to_der(), 1),
    "JWK": (json.dumps(ONE.to_jwk()).encode(), 1),
    "JWK with a byte order mark and space": (b"\xef\xbb\xbf \n" + json.dumps(ONE.to_jwk()).encode(), 1),
    "JWK set": (json.dumps({"keys": [ONE.to_jwk(), {"kty": "new"}, TWO.to_jwk()]}).encode(), 2),
    "COSE_Key": (ONE.to_cose_key_bytes(), 1),
    "COSE_KeySet": (encode_key_set([ONE, TWO]), 2),
}


@pytest.mark.parametrize(("data", "count"), FORMS.values(), ids=FORMS.keys())
def test_public_keys_are_read_from_any_form(data: bytes, count: int) -> None:
    assert read_public_keys(data) == (ONE, TWO)[:count]


REFUSED = {
    "nothing": b"",
    "space": b" \n",
    "prose": b"my key is 5",
    "a number in CBOR": b"\x05",
    "a private PEM": PRIVATE.to_pem(),
    "a private PEM after a public one": ONE.to_pem() + PRIVATE.to_pem(),
    "a private JWK in a set": json.dumps({"keys": [TWO.to_jwk(), ONE.to_jwk() | {"d": "AAAA"}]}).encode(),
    "a certificate": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "a block without an end": ONE.to_pem() + b"-----BEGIN PUBLIC KEY-----\nAAAA\n",
    "a block with another end": b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\n",
    "broken JSON": b'{"kty": "EC"',
    "a JSON array": b"[]",
    "JSON with NaN": b'{"kty": NaN}',
    "JSON that says something twice": b'{"kty": "EC", ' + json.dumps(ONE.to_jwk()).encode()[1:],
    "JSON nested without end": b'{"a":' * 100000,
    "JSON with an endless number": b'{"a":' + b"1" * 10000 + b"}",
    "an empty JWK set": b'{"keys": []}',
    "a JWK set that is a number": b'{"keys": 5}',
    "JSON in Latin-1": b'{"kid": "\xfc"}',
    "DER with something after it": ONE.to_der() + b"\0",
    "COSE_Key with something after it": ONE.to_cose_key_bytes() + b"\0",
    "far too much": b" " * (5 << 20),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        read_public_keys(data)


def test_a_block_of_another_kind_is_named_in_the_message() -> None:
    with pytest.raises(MalformedError, match="CERTIFICATE was seen"):
        read_public_keys(REFUSED["a certificate"])


def test_a_single_key_of_an_unknown_kind_is_not_passed_over() -> None:
    with pytest.raises(UnsupportedAlgorithmError):
        read_public_keys(b'{"kty": "new"}')
    with pytest.raises(UnsupportedAlgorithmError):
        read_public_keys(encode({1: 99}))


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_random_bytes_raise_our_own_errors_only(data: bytes) -> None:
    for candidate in (data, b"{" + data, b"\x30" + data, b"\xa1\x01" + data, b"-----BEGIN PUBLIC KEY-----" + data):
        try:
            keys = read_public_keys(candidate)
        except TransparencyError:
            continue
        assert all(isinstance(key, PublicKey) for key in keys)
