"""The SQLite schema of a mirror's trees. Tables are STRICT: a column holds its type or the write fails.

Entries lie in *pieces*: some of those under one tile of level 0, each after its length, as C2SP's entry bundles have
them. So the pieces under a tile, one after another, are its bundle, and nothing is written twice as a bundle fills.

Tiles are whole rows, in pages of SQLite's own 4 KB, where one of 8,192 bytes takes two and an eighth: 35 bytes an entry
beside the entry itself, against 40 in pages of 8 KB and 97 in pages of 16 KB (measured, 65,536 entries in batches of
8,192). A batch writes the tiles at the right edge anew, some 31 KB with all else, however small it is. A mirror writes
one for each checkpoint that a log shows, not one for each entry, so rows of parts of tiles (log/sqlite_tiles.py) would
gain nothing here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from transparency.witness.schema import create_database

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
    create_database(path, _TABLES, VERSION)
