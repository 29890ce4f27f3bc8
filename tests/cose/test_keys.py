"""Public and private keys: every form they are read from and written to, and what is refused."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x25519
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose import ALGORITHMS, PrivateKey, PublicKey, decode, encode
from transparency.errors import MalformedError, TransparencyError, UnsupportedAlgorithmError

# One algorithm for each key type.
TYPES = {"EC P-256": -7, "EC P-384": -35, "EC P-521": -36, "OKP Ed25519": -8, "RSA": -37,
         "AKP ML-DSA-44": -48, "AKP ML-DSA-65": -49, "AKP ML-DSA-87": -50}  # fmt: skip
KEYS = {name: PrivateKey.generate(alg) for name, alg in TYPES.items()}
every_type = pytest.mark.parametrize("name", TYPES)

# RFC 9679 §6.
RFC_9679_X = bytes.fromhex("65eda5a12577c2bae829437fe338701a10aaa375e1bb5b5de108de439c08551d")
RFC_9679_Y = bytes.fromhex("1e52ed75701163f7f9e40ddf9f341b3dc9ba860af7e0ca7ca7e9eecd0084d19c")
RFC_9679_THUMBPRINT = "496bd8afadf307e5b08c64b0421bf9dc01528a344a43bda88fadd1669da253ec"
EC2: dict[Any, Any] = {1: 2, -1: 1, -2: RFC_9679_X, -3: RFC_9679_Y}


def test_the_thumbprint_of_rfc_9679_section_6() -> None:
    assert PublicKey.from_cose_key(EC2).thumbprint.hex() == RFC_9679_THUMBPRINT


def test_optional_members_do_not_change_the_thumbprint() -> None:
    """RFC 9679 §5.2: kid, alg, key_ops and unknown members are left out of it."""
    key = PublicKey.from_cose_key(EC2 | {2: b"me", 3: -7, 4: [2], "note": "x", -70000: 1})
    assert key.thumbprint.hex() == RFC_9679_THUMBPRINT
    assert (key.kid, key.alg) == (b"me", -7)


def test_a_compressed_point_is_read_and_has_the_same_thumbprint() -> None:
    """RFC 9679 §4.2: the thumbprint is that of the uncompressed point."""
    key = PublicKey.from_cose_key(EC2 | {-3: False})
    assert key.thumbprint.hex() == RFC_9679_THUMBPRINT
    assert key.to_cose_key()[-3] == RFC_9679_Y
    assert PublicKey.from_cose_key(EC2 | {-3: True}).thumbprint.hex() != RFC_9679_THUMBPRINT


@pytest.mark.parametrize(
    ("name", "members"),
    [("EC P-256", {1, -1, -2, -3}), ("OKP Ed25519", {1, -1, -2}), ("RSA", {1, -1, -2}), ("AKP ML-DSA-44", {1, 3, -1})],
)
def test_the_thumbprint_covers_the_required_members(name: str, members: set[int]) -> None:
    """RFC 9679 §4; RFC 9964 §6 for AKP, where alg is required."""
    key = KEYS[name].public
    required = {label: value for label, value in key.to_cose_key().items() if label in members}
    assert len(required) == len(members)
    assert hashlib.sha256(encode(required)).digest() == key.thumbprint


@every_type
def test_a_key_survives_every_form(name: str) -> None:
    key = KEYS[name].public
    for again in (
        PublicKey.from_cose_key(key.to_cose_key()),
        PublicKey.from_cose_key_bytes(key.to_cose_key_bytes()),
        PublicKey.from_jwk(key.to_jwk()),
        PublicKey.from_pem(key.to_pem()),
        PublicKey.from_der(key.to_der()),
    ):
        assert again == key
        assert again.kty_name == name
        assert again.kid == again.thumbprint
        again.verify(TYPES[name], b"data", KEYS[name].sign(b"data"))


@every_type
def test_a_key_knows_the_algorithm_to_sign_with(name: str) -> None:
    """AMB-11: sign with -7 and its like, accept the fully specified ones too."""
    key = KEYS[name].public
    assert key.default_alg == TYPES[name]
    assert key.alg == (TYPES[name] if name.startswith("AKP") else None)


def test_a_kid_is_part_of_who_a_key_is() -> None:
    key = KEYS["EC P-256"].public
    named = key.with_kid(b"2026-11")
    assert named != key
    assert named.thumbprint == key.thumbprint
    assert {key: 1, named: 2}[PublicKey.from_cose_key(named.to_cose_key())] == 2
    assert PublicKey.from_jwk(named.to_jwk()) == named
    assert KEYS["EC P-256"].with_kid(b"2026-11").public == named
    assert key != "a key"


@pytest.mark.parametrize("kid", [b"", b"x" * 1025])
def test_a_kid_names_something_and_is_bounded(kid: bytes) -> None:
    with pytest.raises(MalformedError):
        KEYS["EC P-256"].public.with_kid(kid)
    with pytest.raises(MalformedError):
        PublicKey.from_cose_key(EC2 | {2: kid})


def test_a_key_restricted_to_an_algorithm_refuses_the_others() -> None:
    """RFC 9052 §7.1: alg in a key restricts it, even where the other would compute the same."""
    private = KEYS["EC P-256"]
    restricted = PublicKey.from_cose_key(private.public.to_cose_key() | {3: -9})
    signature = private.sign(b"data")
    restricted.verify(-9, b"data", signature)
    private.public.verify(-7, b"data", signature)
    with pytest.raises(UnsupportedAlgorithmError):
        restricted.verify(-7, b"data", signature)
    assert restricted.default_alg == restricted.alg == -9
    assert PublicKey.from_cose_key_bytes(restricted.to_cose_key_bytes()).alg == -9
    with pytest.raises(UnsupportedAlgorithmError, match="JWK"):
        restricted.to_jwk()


P256_WRONG_Y = bytes([RFC_9679_Y[0] ^ 1]) + RFC_9679_Y[1:]
RSA = KEYS["RSA"].public.to_cose_key()
AKP = KEYS["AKP ML-DSA-44"].public.to_cose_key()
OKP = KEYS["OKP Ed25519"].public.to_cose_key()
BAD_COSE_KEYS: dict[str, Any] = {
    "not a map": [1, 2],
    "empty": {},
    "kty missing": {-1: 1},
    "kty as text": EC2 | {1: "EC2"},
    "kty true": EC2 | {1: True},
    "curve true": EC2 | {-1: True},
    "curve missing": {1: 2, -2: RFC_9679_X, -3: RFC_9679_Y},
    "point off the curve": EC2 | {-3: P256_WRONG_Y},
    "point at zero": EC2 | {-2: bytes(32), -3: bytes(32)},
    "x beyond the field": EC2 | {-2: b"\xff" * 32},
    "x with no point, compressed": EC2 | {-2: b"\xff" * 32, -3: True},
    "short x": EC2 | {-2: RFC_9679_X[1:]},
    "long x": EC2 | {-2: b"\0" + RFC_9679_X},
    "short y": EC2 | {-3: RFC_9679_Y[1:]},
    "x as text": EC2 | {-2: "x"},
    "y missing": {1: 2, -1: 1, -2: RFC_9679_X},
    "y as a number": EC2 | {-3: 1},
    "kid as text": EC2 | {2: "me"},
    "kid null": EC2 | {2: None},
    "EC private": EC2 | {-4: b"secret"},
    "OKP private": OKP | {-4: b"secret"},
    "RSA private": RSA | {-3: b"secret"},
    "RSA private primes": RSA | {-12: []},
    "AKP private": AKP | {-2: b"secret"},
    "only for signing": EC2 | {4: [1]},
    "key_ops not a list": EC2 | {4: 2},
    "Ed25519 short": OKP | {-2: b"x" * 31},
    "RSA n with a leading zero": RSA | {-1: b"\0" + RSA[-1]},
    "RSA n empty": RSA | {-1: b""},
    "RSA e even": RSA | {-2: b"\x02"},
    "RSA e one": RSA | {-2: b"\x01"},
    "AKP without alg": {label: value for label, value in AKP.items() if label != 3},
    "AKP with an algorithm of other keys": AKP | {3: -7},
    "AKP of another size": AKP | {3: -49},
    "AKP cut short": AKP | {-1: AKP[-1][1:]},
}
UNSUPPORTED_COSE_KEYS: dict[str, Any] = {
    "symmetric": {1: 4, -1: b"secret"},
    "unknown kty": {1: 99},
    "secp256k1": EC2 | {-1: 8},
    "X25519": OKP | {-1: 4},
    "Ed448": OKP | {-1: 7},
    "unknown alg": EC2 | {3: -999},
    "alg null": EC2 | {3: None},
    "alg of another curve": EC2 | {3: -35},
    "alg of another type": EC2 | {3: -8},
    "AKP with an unknown algorithm": AKP | {3: -999},
    "RSA with a large exponent": RSA | {-2: b"\x01" + bytes(8) + b"\x01"},
}


@pytest.mark.parametrize("key", BAD_COSE_KEYS.values(), ids=BAD_COSE_KEYS.keys())
def test_a_malformed_cose_key_is_refused(key: Any) -> None:
    with pytest.raises(MalformedError):
        PublicKey.from_cose_key(key)


@pytest.mark.parametrize("key", UNSUPPORTED_COSE_KEYS.values(), ids=UNSUPPORTED_COSE_KEYS.keys())
def test_a_cose_key_no_algorithm_here_takes_is_not_supported(key: Any) -> None:
    with pytest.raises(UnsupportedAlgorithmError):
        PublicKey.from_cose_key(key)


def ed25519_encoding(y: int, sign: int = 0) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


P = 2**255 - 19
ORDER_8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")


@pytest.mark.parametrize(
    "encoded",
    [ed25519_encoding(y, sign) for y in (0, 1, P - 1, ORDER_8, P - ORDER_8, P, P + 1, 2**255 - 1) for sign in (0, 1)]
    + [ed25519_encoding(2)],
)
def test_an_ed25519_key_is_a_point_of_large_order(encoded: bytes) -> None:
    """Points of order 1, 2, 4 and 8, other spellings of them, and what is no point (RFC 8032 §5.1.3)."""
    with pytest.raises(MalformedError, match="Ed25519"):
        PublicKey.from_cose_key({1: 1, -1: 6, -2: encoded})
    with pytest.raises(MalformedError, match="Ed25519"):
        PublicKey(ed25519.Ed25519PublicKey.from_public_bytes(encoded))


@settings(max_examples=50, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_every_honest_ed25519_key_is_accepted(seed: bytes) -> None:
    PublicKey(ed25519.Ed25519PrivateKey.from_private_bytes(seed).public_key())


JWK = KEYS["EC P-256"].public.to_jwk()
JWK_RSA = KEYS["RSA"].public.to_jwk()
JWK_AKP = KEYS["AKP ML-DSA-44"].public.to_jwk()
BAD_JWKS: dict[str, Any] = {
    "not an object": [],
    "empty": {},
    "kty as a number": JWK | {"kty": 2},
    "private": JWK | {"d": "AAAA"},
    "private AKP": JWK_AKP | {"priv": "AAAA"},
    "padded": JWK | {"x": JWK["x"] + "="},
    "plain base64": JWK | {"x": "+/" + JWK["x"][2:]},
    "junk inside": JWK | {"x": JWK["x"][:5] + "\n" + JWK["x"][5:]},
    "stray bits at the end": JWK | {"x": base64.urlsafe_b64encode(b"\0" * 32).decode().rstrip("=")[:-1] + "B"},
    "a length no base64 has": JWK | {"x": JWK["x"] + "AA"},
    "short": JWK | {"x": "AAAA"},
    "bytes": JWK | {"x": b"AAAA"},
    "y missing": {name: value for name, value in JWK.items() if name != "y"},
    "for encryption": JWK | {"use": "enc"},
    "only for signing": JWK | {"key_ops": ["sign"]},
    "kid as a number": JWK | {"kid": 5},
    "kid with a surrogate": JWK | {"kid": "\ud800"},
    "empty kid": JWK | {"kid": ""},
    "alg as a number": JWK | {"alg": -7},
    "RSA n with a leading zero": JWK_RSA | {"n": "AA" + JWK_RSA["n"]},
    "AKP without alg": {name: value for name, value in JWK_AKP.items() if name != "alg"},
}


@pytest.mark.parametrize("jwk", BAD_JWKS.values(), ids=BAD_JWKS.keys())
def test_a_malformed_jwk_is_refused(jwk: Any) -> None:
    with pytest.raises(MalformedError):
        PublicKey.from_jwk(jwk)


@pytest.mark.parametrize(
    "change",
    [
        {"kty": "oct"},
        {"crv": "secp256k1"},
        {"kty": "OKP", "crv": "X25519"},
        {"alg": "RS256"},
        {"alg": "ESP256"},
        {"alg": "ES384"},
    ],
    ids=str,
)
def test_a_jwk_no_algorithm_here_takes_is_not_supported(change: dict[str, str]) -> None:
    with pytest.raises(UnsupportedAlgorithmError):
        PublicKey.from_jwk(JWK | change)


def test_a_jwk_keeps_its_text_kid_and_its_algorithm() -> None:
    key = PublicKey.from_jwk(JWK | {"kid": "schlüssel", "alg": "ES256", "use": "sig"})
    assert (key.kid, key.alg) == ("schlüssel".encode(), -7)
    assert key.to_jwk() == JWK | {"kid": "schlüssel", "alg": "ES256"}


def test_a_kid_that_is_not_text_has_no_jwk_form() -> None:
    with pytest.raises(MalformedError, match="not text"):
        KEYS["EC P-256"].public.with_kid(b"\xff").to_jwk()


@pytest.mark.parametrize("bits", [1024, 2047])
def test_an_rsa_key_that_is_too_short_is_not_supported(bits: int) -> None:
    raw = rsa.generate_private_key(public_exponent=65537, key_size=bits).public_key()
    with pytest.raises(UnsupportedAlgorithmError, match="bits"):
        PublicKey.from_der(
            raw.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        )


def test_an_rsa_key_that_is_too_long_is_not_supported() -> None:
    with pytest.raises(UnsupportedAlgorithmError, match="bits"):
        PublicKey.from_cose_key({1: 3, -1: b"\xff" * 1025, -2: b"\x01\x00\x01"})


@pytest.mark.parametrize(
    "raw",
    [
        ec.generate_private_key(ec.SECP256K1()),
        ed448.Ed448PrivateKey.generate(),
        x25519.X25519PrivateKey.generate(),
        dsa.generate_private_key(2048),
    ],
    ids=lambda raw: type(raw).__name__,
)
def test_other_kinds_of_keys_are_not_supported_in_pem_or_der(raw: Any) -> None:
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    with pytest.raises(UnsupportedAlgorithmError):
        PublicKey.from_der(raw.public_key().public_bytes(serialization.Encoding.DER, spki))
    with pytest.raises(UnsupportedAlgorithmError):
        PublicKey.from_pem(raw.public_key().public_bytes(serialization.Encoding.PEM, spki))
    pkcs8 = raw.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(UnsupportedAlgorithmError):
        PrivateKey.from_pem(pkcs8)


@pytest.mark.parametrize("data", [b"", b"x", b"-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"])
def test_what_is_not_pem_or_der_is_refused(data: bytes) -> None:
    for read in (PublicKey.from_pem, PublicKey.from_der, PrivateKey.from_pem):
        with pytest.raises(MalformedError):
            read(data)


def test_a_private_key_is_not_taken_for_a_public_one() -> None:
    with pytest.raises(MalformedError, match="private"):
        PublicKey.from_pem(KEYS["EC P-256"].to_pem())


def test_der_with_something_after_it_is_refused() -> None:
    with pytest.raises(MalformedError):
        PublicKey.from_der(KEYS["EC P-256"].public.to_der() + b"\0")


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from([1, 2, 3, 4, -1, -2, -3, -4]),
        st.integers(-60, 10) | st.binary(max_size=40) | st.booleans() | st.none() | st.text(max_size=3),
    )
)
def test_random_maps_are_refused_with_our_own_errors(key: dict[int, Any]) -> None:
    try:
        PublicKey.from_cose_key(key)
    except TransparencyError:
        return
    assert key[1] in (1, 2, 3)


def test_a_cose_key_is_written_deterministically() -> None:
    data = KEYS["EC P-256"].public.to_cose_key_bytes()
    assert encode(decode(data)) == data
    assert list(decode(data)) == [1, 2, -1, -2, -3]


def test_each_algorithm_can_make_its_key() -> None:
    for alg in (-9, -51, -52, -19):
        key = PrivateKey.generate(alg)
        assert key.alg == alg
        assert key.public.kty_name == ALGORITHMS[alg].kty_name
    with pytest.raises(UnsupportedAlgorithmError):
        PrivateKey.generate(-999)
