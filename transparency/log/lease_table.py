"""The row of the lease in PostgreSQL: look, take, renew, release. Each is one transaction, by the database's clock.

Taking does three things at once, in this order: the row of the lease is locked, if it has ended; every session that its
last holder still has is ended, so that one that hangs in the middle of a transaction holds up nobody; the epoch of the
tip is raised. From then on the last holder can neither renew nor commit.

``published`` is how far the last leader had released its tree, as of its last renewal. Nobody shows more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from transparency.log.lease import TTL_SECONDS
from transparency.log.mark_postgres import Place
from transparency.log.store import Tip

# Who takes a lease shows it here, so that two who see it end do not queue for its row. Only a hint.
_HINT: Final = 0x7472_616E_7370
TABLE: Final = """
    CREATE TABLE IF NOT EXISTS lease (
        one int PRIMARY KEY CHECK (one = 1), holder text NOT NULL, epoch bigint NOT NULL, expires timestamptz NOT NULL,
        server bigint NOT NULL, timeline bigint NOT NULL, published bigint NOT NULL)
"""
# The timeline is what the names of the write-ahead log's files begin with.
_PLACE: Final = """
    SELECT system_identifier, ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
    FROM pg_control_system()
"""
_RENEW: Final = """
    UPDATE lease SET published = greatest(published, %(published)s),
        expires = greatest(expires, clock_timestamp() + make_interval(secs => %(ttl)s)),
        server = CASE WHEN %(leads)s THEN %(server)s ELSE server END,
        timeline = CASE WHEN %(leads)s THEN %(timeline)s ELSE timeline END
    WHERE holder = %(holder)s AND epoch = %(epoch)s
        AND %(server)s = (SELECT system_identifier FROM pg_control_system())
        AND %(timeline)s = ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """The row, and how many seconds it still has."""

    holder: str
    epoch: int
    left: float
    published: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The lease is ours: from which tip, and where the database is now and was when somebody last led."""

    tip: Tip
    before: Place | None
    now: Place

    @property
    def failed_over(self) -> bool:
        """Whether another server, or a standby that was promoted, has the log since."""
        return self.before is not None and self.before != self.now


class LeaseTable:
    """On a connection of its own, in autocommit. For one thread."""

    def __init__(self, connection: psycopg.Connection[Any], holder: str) -> None:
        self._connection = connection
        self._holder = holder

    def look(self) -> Seen | None:
        """None if the lease was never taken."""
        row = self._one(
            "SELECT holder, epoch, extract(epoch FROM expires - clock_timestamp())::float8, published FROM lease"
        )
        return None if row is None else Seen(*row)

    def take(self) -> Taken | None:
        """The lease, if it has ended; None if it has not, or another is taking it at this moment."""
        with self._connection.transaction():
            hint = self._one("SELECT pg_try_advisory_xact_lock(%s)", _HINT)
            if hint is None or not hint[0]:
                return None
            self._connection.execute("INSERT INTO lease VALUES (1, '', 0, '-infinity', 0, 0, 0) ON CONFLICT DO NOTHING")
            row = self._one("SELECT holder, server, timeline FROM lease WHERE expires <= clock_timestamp() FOR UPDATE")
            if row is None:
                return None
            holder, server, timeline = row
            self._end_sessions(holder)
            size, root, epoch = self._one(
                "UPDATE tip SET epoch = greatest(epoch, (SELECT epoch FROM lease)) + 1 RETURNING size, root, epoch"
            )
            now = self._place()
            self._connection.execute(
                "UPDATE lease SET holder = %s, epoch = %s, expires = clock_timestamp() + make_interval(secs => %s)",
                (self._holder, epoch, TTL_SECONDS),
            )
        return Taken(Tip(size, bytes(root), epoch), Place(server, timeline) if server else None, now)

    def renew(self, epoch: int, published: int, place: Place, *, leads: bool) -> bool:
        """False if it is another's by now, or the database is not where it was taken: then it is over.

        Who *leads*, and does not only have the lease, has found that nothing was lost on the way here: *place* is then
        where the log is.
        """
        values = {
            "published": published, "ttl": TTL_SECONDS, "holder": self._holder, "epoch": epoch, "leads": leads,
            "server": place.server, "timeline": place.timeline,
        }  # fmt: skip
        return self._connection.execute(_RENEW, values).rowcount == 1

    def release(self, epoch: int, published: int) -> None:
        self._connection.execute(
            "UPDATE lease SET expires = least(expires, clock_timestamp()), published = greatest(published, %s) "
            "WHERE holder = %s AND epoch = %s",
            (published, self._holder, epoch),
        )

    def _end_sessions(self, holder: str) -> None:
        """Of who held the lease last. A session in the middle of COPY heeds no timeout, and holds the tip's lock."""
        if holder:
            self._connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = %s AND usename = current_user AND pid <> pg_backend_pid()",
                (holder,),
            )

    def _place(self) -> Place:
        row = self._one(_PLACE)
        return Place(*row)

    def _one(self, statement: LiteralString, *values: object) -> Any:  # noqa: ANN401 - a row
        return self._connection.execute(statement, values).fetchone()
