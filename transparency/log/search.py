"""The search index: finds entries by what their statements and records say. Derived, in a file of its own.

Owner of the writing: one worker process beside the server (:mod:`search_worker`), which catches up with the log, and
whoever erases. Nothing here is in the durable transaction, and losing the file loses nothing: it is made again from
statements and artifacts, with the same answers. Three things keep it true while others write:

1. Each batch is one transaction that begins where the index ends; if somebody else extended or cleared it meanwhile,
   the batch is dropped and read again.
2. ``erase`` counts. A batch whose content was read before an erasure is dropped, too: it may hold what was erased.
3. ``last`` is the entry the index ends with. If the log has another one there, the index is of another history and is
   made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from transparency.errors import GoneError, NotFoundError, OverloadedError, StoreError
from transparency.log import search_schema
from transparency.log.artifacts import ArtifactStore
from transparency.log.search_entry import IndexedEntry, Term, derive
from transparency.log.search_schema import DamagedIndexError
from transparency.log.sqlite import connect_for_reading
from transparency.log.store import Store

BATCH: Final = 1000
# A batch ends when its statements reach this, so that a record of many megabytes does not wait for a thousand others.
BATCH_BYTES: Final = 8 * 1024 * 1024
ROW: Final = "SELECT idx, entry, time, awaits, tbs, content, facts FROM entries WHERE idx = ?"
_ROWS: Final = (
    "SELECT idx, entry, time, awaits, tbs, content, facts FROM entries WHERE idx >= ? AND idx < ? ORDER BY idx"
)
_INSERT: Final = (
    "INSERT OR REPLACE INTO entries (idx, entry, time, awaits, tbs, content, facts) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_KEPT: Final = 65_536

Progress = Callable[[int, int], None]


class SearchIndex:
    """The index of one log. One object may be used by several threads; each write is one transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._keys: Keys | None = None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A snapshot, on a connection of its own: it never waits for a writer, nor for another reader."""
        if not self.path.exists():
            raise NotFoundError("there is no search index yet")
        try:
            with contextlib.closing(connect_for_reading(self.path)) as connection:
                connection.execute("BEGIN")
                yield connection
        except sqlite3.OperationalError as error:
            raise NotFoundError(f"the search index cannot be read yet ({error.sqlite_errorname})") from error
        except sqlite3.DatabaseError as error:
            raise DamagedIndexError from error

    def indexed(self) -> int:
        """How many entries it covers: all below this index. Zero where there is no index."""
        try:
            with self.reading() as connection:
                return int(connection.execute("SELECT size FROM state").fetchone()[0])
        except (NotFoundError, StoreError):
            return 0

    def rows(self, start: int, stop: int) -> Iterator[IndexedEntry]:
        """What is known of the entries from *start* to *stop*, in order; for comparing it with the log."""
        with self.reading() as connection:
            yield from (IndexedEntry.from_row(row) for row in connection.execute(_ROWS, (start, stop)))

    # -- writing -------------------------------------------------------------------------------------------------

    def catch_up(self, store: Store, artifacts: ArtifactStore, progress: Progress | None = None) -> int:
        """Index what the log has and the index has not. Returns how far it is then."""
        size = store.tip().size
        self._check_history(store)
        while (done := self.indexed()) < size:
            self._extend(store, artifacts, done, size)
            if progress is not None:
                progress(min(self.indexed(), size), size)
        return done

    def look_for_records(self, store: Store, artifacts: ArtifactStore, shelf: str = "") -> int:
        """Index the records that arrived after their envelopes; *shelf* is the beginning of their digests."""
        low, high = bytes.fromhex(shelf), bytes.fromhex(shelf) + b"\xff" * 32
        sql = "SELECT idx, content FROM entries WHERE awaits = 1 AND content >= ? AND content <= ? LIMIT 100000"
        with self.reading() as connection:
            waiting = connection.execute(sql, (low, high)).fetchall()
        arrived = [index for index, content in waiting if _is_here(artifacts, content.hex())]
        for index in arrived:
            self.renew(store, artifacts, index)
        return len(arrived)

    def renew_erased(self, store: Store, artifacts: ArtifactStore) -> None:
        """Index what is left of entries that were erased from."""
        with self.reading() as connection:
            erased = connection.execute("SELECT idx FROM entries WHERE awaits = 2 LIMIT 100000").fetchall()
        for (index,) in erased:
            self.renew(store, artifacts, index)

    def renew(self, store: Store, artifacts: ArtifactStore, index: int) -> None:
        """Derive what is known of one entry again."""
        while True:
            erasures = self._erasures()
            row, head = store.entry(index), store.head_covering(index)
            if row is None or head is None:
                return
            entry = derive(row, head.time, artifacts)
            with self._transaction() as run:
                if index >= _size(run):
                    return
                if _count(run) == erasures:
                    _forget(run, index)
                    self._write([entry])
                    return

    def erase(self, index: int) -> None:
        """Remove everything that came from the content of an entry; call it once the content itself is gone.

        Its place and its time remain; its pages are overwritten, and so is the write-ahead log. What is left of the
        entry (the statement, where only its artifact went) is indexed again by the worker.
        """
        with self._transaction() as run:
            run("UPDATE state SET erasures = erasures + 1")
            _forget(run, index)
            run("UPDATE entries SET awaits = 2, tbs = NULL, content = NULL, facts = NULL WHERE idx = ?", (index,))
        if not self.checkpoint():
            raise OverloadedError("the search index is being read: erase once more, to empty its write-ahead log", 1.0)

    def clear(self) -> None:
        """Forget everything. Whoever catches up next begins at the first entry."""
        try:
            with self._lock, _errors():
                search_schema.reset(self._writer())
        except DamagedIndexError:
            self.close()
            search_schema.remove(self.path)
        self.checkpoint()

    def checkpoint(self) -> bool:
        """Bring the write-ahead log into the file and empty it; False if a reader did not let go of it in time."""
        with self._lock, _errors():
            (busy, _, _) = self._writer().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    # -- plumbing ------------------------------------------------------------------------------------------------

    def _check_history(self, store: Store) -> None:
        with self._transaction() as run:
            size, last = run("SELECT size, last FROM state").fetchone()
        row = store.entry(size - 1) if size else None
        if size and (row is None or row.entry != last):
            self.clear()

    def _extend(self, store: Store, artifacts: ArtifactStore, start: int, size: int) -> None:
        erasures = self._erasures()
        entries: list[IndexedEntry] = []
        last, weight, head = b"", 0, None
        for row in store.entries(start, min(start + BATCH, size)):
            if head is None or head.size <= row.index:
                head = store.head_covering(row.index)
                if head is None:
                    raise StoreError(f"no head covers entry {row.index}; run `transparency log fsck`")
            entries.append(derive(row, head.time, artifacts))
            last, weight = row.entry, weight + len(row.statement)
            if weight >= BATCH_BYTES:
                break
        if not entries:
            raise StoreError(f"entry {start} is missing; run `transparency log fsck`")
        with self._transaction() as run:
            if (_size(run), _count(run)) == (start, erasures):
                self._write(entries)
                run("UPDATE state SET size = ?, last = ?", (entries[-1].index + 1, last))

    def _write(self, entries: Sequence[IndexedEntry]) -> None:
        many = self._writer().executemany
        many(
            _INSERT,
            [
                (each.index, each.entry, each.time, each.awaits, each.signed, each.content, each.to_json())
                for each in entries
            ],
        )
        many("INSERT OR IGNORE INTO times VALUES (?, ?)", [(each.time, each.index) for each in entries])
        salt = self._salt()
        if self._keys is None or self._keys.salt != salt:
            self._keys = Keys(salt)
        key = self._keys
        # In order of their keys: a batch touches each page of the tree once.
        postings = sorted((key.of(term), each.index) for each in entries for term in each.terms())
        many("INSERT OR IGNORE INTO postings VALUES (?, ?)", postings)

    def _salt(self) -> bytes:
        return bytes(self._writer().execute("SELECT salt FROM state").fetchone()[0])

    def _erasures(self) -> int:
        with self._transaction() as run:
            return _count(run)

    def _writer(self) -> sqlite3.Connection:
        """The writing connection; another one when somebody put a new file in the place of a damaged one."""
        if self._connection is not None and self._file != _identity(self.path):
            self._connection.close()
            self._connection = None
        if self._connection is None:
            self._connection = search_schema.open_for_writing(self.path)
            self._file = _identity(self.path)
        return self._connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with self._lock, _errors():
            writer = self._writer()
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer.execute
            except BaseException:
                writer.execute("ROLLBACK")
                raise
            writer.execute("COMMIT")


class Keys:
    """The hashes of terms under one salt. Those of the last entries are kept: issuers, tools and folders recur."""

    def __init__(self, salt: bytes) -> None:
        self.salt = salt
        self._kept: dict[Term, int] = {}

    def of(self, term: Term) -> int:
        key = self._kept.get(term)
        if key is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            key = self._kept[term] = self._hash(term)
        return key

    def _hash(self, term: Term) -> int:
        data = bytes((term.kind,)) + term.value.encode()
        return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=self.salt).digest(), "big", signed=True)


def _is_here(artifacts: ArtifactStore, digest: str) -> bool:
    try:
        return artifacts.size(digest) >= 0
    except (GoneError, NotFoundError):
        return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _forget(run: Callable[..., sqlite3.Cursor], index: int) -> None:
    """Remove the postings of an entry, by the facts that it has now."""
    row = run(ROW, (index,)).fetchone()
    if row is None:
        return
    key = Keys(run("SELECT salt FROM state").fetchone()[0])
    for term in IndexedEntry.from_row(row).terms():
        run("DELETE FROM postings WHERE key = ? AND idx = ?", (key.of(term), index))


def _size(run: Callable[..., sqlite3.Cursor]) -> int:
    return int(run("SELECT size FROM state").fetchone()[0])


def _count(run: Callable[..., sqlite3.Cursor]) -> int:
    return int(run("SELECT erasures FROM state").fetchone()[0])


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"the search index cannot be written ({error.sqlite_errorname})") from error
    except sqlite3.DatabaseError as error:
        raise DamagedIndexError from error
