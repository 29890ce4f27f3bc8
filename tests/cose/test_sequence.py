"""CBOR sequences: the end of an item is found in any prefix, or more bytes are asked for."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.cose.sequence import MAX_DEPTH, MAX_HEADS, item_end
from transparency.errors import MalformedError

LIMIT = 10_000
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.binary(max_size=300)
    | st.text(max_size=40)
    | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES, st.binary(max_size=20))
def test_the_end_is_found_whatever_follows(value: object, rest: bytes) -> None:
    item = cbor2.dumps(value)

    assert item_end(b"x" + item + rest, 1, LIMIT) == 1 + len(item)


@given(VALUES, st.data())
def test_an_item_that_is_cut_asks_for_more(value: object, data: st.DataObject) -> None:
    item = cbor2.dumps(cbor2.CBORTag(18, [value, value]))
    cut = data.draw(st.integers(0, len(item) - 1))

    assert item_end(item[:cut], 0, LIMIT) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x5f\x41a\xff",  # indefinite byte string
        b"\x9f\xff",
        b"\xff",
        b"\x1c",
        b"\x5a\x00\x00\x27\x11",  # a string of 10,001 bytes
        b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81" * (MAX_DEPTH + 1),
        b"\xc1" * 20_000,
        b"\x99\x20\x00" + bytes(MAX_HEADS),  # more parts than are looked at again and again
    ],
)
def test_what_cannot_be_an_item_of_ours_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(MalformedError):
        item_end(data, 0, LIMIT)


@given(st.binary(max_size=200))
def test_any_bytes_give_an_end_within_them_a_request_for_more_or_a_refusal(data: bytes) -> None:
    try:
        end = item_end(data, 0, LIMIT)
    except MalformedError:
        return
    assert end is None or 0 < end <= len(data)


@given(st.binary(max_size=70_000), st.binary(max_size=300), st.binary(max_size=80), st.data())
def test_a_plain_statement_ends_where_the_walk_says(
    payload: bytes, protected: bytes, signature: bytes, data: st.DataObject
) -> None:
    """The quick way for what nearly all are gives what the other gives, whole or cut, and beyond the limit."""
    item = cbor2.dumps(cbor2.CBORTag(18, [protected, {}, payload, signature]))
    rest = data.draw(st.binary(max_size=8))
    cut = data.draw(st.integers(0, len(item) - 1))

    assert item_end(item + rest, 0, 80_000) == len(item)
    assert item_end(item[:cut], 0, 80_000) is None
    with pytest.raises(MalformedError):
        item_end(item + rest, 0, len(item) - 1)
