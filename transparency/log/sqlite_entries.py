"""Entries in SQLite, many with one statement. Inside a transaction of the caller's.

Python's lock is let go and taken again for every step of a statement. With a row in each step, a writer beside a busy
event loop would wait for the lock as often as there are rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from transparency.log.sql_reads import address_of
from transparency.log.store import NewEntry

_AT_ONCE: Final = 32
_COLUMNS: Final = 7


@cache
def _insert(count: int) -> str:
    row = f"({', '.join('?' * _COLUMNS)})"
    return f"INSERT INTO entries VALUES {', '.join([row] * count)}"


def put(writer: Any, entries: Sequence[NewEntry], first: int) -> None:  # noqa: ANN401 - as sqlite.connect gives
    """*entries*, from index *first* on."""
    for start in range(0, len(entries), _AT_ONCE):
        some = entries[start : start + _AT_ONCE]
        values: list[object] = []
        for index, (entry, kind, generation, tbs_digest, statement, collateral) in enumerate(some, first + start):
            values += (index, entry, int(kind), generation, tbs_digest, statement, address_of(collateral))
        writer.execute(_insert(len(some)), values)
