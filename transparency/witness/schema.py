"""The SQLite schema of a witness' state.

Tables are STRICT: a column holds its type or the write fails. ``tip`` has one row, a counter of all changes and the
digest of the state after the last one (seals.py): what the mark outside the folder is held against.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from transparency.log.durable import create_private
from transparency.witness.seals import NOTHING_FORGOTTEN, digest_of

VERSION: Final = 2

_TABLES: Final = (
    """CREATE TABLE tip (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, digest BLOB NOT NULL)
       STRICT""",
    # The verifier keys it was made with: a witness is its keys.
    "CREATE TABLE identity (vkey TEXT PRIMARY KEY) STRICT",
    """CREATE TABLE logs (origin TEXT PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL, time INTEGER NOT NULL,
                          signed BLOB NOT NULL, lines BLOB NOT NULL) STRICT""",
    """CREATE TABLE seals (origin TEXT PRIMARY KEY, size INTEGER NOT NULL, time INTEGER NOT NULL, rest BLOB NOT NULL)
       STRICT""",
    # The seals that the last change replaced, NULL where there was none: what the state was before it.
    "CREATE TABLE undo (origin TEXT PRIMARY KEY, size INTEGER, time INTEGER, rest BLOB) STRICT",
    # One row for each other tree that a log has signed, however often it is sent.
    """CREATE TABLE evidence (origin TEXT NOT NULL, ground TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL,
                              time INTEGER NOT NULL, recorded BLOB NOT NULL, request BLOB NOT NULL,
                              PRIMARY KEY (origin, ground, size, root)) STRICT""",
    # What `witness forget` took away: it stays visible for ever that, and what, was forgotten.
    """CREATE TABLE forgotten (number INTEGER PRIMARY KEY, origin TEXT NOT NULL, size INTEGER NOT NULL,
                               root BLOB NOT NULL, time INTEGER NOT NULL, note BLOB NOT NULL,
                               forgotten_at INTEGER NOT NULL) STRICT""",
)


def create(path: Path, vkeys: Collection[str]) -> bytes:
    """A new database of the witness with these keys, in which nothing is recorded; its digest."""
    first = digest_of(0, vkeys, {}, NOTHING_FORGOTTEN)

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO tip VALUES (1, 0, ?)", (first,))
        connection.executemany("INSERT INTO identity VALUES (?)", [(vkey,) for vkey in vkeys])

    create_database(path, _TABLES, VERSION, fill)
    return first


def create_database(
    path: Path, tables: Sequence[str], version: int, fill: Callable[[sqlite3.Connection], None] = lambda _: None
) -> None:
    """A new database with these tables and what *fill* puts there, durable when this returns. For its owner's eyes."""
    if path.exists():
        raise FileExistsError(path)
    create_private(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for table in tables:
            connection.execute(table)
        fill(connection)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
