"""The fast reader of receipts never differs from the strict one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.verifier.world import LOG_KEY, Log
from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.sign1 import Sign1
from transparency.errors import TransparencyError
from transparency.statements.receipt import Receipt, inclusion_receipt, sign_head
from transparency.verifier.receipt_reader import ReceiptReader


def made(size: int, index: int, path: list[bytes]) -> bytes:
    head = sign_head(LOG_KEY, iss="https://l.example", origin="l.example", size=size, root=bytes(32), time=1)
    return inclusion_receipt(head, index, path)


def both(reader: ReceiptReader, data: bytes) -> None:
    """The same receipt, or the same error."""
    try:
        expected = Receipt.from_bytes(data)
    except TransparencyError as error:
        with pytest.raises(type(error)):
            reader.read(data)
    else:
        assert reader.read(data) == expected


@pytest.mark.parametrize("size", [1, 2, 23, 24, 25, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1])
@pytest.mark.parametrize("count", [0, 1, 6, 7, 8, 23, 24, 63, 64, 65])
def test_the_second_receipt_under_a_header_is_read_as_the_first(size: int, count: int) -> None:
    reader = ReceiptReader()
    data = made(size, size - 1, [bytes([n]) * 32 for n in range(count)])

    both(reader, data)
    both(reader, data)


@pytest.mark.parametrize(
    "vdp",
    [
        {-1: [encode([6, 0, []]), encode([6, 0, []])]},
        {-2: [encode([3, 6, []])]},
        {-1: [encode([6, 0, []])], -2: [encode([3, 6, []])]},
        {-1: [encode([6, 6, []])]},
        {-1: [encode([6, -1, []])]},
        {-1: [encode([6, 0])]},
        {-1: [encode([2**63, 0, []])]},
        {-1: [encode([6, 0, [b"x" * 31]])]},
        {-1: [encode([6, 0, [b"x" * 34]])]},
        {-1: [encode([6, 0, {}])]},
        {-1: [encode([6, 0, []]) + b"\x00"]},
        {-1: [b"\x83\x18\x06\x00\x80"]},
        {-1: [b""]},
        {-1: []},
        {},
    ],
)
def test_other_shapes_under_a_known_header_are_left_to_the_strict_reader(vdp: dict[int, object]) -> None:
    reader, genuine = ReceiptReader(), Log().receipt(0, 5)
    both(reader, genuine)

    both(reader, Sign1.from_bytes(genuine).with_unprotected({labels.VDP: vdp}).to_bytes())


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_no_changed_byte_makes_the_two_readers_differ(draw: st.DataObject) -> None:
    reader, data = ReceiptReader(), bytearray(Log().receipt(4, 5))
    reader.read(bytes(data))
    for _ in range(draw.draw(st.integers(1, 2))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))

    both(reader, bytes(data))
    both(reader, bytes(data[: draw.draw(st.integers(0, len(data)))]))


def test_every_flipped_bit_is_read_alike() -> None:
    reader, data = ReceiptReader(), Log().receipt(4, 5)
    reader.read(data)

    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        both(reader, bytes(changed))


def test_the_memory_of_headers_is_bounded() -> None:
    reader = ReceiptReader(most=2)

    for size in range(2, 9):
        both(reader, made(size, 0, []))

    assert len(reader._known) == 2
