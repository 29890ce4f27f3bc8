"""The shared store: PostgreSQL, for a log whose front ends are on several machines, or whose machine may die.

As SQLite's (sqlite.py) it has three sessions: the writer's belongs to the sequencer's thread, the reader's to whoever
reads a row, the scanner's to who reads many. A store fails once and is then done with: a session that broke is not
opened again behind the caller's back, because what it was about to do is in doubt.

The digest index is part of each commit here, so it never lags. READ COMMITTED is enough: the compare-and-swap locks
the tip's row first, and whoever comes second sees what the first one left.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, LiteralString

import psycopg

from transparency.errors import LogUnusableError, NotLeadingError, TipMovedError
from transparency.log import (
    lease_table,
    postgres_checkpoints,
    postgres_erasing,
    postgres_intake,
    postgres_rows,
    postgres_schema,
)
from transparency.log.mark_named import NamedMark
from transparency.log.mark_postgres import Place
from transparency.log.postgres_connection import (
    NAME,
    READER,
    SCANNER,
    WRITER,
    Connection,
    check_server,
    check_url,
    connect,
    words,
)
from transparency.log.postgres_rows import COPY_ENTRIES, COPY_STATEMENTS
from transparency.log.postgres_transaction import Run, Transaction, unreadable
from transparency.log.sql_reads import Row, SqlReads, address_of, tip_of
from transparency.log.store import Commit, IntakeRow, Tip
from transparency.statements.statement import Entry

_FETCH: Final = 64
_NAME_MARK: Final = (
    "INSERT INTO mark VALUES (1, %s, %s) ON CONFLICT (one) DO UPDATE SET id = excluded.id, place = excluded.place"
)
_CAS: Final = "UPDATE tip SET size = %s, root = %b WHERE size = %s AND root = %b AND epoch = %s"
_TILES: Final = (
    "INSERT INTO tiles SELECT * FROM unnest(%s::smallint[], %s::bigint[], %b::bytea[])"
    " ON CONFLICT (level, idx) DO UPDATE SET hashes = excluded.hashes"
)
_HEAD: Final = (
    "INSERT INTO heads VALUES (%s, %b, %s, %b, %b, %b,"
    " coalesce((SELECT number + 1 FROM heads ORDER BY size DESC LIMIT 1), 0))"
)


class PostgresStore(SqlReads):
    ENTRIES = (
        "SELECT idx, entry, kind, generation, tbs, statement, coalesce(content, '')"
        " FROM entries LEFT JOIN statements USING (idx) LEFT JOIN collateral ON digest = collateral"
    )

    @classmethod
    def for_reading(cls, url: str, name: str = NAME) -> PostgresStore:
        """For who looks only: the schema stays as it is, and the server may be a standby."""
        return cls(url, name, writes=False)

    def __init__(self, url: str, name: str = NAME, *, writes: bool = True, synchronous: bool = True) -> None:
        """*name* is what the sessions are called in pg_stat_activity, for who has to end them.

        Not *synchronous*, commits return before they are kept: for a store that is thrown away if it is not finished.
        """
        check_url(url)
        opened: list[Connection] = []
        try:
            opened.extend(connect(url, name, settings) for settings in (READER, SCANNER, *([WRITER] if writes else [])))
            self._reader, self._scanner, self._writer = opened[0], opened[1], opened[-1]
            check_server(self._writer, writes=writes)
            if writes:
                postgres_schema.migrate(self._writer)
                # Where the log was led last, and where its database is now.
                self.places = lease_table.places(self._writer)
                if not synchronous:
                    self._writer.execute("SET synchronous_commit = off")
            postgres_schema.check_version(postgres_schema.version(self._reader))
        except BaseException as error:
            for connection in opened:
                connection.close()
            if isinstance(error, psycopg.Error):
                raise LogUnusableError(f"the log's database cannot be opened: {words(error)}") from error
            raise
        self._reading, self._scanning = threading.Lock(), threading.Lock()

    # -- writes: the sequencer's thread only ---------------------------------------------------------------------

    def take_over(self) -> Tip:
        with self._transaction() as run:
            return tip_of(run("UPDATE tip SET epoch = epoch + 1 RETURNING size, root, epoch").fetchone())

    def commit(self, batch: Commit) -> None:
        expected, head = batch.expected, batch.head
        with self._transaction() as run:
            moved = run(_CAS, (head.size, head.root, expected.size, expected.root, expected.epoch))
            if moved.rowcount != 1:
                raise TipMovedError("another writer has moved the tip of this log; this process must stop")
            if batch.entries:
                self._copy(COPY_ENTRIES, postgres_rows.pack_entries(expected.size, batch.entries))
                self._copy(COPY_STATEMENTS, postgres_rows.pack_statements(expected.size, batch.entries))
            self._put_collateral(run, batch)
            if batch.tiles:
                places = list(batch.tiles)
                run(
                    _TILES,
                    ([level for level, _ in places], [index for _, index in places], list(batch.tiles.values())),
                )
            run(_HEAD, (head.size, head.root, head.time, head.kid, head.protected, head.signature))
            postgres_intake.remove(run, batch.intake_done)

    def settle(self) -> None:
        """Nothing is held."""

    def check_owned(self, epoch: int) -> None:
        if self.tip().epoch != epoch:
            raise TipMovedError("another writer has taken this log over; this process must stop")

    def extend_index(self, upto: int) -> None:
        """Nothing to do: it is part of each commit."""

    def index_some(
        self, digests: Sequence[tuple[bytes, int]], siblings: Sequence[tuple[bytes, int]], upto: int | None
    ) -> None:
        """Likewise."""

    def intake_add(self, rows: Sequence[IntakeRow]) -> None:
        with self._transaction() as run:
            postgres_intake.add(run, rows)

    def intake_fail(self, failures: Sequence[tuple[Entry, str]], time: int) -> None:
        with self._transaction() as run:
            postgres_intake.fail(run, failures, time)

    def intake_remove(self, entries: Sequence[Entry]) -> None:
        with self._transaction() as run:
            postgres_intake.remove(run, entries)

    def intake_forget(self, failed_before: int) -> None:
        with self._transaction() as run:
            postgres_intake.forget(run, failed_before)

    def erase(self, indexes: Sequence[int]) -> None:
        with self._transaction() as run:
            postgres_erasing.erase(run, indexes)

    def scrub(self) -> str:
        return postgres_erasing.scrub(self._writer)

    def note_erased(self, upto: int) -> None:
        with self._transaction() as run:
            run("UPDATE erased SET upto = %s", (upto,))

    def put_checkpoint(self, size: int, note: bytes, *, witnessed: bool) -> None:
        with self._transaction() as run:
            postgres_checkpoints.put(run, size, note, witnessed=witnessed)

    # -- reads ---------------------------------------------------------------------------------------------------

    def tile(self, level: int, index: int) -> bytes | None:
        row = self._one("SELECT hashes FROM tiles WHERE level = %s AND idx = %s", (level, index))
        return row[0] if row else None

    def find(self, entry: Entry) -> int | None:
        row = self._one("SELECT idx FROM entries WHERE entry = %b", (entry,))
        return row[0] if row else None

    def find_some(self, entries: Sequence[Entry], *, writing: bool = False) -> dict[Entry, int]:  # noqa: ARG002 - sooner is not possible
        if not entries:
            return {}
        rows = self._all("SELECT entry, idx FROM entries WHERE entry = ANY(%b)", (list(entries),))
        return {Entry(entry): index for entry, index in rows}

    def siblings(self, tbs_digest: bytes, most: int) -> list[tuple[int, Entry]]:
        sql = "SELECT idx, entry FROM entries WHERE tbs = %b AND tbs <> '' ORDER BY idx LIMIT %s"
        return [(index, Entry(entry)) for index, entry in self._all(sql, (tbs_digest, most))]

    def indexed_size(self) -> int:
        return self.tip().size

    def intake_pending(self, most_bytes: int, besides: Collection[Entry] = ()) -> list[IntakeRow]:
        return postgres_intake.pending(self._all, most_bytes, besides)

    def place(self) -> Place:
        """Where the database was when this store was opened, to write."""
        return self.places[1]

    def named_mark(self) -> NamedMark | None:
        """The mark that all nodes share, if they do (mark_named.py)."""
        row = self._one("SELECT id, place FROM mark")
        return NamedMark(*row) if row else None

    def name_mark(self, mark: NamedMark, epoch: int) -> None:
        """For the leader of *epoch*, before it releases anything."""
        if mark == self.named_mark():
            return
        with self._transaction() as run:
            if run("SELECT 1 FROM tip WHERE epoch = %s FOR UPDATE", (epoch,)).fetchone() is None:
                raise TipMovedError("another node has taken the lease meanwhile")
            run(_NAME_MARK, (mark.id, mark.place))

    def check_nobody_leads(self) -> None:
        """Whether somebody has the lease at this moment is known by the database's clock (lease_table.py)."""
        row = self._one("SELECT holder FROM lease WHERE expires > clock_timestamp()")
        if row is not None:
            raise NotLeadingError(f"{row[0]} leads this log; whoever else wrote to its database would stop it")

    def check_not_failed_over(self) -> None:
        """For who has no mark in another store: a standby that was promoted may lack what was acknowledged."""
        before, now = self.places
        if before != now:
            raise lease_table.failed_over(lease_table.Taken(self.tip(), before, now))

    def close(self) -> None:
        for lock, connection in ((self._reading, self._reader), (self._scanning, self._scanner)):
            with lock:
                connection.close()
        self._writer.close()

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _transaction(self) -> Transaction:
        return Transaction(self._writer)

    def _copy(self, statement: LiteralString, rows: bytes) -> None:
        with self._writer.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(rows)

    def _put_collateral(self, run: Run, batch: Commit) -> None:
        contents = {address_of(new.collateral): new.collateral for new in batch.entries if new.collateral}
        if contents:
            run(
                "INSERT INTO collateral SELECT * FROM unnest(%b::bytea[], %b::bytea[]) ON CONFLICT DO NOTHING",
                (list(contents), list(contents.values())),
            )

    def _one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None:
        with self._read(sql, parameters) as cursor:
            return cursor.fetchone()

    def _all(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        with self._read(sql, parameters) as cursor:
            return cursor.fetchall()

    @contextlib.contextmanager
    def _read(self, sql: str, parameters: Sequence[Any]) -> Iterator[psycopg.Cursor[Row]]:
        try:
            with self._reading:
                yield self._reader.execute(_placeholders(sql), parameters, binary=True)
        except Exception as error:
            raise unreadable(error) from error

    @contextlib.contextmanager
    def _scan(self) -> Iterator[psycopg.ServerCursor[Row]]:
        """A cursor on the server, which then sends no more than is taken."""
        cursor = self._scanner.cursor("scan", binary=True)
        try:
            with cursor:
                yield cursor
        finally:
            # If the session ended before the server could be told, it is still open; there is nobody to tell by now.
            if not cursor.closed and self._scanner.closed:
                cursor.close()

    def _some(self, sql: str, parameters: Sequence[Any], most_bytes: int) -> list[Row]:
        rows: list[Row] = []
        size = 0
        try:
            with self._scanning, self._scanner.transaction(), self._scan() as cursor:
                cursor.execute(_placeholders(sql), parameters)
                while size < most_bytes and (some := cursor.fetchmany(_FETCH)):
                    for row in some:
                        if size < most_bytes:
                            rows.append(row)
                            size += sum(len(value) for value in row if isinstance(value, bytes))
        except Exception as error:
            raise unreadable(error) from error
        return rows


@functools.cache
def _placeholders(sql: str) -> str:
    return sql.replace("?", "%s")
