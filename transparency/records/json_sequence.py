"""Several JSON values in sequence, or the members and items of one large value: each with the exact bytes it stands in.

OpenCode writes objects one after another with only white space between them; its export is one object whose messages
are the units. Both are read here value by value: the end of a value is found by a scan over its brackets and strings,
then these bytes alone are parsed by :mod:`strict_json`. The scan decides nothing about validity: a value that parses
ends where its brackets close, and one that does not is refused where it first goes wrong. So reading never stops early
and never skips a byte, and memory is needed for one value at a time, not for a second copy of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, NoReturn

from transparency.errors import MalformedError
from transparency.records import strict_json
from transparency.records.reading import current
from transparency.records.unit import MAX_UNITS

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
# Up to the next bracket, strings passed over. Possessive throughout (Python 3.11): a string is read once, however it
# ends, and one without an end has no bracket after it.
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb'[^ \t\r\n\[\]{}",:]++')
_PLACE: Final = re.compile(r"line ([0-9]+), column ([0-9]+): ")

# A colon, a comma and the closing bracket of the two containers, as the integers that indexing bytes gives.
_COLON, _COMMA, _QUOTE = b':,"'
_OPENING: Final = frozenset(b"[{")


class Extent(NamedTuple):
    """Where a value stands in the data: ``data[start:end]`` is the value and nothing else."""

    start: int
    end: int


class Value(NamedTuple):
    """A value with the bytes it was read from."""

    extent: Extent
    raw: bytes
    value: Any


def values(data: bytes, *, max_values: int = MAX_UNITS, max_size: int = strict_json.MAX_SIZE) -> Iterator[Value]:
    """Every value of a sequence, in order; MalformedError with line and column at the first byte that is in none."""
    position = _skip_space(data, 0)
    count = 0
    while position < len(data):
        count += 1
        if count > max_values:
            _fail(data, position, f"more than {max_values} JSON values are not read")
        found = read(data, Extent(position, _end(data, position, max_size)), max_size=max_size)
        yield found
        position = _skip_space(data, found.extent.end)


def members(data: bytes, within: Extent | None = None) -> Iterator[tuple[str, Extent]]:
    """Name and place of each member of the object at *within* (else the only value of *data*); none is parsed."""
    known = current()
    found = None if known is None else known.places(data, "members", within)
    if found is not None:
        yield from found
        return
    seen: dict[str, Extent] = {}
    for start, end in _parts(data, within, b"{}", _member_end):
        key_end = _string_end(data, start)
        key = read(data, Extent(start, key_end)).value
        if key in seen:
            _fail(data, start, "this key stands twice in one object")
        seen[key] = Extent(_skip_space(data, _skip_space(data, key_end) + 1), end)
        yield key, seen[key]
    if known is not None:
        known.keep_places(data, "members", within, list(seen.items()))


def items(data: bytes, within: Extent | None = None) -> Iterator[Extent]:
    """Place of each item of the array at *within* (else the only value of *data*); none is parsed."""
    known = current()
    found = None if known is None else known.places(data, "items", within)
    if found is not None:
        yield from found
        return
    seen: list[Extent] = []
    for start, end in _parts(data, within, b"[]", _end):
        seen.append(Extent(start, end))
        yield seen[-1]
    if known is not None:
        known.keep_places(data, "items", within, seen)


def read(data: bytes, extent: Extent, *, max_size: int = strict_json.MAX_SIZE) -> Value:
    """The value at *extent*, strictly; an error names line and column of the whole data."""
    raw = data[extent.start : extent.end]
    try:
        return Value(extent, raw, strict_json.loads(raw, max_size=max_size))
    except MalformedError as error:
        _relocate(data, extent.start, str(error))


def _parts(
    data: bytes, within: Extent | None, brackets: bytes, part_end: Callable[[bytes, int], int]
) -> Iterator[tuple[int, int]]:
    """The parts of one container, checked for its punctuation; with no *within*, for what follows it as well."""
    position = within.start if within is not None else _skip_space(data, 0)
    if data[position : position + 1] != brackets[:1]:
        _fail(data, position, f"expected {brackets[:1].decode()}")
    position = _skip_space(data, position + 1)
    closing = data[position : position + 1] == brackets[1:]
    count = 0
    while not closing:
        count += 1
        if count > MAX_UNITS:
            _fail(data, position, f"more than {MAX_UNITS} values are not read")
        end = part_end(data, position)
        yield position, end
        position = _skip_space(data, end)
        closing = data[position : position + 1] == brackets[1:]
        if not closing:
            _expect(data, position, _COMMA)
            position = _skip_space(data, position + 1)
    position = _skip_space(data, position + 1)
    if within is None and position != len(data):
        _fail(data, position, "something follows the value")


def _member_end(data: bytes, position: int) -> int:
    colon = _skip_space(data, _string_end(data, position))
    _expect(data, colon, _COLON)
    return _end(data, _skip_space(data, colon + 1))


def _string_end(data: bytes, position: int) -> int:
    match = _STRING.match(data, position)
    if match is None:
        _fail(data, position, "expected a key in double quotes")
    return match.end()


def _end(data: bytes, position: int, max_size: int = strict_json.MAX_SIZE) -> int:  # noqa: RET503 - _fail raises
    """Where the value that starts here ends, if it is one; what the parser then finds wrong in it, it says."""
    if position >= len(data):
        _fail(data, position, "expected a value, not the end")
    first = data[position]
    if first not in _OPENING:
        match = (_STRING if first == _QUOTE else _SCALAR).match(data, position)
        if match is None:
            _fail(data, position, "a string without an end" if first == _QUOTE else "expected a value")
        return match.end()
    depth = 0
    end = position
    # Not finditer, which would look for a bracket inside a string that has no end.
    while (match := _TO_BRACKET.match(data, end)) is not None:
        end = match.end()
        if data[end - 1] in _OPENING:
            depth += 1
        else:
            depth -= 1
            if not depth:
                return end
    # No end: the parser knows the first byte that is wrong, unless there is too much to be parsed.
    if len(data) - position <= max_size:
        read(data, Extent(position, len(data)), max_size=max_size)
    _fail(data, position, "this value has no end")


def _skip_space(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    return match.end() if match is not None else position


def _expect(data: bytes, position: int, byte: int) -> None:
    if data[position : position + 1] != bytes((byte,)):
        _fail(data, position, f"expected {chr(byte)!r}")


def _relocate(data: bytes, start: int, message: str) -> NoReturn:
    """A place within a value becomes a place within the data."""
    place = _PLACE.match(message)
    if place is None:
        _fail(data, start, message)
    line, column = int(place.group(1)), int(place.group(2))
    base_line, base_column = _line_and_column(data, start)
    column += base_column - 1 if line == 1 else 0
    raise MalformedError(f"line {base_line + line - 1}, column {column}: {message[place.end() :]}") from None


def _fail(data: bytes, position: int, what: str) -> NoReturn:
    line, column = _line_and_column(data, position)
    raise MalformedError(f"line {line}, column {column}: {what}") from None


def _line_and_column(data: bytes, position: int) -> tuple[int, int]:
    """Both from 1; the column counts characters, as an editor does, and a broken byte as one."""
    line_start = data.rfind(b"\n", 0, position) + 1
    return data.count(b"\n", 0, position) + 1, len(data[line_start:position].decode("utf-8", "replace")) + 1
