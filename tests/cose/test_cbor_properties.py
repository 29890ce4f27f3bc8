"""Canonical CBOR, whatever the value and whatever the bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from transparency.cose import decode, encode, skip
from transparency.errors import MalformedError

integers = st.integers(-(1 << 64), (1 << 64) - 1)
keys = integers | st.text(max_size=12) | st.binary(max_size=12)
scalars = integers | st.text() | st.binary() | st.booleans() | st.none() | st.floats(allow_nan=False)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


def same(left: Any, right: Any) -> bool:
    """Tell whether two values are equal and of equal types all through; to Python, 1 == True == 1.0."""
    return repr(sort(left)) == repr(sort(right))


def sort(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(((repr(key), sort(item)) for key, item in value.items()), key=lambda pair: pair[0])
    return [sort(item) for item in value] if isinstance(value, list) else value


def sorted_maps(data: bytes) -> list[int]:
    """Give the bytes in order: equal for encodings that differ only in the order of keys."""
    return sorted(data)


@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    data = encode(value)
    assert same(decode(data, max_depth=64), value)
    assert skip(data, 0, max_depth=64) == len(data)


@given(values)
def test_writing_what_was_read_gives_the_same_bytes(value: Any) -> None:
    data = encode(value)
    assert encode(decode(data, max_depth=64)) == data


@given(st.dictionaries(keys, scalars, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_insertion_does_not_show(value: dict[Any, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert encode(dict(items)) == encode(value)


@settings(max_examples=400)
@given(values, st.data())
def test_changed_bytes_are_refused_or_are_themselves_canonical(value: Any, data: Any) -> None:
    original = encode(value)
    changed = bytearray(original)
    position = data.draw(st.integers(0, len(original) - 1))
    match data.draw(st.sampled_from(["flip", "insert", "delete"])):
        case "flip":
            changed[position] ^= 1 << data.draw(st.integers(0, 7))
        case "insert":
            changed.insert(position, data.draw(st.integers(0, 255)))
        case _:
            del changed[position]
    canonical_or_refused(bytes(changed))


@settings(max_examples=500)
@given(st.binary(max_size=64))
@example(b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff")
@example(b"\xd8\x1c\x81\xd8\x1d\x00")
def test_random_bytes_raise_nothing_but_malformed(data: bytes) -> None:
    canonical_or_refused(data)


def canonical_or_refused(data: bytes) -> None:
    try:
        value = decode(data)
    except MalformedError:
        return
    again = encode(value)
    # Key order is all that may differ, so the same bytes are there, in another order at most.
    assert sorted_maps(again) == sorted_maps(data)
    assert same(decode(again), value)


@given(st.binary(max_size=64), st.integers(0, 70))
def test_skip_ends_inside_the_data_or_refuses(data: bytes, pos: int) -> None:
    try:
        end = skip(data, pos)
    except MalformedError:
        return
    assert pos < end <= len(data)
