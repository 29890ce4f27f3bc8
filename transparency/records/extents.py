"""Where each object and array of a parsed document stands in its bytes, so that a unit inside it can be hashed exactly.

An A2A step or an Agent Trace range lies deep in a document, and its hash must be of the bytes that were recorded, not
of a re-serialisation. One scan suffices: the n-th opening bracket of the text is the n-th container of the parsed value
in document order, because strict JSON has no two equal keys and Python keeps the order of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.records import json_sequence

# Up to the next bracket. Possessive (Python 3.11): each string is passed over once, whatever it holds; the document was
# parsed, so every string has an end.
_TO_BRACKET: Final = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL)
_OPENING: Final = frozenset(b"[{")


class Extents:
    """Of one document: *data* and the *value* that :func:`strict_json.loads` made of it."""

    def __init__(self, data: bytes, value: object) -> None:
        self._data = data
        self._value = value  # kept alive: containers are known by their identity
        places = _places(data)
        self._extents = {id(found): place for found, place in zip(_containers(value), places, strict=True)}

    def raw(self, container: dict[str, Any] | list[Any]) -> bytes:
        """The bytes of an object or array of this document."""
        start, end = self._extents[id(container)]
        return self._data[start:end]

    def items(self, array: list[Any]) -> Iterator[tuple[int, bytes, Any]]:
        """Number, bytes and value of each item of an array of this document."""
        if all(isinstance(item, dict | list) for item in array):
            yield from ((number, self.raw(item), item) for number, item in enumerate(array))
            return
        # Only containers are known; an item that is none is found by reading the array again.
        start, end = self._extents[id(array)]
        places = json_sequence.items(self._data, json_sequence.Extent(start, end))
        for number, (place, item) in enumerate(zip(places, array, strict=True)):
            yield number, self._data[place.start : place.end], item


def _places(data: bytes) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    opened: list[int] = []
    end = 0
    while (match := _TO_BRACKET.match(data, end)) is not None:
        end = match.end()
        if data[end - 1] in _OPENING:
            opened.append(len(places))
            places.append((end - 1, 0))
        elif opened:
            number = opened.pop()
            places[number] = (places[number][0], end)
        else:
            raise MalformedError("brackets that do not match")
    return places


def _containers(value: object) -> Iterator[dict[str, Any] | list[Any]]:
    """Every object and array in document order, without recursion."""
    if not isinstance(value, dict | list):
        return
    waiting: list[dict[str, Any] | list[Any]] = [value]
    while waiting:
        container = waiting.pop()
        yield container
        held = list(container.values()) if isinstance(container, dict) else container
        waiting.extend(child for child in reversed(held) if isinstance(child, dict | list))
