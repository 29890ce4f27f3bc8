"""The derived indexes in SQLite: of entries, and of what they sign. Inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Rows = Sequence[tuple[bytes, int]]
# Many at once: the more rows go in together, the more of them share a page (recent.py).
CHUNK = 65_536


def put(writer: Any, digests: Rows, siblings: Rows, upto: int | None) -> None:  # noqa: ANN401 - as sqlite.connect gives
    """Rows, best in order, which may be there; all below *upto* are there from now on."""
    writer.executemany("INSERT OR IGNORE INTO digest_index VALUES (?, ?)", digests)
    writer.executemany("INSERT OR IGNORE INTO sibling_index VALUES (?, ?)", siblings)
    if upto is not None:
        writer.execute("UPDATE indexed SET size = max(size, ?)", (upto,))


def extend(writer: Any, start: int, stop: int) -> None:  # noqa: ANN401 - likewise
    """The rows of the entries from *start* to *stop*, below which all are there."""
    sql = "SELECT entry, tbs, idx FROM entries WHERE idx >= ? AND idx < ?"
    rows = writer.execute(sql, (start, stop)).fetchall()
    digests = sorted((entry, index) for entry, _, index in rows)
    put(writer, digests, sorted((tbs, index) for _, tbs, index in rows if tbs), stop)
