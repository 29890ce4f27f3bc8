"""The SQLite schema of a mirror's trees. Tables are STRICT: a column holds its type or the write fails.

Entries lie in *pieces*: some of those under one tile of level 0, each after its length, as C2SP's entry bundles have
them. So the pieces under a tile, one after another, are its bundle, and nothing is written twice as a bundle fills.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

VERSION: Final = 1

_TABLES: Final = (
    # size: how many entries are here; the next entry of tlog-mirror.
    "CREATE TABLE logs (number INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE, size INTEGER NOT NULL) STRICT",
    # Checkpoints that were proven to extend each other; the newest is the pending one.
    """CREATE TABLE pending (log INTEGER NOT NULL, size INTEGER NOT NULL, root BLOB NOT NULL, time INTEGER NOT NULL,
                             signed BLOB NOT NULL, PRIMARY KEY (log, size)) STRICT""",
    """CREATE TABLE pieces (log INTEGER NOT NULL, start INTEGER NOT NULL, count INTEGER NOT NULL, data BLOB NOT NULL,
                            PRIMARY KEY (log, start)) STRICT""",
    """CREATE TABLE tiles (log INTEGER NOT NULL, level INTEGER NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL,
                           PRIMARY KEY (log, level, number)) STRICT""",
)


def create(path: Path) -> None:
    """A new database without a log in it."""
    if path.exists():
        raise FileExistsError(path)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    path.chmod(0o600)
