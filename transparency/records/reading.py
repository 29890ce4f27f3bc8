"""One record read by several passes (detect, check, facts, convert): what was parsed strictly is kept for the next.

A pass takes the values in the order in which the first one made them, each once, so that two equal lines stay two
values. Only the last pass may put values into something of its own that others change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

# A larger record is parsed by each pass: twice the time rather than its values in memory before they are needed.
MAX_KEPT: Final = 8 * 1024 * 1024
_MAX_PLACES: Final = 4_096
_MAX_LISTS: Final = 16
NOTHING: Final = object()


class Reading:
    """The values of one record by the bytes that they were parsed from, and the members of documents in it."""

    __slots__ = ("_places", "_taken", "_values")

    def __init__(self) -> None:
        self._values: dict[bytes, list[Any]] = {}
        self._taken: dict[bytes, int] = {}
        # The data is kept with its places: while it is, no other has its identity.
        self._places: dict[tuple[int, str, object], tuple[bytes, list[Any]]] = {}

    def again(self) -> None:
        """Another pass begins."""
        self._taken.clear()

    def take(self, data: bytes) -> Any:  # noqa: ANN401 - a JSON value
        """The next value that was made from these bytes; NOTHING if this pass has had them all."""
        known = self._values.get(data)
        if known is None:
            return NOTHING
        number = self._taken.get(data, 0)
        if number >= len(known):
            return NOTHING
        self._taken[data] = number + 1
        return known[number]

    def keep(self, data: bytes, value: object) -> None:
        self._values.setdefault(data, []).append(value)
        self._taken[data] = self._taken.get(data, 0) + 1

    def places(self, data: bytes, kind: str, within: object) -> list[Any] | None:
        """Where the members or items of a value in *data* stand, once somebody has found them all."""
        known = self._places.get((id(data), kind, within))
        return None if known is None else known[1]

    def keep_places(self, data: bytes, kind: str, within: object, places: list[Any]) -> None:
        if len(places) <= _MAX_PLACES and len(self._places) < _MAX_LISTS:
            self._places[id(data), kind, within] = (data, places)


_now: ContextVar[Reading | None] = ContextVar("reading", default=None)
current = _now.get


@contextmanager
def reading(data: bytes) -> Iterator[Reading]:
    """While this is open, what is parsed of *data* is kept; of a large record nothing is."""
    begun = Reading()
    token = _now.set(begun if len(data) <= MAX_KEPT else None)
    try:
        yield begun
    finally:
        _now.reset(token)
