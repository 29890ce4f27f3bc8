"""The PostgreSQL schema of a log, and its migrations: each a script, run once, in one transaction with its number.

Statements lie beside the entries, not in them: whoever reads digests of thousands of entries reads no statement, and
statements up to a page stay in their row (docs/decisions/0017 has the figures). Digests are unique *in* the
transaction: unlike SQLite's, this index serves many front ends, each of which finds an entry as soon as it is there.
"""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg

from transparency.errors import LogUnusableError
from transparency.log import lease_table
from transparency.log.postgres_connection import WRITER, Connection, check_server, connect, words

_LOCK: Final = 0x7472_616E_736C  # who creates or migrates is alone

_M001: Final = """
    CREATE TABLE tip (one int PRIMARY KEY CHECK (one = 1), size bigint NOT NULL, root bytea NOT NULL,
                      epoch bigint NOT NULL) WITH (fillfactor = 10);
    CREATE TABLE entries (idx bigint PRIMARY KEY, entry bytea NOT NULL, kind smallint NOT NULL,
                          generation bigint NOT NULL, tbs bytea NOT NULL, collateral bytea);
    CREATE UNIQUE INDEX entries_by_digest ON entries (entry);
    CREATE INDEX entries_by_tbs ON entries (tbs, idx) WHERE tbs <> '';
    CREATE INDEX entries_by_kind ON entries (kind, idx) WHERE kind <> 0;
    CREATE INDEX entries_by_collateral ON entries (collateral) WHERE collateral IS NOT NULL;
    CREATE TABLE statements (idx bigint PRIMARY KEY, statement bytea NOT NULL) WITH (toast_tuple_target = 8160);
    -- what is signed and hashed compresses little: no time is spent on it
    ALTER TABLE statements ALTER statement SET STORAGE EXTERNAL;
    CREATE TABLE collateral (digest bytea PRIMARY KEY, content bytea NOT NULL);
    CREATE TABLE tiles (level smallint NOT NULL, idx bigint NOT NULL, hashes bytea NOT NULL, PRIMARY KEY (level, idx))
        WITH (autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_scale_factor = 0.02);
    ALTER TABLE tiles ALTER hashes SET STORAGE EXTERNAL;
    CREATE TABLE heads (size bigint PRIMARY KEY, root bytea NOT NULL, time bigint NOT NULL, kid bytea NOT NULL,
                        protected bytea NOT NULL, signature bytea NOT NULL,
                        -- counts from 0: a head that somebody removed leaves a gap
                        number bigint NOT NULL);
    -- place orders the rows as they came; failed is UTF-8, as a reason may hold what text may not (a NUL)
    CREATE TABLE intake (entry bytea PRIMARY KEY, place bigint NOT NULL, statement bytea NOT NULL,
                         generation bigint NOT NULL, not_before bigint NOT NULL, not_after bigint NOT NULL,
                         accepted bigint NOT NULL, failed bytea, failed_at bigint, collateral bytea NOT NULL,
                         is_unique boolean NOT NULL)
        WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
    ALTER TABLE intake ALTER statement SET STORAGE EXTERNAL;
    CREATE INDEX intake_pending ON intake (place) WHERE failed IS NULL;
    CREATE INDEX intake_failed ON intake (failed_at) WHERE failed IS NOT NULL;
    CREATE SEQUENCE intake_places;
    CREATE TABLE erased (one int PRIMARY KEY CHECK (one = 1), upto bigint NOT NULL);
    INSERT INTO erased VALUES (1, 0);
    CREATE TABLE checkpoints (size bigint PRIMARY KEY, note bytea NOT NULL, witnessed boolean NOT NULL);
    -- who leads (lease_table.py); published is how far the tree has been released
    CREATE TABLE lease (one int PRIMARY KEY CHECK (one = 1), holder text NOT NULL, epoch bigint NOT NULL,
                        expires timestamptz NOT NULL, server bigint NOT NULL, timeline bigint NOT NULL,
                        published bigint NOT NULL) WITH (fillfactor = 10);
"""

# The mark that vouches for this log, if its nodes share one (mark_named.py). A version that does not know it must not
# lead, so it has a number of its own.
_M002: Final = """
    CREATE TABLE mark (one int PRIMARY KEY CHECK (one = 1), id uuid NOT NULL, place text NOT NULL);
"""

# A statement up to a page stays in its row of the intake, too: one that lies apart is three more rows and an index to
# write, and as many to delete, for a row that lives for milliseconds (docs/cluster.md has the figures).
_M003: Final = "ALTER TABLE intake SET (toast_tuple_target = 8160);"

MIGRATIONS: Final[tuple[LiteralString, ...]] = (_M001, _M002, _M003)


def create(url: str, empty_root: bytes) -> None:
    """The tables of a new log with an empty tip, in a database that has none."""
    connection = connect(url, "transparency-init", WRITER)
    try:
        check_server(connection, writes=True)
        with connection.transaction():
            _alone(connection)
            if version(connection) is not None:
                raise LogUnusableError(
                    "there is a log in this database already; name another, or use the folder of the log that is there"
                )
            connection.execute("CREATE TABLE transparency_schema (version int NOT NULL)")
            connection.execute("INSERT INTO transparency_schema VALUES (0)")
            _migrate(connection, 0)
            connection.execute("INSERT INTO tip VALUES (1, 0, %b, 0)", (empty_root,))
            connection.execute(lease_table.FIRST)
    except psycopg.Error as error:
        raise LogUnusableError(f"the tables of a log cannot be made in this database: {words(error)}") from error
    finally:
        connection.close()


def drop(url: str) -> None:
    """Take back what :func:`create` made, for who could not go on."""
    names = (
        "tip", "entries", "statements", "collateral", "tiles", "heads", "intake", "erased", "checkpoints", "lease",
        "mark",
    )  # fmt: skip
    connection = connect(url, "transparency-init", WRITER)
    try:
        with connection.transaction():
            for name in (*names, "transparency_schema"):
                connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute("DROP SEQUENCE IF EXISTS intake_places")
    except psycopg.Error as error:
        raise LogUnusableError(f"the tables of a log cannot be taken away again: {words(error)}") from error
    finally:
        connection.close()


def version(connection: Connection) -> int | None:
    """How many migrations the database has seen; None if there is no log in it."""
    if connection.execute("SELECT to_regclass('transparency_schema')").fetchone() == (None,):
        return None
    row = connection.execute("SELECT max(version) FROM transparency_schema").fetchone()
    return int(row[0]) if row and row[0] is not None else None


def migrate(connection: Connection) -> None:
    """Bring a database to this version's schema; what a later version has written is refused."""
    with connection.transaction():
        _alone(connection)
        found = version(connection)
        check_version(found, may_migrate=True)
        _migrate(connection, found or 0)


def check_version(found: int | None, *, may_migrate: bool = False) -> None:
    if found is None:
        raise LogUnusableError("there is no log in this database; `transparency init --db URL` makes one")
    if found > len(MIGRATIONS):
        raise LogUnusableError("this database was written by a later version; use that, or a later one")
    if found < len(MIGRATIONS) and not may_migrate:
        raise LogUnusableError(
            "this database was written by an earlier version; `transparency serve` brings it up to date"
        )


def _migrate(connection: Connection, found: int) -> None:
    for script in MIGRATIONS[found:]:
        connection.execute(script)
    if found < len(MIGRATIONS):
        connection.execute("UPDATE transparency_schema SET version = %s", (len(MIGRATIONS),))


def _alone(connection: Connection) -> None:
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
