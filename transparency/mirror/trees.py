"""The trees of a mirror: every entry and tile it has of each log, and the checkpoints they were proven against.

A write is one transaction (``synchronous=FULL``): when it returns, the entries survive power loss. Entries are added at
the end, by a compare-and-swap on how many there are, and never changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from transparency.errors import LogUnusableError, NoteError, StoreError, TipMovedError
from transparency.log.sqlite_transaction import Transaction, unreadable
from transparency.merkle.tiles import WIDTH
from transparency.mirror import tree_schema
from transparency.notes.bundle import read_bundle, write_bundle
from transparency.witness.record import Record
from transparency.witness.state import connect

KEPT_PENDING: Final = 32
"""Of each log: an upload may end at any of the last several pending checkpoints."""
_BUSY_MS: Final = 5000


def _connect_for_reading(path: Path) -> Any:  # noqa: ANN401 - sqlite3's connection, or a shim that looks like it
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


class Trees:
    """One thread at a time. Who only reads has one of its own."""

    def __init__(self, path: Path, *, connect: Callable[[Path], Any] = connect, synchronous: str = "FULL") -> None:
        if not path.exists():
            raise LogUnusableError(f"there are no trees of a mirror at {path}")
        try:
            self._connection = connect(path)
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        except Exception as error:
            raise LogUnusableError(f"{path} cannot be opened as the trees of a mirror: {error}") from error
        if version != tree_schema.VERSION:
            self._connection.close()
            raise LogUnusableError(f"{path} was not written by this version")
        self._numbers: dict[str, int] = {}

    @classmethod
    def for_reading(cls, path: Path) -> Trees:
        """Also beside a running mirror."""
        return cls(path, connect=_connect_for_reading)

    def close(self) -> None:
        self._connection.close()

    # -- what is here --------------------------------------------------------------------------------------------

    def sizes(self) -> dict[str, int]:
        """How many entries there are, by origin."""
        return {str(origin): int(size) for origin, size in self._all("SELECT origin, size FROM logs")}

    def pending(self) -> dict[str, list[Record]]:
        """By origin, smallest first: the last one is the pending checkpoint."""
        rows = self._all(
            "SELECT origin, pending.size, root, time, signed FROM pending JOIN logs ON log = number"
            " ORDER BY log, pending.size"
        )
        found: dict[str, list[Record]] = {}
        for origin, size, root, time, signed in rows:
            found.setdefault(origin, []).append(Record(size, root, time, signed, b""))
        return found

    def tile(self, origin: str, level: int, index: int) -> bytes | None:
        """A tile as wide as it is."""
        rows = self._all(
            "SELECT data FROM tiles WHERE log = ? AND level = ? AND number = ?", self._number(origin), level, index
        )
        return bytes(rows[0][0]) if rows else None

    def bundle(self, origin: str, index: int, width: int) -> bytes:
        """The first *width* entries under tile *index* of level 0, each after its length (TL-5)."""
        start = index * WIDTH
        rows = self._all(
            "SELECT start, count, data FROM pieces WHERE log = ? AND start >= ? AND start < ? ORDER BY start",
            self._number(origin), start, start + width,
        )  # fmt: skip
        found = 0
        for at, count, _ in rows:
            if at != start + found:
                break
            found += count
        if found < width:
            raise StoreError(f"entries from {start} on are missing")
        whole = b"".join(bytes(data) for _, _, data in rows)
        if found == width:
            return whole
        try:
            return write_bundle(read_bundle(whole, found)[:width])
        except NoteError as error:
            raise StoreError(f"entries from {start} on are damaged: {error}") from error

    # -- changes -------------------------------------------------------------------------------------------------

    def set_pending(self, records: Mapping[str, Record]) -> None:
        """The new pending checkpoint of each log, durable when this returns. Of one size the last one stays."""
        with Transaction(self._connection) as run:
            for origin, record in records.items():
                run("INSERT INTO logs (origin, size) VALUES (?, 0) ON CONFLICT DO NOTHING", (origin,))
                (number,) = run("SELECT number FROM logs WHERE origin = ?", (origin,)).fetchone()
                run(
                    "INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?, ?)",
                    (number, record.size, record.root, record.time, record.signed),
                )
                run(
                    "DELETE FROM pending WHERE log = ? AND size NOT IN"
                    " (SELECT size FROM pending WHERE log = ? ORDER BY size DESC LIMIT ?)",
                    (number, number, KEPT_PENDING),
                )

    def append(self, origin: str, size: int, entries: Sequence[bytes], tiles: Mapping[tuple[int, int], bytes]) -> None:
        """Entries after the first *size*, and every tile that they change; durable when this returns."""
        number = self._number(origin)
        with Transaction(self._connection) as run:
            run("UPDATE logs SET size = ? WHERE number = ? AND size = ?", (size + len(entries), number, size))
            if run("SELECT changes()").fetchone()[0] != 1:
                raise TipMovedError("another process has changed this mirror's trees; this one must stop")
            at = 0
            while at < len(entries):
                count = min(len(entries) - at, WIDTH - (size + at) % WIDTH)
                data = write_bundle(entries[at : at + count])
                run("INSERT INTO pieces VALUES (?, ?, ?, ?)", (number, size + at, count, data))
                at += count
            for (level, index), content in tiles.items():
                run("INSERT OR REPLACE INTO tiles VALUES (?, ?, ?, ?)", (number, level, index, content))

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _number(self, origin: str) -> int:
        """-1 for a log of which nothing is here."""
        if origin not in self._numbers:
            rows = self._all("SELECT number FROM logs WHERE origin = ?", origin)
            if not rows:
                return -1
            self._numbers[origin] = int(rows[0][0])
        return self._numbers[origin]

    def _all(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in self._connection.execute(sql, values).fetchall()]
        except Exception as error:
            raise unreadable(error) from error
