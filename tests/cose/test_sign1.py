"""COSE_Sign1: tagged, canonical, verified over the bytes as received."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose import PrivateKey, Sign1, encode, sig_structure, sign1
from transparency.errors import (
    MalformedError,
    PayloadMissingError,
    SignatureInvalidError,
    TransparencyError,
    UnsupportedAlgorithmError,
)

KEY = PrivateKey.generate(-7)
MESSAGE = sign1({3: "text/plain"}, b"hello", KEY)


def assemble(
    protected: bytes = MESSAGE.protected,
    unprotected: bytes = b"\xa0",
    payload: bytes = b"\x40",
    signature: bytes = b"\x40",
) -> bytes:
    return b"\xd2\x84" + encode(protected) + unprotected + payload + signature


def test_a_message_is_signed_written_read_and_verified() -> None:
    message = sign1({3: "text/plain", 4: b"me"}, b"hello", KEY, unprotected={394: [b"receipt"]})

    again = Sign1.from_bytes(message.to_bytes())

    assert again == message
    assert (again.headers, again.unprotected, again.payload) == (
        {1: -7, 3: "text/plain", 4: b"me"},
        {394: [b"receipt"]},
        b"hello",
    )
    again.verify(KEY.public)


def test_the_signed_bytes_are_those_of_rfc_9052() -> None:
    """RFC 9052 §4.4, and its example C.2.1."""
    expected = "846a5369676e61747572653143a101264054546869732069732074686520636f6e74656e742e"
    assert sig_structure(bytes.fromhex("a10126"), b"This is the content.").hex() == expected
    assert sig_structure(b"", b"x", b"\xaa" * 24).hex() == "846a5369676e61747572653140" + "5818" + "aa" * 24 + "4178"


def test_ss_8_the_protected_bytes_are_kept_as_received() -> None:
    """SS-8: a header whose keys are not sorted verifies, and is written as it came (AMB-13)."""
    protected = bytes.fromhex("a203000126")
    message = Sign1(protected, {}, {}, b"hello", KEY.sign(sig_structure(protected, b"hello")))

    again = Sign1.from_bytes(message.to_bytes())

    again.verify(KEY.public)
    assert again.protected == protected
    assert again.headers == {1: -7, 3: 0}
    assert again.with_unprotected({4: b"x"}).to_bytes()[2:8] == b"\x45" + protected


def test_a_detached_payload_must_be_given_and_be_the_right_one() -> None:
    message = Sign1.from_bytes(sign1({}, b"hello", KEY, detached=True).to_bytes())
    assert message.payload is None
    message.verify(KEY.public, b"hello")
    with pytest.raises(PayloadMissingError):
        message.verify(KEY.public)
    with pytest.raises(SignatureInvalidError):
        message.verify(KEY.public, b"hello!")
    message.with_payload(b"hello").verify(KEY.public)


def test_an_empty_payload_is_not_a_missing_one() -> None:
    message = Sign1.from_bytes(sign1({}, b"", KEY).to_bytes())
    assert message.payload == b""
    message.verify(KEY.public)


def test_a_payload_given_beside_an_attached_one_must_be_the_same() -> None:
    MESSAGE.verify(KEY.public, b"hello")
    with pytest.raises(SignatureInvalidError, match="not the one in the message"):
        MESSAGE.verify(KEY.public, b"other")


def test_external_data_is_signed_too() -> None:
    message = sign1({}, b"hello", KEY, external_aad=b"context")
    message.verify(KEY.public, external_aad=b"context")
    with pytest.raises(SignatureInvalidError):
        message.verify(KEY.public)


def test_the_algorithm_comes_from_the_protected_header_only() -> None:
    unsigned_alg = Sign1.from_bytes(assemble(b"", encode({1: -7})))
    with pytest.raises(UnsupportedAlgorithmError, match="no alg"):
        unsigned_alg.verify(KEY.public)


@pytest.mark.parametrize("alg", ["ES256", -999, True, None, b"", 5])
def test_an_algorithm_that_is_not_one_of_the_numbers_is_not_supported(alg: object) -> None:
    message = Sign1.from_bytes(assemble(encode({1: alg})))
    with pytest.raises(UnsupportedAlgorithmError):
        message.verify(KEY.public)


def test_a_signer_does_not_sign_under_another_algorithms_name() -> None:
    sign1({1: -7}, b"", KEY)
    with pytest.raises(UnsupportedAlgorithmError):
        sign1({1: -35}, b"", KEY)


WHOLE = MESSAGE.to_bytes()
MALFORMED = {
    "nothing": b"",
    "half a prefix": b"\xd2",
    "no tag": WHOLE[1:],
    "another tag": b"\xd1" + WHOLE[1:],
    "tag 18 in two bytes": b"\xd8\x12" + WHOLE[1:],
    "two tags": b"\xd2" + WHOLE,
    "three elements": b"\xd2\x83" + WHOLE[2:],
    "five elements": b"\xd2\x85" + WHOLE[2:] + b"\x00",
    "an indefinite array": b"\xd2\x9f" + WHOLE[2:] + b"\xff",
    "a count in two bytes": b"\xd2\x98\x04" + WHOLE[2:],
    "a trailing byte": WHOLE + b"\x00",
    "the last byte missing": WHOLE[:-1],
    "a protected header that is a map and not bytes": b"\xd2\x84\xa1\x01\x26\xa0\x40\x40",
    "a protected header that holds an array": assemble(b"\x80"),
    "a protected header that holds two items": assemble(b"\xa1\x01\x26\x00"),
    "an empty map spelled a0": assemble(b"\xa0"),
    "a repeated label": assemble(bytes.fromhex("a201260126")),
    "a label of bytes": assemble(bytes.fromhex("a2012641aa00")),
    "a label true": assemble(bytes.fromhex("a1f526")),
    "a tag in the protected header": assemble(bytes.fromhex("a2012603c100")),
    "an indefinite protected map": assemble(bytes.fromhex("bf0126ff")),
    "a long head in the protected header": assemble(bytes.fromhex("a1180126")),
    "an unprotected header that is an array": assemble(unprotected=b"\x80"),
    "an unprotected header that is null": assemble(unprotected=b"\xf6"),
    "an unprotected label of bytes": assemble(unprotected=bytes.fromhex("a141aa00")),
    "a repeated unprotected label": assemble(unprotected=bytes.fromhex("a2040004 00".replace(" ", ""))),
    "a tag in the unprotected header": assemble(unprotected=bytes.fromhex("a104c100")),
    "an unprotected header nested without end": assemble(unprotected=b"\xa1\x04" + b"\x81" * 100000),
    "a payload of text": assemble(payload=b"\x60"),
    "an undefined payload": assemble(payload=b"\xf7"),
    "a payload in pieces": assemble(payload=b"\x5f\x40\xff"),
    "a payload's length in too many bytes": assemble(payload=b"\x58\x01x"),
    "a payload that claims everything": assemble(payload=b"\x5b" + b"\xff" * 8),
    "a null signature": assemble(signature=b"\xf6"),
    "crit in the unprotected header": assemble(unprotected=bytes.fromhex("a102811864")),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_ss_1_ss_10_a_message_of_any_other_form_is_refused(data: bytes) -> None:
    """SS-1: untagged or not four elements. SS-10: duplicate keys, trailing bytes, indefinite lengths."""
    with pytest.raises(MalformedError):
        Sign1.from_bytes(data)


def test_ss_10_a_label_in_both_headers_is_refused() -> None:
    """SS-10, on reading, on signing and on replacing the unprotected header."""
    with pytest.raises(MalformedError, match="both"):
        Sign1.from_bytes(assemble(unprotected=encode({3: "text/html"})))
    with pytest.raises(MalformedError, match="both"):
        sign1({3: 0}, b"", KEY, unprotected={3: 0})
    with pytest.raises(MalformedError, match="both"):
        MESSAGE.with_unprotected({3: 0})


def test_ss_11_unknown_labels_pass_through_unchanged() -> None:
    """SS-11: labels are int / tstr, and unknown ones are allowed."""
    headers = {"note": ["any", 1.5, None], -70000: {"x": b""}, 99999: True}
    message = Sign1.from_bytes(sign1(headers, b"", KEY, unprotected={"more": {1: 2}}).to_bytes())
    assert message.headers == {1: -7, **headers}
    assert message.unprotected == {"more": {1: 2}}


@pytest.mark.parametrize(
    "crit",
    [[], 1, None, "1", {1: 1}, [3.5], [True], [b"x"], [[1]], [100], ["unknown"], [1, 100], [16]],
)
def test_ss_9_a_message_that_needs_what_is_not_understood_is_refused(crit: Any) -> None:
    """SS-9: crit names labels that are present and understood, and at least one."""
    headers = {1: -7, 2: crit, 100: 0, "unknown": 0}
    with pytest.raises(MalformedError, match="crit"):
        Sign1.from_bytes(assemble(encode(headers)))
    with pytest.raises(MalformedError, match="crit"):
        sign1(headers, b"", KEY)


def test_ss_9_understood_critical_labels_are_accepted() -> None:
    """SS-9: RFC 9052 §3.1 lets crit name what is understood."""
    message = Sign1.from_bytes(sign1({2: [258, 15], 15: {}, 258: -16}, b"", KEY).to_bytes())
    message.verify(KEY.public)


def test_an_empty_protected_header_is_a_zero_length_string() -> None:
    """RFC 9052 §3."""
    message = Sign1.from_bytes(assemble(b""))
    assert message.headers == {}
    assert message.to_bytes() == assemble(b"")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_no_changed_byte_verifies(position: int, change: int) -> None:
    data = bytearray(WHOLE)
    data[position] ^= change
    with pytest.raises(TransparencyError):
        Sign1.from_bytes(bytes(data)).verify(KEY.public)


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_malformed(data: bytes) -> None:
    for candidate in (data, b"\xd2\x84" + data, b"\xd2\x84\x43\xa1\x01\x26" + data):
        try:
            message = Sign1.from_bytes(candidate)
        except MalformedError:
            continue
        assert sorted(message.to_bytes()) == sorted(candidate)


@pytest.mark.parametrize("filler", [b"\x00", b"\xa0", b"\xf9\x3c\x00", b"\x80"])
def test_a_header_of_a_million_tiny_items_is_refused_before_they_are_looked_at(filler: bytes) -> None:
    """A 4 MiB unprotected header cost seconds of the event loop before any signature was checked."""
    count = (4 * 1024 * 1024) // len(filler)
    unprotected = b"\xa1\x00" + b"\x9a" + count.to_bytes(4, "big") + filler * count

    with pytest.raises(MalformedError, match="more items"):
        Sign1.from_bytes(assemble(unprotected=unprotected))


def test_a_protected_header_beyond_its_bound_is_refused() -> None:
    with pytest.raises(MalformedError, match="protected header has"):
        Sign1.from_bytes(assemble(protected=encode({1: -7, "x": b"\0" * (256 * 1024)})))
