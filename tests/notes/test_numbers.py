"""Decimals, base64 and hashes with one spelling each."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose import base64std
from transparency.errors import MalformedError, NoteError
from transparency.merkle.hashing import MAX_SIZE
from transparency.notes.numbers import read_decimal, read_hash, read_lines, read_path, write_base64


@given(st.integers(0, MAX_SIZE))
def test_a_number_has_one_spelling(number: int) -> None:
    """CP-1: a size."""
    assert read_decimal(str(number), "size") == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 5",
        "5 ",
        "05",
        "00",
        "+5",
        "-5",
        "-0",
        "5_0",
        "5.0",
        "5e3",
        "0x5",
        "\u0665",
        "\uff15",
        "5\n",
        "\u00b2",
        str(MAX_SIZE + 1),
        "1" + "0" * 19,
        "9" * 5000,
    ],
)
def test_any_other_spelling_of_a_number_is_refused(text: str) -> None:
    """CP-1, W-1: `old 09` and `old +9`."""
    with pytest.raises(NoteError, match="size"):
        read_decimal(text, "size")


@given(st.binary(max_size=100))
def test_bytes_have_one_spelling(data: bytes) -> None:
    assert base64std.decode(base64std.encode(data)) == data
    assert base64std.encode(data) == base64.b64encode(data).decode()


@given(st.text(alphabet="AQgw+/=-_ \n", max_size=12) | st.text(max_size=8))
def test_base64_that_is_accepted_prints_back_the_same(text: str) -> None:
    try:
        data = base64std.decode(text)
    except MalformedError:
        return
    assert base64std.encode(data) == text


@pytest.mark.parametrize(
    "text",
    ["A", "AA", "AAA", "AA=", "AB==", "AAB=", "AA==AA==", "AA==\n", " AA==", "AA===", "A-_A", "AAAA=", "\u00e9AAA"],
)
def test_any_other_spelling_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(MalformedError, match="base64"):
        base64std.decode(text)


def test_a_hash_has_32_bytes_and_a_proof_up_to_63_hashes() -> None:
    """W-1."""
    line = write_base64(b"h" * 32)

    assert read_path([line] * 63, "proof") == (b"h" * 32,) * 63
    with pytest.raises(NoteError, match="more than 63"):
        read_path([line] * 64, "proof")
    for size in (0, 31, 33):
        with pytest.raises(NoteError, match="not a hash"):
            read_hash(write_base64(b"h" * size), "root")


def test_only_a_newline_ends_a_line() -> None:
    """SN-1: where ``splitlines`` sees five."""
    assert read_lines("a\u2028b\u2029c\u0085d\n".encode(), "text") == ["a\u2028b\u2029c\u0085d"]
