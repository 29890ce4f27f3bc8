"""CBOR in one form only: RFC 8949 §4.2.1 core deterministic encoding, written always and demanded on reading.

What is signed and hashed must have one spelling, so everything that would give a value a second one is refused: longer
heads than needed, indefinite lengths, repeated keys, longer floats, tags nobody asked for. Only the order of map keys
is free on reading (AMB-13: the working group's own samples are unsorted); a reader keeps the received bytes instead.

`cbor2` builds the values but cannot be trusted with the checking (PY-4): it ignores trailing bytes, accepts overlong
heads, and makes dates, bignums, regular expressions and cyclic references out of tags. So the heads are walked here
first, without recursion and without believing a length or a count that the input does not back with bytes.

Map keys are integers, text or bytes. Python could not hold the others apart anyway (`1 == True == 1.0`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import cbor2

from transparency.errors import MalformedError

__all__ = ["CBORTag", "bstr", "bstr_head", "decode", "encode", "read", "read_bstr", "skip"]

CBORTag = cbor2.CBORTag

MAX_DEPTH: Final = 16
# A header of a few hundred bytes has some twenty. Every item costs a microsecond or two before anything is verified.
MAX_ITEMS: Final = 16_384
# The encoder recurses over our own values; a cyclic one must end in an error, not in the interpreter's stack.
_MAX_ENCODE_DEPTH: Final = 64
_NO_TAGS: Final[frozenset[int]] = frozenset()

_UINT, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_FALSE, _TRUE, _NULL, _HALF, _SINGLE, _DOUBLE = 20, 21, 22, 25, 26, 27
_ONE_BYTE_ARGUMENT: Final = 24
_FLOATS: Final = {_HALF: ">e", _SINGLE: ">f", _DOUBLE: ">d"}
# For the heads 24 to 27: how many bytes the argument takes, and the least one that needs so many.
_WIDTHS: Final = {24: 1, 25: 2, 26: 4, 27: 8}
_LEAST: Final = {24: 24, 25: 1 << 8, 26: 1 << 16, 27: 1 << 32}
_BYTES_HEAD: Final = 0x40
_ONE_BYTE_LENGTH_HEAD: Final = 0x58
_TWO_BYTE_LENGTH_HEAD: Final = 0x59
_HEADS_OF_A_MAJOR_TYPE: Final = 32
_CANONICAL_NAN: Final = b"\xf9\x7e\x00"
_TWO_BYTE_LENGTH: Final = struct.Struct(">BH")
_MAX_ARGUMENT: Final = (1 << 64) - 1


# --- writing ---------------------------------------------------------------------------------------------------------


def _head(major: int, argument: int) -> bytes:
    """Give the shortest head for ``argument`` (RFC 8949 §4.2.1)."""
    initial = major << 5
    if argument < _ONE_BYTE_ARGUMENT:
        return bytes((initial | argument,))
    if argument <= 0xFF:
        return bytes((initial | 24, argument))
    if argument <= 0xFFFF:
        return struct.pack(">BH", initial | 25, argument)
    if argument <= 0xFFFFFFFF:
        return struct.pack(">BI", initial | 26, argument)
    if argument <= _MAX_ARGUMENT:
        return struct.pack(">BQ", initial | 27, argument)
    msg = "an integer that needs more than 64 bits has no CBOR form here (bignum tags are not used)"
    raise MalformedError(msg)


def bstr_head(length: int) -> bytes:
    """Give the head of a byte string, for those who join the pieces themselves and so copy a payload once."""
    if 0xFF < length <= 0xFFFF:  # most payloads: the general way costs three times as much
        return _TWO_BYTE_LENGTH.pack(0x59, length)
    return _head(_BYTES, length)


def bstr(data: bytes) -> bytes:
    """Give ``data`` as a CBOR byte string."""
    return bstr_head(len(data)) + data


def encode(value: object) -> bytes:
    """Give the deterministic encoding of ``value``: map keys sorted bytewise by their encoding, shortest floats.

    (``cbor2.dumps(canonical=True)`` sorts by length first, the older RFC 7049 rule.)
    """
    out: list[bytes] = []
    _encode(value, out, _MAX_ENCODE_DEPTH)
    return b"".join(out)


def _encode(value: object, out: list[bytes], depth: int) -> None:
    if depth < 0:
        msg = f"a value nested deeper than {_MAX_ENCODE_DEPTH} levels is not encoded"
        raise MalformedError(msg)
    # bool first: it is an int to Python.
    if isinstance(value, bool):
        out.append(b"\xf5" if value else b"\xf4")
    elif isinstance(value, int):
        out.append(_head(_UINT, value) if value >= 0 else _head(_NEGATIVE, -1 - value))
    elif isinstance(value, bytes):
        out.append(_head(_BYTES, len(value)))
        out.append(value)
    elif isinstance(value, str):
        out.append(_text(value))
    elif value is None:
        out.append(b"\xf6")
    elif isinstance(value, list | tuple):
        out.append(_head(_ARRAY, len(value)))
        for item in value:
            _encode(item, out, depth - 1)
    elif isinstance(value, Mapping):
        _encode_map(value, out, depth)
    elif isinstance(value, float):
        out.append(_float(value))
    elif isinstance(value, CBORTag):
        out.append(_head(_TAG, value.tag))
        _encode(value.value, out, depth - 1)
    else:
        msg = f"a {type(value).__name__} has no CBOR form here"
        raise MalformedError(msg)


def _encode_map(value: Mapping[Any, Any], out: list[bytes], depth: int) -> None:
    pairs = []
    for key, item in value.items():
        if isinstance(key, bool) or not isinstance(key, int | str | bytes):
            msg = f"a map key must be an integer, text or bytes, not {type(key).__name__}"
            raise MalformedError(msg)
        encoded: list[bytes] = []
        _encode(item, encoded, depth - 1)
        pairs.append((encode(key), b"".join(encoded)))
    pairs.sort()
    out.append(_head(_MAP, len(pairs)))
    for pair in pairs:
        out.extend(pair)


def _text(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        msg = "text with a lone surrogate has no UTF-8 form"
        raise MalformedError(msg) from None
    return _head(_TEXT, len(data)) + data


def _float(value: float) -> bytes:
    """Give the shortest float that keeps the value; the one NaN is the half-precision quiet one (RFC 8949 §4.2.2)."""
    if math.isnan(value):
        return _CANONICAL_NAN
    for form in (">Be", ">Bf"):
        try:
            packed = struct.pack(form, 0xF9 if form == ">Be" else 0xFA, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[1] == value:
            return packed
    return struct.pack(">Bd", 0xFB, value)


# --- reading -------------------------------------------------------------------------------------------------


def decode(
    data: bytes, *, tags: frozenset[int] = _NO_TAGS, max_depth: int = MAX_DEPTH, max_items: int = MAX_ITEMS
) -> Any:  # noqa: ANN401 - any CBOR value
    """Read exactly one canonical item, as plain dict, list, int, bytes, str, float, bool, None (and ``CBORTag``)."""
    value, end = read(data, 0, tags=tags, max_depth=max_depth, max_items=max_items)
    if end != len(data):
        msg = f"{len(data) - end} bytes follow the CBOR item, which ends at byte {end}"
        raise MalformedError(msg)
    return value


def read(
    data: bytes,
    pos: int,
    *,
    tags: frozenset[int] = _NO_TAGS,
    max_depth: int = MAX_DEPTH,
    max_items: int = MAX_ITEMS,
) -> tuple[Any, int]:
    """Read one canonical item that starts at ``pos``; give it and where it ends."""
    end = _walk(data, pos, max_depth, tags, max_items)
    if tags:
        # cbor2 turns arrays inside a tag into tuples and gives known tags a meaning; neither is wanted.
        return _build(data, pos)[0], end
    try:
        # Two of the rules are cbor2's to check: text is UTF-8, and no key occurs twice (the walk has seen to it that
        # keys are of types for which Python's equality is CBOR's).
        item = data[pos:end] if pos or end != len(data) else data
        return cbor2.loads(item, max_depth=max_depth + 1, allow_duplicate_keys=False), end
    except (cbor2.CBORError, ValueError) as error:
        msg = f"not canonical CBOR from byte {pos}: {error}"
        raise MalformedError(msg) from None


def skip(data: bytes, pos: int, *, max_depth: int = MAX_DEPTH, max_items: int = MAX_ITEMS) -> int:
    """Check that one canonical item starts at ``pos``; give where it ends."""
    return read(data, pos, max_depth=max_depth, max_items=max_items)[1]


def read_bstr(data: bytes, pos: int) -> tuple[bytes, int]:
    """Read a byte string that starts at ``pos``; give its content and where it ends."""
    if 0 <= pos < len(data) - 2:
        # Nearly all have one of these two heads; whatever is wrong with one is found and said below.
        initial = data[pos]
        if initial == _ONE_BYTE_LENGTH_HEAD:
            length = data[pos + 1]
            end = pos + 2 + length
            if length >= _ONE_BYTE_ARGUMENT and end <= len(data):
                return data[pos + 2 : end], end
        elif initial == _TWO_BYTE_LENGTH_HEAD:
            length = data[pos + 1] << 8 | data[pos + 2]
            end = pos + 3 + length
            if length > 0xFF and end <= len(data):
                return data[pos + 3 : end], end
    if not 0 <= pos < len(data):
        _cut_short(len(data))
    length = data[pos] - _BYTES_HEAD
    if not 0 <= length < _HEADS_OF_A_MAJOR_TYPE:
        _refuse("a byte string belongs here", pos)
    start = pos + 1
    if length >= _ONE_BYTE_ARGUMENT:
        length, start = _long_argument(data, pos, length)
    end = start + length
    if end > len(data):
        _refuse(f"a byte string claims {length} bytes, {len(data) - start} are left", pos)
    return data[start:end], end


def _kind(initial: int) -> int:
    major, argument = initial >> 5, initial & 31
    if argument < _ONE_BYTE_ARGUMENT and major < _TAG:
        return (_WHOLE, _WHOLE, _STRING, _STRING, _CONTAINER, _CONTAINER)[major]
    if argument == _ONE_BYTE_ARGUMENT and major in (_BYTES, _TEXT):
        return _LONGER_STRING
    return _WHOLE if major == _SIMPLE and argument in (_FALSE, _TRUE, _NULL) else _RARE


# What the walk does at each initial byte: nearly all items of a real message are one of the first four kinds.
_WHOLE, _STRING, _LONGER_STRING, _CONTAINER, _RARE = range(5)
_KINDS: Final = bytes(_kind(initial) for initial in range(256))
_FIRST_NON_KEY: Final = 0x80  # arrays, maps, tags and simple values have initial bytes from here on


def _walk(data: bytes, pos: int, max_depth: int, tags: frozenset[int], max_items: int) -> int:  # noqa: C901, PLR0912 - the hot loop: calls would double its cost
    """Check the heads of one item and give its end.

    ``remaining`` counts the items still owed to the innermost open container, a map being owed two for each entry, so
    that in a map an even number says a key is next; ``stack`` holds the same for the containers around it. A claimed
    count allocates nothing and a claimed length only moves ``pos``: past the end, the next step finds nothing there.
    """
    if pos < 0:
        _cut_short(pos)
    stack: list[tuple[int, bool]] = []
    remaining = 1
    in_map = False
    try:
        while True:
            initial = data[pos]
            if in_map and initial >= _FIRST_NON_KEY and not remaining & 1:
                _refuse("a map key must be an integer, text or bytes", pos)
            kind = _KINDS[initial]
            if kind == _WHOLE:
                pos += 1
            elif kind == _STRING:
                pos += 1 + (initial & 31)
            elif kind == _LONGER_STRING:
                length = data[pos + 1]
                if length < _ONE_BYTE_ARGUMENT:
                    _refuse("a head is longer than it needs to be", pos)
                pos += 2 + length
            else:
                count, end = _rare(data, pos, tags) if kind == _RARE else (initial & 31, pos + 1)
                major = initial >> 5
                if _ARRAY <= major <= _TAG and len(stack) >= max_depth:
                    _refuse(f"nested deeper than {max_depth} levels", pos)
                pos = end
                if count:
                    stack.append((remaining - 1, in_map))
                    in_map = major == _MAP
                    remaining = 2 * count if in_map else count
                    max_items -= remaining
                    if max_items < 0:
                        # Before they are looked at: a small sender must not buy seconds of our time (design §12).
                        _refuse("it holds more items than are read", pos)
                    continue
            remaining -= 1
            while not remaining:
                if not stack:
                    if pos > len(data):
                        _cut_short(len(data))
                    return pos
                remaining, in_map = stack.pop()
    except IndexError:
        _cut_short(len(data))


def _rare(data: bytes, start: int, tags: frozenset[int]) -> tuple[int, int]:
    """Check a head that takes more than its byte: give how many entries follow (for a container), and where."""
    major, info = data[start] >> 5, data[start] & 31
    if major == _SIMPLE:
        return 0, _check_float(data, start, info)
    argument, pos = info, start + 1
    if info >= _ONE_BYTE_ARGUMENT:
        argument, pos = _long_argument(data, start, info)
    if major == _TAG:
        if argument not in tags:
            _refuse(f"tag {argument} is not expected", start)
        return 1, pos
    if major >= _ARRAY:
        return argument, pos
    return 0, (pos if major <= _NEGATIVE else pos + argument)


def _long_argument(data: bytes, start: int, info: int) -> tuple[int, int]:
    """Read an argument of 1, 2, 4 or 8 bytes after the head byte at ``start``, refusing one that had a shorter form."""
    if info > _DOUBLE:
        _refuse("indefinite lengths and reserved heads are not used", start)
    width = _WIDTHS[info]
    pos = start + 1 + width
    if pos > len(data):
        _cut_short(len(data))
    argument = int.from_bytes(data[start + 1 : pos], "big")
    if argument < _LEAST[info]:
        _refuse("a head is longer than it needs to be", start)
    return argument, pos


def _check_float(data: bytes, start: int, info: int) -> int:
    """Check a float's form and give its end; every other simple value that comes here is refused."""
    form = _FLOATS.get(info)
    if form is None:
        _refuse("undefined, unassigned simple values and breaks are not used", start)
    end = start + 1 + struct.calcsize(form)
    if end > len(data):
        _cut_short(len(data))
    (value,) = struct.unpack(form, data[start + 1 : end])
    if _float(value) != data[start:end]:
        _refuse("a float is not in its shortest form", start)
    return end


def _build(data: bytes, pos: int) -> tuple[Any, int]:
    """Build the value of bytes the walk has passed, so with known bounds and depth; tags stay ``CBORTag``."""
    major, argument = data[pos] >> 5, data[pos] & 31
    if major < _ARRAY or major == _SIMPLE:
        return read(data, pos)
    start = pos
    pos += 1
    if argument >= _ONE_BYTE_ARGUMENT:
        argument, pos = _long_argument(data, start, argument)
    if major == _TAG:
        content, pos = _build(data, pos)
        return CBORTag(argument, content), pos
    items = []
    for _ in range(argument if major == _ARRAY else 2 * argument):
        item, pos = _build(data, pos)
        items.append(item)
    if major == _ARRAY:
        return items, pos
    entries = dict(zip(items[::2], items[1::2], strict=True))
    if len(entries) != argument:
        _refuse("a map key occurs twice", start)
    return entries, pos


def _refuse(what: str, pos: int) -> NoReturn:
    msg = f"not canonical CBOR at byte {pos}: {what}"
    raise MalformedError(msg)


def _cut_short(pos: int) -> NoReturn:
    msg = f"CBOR ends too early, at byte {pos}"
    raise MalformedError(msg)
