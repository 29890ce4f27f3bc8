"""CBOR sequences (RFC 8742): where the next item ends, in bytes that may not all be there yet."""

from __future__ import annotations

from typing import Final

from transparency.errors import MalformedError

MAX_DEPTH: Final = 32
# Data items within one: an item that comes in small pieces is looked at again for each of them.
MAX_HEADS: Final = 4_096
_BSTR: Final = 2
_TEXT: Final = 3
_ARRAY: Final = 4
_MAP: Final = 5
_TAG: Final = 6
_ONE_BYTE: Final = 24
_EIGHT_BYTES: Final = 27
_TAG_18: Final = 0xD2
_ARRAY_OF_4: Final = 0x84
_EMPTY_MAP: Final = 0xA0
_STRING_0: Final = 0x40
_STRING_8: Final = 0x58
_STRING_16: Final = 0x59


def _plain_end(data: bytes | bytearray, start: int) -> int | None:
    """Where a COSE_Sign1 with an empty unprotected header ends: nearly all are such, and this is five times as quick.

    None for everything else, and for what is not all there.
    """
    try:
        if data[start] != _TAG_18 or data[start + 1] != _ARRAY_OF_4:
            return None
        at = _string_end(data, start + 2)
        if data[at] != _EMPTY_MAP:
            return None
        return _string_end(data, _string_end(data, at + 1))
    except (IndexError, ValueError):
        return None


def _string_end(data: bytes | bytearray, at: int) -> int:
    """Where the byte string at *at* ends; ValueError if there is none with a head that most have."""
    initial = data[at]
    if initial == _STRING_16:
        return at + 3 + (data[at + 1] << 8 | data[at + 2])
    if initial == _STRING_8:
        return at + 2 + data[at + 1]
    if _STRING_0 <= initial < _STRING_8:
        return at + 1 + initial - _STRING_0
    raise ValueError


def item_end(data: bytes | bytearray, start: int, limit: int) -> int | None:
    """Where the item at *start* ends; None if it goes on beyond *data*.

    Only its extent is found, whoever reads it judges its form. Raises MalformedError for what cannot be an item of at
    most *limit* bytes in our encoding (definite lengths); behind such a one nothing can be found any more.
    """
    plain = _plain_end(data, start)
    if plain is not None and plain - start <= limit and plain <= len(data):
        return plain
    return _walk(data, start, limit)


def _walk(data: bytes | bytearray, start: int, limit: int) -> int | None:
    at, size, heads = start, len(data), 0
    # Items still to come at each level, the innermost last.
    left = [1]
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        heads += 1
        if at >= size:
            return None
        initial = data[at]
        major, argument = initial >> 5, initial & 0x1F
        at += 1
        if argument >= _ONE_BYTE:
            if argument > _EIGHT_BYTES:
                raise MalformedError("the sequence has an item of indefinite length, or no item at all")
            width = 1 << argument - _ONE_BYTE
            if at + width > size:
                return None
            argument = int.from_bytes(data[at : at + width], "big")
            at += width
        if major in (_BSTR, _TEXT):
            at += argument
        elif major in (_ARRAY, _MAP):
            left.append(argument * 2 if major == _MAP else argument)
        elif major == _TAG:
            left[-1] += 1
        # Each item that a container announces has a byte at least, so this bounds counts as well.
        if at - start > limit or (major in (_ARRAY, _MAP) and argument > limit) or len(left) > MAX_DEPTH:
            raise MalformedError(f"the sequence has an item of more than {limit} bytes, or nested too deeply")
        if heads > MAX_HEADS:
            raise MalformedError(f"the sequence has an item of more than {MAX_HEADS} parts")
    return at if at <= size else None
