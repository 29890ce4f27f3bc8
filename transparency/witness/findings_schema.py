"""The SQLite schema of a compliance witness' findings. The replay adds its own tables beside these."""

from __future__ import annotations

import sqlite3
from typing import Final

VERSION: Final = 2
_BUSY_MS: Final = 5_000

_TABLES: Final = (
    # One row an entry. ``counts``: somebody registered it, and not the service or a witness about the log itself.
    # ``verdicts``: one letter for each check of ``list``, session after session.
    """CREATE TABLE entries (idx INTEGER PRIMARY KEY, entry BLOB NOT NULL, kind TEXT NOT NULL,
                             generation INTEGER NOT NULL, iss TEXT NOT NULL, sub TEXT NOT NULL, time INTEGER NOT NULL,
                             outcome TEXT NOT NULL, availability TEXT NOT NULL, reason TEXT NOT NULL,
                             digest TEXT NOT NULL, whole INTEGER NOT NULL, counts INTEGER NOT NULL, list INTEGER,
                             verdicts TEXT NOT NULL) STRICT""",
    "CREATE INDEX not_there ON entries (idx) WHERE availability = 'erased' AND whole = 1",
    "CREATE TABLE lists (number INTEGER PRIMARY KEY, ids TEXT NOT NULL UNIQUE) STRICT",
    # What warns or fails; what passes is a letter in ``entries``.
    """CREATE TABLE findings (number INTEGER PRIMARY KEY, idx INTEGER NOT NULL, session INTEGER NOT NULL,
                              check_id TEXT NOT NULL, verdict TEXT NOT NULL, summary TEXT NOT NULL,
                              evidence TEXT NOT NULL, UNIQUE (idx, session, check_id)) STRICT""",
    # What the log did wrong; ``size`` is that of the checkpoint that was looked at.
    """CREATE TABLE misbehaviour (number INTEGER PRIMARY KEY, code TEXT NOT NULL, idx INTEGER NOT NULL,
                                  entry TEXT NOT NULL, what TEXT NOT NULL, size INTEGER NOT NULL,
                                  found INTEGER NOT NULL, ended INTEGER, told INTEGER NOT NULL DEFAULT 0,
                                  UNIQUE (code, idx, what)) STRICT""",
    # Entries whose record was ordered to be erased.
    "CREATE TABLE orders (idx INTEGER NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (idx, entry)) STRICT, WITHOUT ROWID",
    """CREATE TABLE agents (iss TEXT NOT NULL, agent TEXT NOT NULL, count INTEGER NOT NULL, mean REAL NOT NULL,
                            squares REAL NOT NULL, PRIMARY KEY (iss, agent)) STRICT, WITHOUT ROWID""",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    # ``entry``: the entry id on the followed log, empty until it stands there; ``also``: on the other log, too.
    """CREATE TABLE periods (number INTEGER PRIMARY KEY, first INTEGER NOT NULL, end INTEGER NOT NULL,
                             time INTEGER NOT NULL, cosigned INTEGER NOT NULL, payload BLOB NOT NULL,
                             statement BLOB NOT NULL, entry TEXT NOT NULL, also INTEGER NOT NULL DEFAULT 0) STRICT""",
)


def prepare(connection: sqlite3.Connection, *, new: bool) -> None:
    """Open, or make, the tables; sqlite3.Error where the file is something else."""
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == VERSION:
        return
    if not new and version != 0:
        raise sqlite3.DatabaseError("written by another version")
    # Killed while it was made: nothing was committed, and it is made now.
    connection.execute("BEGIN IMMEDIATE")
    for sql in _TABLES:
        connection.execute(sql)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
