"""The trees of a mirror: every entry and tile it has of each log, and the checkpoints they were proven against.

A write is one transaction (``synchronous=FULL``): when it returns, the entries survive power loss. Entries are added at
the end, by a compare-and-swap on how many there are, and never changed, but for what was damaged and is put back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from transparency.errors import LogUnusableError, NoteError, TipMovedError, TransparencyError
from transparency.log.sqlite_transaction import Transaction, unreadable
from transparency.merkle.hashing import HASH_SIZE
from transparency.merkle.tiles import HEIGHT, WIDTH, tile_width
from transparency.mirror import tree_schema
from transparency.notes.bundle import MAX_ENTRY, read_bundle, write_bundle
from transparency.witness.record import Record
from transparency.witness.state import connect

KEPT_PENDING: Final = 32
"""Of each log: an upload may end at any of the last several pending checkpoints."""
LOST: Final = "Put the newest tree.sqlite in its place; if it is lost, start a new mirror with a new name"
_BUSY_MS: Final = 5000
_MOST_BYTES: Final = 2 + MAX_ENTRY
"""Of an entry after its length."""


class DamagedError(TransparencyError):
    """Entries or tiles of one log are missing here, or are not what they were. The other logs are not touched.

    *bundle* is where: with it, and the tiles above it, put back this is mended; None if more is wrong than that.
    """

    def __init__(self, words: str, bundle: int | None = None) -> None:
        super().__init__(words)
        self.bundle = bundle


def _connect_for_reading(path: Path) -> Any:  # noqa: ANN401 - sqlite3's connection, or a shim that looks like it
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


class Trees:
    """One thread at a time. Who only reads has one of its own."""

    def __init__(self, path: Path, *, connect: Callable[[Path], Any] = connect, synchronous: str = "FULL") -> None:
        if not path.exists():
            raise LogUnusableError(f"there are no trees of a mirror at {path}. {LOST}")
        try:
            self._connection = connect(path)
            self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            self._connection.execute(f"PRAGMA synchronous = {synchronous}")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        except Exception as error:
            raise unreadable(error) from error
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
            raise DamagedError(f"entries from {start} on are missing", index)
        whole = b"".join(bytes(data) for _, _, data in rows)
        if found == width:
            return whole
        try:
            return write_bundle(read_bundle(whole, found)[:width])
        except NoteError as error:
            raise DamagedError(f"entries from {start} on are damaged: {error}", index) from error

    def check_keys(self, origin: str, size: int) -> None:
        """That all pieces and tiles of *size* entries are here, by their keys and lengths: no content is read."""
        self._check_pieces(self._number(origin), size)
        self._check_tiles(self._number(origin), size)

    def _check_pieces(self, number: int, size: int) -> None:
        # From 0 each piece ends where another begins, up to the size: so there is no gap. And there are no others.
        alone = "(count < 1 OR count > ?3 - start % ?3 OR length(data) < 2 * count OR length(data) > ?4 * count)"
        faults = self._all(
            f"SELECT start, iif({alone}, start, start + count) FROM pieces AS one WHERE log = ?1 AND ({alone}"  # noqa: S608 - our own
            " OR start + count != ?2 AND NOT EXISTS (SELECT 1 FROM pieces AS next WHERE next.log = ?1"
            " AND next.start = one.start + one.count)) ORDER BY start LIMIT 1",
            number, size, WIDTH, _MOST_BYTES,
        )  # fmt: skip
        for start, missing in faults:
            place = missing // WIDTH if missing < size else None
            raise DamagedError(f"entries behind {start} are missing or too short", place)
        first, total = self._all("SELECT min(start), sum(count) FROM pieces WHERE log = ?", number)[0]
        if (first or 0, total or 0) != (0, size):
            place = None if first == 0 else 0
            raise DamagedError(f"{total or 0} entries are here, from {first or 0} on, and not {size}", place)

    def _check_tiles(self, number: int, size: int) -> None:
        levels = -(-size.bit_length() // HEIGHT)
        for level in range(levels):
            last = ((size >> HEIGHT * level) - 1) // WIDTH
            found = self._all(
                "SELECT count(*), min(number), max(number), sum(number < ?1 AND length(data) != ?2),"
                " sum(number = ?1 AND length(data) = ?3) FROM tiles WHERE log = ?4 AND level = ?5",
                last, WIDTH * HASH_SIZE, HASH_SIZE * tile_width(level, last, size), number, level,
            )  # fmt: skip
            if found != [(last + 1, 0, last, 0, 1)]:
                place = self._missing_tile(number, level, last, size)
                raise DamagedError(f"tiles of level {level} are missing, or not as long as they were", place)
        if self._all("SELECT 1 FROM tiles WHERE log = ? AND level NOT BETWEEN 0 AND ? LIMIT 1", number, levels - 1):
            raise DamagedError(f"there are more levels of tiles than {size} entries have")

    def _missing_tile(self, number: int, level: int, last: int, size: int) -> int | None:
        """The first bundle below the first tile of a level that is missing or has another length."""
        rows = self._all("SELECT number, length(data) FROM tiles WHERE log = ? AND level = ?", number, level)
        lengths: dict[int, int] = dict(rows)
        for index in range(last + 1):
            if lengths.get(index) != HASH_SIZE * tile_width(level, index, size):
                return index << HEIGHT * level
        return None

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

    def replace(
        self, origin: str, index: int, entries: Sequence[bytes], tiles: Mapping[tuple[int, int], bytes]
    ) -> None:
        """Bundle *index* and the tiles above it as they were, in place of what became of them; durable likewise."""
        number, start = self._number(origin), index * WIDTH
        with Transaction(self._connection) as run:
            run("DELETE FROM pieces WHERE log = ? AND start >= ? AND start < ?", (number, start, start + WIDTH))
            run("INSERT INTO pieces VALUES (?, ?, ?, ?)", (number, start, len(entries), write_bundle(entries)))
            for (level, place), content in tiles.items():
                run("INSERT OR REPLACE INTO tiles VALUES (?, ?, ?, ?)", (number, level, place, content))

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
