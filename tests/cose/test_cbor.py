"""Canonical CBOR: one spelling for each value, and nothing else is read."""

from __future__ import annotations

import math
import sys

import pytest

from transparency.cose import CBORTag, bstr, decode, encode, read, read_bstr, skip
from transparency.errors import MalformedError

# RFC 8949 Appendix A, as far as it is in our form.
EXAMPLES = [
    ("00", 0),
    ("17", 23),
    ("1818", 24),
    ("18ff", 255),
    ("190100", 256),
    ("1a000f4240", 1000000),
    ("1b000000e8d4a51000", 1000000000000),
    ("1bffffffffffffffff", 18446744073709551615),
    ("20", -1),
    ("3863", -100),
    ("3bffffffffffffffff", -18446744073709551616),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("40", b""),
    ("4401020304", b"\1\2\3\4"),
    ("60", ""),
    ("62c3bc", "ü"),
    ("64f0908591", "\U00010151"),
    ("80", []),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("a0", {}),
    ("a201020304", {1: 2, 3: 4}),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("f90000", 0.0),
    ("f98000", -0.0),
    ("f93c00", 1.0),
    ("f97bff", 65504.0),
    ("fa47c35000", 100000.0),
    ("fb3ff199999999999a", 1.1),
    ("f90001", 5.960464477539063e-8),
    ("f97c00", math.inf),
    ("f9fc00", -math.inf),
    ("fa7f7fffff", 3.4028234663852886e38),
    ("fb7e37e43c8800759c", 1.0e300),
]


@pytest.mark.parametrize(("encoded", "value"), EXAMPLES)
def test_the_examples_of_rfc_8949_appendix_a_are_read_and_written(encoded: str, value: object) -> None:
    assert encode(value).hex() == encoded
    result = decode(bytes.fromhex(encoded))
    assert (repr(result), type(result)) == (repr(value), type(value))


def test_the_one_nan_is_the_short_quiet_one() -> None:
    assert encode(math.nan).hex() == "f97e00"
    assert math.isnan(decode(bytes.fromhex("f97e00")))


def test_keys_are_sorted_by_their_bytes_and_not_by_length_first() -> None:
    """RFC 8949 §4.2.1: 100 (1864) comes before -1 (20), although it is longer."""
    assert encode({-1: 0, 100: 0, 10: 0, "z": 0, "aa": 0, b"": 0}).hex() == "a60a0018640020004000617a0062616100"


def test_the_order_of_keys_is_free_on_reading() -> None:
    """AMB-13: emit deterministic, accept any."""
    assert decode(bytes.fromhex("a203000100")) == {1: 0, 3: 0}


