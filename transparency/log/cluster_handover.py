"""The hand-over: how a front end has statements sequenced by a leader that is another process, or none yet.

1. What was judged here is written into the intake table, as many rows in one transaction as are waiting, and a bell is
   rung. From then on it is sequenced by whoever leads, now or next, whatever becomes of this process.
2. When the leader says how far the tree is released, the new part's entries are read and held against those that wait
   here; each has its receipt made from the tree's tiles and the head it came in with.
3. Rows that were in the tree already, or were refused, are found by looking: when the leader says that it settled some,
   and every second.

Nothing here is guessed. A row is written again if nobody knows whether it was written: an entry is its digest, and
stands in the intake, as in the tree, once. Everything belongs to the event loop; writes and reads are done by threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from transparency.errors import OverloadedError, RefusedError, TransparencyError
from transparency.log import cluster_bell as bells
from transparency.log.appender import Clock
from transparency.log.candidate import Batch, Candidate, Sequenced, Standing, Told
from transparency.log.cluster_outlook import Progress
from transparency.log.cluster_trouble import Trouble
from transparency.log.queue import MAX_WAITING, MAX_WAITING_BYTES, overloaded
from transparency.log.sequencer import MAX_BATCH_BYTES
from transparency.log.store import IntakeRow, Store
from transparency.log.waiting import is_set_within
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry

_logger = logging.getLogger("transparency.cluster")
# Beyond it single look-ups are cheaper than to read all that is new.
_MAX_NEW: Final = 16_384
_AGAIN_SECONDS: Final = 0.25
_PATIENCE_EVERY: Final = 0.5
# Nobody leads for so long: who waits is told to come back, before it gives up by itself (client.py: after 30 seconds).
# Its row stays, if it was written.
PATIENCE_SECONDS: Final = 20.0

ReceiptsOf = Callable[[int, SignedHead, list[Entry], set[Entry]], list[bytes]]
"""Receipts of a batch, by its first index, its head and its entries: of those wanted, and nothing for others."""


@dataclass(slots=True)
class _Waiting:
    row: IntakeRow
    since: float
    told: list[Told] = field(default_factory=list)
    # Who only wants to know that it is durable.
    kept: list[asyncio.Future[None]] = field(default_factory=list)
    written: bool = False


class HandOver:
    def __init__(
        self,
        open_store: Callable[[], Store],
        ring: bells.Ringing,
        receipts: ReceiptsOf,
        clock: Clock,
        leading: Trouble | None = None,
    ) -> None:
        """*open_store* opens one of its own: it is written and read by two threads of this object.

        *leading* is what keeps this node from leading, if anything does.
        """
        self._store = open_store()
        self._ring = ring
        self._receipts = receipts
        self._clock = clock
        self._leading = leading or Trouble()
        self.trouble = Trouble()
        self._progress = Progress(lambda: asyncio.get_running_loop().time())
        self._waiting: dict[Entry, _Waiting] = {}
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._seen = 0
        self._work = asyncio.Event()
        self._look = asyncio.Event()
        self._stopping = False
        self._reading = asyncio.Lock()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hand-over")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, published: int) -> None:
        self._seen = published
        works = (self._write_all(), self._look_all(), self._lose_patience_in_time())
        self._tasks = [asyncio.create_task(work) for work in works]

    async def stop(self) -> None:
        """What was written stays for who leads. Who waits is told to ask again, elsewhere or later."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tell_all(OverloadedError("this node is stopping; ask another", retry_after=1.0))
        await asyncio.to_thread(self._writer.shutdown)
        self._store.close()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def check_progress(self) -> None:
        """What is handed over is sequenced by somebody, as far as can be seen."""
        oldest = next(iter(self._waiting.values()), None)
        self._progress.check(None if oldest is None else oldest.since)

    def holds(self, entry: Entry) -> bool:
        """Whether it is durable in the intake because of this node, as far as this node knows."""
        waiting = self._waiting.get(entry)
        return waiting is not None and waiting.written

    def pending(self, most_bytes: int, besides: Collection[Entry]) -> list[IntakeRow]:
        """The oldest rows of all nodes, without those that are known. For any thread."""
        return self._store.intake_pending(most_bytes, besides)

    def enqueue(self, candidate: Candidate, told: Told, since: float | None = None) -> None:
        """As the sequencer's: *told* is called when it is known what became of *candidate*, who waits *since* then."""
        self._waiting_for(candidate_row(candidate, self._clock()), since).told.append(told)

    async def take_in(self, row: IntakeRow) -> None:
        """Return once *row* survives power loss, as the intake's."""
        waiting = self._waiting_for(row)
        if waiting.written:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        waiting.kept.append(future)
        await asyncio.shield(future)

    def _waiting_for(self, row: IntakeRow, since: float | None = None) -> _Waiting:
        waiting = self._waiting.get(row.entry)
        if waiting is not None:
            return waiting
        if self._stopping:
            raise OverloadedError("this node is stopping; nothing was accepted", retry_after=1.0)
        if len(self._waiting) >= MAX_WAITING or self._bytes + row.size > MAX_WAITING_BYTES:
            raise overloaded()
        waiting = self._waiting[row.entry] = _Waiting(row, since or asyncio.get_running_loop().time())
        self._queue.append(waiting)
        self._bytes += row.size
        self._work.set()
        return waiting

    # -- into the intake -----------------------------------------------------------------------------------------

    async def _write_all(self) -> None:
        while True:
            self._work.clear()
            if not self._queue:
                await self._work.wait()
            await self._write_some()

    async def _write_some(self) -> None:
        taken: list[_Waiting] = []
        size = 0
        while self._queue and size < MAX_BATCH_BYTES:
            waiting = self._queue.popleft()
            if self._waiting.get(waiting.row.entry) is waiting:
                taken.append(waiting)
                size += waiting.row.size
        if not taken:
            return
        rows = [waiting.row for waiting in taken]
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._store.intake_add, rows)
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may be left waiting
            self.trouble.note("statements cannot be handed over", error)
            _complain(error)
            # Perhaps they were written, perhaps not: they are written again, which changes nothing if they were.
            self._queue.extendleft(reversed(taken))
            await asyncio.sleep(_AGAIN_SECONDS)
            return
        self.trouble.over()
        for waiting in taken:
            waiting.written = True
            _settle(waiting.kept)
        self._ring.ring(bells.INTAKE)

    # -- out of the tree -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Some were settled, or it has been a while."""
        self._look.set()

    async def published(self, size: int) -> None:
        """The tree is released up to *size*: tell those that are in its new part."""
        async with self._reading:
            first, self._seen = self._seen, max(self._seen, size)
            if size > first:
                self._progress.moved()
            if size <= first or not self._waiting:
                return
            if size - first > _MAX_NEW:
                self._look.set()
                return
            try:
                heads, entries = await asyncio.to_thread(self._read, first, size)
            except Exception as error:  # noqa: BLE001 - as above
                _complain(error)
                self._look.set()
                return
            for head in heads:
                self._match(first, head, entries)
                first = head.size

    def _read(self, first: int, size: int) -> tuple[list[SignedHead], dict[int, Entry]]:
        heads = []
        for head in self._store.heads(first):
            if head.size > size:
                break
            heads.append(head)
        return heads, dict(enumerate(self._store.digests(first, size), first))

    def _match(self, first: int, head: SignedHead, entries: dict[int, Entry]) -> None:
        batch = [entries[index] for index in range(first, head.size)]
        ours = {entry for entry in batch if entry in self._waiting}
        if not ours:
            return
        try:
            receipts = self._receipts(first, head, batch, ours)
        except Exception as error:  # noqa: BLE001 - as above
            _complain(error)
            self._look.set()
            return
        together = Batch(first, head, (), (), receipts)
        for index, entry in enumerate(batch, first):
            if entry in ours:
                self._tell(entry, Sequenced(index, together))

    async def _look_all(self) -> None:
        while True:
            await is_set_within(self._look, 1.0)
            self._look.clear()
            if self._waiting:
                try:
                    await self._look_once()
                except Exception as error:  # noqa: BLE001 - as above
                    _complain(error)

    async def _look_once(self) -> None:
        async with self._reading:
            asked = [entry for entry, waiting in self._waiting.items() if waiting.written]
            seen = self._seen
            found, failed = await asyncio.to_thread(self._look_up, asked)
            for entry, index in found.items():
                if index < seen:
                    self._tell(entry, Standing(index))
            for entry, reason in failed.items():
                self._tell(entry, RefusedError(reason))

    def _look_up(self, asked: list[Entry]) -> tuple[dict[Entry, int], dict[Entry, str]]:
        found = self._store.find_some(asked)
        pending = self._store.intake_sizes()
        failed: dict[Entry, str] = {}
        for entry in asked:
            if entry not in found and entry not in pending:
                row = self._store.intake_get(entry)
                if row is not None and row.failed is not None:
                    failed[entry] = row.failed
        return found, failed

    async def _lose_patience_in_time(self) -> None:
        """Whatever else waits for a database that stands still."""
        while True:
            await asyncio.sleep(_PATIENCE_EVERY)
            self._lose_patience()

    def _lose_patience(self) -> None:
        """Nobody waits for ever. What was written is sequenced all the same, and found when it is sent again."""
        late = asyncio.get_running_loop().time() - PATIENCE_SECONDS
        reason = self.trouble.now or self._leading.now
        said = f"nothing is registered at the moment: {reason}" if reason else "no node of this log leads at the moment"
        for entry in [entry for entry, waiting in self._waiting.items() if waiting.since <= late]:
            self._progress.gave_up()
            self._tell(entry, OverloadedError(f"{said}; send it again", retry_after=2.0))

    def _tell(self, entry: Entry, outcome: Sequenced | Standing | TransparencyError) -> None:
        waiting = self._waiting.pop(entry, None)
        if waiting is None:
            return
        self._bytes -= waiting.row.size
        if not isinstance(outcome, OverloadedError):
            self._progress.moved()
        _settle(waiting.kept, outcome if isinstance(outcome, TransparencyError) and not waiting.written else None)
        for told in waiting.told:
            told(outcome)

    def _tell_all(self, error: TransparencyError) -> None:
        for entry in list(self._waiting):
            self._tell(entry, error)


def _complain(error: Exception) -> None:
    """A database that is away is told of elsewhere; anything else is a fault of ours."""
    if not isinstance(error, TransparencyError):
        _logger.error("handing over failed: %s", type(error).__name__, exc_info=error)


def candidate_row(candidate: Candidate, now: int) -> IntakeRow:
    return IntakeRow(candidate.new.entry, candidate.new.statement, candidate.judgement, now)


def _settle(futures: list[asyncio.Future[None]], error: TransparencyError | None = None) -> None:
    for future in futures:
        if not future.done():
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
    futures.clear()
