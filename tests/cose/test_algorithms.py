"""Each algorithm signs and verifies; a signature of any other form, or a key that does not fit, is refused."""

from __future__ import annotations

import functools
import hashlib

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose import ALGORITHMS, PrivateKey, PublicKey, algorithm
from transparency.cose.algorithms import CURVES
from transparency.errors import SignatureInvalidError, UnsupportedAlgorithmError

# IANA "COSE Algorithms": RFC 9053, RFC 9864, RFC 9964.
CODE_POINTS = {
    "ES256": -7, "ES384": -35, "ES512": -36, "ESP256": -9, "ESP384": -51, "ESP512": -52,
    "EdDSA": -8, "Ed25519": -19, "PS256": -37, "PS384": -38, "PS512": -39,
    "ML-DSA-44": -48, "ML-DSA-65": -49, "ML-DSA-87": -50,
}  # fmt: skip
DATA = b"what was said"
every_algorithm = pytest.mark.parametrize("alg", list(ALGORITHMS), ids=lambda alg: ALGORITHMS[alg].name)


@functools.cache
def key_for(alg: int) -> PrivateKey:
    """A key for each type, not for each algorithm: RSA keys take long to make."""
    name = algorithm(alg).kty_name
    for made in ALGORITHMS.values():
        if made.kty_name == name and made.id != alg:
            return (
                PrivateKey.from_pem(key_for(made.id).to_pem(), alg=alg) if made.id > alg else PrivateKey.generate(alg)
            )
    return PrivateKey.generate(alg)


def test_the_code_points_are_those_of_the_registry() -> None:
    assert {each.name: each.id for each in ALGORITHMS.values()} == CODE_POINTS


@pytest.mark.parametrize(("name", "number"), CODE_POINTS.items())
def test_an_algorithm_is_found_by_number_and_by_name(name: str, number: int) -> None:
    assert algorithm(name) is algorithm(number) is ALGORITHMS[number]


@pytest.mark.parametrize("unknown", [0, 1, True, -257, -65535, "HS256", "es256", "", None, -7.0, b"ES256", [-7]])
def test_an_unknown_algorithm_is_not_supported(unknown: object) -> None:
    with pytest.raises(UnsupportedAlgorithmError):
        algorithm(unknown)


@every_algorithm
def test_each_algorithm_verifies_what_it_signed_and_nothing_else(alg: int) -> None:
    key = key_for(alg)
    signature = key.sign(DATA)

    key.public.verify(alg, DATA, signature)
    with pytest.raises(SignatureInvalidError):
        key.public.verify(alg, DATA + b".", signature)
    with pytest.raises(SignatureInvalidError):
        PrivateKey.generate(alg).public.verify(alg, DATA, signature)


@every_algorithm
def test_a_signature_of_another_form_is_refused(alg: int) -> None:
    key = key_for(alg)
    good = key.sign(DATA)
    flipped = bytes([good[0] ^ 1]) + good[1:]
    for bad in (
        b"",
        bytes(len(good)),
        good[:-1],
        good + b"\0",
        b"\0" + good,
        good + good,
        flipped,
        b"\xff" * len(good),
    ):
        with pytest.raises(SignatureInvalidError):
            key.public.verify(alg, DATA, bad)


@every_algorithm
def test_a_key_of_another_type_or_curve_does_not_fit(alg: int) -> None:
    key = key_for(alg)
    for other in ALGORITHMS.values():
        if other.kty_name == key.public.kty_name:
            continue
        with pytest.raises(UnsupportedAlgorithmError):
            key.public.verify(other.id, DATA, key.sign(DATA))
        with pytest.raises(UnsupportedAlgorithmError):
            PrivateKey.from_pem(key.to_pem(), alg=other.id)


@pytest.mark.parametrize("alg", [0, 999, None, "ES256", [], -7.5])
def test_a_key_refuses_an_algorithm_nobody_knows(alg: object) -> None:
    with pytest.raises(UnsupportedAlgorithmError):
        key_for(-7).public.verify(alg, DATA, b"")  # type: ignore[arg-type]


@pytest.mark.parametrize("alg", [-7, -35, -36, -9, -51, -52], ids=lambda alg: ALGORITHMS[alg].name)
def test_py_7_a_der_signature_is_refused(alg: int) -> None:
    """PY-7: cryptography speaks DER, COSE r || s."""
    key = key_for(alg)
    good = key.sign(DATA)
    half = len(good) // 2
    der = encode_dss_signature(int.from_bytes(good[:half], "big"), int.from_bytes(good[half:], "big"))
    with pytest.raises(SignatureInvalidError):
        key.public.verify(alg, DATA, der)