REFUSED = {
    "nothing at all": "",
    "a longer head than needed, one byte": "1817",
    "a longer head than needed, two bytes": "1900ff",
    "a longer head than needed, four bytes": "1a0000ffff",
    "a longer head than needed, eight bytes": "1b00000000ffffffff",
    "a longer negative": "3800",
    "a longer length of bytes": "580100",
    "a longer length of text": "780161",
    "a longer count": "980100",
    "a longer count of a map": "b8010000",
    "an indefinite byte string": "5f4100ff",
    "an indefinite text": "7f6161ff",
    "an indefinite array": "9f00ff",
    "an indefinite map": "bf0000ff",
    "a break alone": "ff",
    "a reserved head": "1c",
    "a repeated integer key": "a201000100",
    "a repeated text key": "a2616100616101",
    "a repeated key deeper down": "81a100a201000100",
    "a boolean key": "a1f500",
    "a null key": "a1f600",
    "a float key": "a1f93c0000",
    "an array as key": "a18000",
    "a map as key": "a1a000",
    "text that is not UTF-8": "61ff",
    "text with a surrogate": "63eda080",
    "text in overlong UTF-8": "62c080",
    "undefined": "f7",
    "an unassigned simple value": "e0",
    "simple value 255": "f8ff",
    "true in two bytes": "f815",
    "a date tag": "c000",
    "a bignum tag": "c249010000000000000000",
    "a small bignum": "c24101",
    "a regular expression": "d8236161",
    "a shared reference to itself": "d81c81d81d00",
    "a self-described item": "d9d9f700",
    "COSE_Sign1's tag where it is not asked for": "d200",
    "a double that fits a half": "fb3ff8000000000000",
    "a double that fits a single": "fb40f86a0000000000",
    "a single that fits a half": "fa3fc00000",
    "a long NaN": "fa7fc00000",
    "a NaN with a payload": "f97e01",
    "a signalling NaN": "f97d00",
    "a negative NaN": "f9fe00",
    "a trailing byte": "0000",
    "a byte string cut short": "420000"[:4],
    "a byte string that claims everything": "5bffffffffffffffff00",
    "text that claims everything": "7b7fffffffffffffff61",
    "an array that claims everything": "9bffffffffffffffff00",
    "a map that claims everything": "bbffffffffffffffff00",
    "an array cut short": "8200",
    "a map without its value": "a100",
    "a head cut short": "19",
    "a long string's head cut short": "58",
    "a float cut short": "f93c",
    "seventeen levels": "81" * 17 + "00",
    "very many levels": "81" * 100000 + "00",
    "very many levels of maps": "a100" * 100000 + "00",
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_py_4_everything_without_one_spelling_is_refused(data: str) -> None:
    """PY-4: cbor2 alone would take most of these."""
    raw = bytes.fromhex(data)
    with pytest.raises(MalformedError):
        decode(raw)
    if data != "0000":
        with pytest.raises(MalformedError):
            skip(raw, 0)
        with pytest.raises(MalformedError):
            skip(b"\x00" + raw, 1)


def test_every_tag_is_refused_before_it_can_mean_anything() -> None:
    """PY-4: dates, bignums, regular expressions and cyclic references come from tags."""
    for number in [*range(1024), 1004, 4149, 43000, 55799, 1 << 32, (1 << 64) - 1]:
        for content in ("00", "6161", "80", "4101"):
            head = bytearray(encode(number))
            head[0] |= 0xC0
            with pytest.raises(MalformedError, match=f"tag {number} is not expected"):
                decode(bytes(head) + bytes.fromhex(content))


def test_sixteen_levels_are_the_default_depth_and_callers_may_choose() -> None:
    assert decode(bytes.fromhex("81" * 16 + "00"))
    assert decode(bytes.fromhex("8100"), max_depth=1) == [0]
    with pytest.raises(MalformedError, match="deeper than 1 "):
        decode(bytes.fromhex("818100"), max_depth=1)
    with pytest.raises(MalformedError, match="deeper than 0 "):
        decode(b"\x80", max_depth=0)


def test_a_tag_that_is_asked_for_stays_a_tag_around_plain_values() -> None:
    """PY-4: cbor2 would give tuples and frozendicts inside it, and a date for tag 1."""
    value = decode(bytes.fromhex("d28440a10203f64100"), tags=frozenset({18}))
    assert value == CBORTag(18, [b"", {2: 3}, None, b"\0"])
    assert (type(value.value), type(value.value[1])) == (list, dict)
    assert encode(value).hex() == "d28440a10203f64100"
    assert decode(bytes.fromhex("c11903e8"), tags=frozenset({1})) == CBORTag(1, 1000)


@pytest.mark.parametrize("content", ["a201000100", "61ff", "1817", "d300", "f7", "8200", "a1f500"])
def test_inside_an_allowed_tag_the_rules_are_the_same(content: str) -> None:
    with pytest.raises(MalformedError):
        decode(bytes.fromhex("d2" + content), tags=frozenset({18}))


def test_a_tag_is_a_level_too() -> None:
    with pytest.raises(MalformedError, match="deeper"):
        decode(b"\xd2" * 100000 + b"\x00", tags=frozenset({18}))


def test_an_item_is_found_inside_a_longer_message() -> None:
    data = bytes.fromhex("ffa1010243aabbccff")
    assert skip(data, 1) == 4
    assert read(data, 1) == ({1: 2}, 4)
    assert read_bstr(data, 4) == (b"\xaa\xbb\xcc", 8)


@pytest.mark.parametrize("data", ["", "00", "60", "5800", "5801", "42ff", "5bffffffffffffffff", "5f40ff", "58"])
def test_what_is_not_a_whole_canonical_byte_string_is_not_read_as_one(data: str) -> None:
    with pytest.raises(MalformedError):
        read_bstr(bytes.fromhex(data), 0)


@pytest.mark.parametrize("pos", [-1, 2, 1 << 70])
def test_a_position_outside_the_data_is_refused(pos: int) -> None:
    for read_at in (skip, read, read_bstr):
        with pytest.raises(MalformedError):
            read_at(b"\x40\x40", pos)


@pytest.mark.parametrize("length", [0, 23, 24, 255, 256, 65535, 65536])
def test_a_byte_string_has_the_shortest_head(length: int) -> None:
    data = b"x" * length
    assert bstr(data) == encode(data)
    assert read_bstr(bstr(data), 0) == (data, len(bstr(data)))


def cyclic() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [1 << 64, -(1 << 64) - 1, "\ud800", object(), {1.5: 0}, {True: 0}, {None: 0}, {(1,): 0}, {1, 2}, cyclic()],
    ids=[
        "too large",
        "too small",
        "surrogate",
        "object",
        "float key",
        "bool key",
        "null key",
        "array key",
        "set",
        "cyclic",
    ],
)
def test_a_value_without_a_form_is_not_written(value: object) -> None:
    with pytest.raises(MalformedError):
        encode(value)


def test_hostile_nesting_leaves_the_interpreters_stack_alone() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(MalformedError):
        decode(b"\x81" * (limit * 100) + b"\x00", max_depth=64)
