"""A VAC record in CBOR: the same values as in JSON, as a plain map or inside tag 4149 (formats.md 2.3).

Read as RFC 8949 §4.1 prefers it (shortest heads and floats, definite lengths), in any order of keys; written by §4.2.1.
Other tags, repeated keys, NaN and the infinities are refused: JSON has none of them, and a record means the same in
both. JSON keeps one thing CBOR cannot: integers of more than 64 bits. CBOR keeps two that JSON cannot: byte strings
(-00 allows a session-id to be one) and keys that are not text, inside members of type ``any``. ``json_form`` gives
these the form for display and for canonical JSON, and says where it had to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from transparency.cose import base64url, cbor
from transparency.errors import MalformedError
from transparency.records import strict_json
from transparency.records.vac_pointer import Path, pointer

TAG_HEAD: Final = b"\xd9\x10\x35"  # tag 4149
# The bounds of strict_json, so that what is read in one form can be read in the other.
MAX_DEPTH: Final = strict_json.MAX_DEPTH
MAX_SIZE: Final = strict_json.MAX_SIZE
# An empty map is one byte in CBOR and 64 in memory, a map of one member 230: counted before anything is built. An item
# counts one, a container three more, about 60 bytes each: at most 1 GB.
MAX_WEIGHT: Final = 16_000_000
_CONTAINER_WEIGHT: Final = 4

_BYTES, _TEXT, _ARRAY, _MAP, _SIMPLE = 2, 3, 4, 5, 7
_WIDTHS: Final = {24: 1, 25: 2, 26: 4, 27: 8}


def loads(data: bytes) -> Any:  # noqa: ANN401 - a CBOR value
    """The one value in ``data``, tag 4149 taken off; MalformedError where it is not strict CBOR."""
    if len(data) > MAX_SIZE:
        raise MalformedError(f"the CBOR has {len(data)} bytes, more than the {MAX_SIZE} that are read")
    start = body(data)
    if (len(data) - start) * _CONTAINER_WEIGHT > MAX_WEIGHT:
        _bound_weight(data, start)
    value, end = cbor.read(data, start, max_depth=MAX_DEPTH, max_items=MAX_WEIGHT)
    if end != len(data):
        raise MalformedError(f"{len(data) - end} bytes follow the CBOR record, which ends at byte {end}")
    _refuse_non_finite(value)
    return value


def dumps(value: object, *, tagged: bool = False) -> bytes:
    """The deterministic encoding. MalformedError for what has none: integers beyond 64 bits, NaN, infinities."""
    _refuse_non_finite(value)
    # The head is put before by hand: the encoder bounds its depth, and the tag is not a level of the record.
    return (TAG_HEAD if tagged else b"") + cbor.encode(value)


def body(data: bytes) -> int:
    """Where the record itself starts: behind the tag, if there is one."""
    return len(TAG_HEAD) if data.startswith(TAG_HEAD) else 0


def _bound_weight(data: bytes, pos: int) -> None:
    """Count the items of a large record. Heads follow each other whatever they nest, so no stack is needed.

    What is malformed is left to the reader behind this, which says so better: here it only ends the counting.
    """
    weight, end = 0, len(data)
    while pos < end:
        major, info = data[pos] >> 5, data[pos] & 31
        pos += 1
        weight += _CONTAINER_WEIGHT if major in (_ARRAY, _MAP) else 1
        width = _WIDTHS.get(info, 0)
        if major in (_BYTES, _TEXT):
            pos += width + (int.from_bytes(data[pos : pos + width], "big") if width else info)
        else:
            pos += width
        if weight > MAX_WEIGHT:
            raise MalformedError("the CBOR record has more items than are read")


def _refuse_non_finite(value: object) -> None:
    """Level by level; depth is bounded by the reader, and by the encoder behind this."""
    level = [value]
    depth = 0
    while level and depth <= MAX_DEPTH:
        depth += 1
        deeper: list[Any] = []
        for item in level:
            if type(item) is dict:
                deeper.extend(item.values())
            elif type(item) is list:
                deeper.extend(item)
            elif type(item) is float and not math.isfinite(item):
                raise MalformedError("NaN and the infinities have no place in a record: JSON cannot hold them")
        level = deeper


@dataclass(frozen=True, slots=True)
class JsonForm:
    """A value that JSON can hold, and pointers to what is written otherwise than it is in the CBOR."""

    value: Any
    changed: tuple[str, ...]


def json_form(value: object) -> JsonForm:
    """The value for JSON: bytes as base64url without padding (RFC 8949 §6.1), integer keys in decimal.

    Byte-string keys are written as bytes are. Where two keys of a map would become one it is refused. A value without
    bytes and with text keys only is given back as it is.
    """
    changed: list[str] = []
    return JsonForm(_json(value, None, changed), tuple(changed))


def bytes_text(data: bytes) -> str:
    """How a byte string is shown, a session-id for instance."""
    return base64url.encode(data)


def _json(value: object, path: Path, changed: list[str]) -> Any:  # noqa: ANN401 - a JSON value
    # Recursion is bounded: values come from readers that stop at MAX_DEPTH.
    if type(value) is bytes:
        changed.append(pointer(path))
        return bytes_text(value)
    if type(value) is list:
        return [_json(item, (path, index), changed) for index, item in enumerate(value)]
    if type(value) is dict:
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = _key(key)
            if name in made:
                raise MalformedError(f"at {pointer(path)!a}: two keys of the map are one in JSON")
            if type(key) is not str:
                changed.append(pointer((path, name)))
            made[name] = _json(item, (path, name), changed)
        return made
    return value


def _key(key: object) -> str:
    """A key as JSON has it."""
    return key if type(key) is str else bytes_text(key) if type(key) is bytes else str(key)


def entries(data: bytes) -> list[tuple[int, int]]:
    """Where each of the session's entries stands in the bytes of a record that ``loads`` has taken."""
    session = _member(data, body(data), "session")
    array = None if session is None else _member(data, session, "entries")
    if array is None or data[array] >> 5 != _ARRAY:
        return []
    count, pos = _head(data, array)
    places = []
    for _ in range(count):
        end = cbor.skip(data, pos, max_depth=MAX_DEPTH, max_items=MAX_WEIGHT)
        places.append((pos, end))
        pos = end
    return places


