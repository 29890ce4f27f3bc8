"""The SQLite schema of a witness' state.

Tables are STRICT: a column holds its type or the write fails. ``tip`` has one row, a counter of all changes and the
digest of their chain: what the mark outside the folder is held against.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Final

VERSION: Final = 1
FIRST_DIGEST: Final = hashlib.sha256(b"the state of a witness that has cosigned nothing").digest()

_TABLES: Final = (
    """CREATE TABLE tip (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, digest BLOB NOT NULL,
                         previous BLOB NOT NULL) STRICT""",
    """CREATE TABLE logs (origin TEXT PRIMARY KEY, size INTEGER NOT NULL, root BLOB NOT NULL, time INTEGER NOT NULL,
                          signed BLOB NOT NULL, lines BLOB NOT NULL) STRICT""",
    # One row for each other tree that a log has signed, however often it is sent.
    """CREATE TABLE evidence (origin TEXT NOT NULL, ground TEXT NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL,
                              time INTEGER NOT NULL, recorded BLOB NOT NULL, request BLOB NOT NULL,
                              PRIMARY KEY (origin, ground, size, root)) STRICT""",
    # What `witness forget` took away: it stays visible for ever that, and what, was forgotten.
    """CREATE TABLE forgotten (number INTEGER PRIMARY KEY, origin TEXT NOT NULL, size INTEGER NOT NULL,
                               root BLOB NOT NULL, time INTEGER NOT NULL, note BLOB NOT NULL,
                               forgotten_at INTEGER NOT NULL) STRICT""",
)


def create(path: Path) -> None:
    """A new database in which nothing is recorded; fails if there is one."""
    if path.exists():
        raise FileExistsError(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            connection.execute(table)
        connection.execute("INSERT INTO tip VALUES (1, 0, ?, ?)", (FIRST_DIGEST, FIRST_DIGEST))
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    path.chmod(0o600)
