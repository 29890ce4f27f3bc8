"""Writing to SQLite: the one connection that does, how its commits are synced, and what waits to be written.

A batch that is *kept* elsewhere, durably and by who commits it, is held here in memory: it is written before the next
batch that is not, before whatever else is written, when somebody reads the tree, or by :meth:`Writing.settle`
(decision 0020). So whoever reads through the store never notices; who reads the file itself may be behind by what is
held. What is held is written with ``synchronous=NORMAL``: power loss may take it again, and those behind it, but leaves
no half of one. The next commit in full syncs the write-ahead log, and so all that came before it.

Invariant: what is held goes on from the tip in the file, one batch after the other. If it cannot be written nobody
knows what is in the file: then nothing is written any more (contract 2), and a start brings it back from where it is
kept.

Owner: whoever holds the lock. That is the sequencer's thread, or one that reads and finds something held. It is held
through a flush: a reader who has to wait looks again and again whether there is still something for it to do.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from transparency.errors import StoreError, TransparencyError
from transparency.log import schema, sqlite_batches
from transparency.log.sql_reads import Row
from transparency.log.sqlite_transaction import Transaction, unreadable
from transparency.log.store import Commit

# 8 MB, as SQLite's own default is for pages of that time: who commits does the checkpoint, and others wait for it.
CHECKPOINT_PAGES = 8 * 1024 * 1024 // schema.PAGE_SIZE
# How often a reader looks whether somebody else has written what it waits for.
LOOK_SECONDS = 0.001
_FULL = "FULL"
_NORMAL = "NORMAL"


class Writing:
    def __init__(self, connection: Any, synchronous: str) -> None:  # noqa: ANN401 - as sqlite.connect gives
        self._connection = connection
        self._synchronous = self._syncing = synchronous
        # Again by the same thread: what writes may ask first how far it has got.
        self._lock = threading.RLock()
        self._held: list[Commit] = []
        # What went wrong when what is held was being written.
        self._failed: BaseException | None = None

    def commit(self, batch: Commit) -> None:
        with self._lock:
            if self._held and not sqlite_batches.follows(batch, self._held[-1]):
                raise sqlite_batches.moved_by_another()
            if batch.kept and self._synchronous == _FULL:
                self._refuse_if_failed()
                self._held.append(batch)
            else:
                # What is held first, unsynced: while this one is flushed nothing is, and nobody who reads has to wait.
                self.settle()
                self._write([batch], self._synchronous)

    def settle(self) -> None:
        """Write what is held. For any thread.

        Who has the lock may be at it, and flush another batch behind it: nobody waits for that here.
        """
        while self._held:  # looked at without the lock: a batch that was committed before is seen
            if self._lock.acquire(timeout=LOOK_SECONDS):
                try:
                    if self._held:
                        self._write(self._held, _NORMAL)
                finally:
                    self._lock.release()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Callable[..., Any]]:
        """BEGIN IMMEDIATE … COMMIT, synced, and with it all that was committed before."""
        with self.alone(), Transaction(self._connection) as run:
            yield run

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else writes, nothing is held, and what is committed is synced."""
        with self._lock:
            self.settle()
            self._sync(self._synchronous)
            yield

    def read(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """For who could write at this moment: another connection has to read its pages anew after every commit."""
        try:
            with self._lock:
                return list(self._connection.execute(sql, parameters).fetchall())
        except Exception as error:
            raise unreadable(error) from error

    def close(self) -> None:
        with self._lock:
            if self._failed is None:
                with contextlib.suppress(TransparencyError):  # it is kept, and the next start brings it back
                    self.settle()
            self._connection.close()

    def _write(self, batches: Sequence[Commit], synchronous: str) -> None:
        self._refuse_if_failed()
        begun = False
        try:
            self._sync(synchronous)
            with Transaction(self._connection):
                begun = True
                sqlite_batches.write(self._connection, batches)
        except BaseException as error:
            # What has not begun is not in doubt: it is held still, and who comes next tries again.
            if begun and self._held:
                self._failed = error
            raise
        self._held = []

    def _refuse_if_failed(self) -> None:
        if self._failed is not None:
            raise StoreError(
                f"an earlier write failed ({self._failed}); restart the log to read what was kept"
            ) from self._failed

    def _sync(self, synchronous: str) -> None:
        """How commits are synced from now on."""
        if synchronous != self._syncing:
            # Who writes unsynced may be one who reads, and is not to wait for a checkpoint either: whole commits do it.
            pages = CHECKPOINT_PAGES if synchronous == self._synchronous else 0
            try:
                self._connection.execute(f"PRAGMA synchronous = {synchronous}")
                self._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
            except Exception as error:
                raise StoreError(f"the store cannot begin to write: {error}") from error
            self._syncing = synchronous