class Text(NamedTuple):
    """A text: its item is ``data[head:end]``, its UTF-8 begins at *start*; *path* is as in ``json_form``."""

    is_key: bool
    path: tuple[str | int, ...]
    head: int
    start: int
    end: int


@dataclass(slots=True)
class _Frame:
    """A container being walked: ``left`` of ``count`` items are still to come; of a map every other one is a key."""

    is_map: bool
    count: int
    left: int
    step: str | int = 0


def texts(data: bytes) -> Iterator[Text]:
    """Every text of a record that ``loads`` has taken, where it stands; without recursion."""
    pos, frames = body(data), list[_Frame]()
    while pos < len(data):
        head, major = pos, data[pos] >> 5
        argument, pos = _head(data, pos)
        start, pos = pos, pos + (argument if major in (_BYTES, _TEXT) else 0)
        frame = frames[-1] if frames else None
        is_key = frame is not None and frame.is_map and frame.left % 2 == 0
        if frame is not None and is_key:
            frame.step = _key(cbor.read(data, head)[0])
        elif frame is not None and not frame.is_map:
            frame.step = frame.count - frame.left
        if major == _TEXT:
            yield Text(is_key, tuple(each.step for each in frames), head, start, pos)
        items = argument * (major - _ARRAY + 1) if major in (_ARRAY, _MAP) else 0
        if items:
            frames.append(_Frame(major == _MAP, items, items))
            continue
        while frames:  # the item is complete, and with the last of its container that one too
            frames[-1].left -= 1
            if frames[-1].left:
                break
            frames.pop()


def _member(data: bytes, pos: int, name: str) -> int | None:
    """Where the value of a member starts, in the map at ``pos``; None if there is no map or no such member."""
    if data[pos] >> 5 != _MAP:
        return None
    count, pos = _head(data, pos)
    for _ in range(count):
        key, pos = cbor.read(data, pos)
        if key == name:
            return pos
        pos = cbor.skip(data, pos, max_depth=MAX_DEPTH, max_items=MAX_WEIGHT)
    return None


def _head(data: bytes, pos: int) -> tuple[int, int]:
    info = data[pos] & 31
    width = _WIDTHS.get(info, 0)
    argument = int.from_bytes(data[pos + 1 : pos + 1 + width], "big") if width else info
    return argument, pos + 1 + width
