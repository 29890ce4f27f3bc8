"""Upkeep: what the store may be behind with for a moment, and when it catches up.

* Batches that are kept in the journal are held, and written together (decision 0020): after a moment at the latest.
* The indexes of digests are filled in rounds (recent.py): when so many entries wait, a slice between two batches; and
  when nobody has come for a while.

Between batches, and by whoever commits them: nothing here writes by itself. Owner: the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from transparency.log.recent import Recent
from transparency.log.store import Store

# A round through the indexes for so many entries, so many of them between two batches (recent.py).
INDEX_EVERY = 65_536
INDEX_AT_ONCE = 512
INDEX_AFTER_SECONDS = 1.0
# After this it is a batch's turn to be written that is in the journal and not in the store: others read that, too.
SETTLE_AFTER_SECONDS = 0.1

Write = Callable[[Callable[[], None]], Awaitable[None]]


class Appending(Protocol):
    """What is asked of the appender: whether the store may hold what it appended, and to have that written."""

    @property
    def unsettled(self) -> bool: ...
    def settle(self) -> None: ...


class Upkeep:
    def __init__(
        self,
        appender: Appending,
        store: Store,
        recent: Recent,
        write: Write,
        write_unsynced: Write,
        wake: Callable[[], None],
    ) -> None:
        """*write* runs a write in its turn, *write_unsynced* one that waits for no disk; *wake*: something is due."""
        self._appender = appender
        self._store = store
        self._recent = recent
        self._write = write
        self._write_unsynced = write_unsynced
        self._wake = wake
        self._settling: asyncio.TimerHandle | None = None
        self.settle_due = False
        # Whether nobody came for a while when it was last waited for.
        self._quiet = False

    def committed(self, size: int) -> None:
        """A batch was: the tree has *size* entries."""
        if self._appender.unsettled and self._settling is None:
            self._settling = asyncio.get_running_loop().call_later(SETTLE_AFTER_SECONDS, self._note_settle_due)
        if len(self._recent) >= INDEX_EVERY and not self._recent.in_round:
            self._recent.begin_round(size)

    async def settle(self) -> None:
        """By now most of what was held is in the store, with others."""
        self.settle_due = False
        if self._appender.unsettled:
            await self._write_unsynced(self._appender.settle)

    async def go_on(self, batch: int) -> None:
        """Between two batches, of which the last had so many: a slice of a round, so that it ends before the next."""
        if self._recent.in_round:
            await self._index_some(max(INDEX_AT_ONCE, 2 * batch))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While somebody waits for work: how long it takes."""
        self._quiet = False
        quiet = asyncio.get_running_loop().call_later(INDEX_AFTER_SECONDS, self._note_quiet) if self._recent else None
        try:
            yield
        finally:
            if quiet is not None:
                quiet.cancel()

    async def catch_up(self, size: int, disturbed: Callable[[], bool]) -> None:
        """Have the indexes hold the whole tree, of *size* entries, if it is quiet, and until somebody comes."""
        if self._quiet and not self._recent.in_round:
            self._recent.begin_round(size)
        while self._recent.in_round and not disturbed():
            await self._index_some(INDEX_AT_ONCE)

    async def index_all(self, upto: int) -> None:
        """Have the indexes hold everything below *upto* now."""
        await self._write(lambda: self._store.extend_index(upto))
        self._recent.forget(upto)

    async def _index_some(self, least: int) -> None:
        some = self._recent.next_slice(least)
        await self._write(lambda: self._store.index_some(*some))
        if some.upto is not None and self._recent.in_round:
            self._recent.end_round()

    def _note_settle_due(self) -> None:
        self._settling, self.settle_due = None, True
        self._wake()

    def _note_quiet(self) -> None:
        self._quiet = True
        self._wake()
