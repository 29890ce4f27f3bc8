"""The spill of the log checks: what they have to look up again, in a temporary SQLite database without a name.

It goes to disk where it has to, so that memory stays bounded however long the log is; nothing of it remains.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, Self

_CACHE_KIB: Final = 16 * 1024
_PAGE: Final = 1_000


class TemporarySpill:
    """Implements ``compliance.log_check.Spill``. One thread."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        for sql in (
            "PRAGMA journal_mode = OFF",
            f"PRAGMA cache_size = -{_CACHE_KIB}",
            "CREATE TABLE texts (tbl, key, number INTEGER, value, PRIMARY KEY (tbl, key, number)) WITHOUT ROWID",
            "CREATE TABLE numbers (tbl TEXT, key TEXT, number INTEGER, PRIMARY KEY (tbl, key)) WITHOUT ROWID",
            "BEGIN",
        ):
            self._db.execute(sql)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def put(self, table: str, key: str, value: str) -> None:
        self._count += 1
        self._db.execute("INSERT INTO texts VALUES (?, ?, ?, ?)", (table, _text(key), self._count, _text(value)))

    def get(self, table: str, key: str, most: int = 64) -> list[str]:
        sql = "SELECT value FROM texts WHERE tbl = ? AND key = ? ORDER BY number DESC LIMIT ?"
        return [value for (value,) in self._db.execute(sql, (table, _text(key), most)).fetchall()][::-1]

    def add(self, table: str, key: str, number: int = 1) -> None:
        sql = "INSERT INTO numbers VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number"
        self._db.execute(sql, (table, _text(key), number))

    def items(self, table: str) -> Iterator[tuple[str, str]]:
        sql = (
            "SELECT key, value, number FROM texts WHERE tbl = ? AND (key, number) > (?, ?) ORDER BY key, number LIMIT ?"
        )
        key, number = "", 0
        while rows := self._db.execute(sql, (table, key, number, _PAGE)).fetchall():
            yield from ((key, value) for key, value, _ in rows)
            key, _, number = rows[-1]

    def counts(self, table: str) -> Iterator[tuple[str, int]]:
        sql = "SELECT key, number FROM numbers WHERE tbl = ? AND key > ? ORDER BY key LIMIT ?"
        rows = self._db.execute(
            "SELECT key, number FROM numbers WHERE tbl = ? ORDER BY key LIMIT ?", (table, _PAGE)
        ).fetchall()
        while rows:
            yield from rows
            rows = self._db.execute(sql, (table, rows[-1][0], _PAGE)).fetchall()


def _text(value: str) -> str:
    """SQLite takes no half of a surrogate pair, and texts come from records."""
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
