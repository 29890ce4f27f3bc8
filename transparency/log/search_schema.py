"""The SQLite schema of the search index: DIR/search.sqlite, derived from the log and its artifacts, never part of it.

``postings`` maps a term to the entries that have it. A term (issuer, tool, folder of a path …) stands there as a keyed
64-bit hash: every kind costs the same, whatever its length. The key is random and of this file, so nobody can aim for a
collision, and a reader compares each hit with the facts themselves: a collision costs a comparison, never a wrong hit.
Facts are kept once for each entry, to be shown and to be erased by.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from pathlib import Path
from typing import Final

from transparency.errors import StoreError
from transparency.log.durable import create_private

# Raised with the schema and with what facts say: an index of another version is made anew.
VERSION: Final = 1
PAGE_SIZE: Final = 4096
BUSY_MS: Final = 10_000
_SALT_BYTES: Final = 16

_SCHEMA: Final = """
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), salt BLOB NOT NULL, size INTEGER NOT NULL,
                    -- the last entry that is indexed: tells the index of another log, or of another history
                    last BLOB NOT NULL,
                    -- counts: whoever read content before an erasure must not write it after
                    erasures INTEGER NOT NULL) STRICT;
CREATE TABLE entries (idx INTEGER PRIMARY KEY, entry BLOB NOT NULL, time INTEGER NOT NULL, awaits INTEGER NOT NULL,
                      tbs BLOB, content BLOB, facts TEXT) STRICT;
-- 1: an envelope whose record may still arrive, 2: erased from, what is left has to be indexed
CREATE INDEX awaiting ON entries (content) WHERE awaits = 1;
CREATE INDEX erased ON entries (idx) WHERE awaits = 2;
-- head times never go back, so a span of time is a span of indexes: the first entry of each second
CREATE TABLE times (time INTEGER PRIMARY KEY, first INTEGER NOT NULL) STRICT;
CREATE TABLE postings (key INTEGER NOT NULL, idx INTEGER NOT NULL, PRIMARY KEY (key, idx)) STRICT, WITHOUT ROWID
"""


class DamagedIndexError(StoreError):
    """search.sqlite is no sound database. It is derived: clear it, and it is made anew."""

    def __init__(self) -> None:
        super().__init__("search.sqlite is damaged; `transparency log reindex` makes it anew")


def open_for_writing(path: Path) -> sqlite3.Connection:
    """The index at *path*, made where there is none or where it is of another version, or no database: it is derived.

    StoreError where it cannot be opened for now; then it is left as it is.
    """
    with contextlib.suppress(sqlite3.DatabaseError):
        connection = _connect(path)
        if connection.execute("PRAGMA user_version").fetchone() == (VERSION,):
            return connection
        connection.close()
    remove(path)
    return _create(path)


def remove(path: Path) -> None:
    for name in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        name.unlink(missing_ok=True)


def _create(path: Path) -> sqlite3.Connection:
    create_private(path)  # paths and tools are nobody else's business
    connection = _connect(path)
    reset(connection)
    return connection


def reset(connection: sqlite3.Connection) -> None:
    """An empty index in the place of what there is, in one transaction: readers see the old one, or none."""
    connection.execute("BEGIN IMMEDIATE")
    for table in ("state", "entries", "times", "postings"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    for statement in _SCHEMA.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO state VALUES (1, ?, 0, x'', 0)", (secrets.token_bytes(_SALT_BYTES),))
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path} cannot be opened: {error}") from error
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        # Derived: what a power cut takes is indexed again.
        connection.execute("PRAGMA synchronous = NORMAL")
        # What is deleted is overwritten: an erased record must not be read from free pages.
        connection.execute("PRAGMA secure_delete = ON")
    except sqlite3.OperationalError as error:
        connection.close()
        raise StoreError(f"{path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection
