"""The audit's scratch paper: what was seen of each entry until a manifest vouches for it, and what was signed before.

A temporary SQLite database without a name: it spills to disk where it has to, so that memory stays bounded however
long the log is and whatever it leaves uncovered, and nothing of it remains. Whoever follows a log for longer gives a
database to write in, begins and commits there, and finds everything again after a restart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from transparency.policy.manifest import Admission
from transparency.statements.statement import Entry

_CACHE_KIB: Final = 32 * 1024
_BUFFERED: Final = 1_024


_TABLES: Final = (
    """CREATE TABLE IF NOT EXISTS seen (idx INTEGER PRIMARY KEY, entry BLOB, kind, generation, time, collateral BLOB,
                                        outcome)""",
    "CREATE TABLE IF NOT EXISTS signed (tbs BLOB, entry BLOB, PRIMARY KEY (tbs, entry)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS erased (idx INTEGER PRIMARY KEY, entry BLOB)",
    "CREATE TABLE IF NOT EXISTS said (idx INTEGER PRIMARY KEY, iss TEXT, session TEXT)",
    "CREATE TABLE IF NOT EXISTS holds (entry TEXT PRIMARY KEY, scope TEXT, value TEXT) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS held ON holds (scope, value)",
    "CREATE TABLE IF NOT EXISTS roots (size INTEGER PRIMARY KEY, root BLOB)",
    "CREATE TABLE IF NOT EXISTS documents (name TEXT PRIMARY KEY, idx INTEGER, statement BLOB)",
    "CREATE TABLE IF NOT EXISTS place (one INTEGER PRIMARY KEY CHECK (one = 1), place BLOB)",
)


@dataclass(frozen=True, slots=True)
class Seen:
    """An entry as the audit saw it; ``outcome`` is what became of it there."""

    index: int
    entry: Entry
    admission: Admission
    outcome: str


class Scratch:
    def __init__(self, database: sqlite3.Connection | None = None) -> None:
        """In *database*, whose owner begins, commits and closes; without one on paper that is thrown away."""
        self._throw_away = database is None
        self._db = _temporary() if database is None else database
        for sql in _TABLES:
            self._db.execute(sql)
        self._seen: list[tuple[object, ...]] = []
        self._signed: list[tuple[bytes, bytes]] = []
        self._said: list[tuple[int, str, str | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._throw_away:
            self._db.close()

    # -- the place -----------------------------------------------------------------------------------------------

    def keep_place(self, place: bytes) -> None:
        """All that was noted before this is written now; nothing is committed."""
        self._flush()
        self._db.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", (place,))

    def place(self) -> bytes | None:
        row = self._db.execute("SELECT place FROM place").fetchone()
        return None if row is None else row[0]

    def keep_document(self, name: str, index: int, statement: bytes) -> None:
        """The newest document of a name."""
        self._db.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (name, index, statement))

    def document(self, name: str) -> tuple[int, bytes] | None:
        row = self._db.execute("SELECT idx, statement FROM documents WHERE name = ?", (name,)).fetchone()
        return None if row is None else (row[0], row[1])

    # -- until a manifest covers it ------------------------------------------------------------------------------

    def see(self, seen: Seen) -> None:
        one = seen.admission
        self._seen.append((seen.index, seen.entry, one.kind, one.generation, one.time, one.collateral, seen.outcome))
        if len(self._seen) >= _BUFFERED:
            self._flush()

    def take(self, first: int, end: int) -> Iterator[Seen]:
        """The entries of a stretch that has been covered; they are forgotten."""
        self._flush()
        rows = self._db.execute("SELECT * FROM seen WHERE idx >= ? AND idx < ? ORDER BY idx", (first, end)).fetchall()
        self._db.execute("DELETE FROM seen WHERE idx >= ? AND idx < ?", (first, end))
        for index, entry, *admission, outcome in rows:
            yield Seen(index, Entry(entry), Admission(*admission), outcome)

    def with_collateral(self) -> int:
        """How many entries that no manifest covers were judged with certificates."""
        self._flush()
        return int(self._db.execute("SELECT count(*) FROM seen WHERE collateral IS NOT NULL").fetchone()[0])

    def _flush(self) -> None:
        self._db.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?)", self._seen)
        self._db.executemany("INSERT OR IGNORE INTO signed VALUES (?, ?)", self._signed)
        self._db.executemany("INSERT OR REPLACE INTO said VALUES (?, ?, ?)", self._said)
        self._said.clear()
        self._seen.clear()
        self._signed.clear()

    # -- what was signed -----------------------------------------------------------------------------------------

    def sign(self, tbs_digest: bytes, entry: Entry) -> None:
        self._signed.append((tbs_digest, entry))

    def signatures(self, tbs_digest: bytes, entry: Entry | None) -> tuple[bool, bool]:
        """Whether any earlier entry signs the same bytes, and whether *entry* is one of them."""
        self._flush()
        some = self._db.execute("SELECT 1 FROM signed WHERE tbs = ? LIMIT 1", (tbs_digest,)).fetchone()
        sql = "SELECT 1 FROM signed WHERE tbs = ? AND entry = ?"
        this = self._db.execute(sql, (tbs_digest, entry)).fetchone()
        return some is not None, this is not None

    # -- the tree at each head -----------------------------------------------------------------------------------

    def keep_root(self, size: int, root: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO roots VALUES (?, ?)", (size, root))

    def root_at(self, size: int) -> bytes | None:
        """The root of the tree at an earlier head; None where no head has that size."""
        row = self._db.execute("SELECT root FROM roots WHERE size = ?", (size,)).fetchone()
        return None if row is None else row[0]

    # -- what was erased -----------------------------------------------------------------------------------------

    def erase(self, index: int, entry: Entry) -> None:
        self._db.execute("INSERT OR REPLACE INTO erased VALUES (?, ?)", (index, entry))

    def justify(self, index: int, entry: Entry) -> None:
        """An order to erase this entry stands on the log."""
        self._db.execute("DELETE FROM erased WHERE idx = ? AND entry = ?", (index, entry))

    def unjustified(self) -> Iterator[tuple[int, Entry]]:
        for index, entry in self._db.execute("SELECT idx, entry FROM erased ORDER BY idx"):
            yield index, Entry(entry)

    # -- what is on hold -----------------------------------------------------------------------------------------

    def say(self, index: int, iss: str, session: str | None) -> None:
        self._said.append((index, iss, session))

    def said(self, index: int) -> tuple[str | None, str | None]:
        """The issuer of an earlier statement, and the session that was signed for it, where they are known."""
        self._flush()
        row = self._db.execute("SELECT iss, session FROM said WHERE idx = ?", (index,)).fetchone()
        return (None, None) if row is None else (row[0], row[1])

    def hold(self, entry: str, scope: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO holds VALUES (?, ?, ?)", (entry, scope, value))

    def release(self, entry: str) -> bool:
        """End a hold; False where none of that entry id stands."""
        return self._db.execute("DELETE FROM holds WHERE entry = ?", (entry,)).rowcount > 0

    def held(self, scope: str, value: str) -> str | None:
        """The entry id of a standing hold on this."""
        sql = "SELECT entry FROM holds WHERE scope = ? AND value = ? LIMIT 1"
        row = self._db.execute(sql, (scope, value)).fetchone()
        return None if row is None else row[0]

    def holds(self, scope: str) -> bool:
        """Whether any hold of this scope stands."""
        return self._db.execute("SELECT 1 FROM holds WHERE scope = ? LIMIT 1", (scope,)).fetchone() is not None


def _temporary() -> sqlite3.Connection:
    database = sqlite3.connect("", isolation_level=None)
    for sql in ("PRAGMA journal_mode = OFF", f"PRAGMA cache_size = -{_CACHE_KIB}", "BEGIN"):
        database.execute(sql)
    return database
