"""The high-water mark in a second PostgreSQL: what every node of a cluster can read, and no failover takes back.

One row a log, by its origin: the newest (size, root) that was released, the epoch that wrote it, and on which server
and timeline the log's own database was then. It must not be the log's own database: it would be rolled back with it.

Each write names the value it follows, and moves the row up from that one alone. So two leaders of one log, be it that a
copy of its database runs somewhere, cannot both go on: the second one's write changes nothing, and that stops it.

A mark that moves to another database is closed in its row (``moved_to``), for good (mark_moving.py). Each that begins
has a number of its own (``id``), by which the log's database knows it (mark_named.py).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg

from transparency.errors import (
    DatabaseUnreachableError,
    LogUnusableError,
    MarkUnreachableError,
    RunningElsewhereError,
    StoreError,
)
from transparency.log.mark import MarkValue, Moved, moved_away, named
from transparency.log.mark_named import NamedMark
from transparency.log.postgres_connection import (
    BRIEF,
    LASTS,
    READER,
    Connection,
    check_lasts,
    check_server,
    connect,
    without_password,
    words,
)
from transparency.log.postgres_transaction import heeding_warnings

SAME_SERVER: Final = (
    "the high-water mark must lie in another database server than the log, or it is rolled back with it"
)
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS transparency_mark (
        origin text PRIMARY KEY, size bigint NOT NULL, root bytea NOT NULL, epoch bigint NOT NULL,
        server numeric NOT NULL, timeline bigint NOT NULL,
        moved_to text NOT NULL DEFAULT '', arrived boolean NOT NULL DEFAULT false,
        id uuid NOT NULL DEFAULT gen_random_uuid())
"""
_COLUMNS: Final = """
    ALTER TABLE transparency_mark ADD COLUMN IF NOT EXISTS moved_to text NOT NULL DEFAULT '',
        ADD COLUMN IF NOT EXISTS arrived boolean NOT NULL DEFAULT false,
        ADD COLUMN IF NOT EXISTS id uuid NOT NULL DEFAULT gen_random_uuid()
"""
_HAS_COLUMNS: Final = """
    SELECT count(*) = 3 FROM pg_attribute WHERE attrelid = to_regclass('transparency_mark')
        AND attname IN ('moved_to', 'arrived', 'id') AND NOT attisdropped
"""
_BEGIN: Final = """
    INSERT INTO transparency_mark VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (origin) DO UPDATE
        SET size = excluded.size, root = excluded.root, epoch = greatest(excluded.epoch, transparency_mark.epoch),
            server = excluded.server, timeline = excluded.timeline, moved_to = '', arrived = false, id = excluded.id
        WHERE transparency_mark.moved_to <> '' AND transparency_mark.size <= excluded.size
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database lives: which cluster of PostgreSQL, and after how many promotions of a standby."""

    server: int
    timeline: int