@pytest.mark.parametrize("alg", [-7, -35, -36], ids=lambda alg: ALGORITHMS[alg].name)
def test_r_and_s_lie_between_1_and_the_order(alg: int) -> None:
    key = key_for(alg)
    good = key.sign(DATA)
    width = len(good) // 2
    curve = next(each for each in CURVES.values() if each.kty_name == key.public.kty_name)
    r, s = good[:width], good[width:]
    order = curve.order.to_bytes(width, "big")
    # r + n is r again modulo the order: a second spelling wherever it fits the width.
    again = [x.to_bytes(width, "big") for x in [int.from_bytes(r, "big") + curve.order] if x < 1 << (8 * width)]
    for bad in (bytes(width) + s, r + bytes(width), order + s, r + order, *(each + s for each in again)):
        with pytest.raises(SignatureInvalidError, match="out of range"):
            key.public.verify(alg, DATA, bad)


@pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.name)
def test_the_orders_are_the_curves_own(curve: object) -> None:
    """The key for n - 1 is the last there is: its point is the generator's mirror image, and n has none."""
    order, group = curve.order, curve.curve  # type: ignore[attr-defined]
    first = ec.derive_private_key(1, group).public_key().public_numbers()
    last = ec.derive_private_key(order - 1, group).public_key().public_numbers()
    assert (last.x, last.y == first.y) == (first.x, False)


@pytest.mark.parametrize("alg", [-7, -35, -36, -9, -51, -52], ids=lambda alg: ALGORITHMS[alg].name)
def test_ecdsa_gives_the_same_bytes_twice(alg: int) -> None:
    key = key_for(alg)
    assert key.sign(DATA) == key.sign(DATA) != key.sign(DATA + b".")


def test_deterministic_ecdsa_matches_rfc_6979() -> None:
    """RFC 6979 A.2.5: P-256, SHA-256, message "sample"."""
    secret = int("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721", 16)
    key = PrivateKey(ec.derive_private_key(secret, ec.SECP256R1()))
    assert key.sign(b"sample").hex().upper() == (
        "EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"
        "F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8"
    )


@pytest.mark.parametrize("salt", [0, 20, 31, 33, 64])
def test_a_pss_salt_of_another_length_is_refused(salt: int) -> None:
    """RFC 8230 §2: the salt is as long as the hash."""
    raw = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    scheme = padding.PSS(padding.MGF1(hashes.SHA256()), salt_length=salt)
    with pytest.raises(SignatureInvalidError):
        PublicKey(raw.public_key()).verify(-37, DATA, raw.sign(DATA, scheme, hashes.SHA256()))


def test_a_pkcs1_v15_signature_is_refused() -> None:
    raw = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    with pytest.raises(SignatureInvalidError):
        PublicKey(raw.public_key()).verify(-37, DATA, raw.sign(DATA, padding.PKCS1v15(), hashes.SHA256()))


@every_algorithm
def test_only_what_signs_a_sha_256_digest_is_checked_by_one(alg: int) -> None:
    key = key_for(alg).public
    digests = ALGORITHMS[alg].name in ("ES256", "ESP256")

    assert key.verify_digest(alg, hashlib.sha256(DATA).digest(), key_for(alg).sign(DATA)) is digests


def _verdict(check: object, *arguments: object) -> str:
    try:
        check(*arguments)  # type: ignore[operator]
    except SignatureInvalidError as error:
        return f"invalid: {error}"
    return "valid"


@given(
    st.sampled_from([-7, -9]),
    st.binary(max_size=100),
    st.none() | st.tuples(st.integers(0, 63), st.integers(1, 255)),
    st.integers(-2, 2),
    st.sampled_from(["", "r zero", "s zero", "s order"]),
)
def test_a_digest_and_its_data_get_the_same_verdict_in_the_same_words(
    alg: int, data: bytes, flip: tuple[int, int] | None, longer: int, odd: str
) -> None:
    key = key_for(alg)
    signature = bytearray(key.sign(data))
    if flip is not None:
        signature[flip[0]] ^= flip[1]
    if odd == "r zero":
        signature[:32] = bytes(32)
    elif odd:
        signature[32:] = bytes(32) if odd == "s zero" else CURVES["secp256r1"].order.to_bytes(32, "big")
    changed = bytes(signature[: 64 + longer]).ljust(64 + longer, b"\0")

    by_data = _verdict(key.public.verify, alg, data, changed)
    by_digest = _verdict(key.public.verify_digest, alg, hashlib.sha256(data).digest(), changed)

    assert by_digest == by_data
    assert (by_data == "valid") == (flip is None and not longer and not odd)
