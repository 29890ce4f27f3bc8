"""The SQLite schema of a log, and its migrations (sqlite-utils keeps which of them have run).

Tables are STRICT (SQLite 3.37): a column holds its type or the write fails, so bytes never come back as text.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from transparency.log.durable import create_private

# A full tile is 8,192 bytes and a statement some thousand: larger pages save overflow chains. In commits of 20 rows of
# 3 KB one of 16 KB saves a tenth of the processor time against 8 KB, in commits of 400 a fifth, for a lone row nothing.
PAGE_SIZE = 16384

migrations = Migrations("transparency-log")


@migrations()
def m001_tree(db: Database) -> None:
    """The tip, the tree and the entries beside it. ``tip`` has one row, and CAS on it is what keeps one writer."""
    _run(
        db,
        """
        CREATE TABLE tip (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL, root BLOB NOT NULL,
                          epoch INTEGER NOT NULL) STRICT;
        CREATE TABLE entries (idx INTEGER PRIMARY KEY, entry BLOB NOT NULL, kind INTEGER NOT NULL,
                              generation INTEGER NOT NULL, tbs BLOB NOT NULL, statement BLOB NOT NULL) STRICT;
        CREATE INDEX documents ON entries (kind, idx) WHERE kind <> 0;
        CREATE TABLE heads (size INTEGER PRIMARY KEY, root BLOB NOT NULL, time INTEGER NOT NULL, kid BLOB NOT NULL,
                            protected BLOB NOT NULL, signature BLOB NOT NULL,
                            -- counts from 0: a head that somebody removed leaves a gap
                            number INTEGER NOT NULL) STRICT;
        -- key = level << 48 | index: one integer, so that a tile is found by rowid
        CREATE TABLE tiles (key INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;
        """,
    )


@migrations()
def m002_derived(db: Database) -> None:
    """Indexes over random digests, derived from ``entries`` and written apart from the durable transaction.

    A unique index on random keys inside it more than doubles its cost (design.md §4).
    """
    _run(
        db,
        """
        CREATE TABLE digest_index (entry BLOB PRIMARY KEY, idx INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE sibling_index (tbs BLOB NOT NULL, idx INTEGER NOT NULL, PRIMARY KEY (tbs, idx))
                                    STRICT, WITHOUT ROWID;
        CREATE TABLE indexed (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL) STRICT;
        INSERT INTO indexed VALUES (1, 0);
        """,
    )


@migrations()
def m003_intake(db: Database) -> None:
    """Acknowledged with 202 and not in the tree yet, or failed there (REG-23)."""
    _run(
        db,
        """
        CREATE TABLE intake (entry BLOB PRIMARY KEY, statement BLOB NOT NULL, generation INTEGER NOT NULL,
                             not_before INTEGER NOT NULL, not_after INTEGER NOT NULL, accepted INTEGER NOT NULL,
                             failed TEXT, failed_at INTEGER) STRICT;
        """,
    )


@migrations()
def m004_collateral(db: Database) -> None:
    """What a judgement used besides the statement (AMB-10). Content-addressed: many statements share one chain."""
    _run(
        db,
        """
        CREATE TABLE collateral (digest BLOB PRIMARY KEY, content BLOB NOT NULL) STRICT, WITHOUT ROWID;
        -- a digest, or NULL where nothing else was used
        ALTER TABLE entries ADD COLUMN collateral BLOB;
        ALTER TABLE intake ADD COLUMN collateral BLOB NOT NULL DEFAULT x'';
        ALTER TABLE intake ADD COLUMN is_unique INTEGER NOT NULL DEFAULT 0;
        """,
    )


@migrations()
def m005_erasures(db: Database) -> None:
    """Every erasure registered below this index has been carried out; what was interrupted is taken up again."""
    _run(
        db,
        """
        CREATE TABLE erased (one INTEGER PRIMARY KEY CHECK (one = 1), upto INTEGER NOT NULL) STRICT;
        INSERT INTO erased VALUES (1, 0);
        """,
    )


@migrations()
def m006_checkpoints(db: Database) -> None:
    """Published checkpoints by size, each with its signatures and cosignatures (C2SP tlog-checkpoint)."""
    _run(
        db,
        """
        CREATE TABLE checkpoints (size INTEGER PRIMARY KEY, note BLOB NOT NULL, witnessed INTEGER NOT NULL) STRICT;
        """,
    )


@migrations()
def m007_growth(db: Database) -> None:
    """Tiles in rows that fill a page (sqlite_tiles.py), and young indexes before the old ones (sqlite_index.py)."""
    rows = "".join(
        "INSERT INTO tile_rows SELECT (key >> 48 << 48) | (key & 281474976710655) * 8 + "
        f"{row}, substr(hashes, {row * 1024 + 1}, 1024) FROM tiles WHERE length(hashes) > {row * 1024};"
        for row in range(8)
    )
    _run(
        db,
        f"""
        -- key = level << 48 | index * 8 + row: 32 hashes each
        CREATE TABLE tile_rows (key INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;
        {rows}
        DROP TABLE tiles;
        ALTER TABLE tile_rows RENAME TO tiles;
        CREATE TABLE digest_young (entry BLOB PRIMARY KEY, idx INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE sibling_young (tbs BLOB NOT NULL, idx INTEGER NOT NULL, PRIMARY KEY (tbs, idx))
                                    STRICT, WITHOUT ROWID;
        -- about how many rows the young ones have
        ALTER TABLE indexed ADD COLUMN young INTEGER NOT NULL DEFAULT 0;
        """,
    )


def _run(db: Database, script: str) -> None:
    """One statement at a time: executescript would end the transaction that the migration runs in."""
    for statement in script.split(";"):
        if statement.strip():
            db.conn.execute(statement)


def create(path: Path, empty_root: bytes) -> None:
    """A new database with an empty tip; fails if there is one."""
    if path.exists():
        raise FileExistsError(path)
    create_private(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        migrations.apply(Database(connection))
        connection.execute("INSERT INTO tip VALUES (1, 0, ?, 0)", (empty_root,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def is_current(connection: sqlite3.Connection) -> bool:
    """Whether a database has this version's schema: who only looks cannot migrate it."""
    names = {row[1] for row in connection.execute("PRAGMA table_info(indexed)").fetchall()}
    return "young" in names


def migrate(path: Path) -> None:
    """Bring an existing database to this version's schema."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        migrations.apply(Database(connection))
    finally:
        connection.close()