class PostgresMark:
    """Owned by the sequencer's thread. ``write`` returns only when the second database has it durably.

    It keeps no batches: the log's own database has them durably, too.
    """

    kept = ()
    keeps = False
    is_in_place = True

    def __init__(self, connection: Connection, url: str, origin: str, epoch: int, place: Place) -> None:
        self.name = named(without_password(url))
        self._connection = connection
        self._origin = origin
        self._epoch = epoch
        self._place = place
        # Whether there is a row, and one that is not closed.
        self.exists = False
        self.moved: Moved | None = None
        self.id: UUID | None = None
        self.value, self.written_at = MarkValue(0, b""), place
        self._read()

    @classmethod
    def open(
        cls, url: str, origin: str, epoch: int, place: Place, first: MarkValue | None, tip: MarkValue | None = None
    ) -> PostgresMark:
        """The mark of *origin* for the leader of *epoch*. *first* is put there if there is none and there may be none.

        Without a row, and without *first*, it is refused, with the *tip* in the way out: the mark tells an old copy
        from the newest.
        """
        mark = cls.reach(url, origin, epoch, place)
        try:
            if first is not None and not mark.exists and mark.moved is None:
                mark.begin(first)
            mark.check_there(tip)
        except BaseException:
            mark.close()
            raise
        return mark

    @classmethod
    def reach(cls, url: str, origin: str, epoch: int, place: Place) -> PostgresMark:
        """As it is, be there a row or none."""
        try:
            connection = connect(url, "transparency mark", BRIEF)
        except LogUnusableError as error:
            kind = MarkUnreachableError if isinstance(error, DatabaseUnreachableError) else type(error)
            raise kind(f"the high-water mark: {error}") from error.__cause__
        try:
            check_server(connection, writes=True)
            _check_elsewhere(connection, place)
            return cls(connection, url, origin, epoch, place)
        except psycopg.Error as error:
            connection.close()
            raise LogUnusableError(f"the high-water mark cannot be read: {words(error)}") from error
        except BaseException:
            connection.close()
            raise

    def check_there(self, tip: MarkValue | None) -> None:
        """There is a row, and it is not closed. The way out names *tip*, if it is known."""
        if self.moved is not None:
            raise moved_away(self.name, self.moved)
        if not self.exists:
            said = "SIZE:ROOT" if tip is None else f"{tip.size}:{tip.root.hex()}"
            raise LogUnusableError(
                f"the store named with --watermark has no high-water mark of {self._origin}. It tells an old copy of "
                "this log from the newest: name the store that has it, or, if you know that this database is the "
                f"newest, say so with `transparency serve … --accept-failover {said}`"
            )

    def begin(self, first: MarkValue) -> None:
        """The first value here, or the first since the mark moved away: it takes the place of no other."""
        place = self._place
        values = (self._origin, first.size, first.root, self._epoch, place.server, place.timeline)
        self._change(_BEGIN, *values)
        self._read()

    def is_in(self, other: PostgresMark) -> bool:
        """Whether both are one row, by whatever names."""
        where: LiteralString = (
            "SELECT system_identifier, (SELECT oid FROM pg_database WHERE datname = current_database()), "
            "to_regclass('transparency_mark')::oid FROM pg_control_system()"
        )
        return bool(self._one(where) == other._one(where))

    def _read(self) -> None:
        if self._one("SELECT to_regclass('transparency_mark') IS NULL") == (True,):
            self._connection.execute(_TABLE)
        elif self._one(_HAS_COLUMNS) != (True,):
            self._connection.execute(_COLUMNS)
        row = self._one(
            "SELECT size, root, server, timeline, moved_to, arrived, id FROM transparency_mark WHERE origin = %s",
            self._origin,
        )
        if row is None:
            return
        self.value, self.written_at = MarkValue(row[0], bytes(row[1])), Place(int(row[2]), row[3])
        self.moved = Moved(self.value, row[4], row[5]) if row[4] else None
        self.exists, self.id = self.moved is None, row[6]

    @property
    def named(self) -> NamedMark:
        """As the log's database names it."""
        assert self.id is not None  # noqa: S101 - check_there
        return NamedMark(self.id, self.name)

    def own(self) -> None:
        """From here on a leader of an older epoch writes it no more."""
        owned = "UPDATE transparency_mark SET epoch = %s WHERE origin = %s AND epoch <= %s"
        if not self._change(owned, self._epoch, self._origin, self._epoch):
            raise RunningElsewhereError(
                f"the high-water mark of {self._origin} is another leader's, of a later epoch than {self._epoch}: "
                "this log runs from another database"
            )

    def write(self, value: MarkValue) -> None:
        before = self.value
        if value.size < before.size:
            raise StoreError(f"the high-water mark is at {before.size} and does not go back to {value.size}")
        moved = self._change(
            "UPDATE transparency_mark SET size = %s, root = %s, server = %s, timeline = %s "
            "WHERE origin = %s AND epoch = %s AND size = %s AND root = %s AND moved_to = ''",
            value.size, value.root, self._place.server, self._place.timeline,
            self._origin, self._epoch, before.size, before.root,
        )  # fmt: skip
        if not moved:
            raise StoreError("the high-water mark was moved by another leader of this log")
        self.value = value

    def can_keep(self, length: int) -> bool:  # noqa: ARG002 - as of a mark in a file
        return False

    def forget(self) -> None:
        """Nothing to forget."""

    def finish(self, value: MarkValue) -> None:
        """Nothing to finish."""

    def leave(self, to: str, *, arrived: bool) -> None:
        """Close it here, for one in the place *to*."""
        left = self._change(
            "UPDATE transparency_mark SET moved_to = %s, arrived = %s "
            "WHERE origin = %s AND epoch = %s AND size = %s AND root = %s AND moved_to IN ('', %s)",
            named(to), arrived, self._origin, self._epoch, self.value.size, self.value.root, named(to),
        )  # fmt: skip
        if not left:
            raise StoreError("the high-water mark was moved by another leader of this log")
        self.exists, self.moved = False, Moved(self.value, named(to), arrived)

    def close(self) -> None:
        self._connection.close()

    def _change(self, statement: LiteralString, *values: object) -> bool:
        """Whether the one row was changed, durably: one statement, one transaction, one way there and back."""
        try:
            with heeding_warnings(self._connection):
                done = self._connection.execute(f"{statement} RETURNING {LASTS}", values)
            row = done.fetchone()
        except psycopg.Error as error:
            raise StoreError(f"the high-water mark could not be written: {words(error)}") from error
        if row is not None and (forgets := check_lasts(*row)):
            raise StoreError(f"the high-water mark: {forgets}")
        return row is not None

    def _one(self, statement: LiteralString, *values: object) -> Any:  # noqa: ANN401 - a row
        return self._connection.execute(statement, values).fetchone()


def read_mark(url: str, origin: str, wanted: NamedMark | None = None) -> MarkValue:
    """The mark of *origin*, for who looks only: nothing is made, and a standby will do. It must be the one *wanted*."""
    with closing(connect(url, "transparency reader", READER)) as connection:
        try:
            row = connection.execute(
                # As JSON, because one that an earlier version began has no number until somebody leads with it.
                "SELECT size, root, moved_to, arrived, to_jsonb(mark) ->> 'id' FROM transparency_mark AS mark "
                "WHERE origin = %s",
                (origin,),
            ).fetchone()
        except psycopg.errors.UndefinedTable:
            row = None
        except psycopg.Error as error:
            raise LogUnusableError(f"the high-water mark cannot be read: {words(error)}") from error
    if row is None:
        raise LogUnusableError(f"there is no high-water mark of {origin} in {without_password(url)}")
    value = MarkValue(row[0], bytes(row[1]))
    if row[2]:
        raise moved_away(without_password(url), Moved(value, row[2], row[3]))
    if wanted is not None and row[4] is not None and UUID(row[4]) != wanted.id:
        raise LogUnusableError(
            f"the high-water mark in {without_password(url)} is another than the one that vouches for this log, which "
            f"is in {wanted.place}: name that with --watermark {wanted.place}"
        )
    return value


def _check_elsewhere(connection: Connection, place: Place) -> None:
    """A server, its standbys and its restored copies have one number: what rolls back the log would take the mark."""
    row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    if row is not None and row[0] == place.server:
        raise LogUnusableError(SAME_SERVER)
