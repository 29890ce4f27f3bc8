"""The embedded store: SQLite in WAL mode with ``synchronous=FULL``, so that a commit that returned is on the disk.

A batch that is kept elsewhere waits until others are written, or until somebody looks (sqlite_writing.py).

Three connections: the writer's belongs to the sequencer's thread, and to who writes what is held; the reader's to
whoever reads a row, the scanner's to who reads many, such as an export: pages of megabytes, in threads, for which the
event loop must not wait. SQL is kept to what any SQLite binding runs (no cursor attributes): the power-cut tests run
this class over a shim of the VFS.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from transparency.errors import LogUnusableError, StoreError
from transparency.log import schema, sqlite_checkpoints, sqlite_erasing, sqlite_index, sqlite_tiles
from transparency.log.sql_reads import INTAKE_COLUMNS, TIP, Row, SqlReads, intake_of, tip_of
from transparency.log.sqlite_batches import moved_by_another
from transparency.log.sqlite_transaction import unreadable
from transparency.log.sqlite_writing import CHECKPOINT_PAGES, Writing
from transparency.log.store import Commit, IntakeRow, Tip
from transparency.statements.statement import Entry

BUSY_MS = 5000
_FIND_AT_ONCE = 128
# A query for each number of entries that are looked up at once, and of rows that go in at once: one that
# is not kept has to be compiled again, which takes as long as running it.
_STATEMENTS = 256


def connect(path: Path) -> Any:  # noqa: ANN401 - sqlite3's connection, or a shim that looks like it
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=_STATEMENTS)


def connect_for_reading(path: Path) -> Any:  # noqa: ANN401 - as above
    """A connection that needs no write to the folder: a snapshot or a read-only mount can be looked at, too.

    SQLite reads a WAL database only with its -shm file or where it can make one. Without a -wal file nobody is
    writing, and the file is all there is: then it may be taken as immutable. That would overlook what is in a -wal.
    """
    log = path.with_name(f"{path.name}-wal")
    shared = path.with_name(f"{path.name}-shm")
    fixed = not os.access(path.parent, os.W_OK)
    unused = not log.exists() or (log.stat().st_size == 0 and not shared.exists())
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if fixed and unused else ''}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if unused or not fixed:
            raise
        raise LogUnusableError(
            f"{log} cannot be read in a folder that is read-only; copy the folder to a place that can be written, and "
            "look there"
        ) from error
    return connection


class SqliteStore(SqlReads):
    ENTRIES = (
        "SELECT idx, entry, kind, generation, tbs, statement, coalesce(content, x'')"
        " FROM entries LEFT JOIN collateral ON digest = collateral"
    )

    @classmethod
    def for_reading(cls, path: Path) -> SqliteStore:
        """For who looks only: the schema stays as it is, and the folder need not be writable."""
        return cls(path, connect=connect_for_reading, migrate=False)

    def __init__(
        self, path: Path, *, connect: Callable[[Path], Any] = connect, synchronous: str = "FULL", migrate: bool = True
    ) -> None:
        if not path.exists():
            raise LogUnusableError(f"there is no log database at {path}")
        try:
            if migrate:
                schema.migrate(path)
            self._writer = connect(path)
            self._reader = connect(path)
            self._scanner = connect(path)
            for connection in (self._writer, self._reader, self._scanner):
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
                connection.execute(f"PRAGMA synchronous = {synchronous}")
            self._writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            for connection in (self._reader, self._scanner):
                connection.execute("PRAGMA query_only = 1")
            current = schema.is_current(self._reader)
        except LogUnusableError:
            raise
        except Exception as error:
            raise LogUnusableError(f"{path} cannot be opened as a log database: {error}") from error
        self._writing = Writing(self._writer, synchronous)
        self._reading, self._scanning = threading.Lock(), threading.Lock()
        self._rounds = sqlite_index.Rounds(self._writer)
        if not current:
            self.close()
            raise LogUnusableError(
                f"{path} was written by an earlier version; `transparency serve` brings it up to date"
            )

    # -- writes: the sequencer's thread only ---------------------------------------------------------------------

    def take_over(self) -> Tip:
        with self._writing.transaction() as run:
            run("UPDATE tip SET epoch = epoch + 1")
            # Read before the transaction ends: afterwards it could be a later owner's.
            row = run(TIP).fetchone()
        return tip_of(row)

    def commit(self, batch: Commit) -> None:
        self._writing.commit(batch)

    def settle(self) -> None:
        self._writing.settle()

    def check_owned(self, epoch: int) -> None:
        if self._writing.read("SELECT epoch FROM tip", ()) != [(epoch,)]:
            raise moved_by_another()

    def extend_index(self, upto: int) -> None:
        start = self.indexed_size()
        if start > self.tip().size:
            raise StoreError("the digest index claims more entries than the log has; run `transparency log fsck`")
        if start < upto:
            with self._writing.transaction():
                sqlite_index.extend(self._writer, start, upto)

    def index_some(
        self, digests: Sequence[tuple[bytes, int]], siblings: Sequence[tuple[bytes, int]], upto: int | None
    ) -> None:
        with self._writing.transaction():
            self._rounds.put(digests, siblings, upto)

    def intake_add(self, rows: Sequence[IntakeRow]) -> None:
        with self._writing.transaction():
            self._writer.executemany(
                # A statement that failed may be submitted again and be pending once more.
                f"INSERT OR REPLACE INTO intake ({INTAKE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?)",
                [
                    (
                        row.entry,
                        row.statement,
                        row.judgement.generation,
                        row.judgement.not_before,
                        row.judgement.not_after,
                        row.accepted,
                        row.judgement.collateral,
                        int(row.judgement.unique),
                    )
                    for row in rows
                ],
            )

    def intake_fail(self, failures: Sequence[tuple[Entry, str]], time: int) -> None:
        with self._writing.transaction():
            self._writer.executemany(
                # The statement itself is not kept: only that, and why, it failed.
                "UPDATE intake SET failed = ?, failed_at = ?, statement = x'', collateral = x'' WHERE entry = ?",
                [(reason, time, entry) for entry, reason in failures],
            )

    def intake_remove(self, entries: Sequence[Entry]) -> None:
        with self._writing.transaction():
            self._writer.executemany("DELETE FROM intake WHERE entry = ?", [(entry,) for entry in entries])

    def intake_forget(self, failed_before: int) -> None:
        with self._writing.transaction() as run:
            run("DELETE FROM intake WHERE failed IS NOT NULL AND failed_at < ?", (failed_before,))

    def erase(self, indexes: Sequence[int]) -> None:
        with self._writing.alone(), sqlite_erasing.overwriting(self._writer), self._writing.transaction() as run:
            sqlite_erasing.erase(run, indexes)

    def scrub(self) -> str:
        with self._writing.alone():
            return sqlite_erasing.scrub(self._writer)

    def note_erased(self, upto: int) -> None:
        with self._writing.transaction() as run:
            run("UPDATE erased SET upto = ?", (upto,))

    def put_checkpoint(self, size: int, note: bytes, *, witnessed: bool) -> None:
        with self._writing.transaction() as run:
            sqlite_checkpoints.put(run, size, note, witnessed=witnessed)

    # -- reads ---------------------------------------------------------------------------------------------------

    def tile(self, level: int, index: int) -> bytes | None:
        return sqlite_tiles.whole(self._all(sqlite_tiles.READ, sqlite_tiles.key(level, index)))

    def find(self, entry: Entry) -> int | None:
        rows = self._read_all(sqlite_index.FIND, (entry,))
        return rows[0][0] if rows else None

    def find_some(self, entries: Sequence[Entry], *, writing: bool = False) -> dict[Entry, int]:
        found: dict[Entry, int] = {}
        for start in range(0, len(entries), _FIND_AT_ONCE):
            some = entries[start : start + _FIND_AT_ONCE]
            sql = sqlite_index.find_some(len(some))
            # The reader would have to read its pages anew after every commit, which are not its own.
            rows = self._writing.read(sql, some) if writing else self._read_all(sql, some)
            found.update((Entry(entry), index) for entry, index in rows)
        return found

    def siblings(self, tbs_digest: bytes, most: int) -> list[tuple[int, Entry]]:
        rows = self._read_all(sqlite_index.SIBLINGS, (tbs_digest, most))
        return [(index, Entry(entry)) for index, entry in rows]

    def indexed_size(self) -> int:
        rows = self._read_all("SELECT size FROM indexed", ())
        return int(rows[0][0]) if rows else 0

    def intake_pending(self, most_bytes: int, besides: Collection[Entry] = ()) -> list[IntakeRow]:
        others = ",".join("?" * len(besides))
        sql = f"SELECT {INTAKE_COLUMNS} FROM intake WHERE failed IS NULL AND entry NOT IN ({others}) ORDER BY rowid"
        return [intake_of(row) for row in self._some(sql, tuple(besides), most_bytes)]

    def close(self) -> None:
        for lock, connection in ((self._reading, self._reader), (self._scanning, self._scanner)):
            with lock:
                connection.close()
        self._writing.close()

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        self._writing.settle()
        try:
            with self._reading:
                row = self._reader.execute(sql, parameters).fetchone()
        except Exception as error:
            raise unreadable(error) from error
        return tuple(row) if row is not None else None

    def _all(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        self._writing.settle()
        return self._read_all(sql, parameters)

    def _read_all(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """What the file holds: of the indexes, which may lag, that is all there is to see."""
        try:
            with self._reading:
                return list(self._reader.execute(sql, parameters).fetchall())
        except Exception as error:
            raise unreadable(error) from error

    def _some(self, sql: str, parameters: Sequence[Any], most_bytes: int) -> list[Row]:
        self._writing.settle()
        rows: list[Row] = []
        size = 0
        try:
            with self._scanning:
                cursor = self._scanner.execute(sql, parameters)
                while size < most_bytes and (row := cursor.fetchone()) is not None:
                    rows.append(row)
                    size += sum(len(value) for value in row if isinstance(value, bytes))
                cursor.close()  # an unfinished read would hold its snapshot, and the WAL with it
        except Exception as error:
            raise unreadable(error) from error
        return rows
