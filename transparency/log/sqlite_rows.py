"""Rows into SQLite, many with one statement. Inside a transaction of the caller's.

Python's lock is let go and taken again for every step of a statement. With a row in each step, a writer beside a busy
event loop would wait for the lock as often as there are rows; and a row by itself costs half as much again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

_AT_ONCE: Final = 32


def insert(writer: Any, into: str, rows: Sequence[tuple[Any, ...]]) -> None:  # noqa: ANN401 - as sqlite.connect gives
    """*into* is the statement up to its values, such as ``INSERT INTO heads VALUES``."""
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        writer.execute(_statement(into, len(some), len(some[0])), tuple(chain.from_iterable(some)))


@cache
def _statement(into: str, rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"{into} {', '.join([row] * rows)}"
