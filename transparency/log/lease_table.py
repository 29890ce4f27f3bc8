"""The row of the lease in PostgreSQL: look, take, renew, release. Each is one transaction, by the database's clock.

Taking does three things at once, in this order: the row of the lease is locked, if it has ended; every session that its
last holder still has is ended, so that one that hangs in the middle of a transaction holds up nobody; the epoch of the
tip is raised. From then on the last holder can neither renew nor commit.

``published`` is how far the last leader had released its tree, as of its last renewal. Nobody shows more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, LiteralString

from transparency.errors import LogUnusableError
from transparency.log.lease import TTL_SECONDS
from transparency.log.mark_postgres import Place
from transparency.log.postgres_connection import LASTS, Connection, check_lasts
from transparency.log.store import Tip

# Who takes a lease shows it here, so that two who see it end do not queue for its row. Only a hint.
_HINT: Final = 0x7472_616E_7370
# The timeline is what the names of the write-ahead log's files begin with.
_TIMELINE: Final = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint"
_PLACES: Final = f"SELECT server, timeline, system_identifier, {_TIMELINE} FROM lease, pg_control_system()"
_RENEW: Final = f"""
    UPDATE lease SET published = greatest(published, %(published)s),
        expires = greatest(expires, clock_timestamp() + make_interval(secs => %(ttl)s)),
        server = CASE WHEN %(leads)s THEN %(server)s ELSE server END,
        timeline = CASE WHEN %(leads)s THEN %(timeline)s ELSE timeline END
    WHERE holder = %(holder)s AND epoch = %(epoch)s
        AND %(server)s = (SELECT system_identifier FROM pg_control_system())
        AND %(timeline)s = {_TIMELINE}
    RETURNING {LASTS}
"""
# Where the log is made is where it is, until somebody leads it elsewhere: a standby that lags knows that, too.
FIRST: Final = f"""
    INSERT INTO lease SELECT 1, '', 0, '-infinity', system_identifier, {_TIMELINE}, 0 FROM pg_control_system()
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
    before: Place
    now: Place

    @property
    def failed_over(self) -> bool:
        """Whether another server, or a standby that was promoted, has the log since."""
        return self.before != self.now


class FailoverError(LogUnusableError):
    """The database is another than the one that was last written to, and nobody vouches for it."""


def failed_over(taken: Taken) -> FailoverError:
    tip, before, now = taken.tip, taken.before, taken.now
    return FailoverError(
        f"the database is on timeline {now.timeline} of server {now.server}, and was on timeline {before.timeline} of "
        f"server {before.server} when it was last led: a standby was promoted, or a copy restored, and it may lack "
        f"what was acknowledged. It has {tip.size} entries. If you know that this is all (docs/cluster.md), say so "
        f"once: `transparency serve … --accept-failover {tip.size}:{tip.root.hex()}`"
    )


def places(connection: Connection) -> tuple[Place, Place]:
    """Where the log was when somebody last led it, and where its database is now."""
    row = connection.execute(_PLACES).fetchone()
    if row is None:
        raise LogUnusableError("the log's database has no lease; it was not made by init")
    return Place(row[0], row[1]), Place(row[2], row[3])


class LeaseTable:
    """On a connection of its own, in autocommit. For one thread."""

    def __init__(self, connection: Connection, holder: str) -> None:
        self._connection = connection
        self._holder = holder

    def look(self) -> Seen:
        row = self._one(
            "SELECT holder, epoch, extract(epoch FROM expires - clock_timestamp())::float8, published FROM lease"
        )
        if row is None:
            raise LogUnusableError("the log's database has no lease; it was not made by init")
        return Seen(*row)

    def take(self, above: int = 0) -> Taken | None:
        """The lease, if it has ended; None if it has not, or another is taking it at this moment.

        Its epoch is *above* that one, too: a standby that was promoted may have less than this node has seen.
        """
        with self._connection.transaction():
            hint = self._one("SELECT pg_try_advisory_xact_lock(%s)", _HINT)
            if hint is None or not hint[0]:
                return None
            row = self._one("SELECT holder FROM lease WHERE expires <= clock_timestamp() FOR UPDATE")
            if row is None:
                return None
            self._end_sessions(row[0])
            size, root, epoch = self._one(
                "UPDATE tip SET epoch = greatest(epoch, (SELECT epoch FROM lease), %s) + 1 RETURNING size, root, epoch",
                above,
            )
            before, now = places(self._connection)
            self._connection.execute(
                "UPDATE lease SET holder = %s, epoch = %s, expires = clock_timestamp() + make_interval(secs => %s)",
                (self._holder, epoch, TTL_SECONDS),
            )
        return Taken(Tip(size, bytes(root), epoch), before, now)

    def renew(self, epoch: int, published: int, place: Place, *, leads: bool) -> str | None:
        """Why it is over, if it is: it is another's by now, or the database is not where it was taken, or forgets.

        Who *leads*, and does not only have the lease, has found that nothing was lost on the way here: *place* is then
        where the log is.
        """
        values = {
            "published": published, "ttl": TTL_SECONDS, "holder": self._holder, "epoch": epoch, "leads": leads,
            "server": place.server, "timeline": place.timeline,
        }  # fmt: skip
        row = self._connection.execute(_RENEW, values).fetchone()
        return "another node has taken it" if row is None else check_lasts(*row)

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

    def _one(self, statement: LiteralString, *values: object) -> Any:  # noqa: ANN401 - a row
        return self._connection.execute(statement, values).fetchone()
