"""The high-water mark in a second PostgreSQL: what every node of a cluster can read, and no failover takes back.

One row a log, by its origin: the newest (size, root) that was released, the epoch that wrote it, and on which server
and timeline the log's own database was then. It must not be the log's own database: it would be rolled back with it.

Each write names the value it follows, and moves the row up from that one alone. So two leaders of one log, be it that a
copy of its database runs somewhere, cannot both go on: the second one's write changes nothing, and that stops it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from transparency.errors import LogUnusableError, RunningElsewhereError, StoreError
from transparency.log.mark import MarkValue
from transparency.log.postgres_connection import BRIEF, Connection, check_server, connect, words
from transparency.log.postgres_transaction import heeding_warnings

SAME_SERVER: Final = (
    "the high-water mark must lie in another database server than the log, or it is rolled back with it"
)
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS transparency_mark (
        origin text PRIMARY KEY, size bigint NOT NULL, root bytea NOT NULL, epoch bigint NOT NULL,
        server numeric NOT NULL, timeline bigint NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a database lives: which cluster of PostgreSQL, and after how many promotions of a standby."""

    server: int
    timeline: int


class PostgresMark:
    """Owned by the sequencer's thread. ``write`` returns only when the second database has it durably."""

    def __init__(self, connection: Connection, origin: str, epoch: int, place: Place) -> None:
        self._connection = connection
        self._origin = origin
        self._epoch = epoch
        self._place = place
        self.value, self.written_at = MarkValue(0, b""), place

    @classmethod
    def open(cls, url: str, origin: str, epoch: int, place: Place, first: MarkValue | None) -> PostgresMark:
        """The mark of *origin* for the leader of *epoch*. *first* is put there if there is none and there may be none.

        Without a row, and without *first*, it is refused: the mark tells an old copy from the newest.
        """
        try:
            connection = connect(url, "transparency mark", BRIEF)
        except LogUnusableError as error:
            raise LogUnusableError(f"the high-water mark: {error}") from error.__cause__
        try:
            check_server(connection, writes=True)
            _check_elsewhere(connection, place)
            mark = cls(connection, origin, epoch, place)
            mark._read(first)
        except psycopg.Error as error:
            connection.close()
            raise LogUnusableError(f"the high-water mark cannot be read: {words(error)}") from error
        except BaseException:
            connection.close()
            raise
        return mark

    def _read(self, first: MarkValue | None) -> None:
        if self._one("SELECT to_regclass('transparency_mark') IS NULL") == (True,):
            self._connection.execute(_TABLE)
        if first is not None:
            self._connection.execute(
                "INSERT INTO transparency_mark VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (self._origin, first.size, first.root, self._epoch, self._place.server, self._place.timeline),
            )
        row = self._one("SELECT size, root, server, timeline FROM transparency_mark WHERE origin = %s", self._origin)
        if row is None:
            raise LogUnusableError(
                f"the store named with --watermark has no high-water mark of {self._origin}. It tells an old copy of "
                "this log from the newest: name the store that has it, or, if you know that this database is the "
                "newest, say so with --accept-failover SIZE:ROOT"
            )
        self.value, self.written_at = MarkValue(row[0], bytes(row[1])), Place(int(row[2]), row[3])

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
            "WHERE origin = %s AND epoch = %s AND size = %s AND root = %s",
            value.size, value.root, self._place.server, self._place.timeline,
            self._origin, self._epoch, before.size, before.root,
        )  # fmt: skip
        if not moved:
            raise StoreError("the high-water mark was moved by another leader of this log")
        self.value = value

    def close(self) -> None:
        self._connection.close()

    def _change(self, statement: LiteralString, *values: object) -> bool:
        """Whether the one row was changed, durably: one statement, one transaction, one way there and back."""
        try:
            with heeding_warnings(self._connection):
                return self._connection.execute(statement, values).rowcount == 1
        except psycopg.Error as error:
            raise StoreError(f"the high-water mark could not be written: {words(error)}") from error

    def _one(self, statement: LiteralString, *values: object) -> Any:  # noqa: ANN401 - a row
        return self._connection.execute(statement, values).fetchone()


def _check_elsewhere(connection: Connection, place: Place) -> None:
    """A server, its standbys and its restored copies have one number: what rolls back the log would take the mark."""
    row = connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()
    if row is not None and row[0] == place.server:
        raise LogUnusableError(SAME_SERVER)
