"""The sequencer: puts judged candidates in order, in batches as large as the disk is slow (design.md §4).

Ownership
---------
* The *event loop* owns the queue with its table of entries in flight (queue.py), the table of recent entries and the
  policy generation. All decisions are taken there, between batches, so they need no lock.
* The *writer* (writer.py) has the appender and every write to the store, in the order the event loop hands them over:
  batches from here, rows from the intake. While it flushes a batch the next one collects: one client alone waits for
  one flush, thousands share one (gathering.py).

A batch has one decision time, the next head's; what is decided then stands in decisions.py. Whoever submits an entry
that is waiting or being flushed is told with the first one and shares its fate. All of a batch are looked up at once:
one query for each would cost more than all else that is done here.

Any failure of the store ends the sequencer: all who wait get :class:`StoreError`, ``failed`` is set, and the service
stops. It never retries a write whose outcome it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from transparency.errors import (
    OverloadedError,
    StoreError,
    TransparencyError,
)
from transparency.log.appender import Appender
from transparency.log.candidate import Batch, Candidate, Lot, Place, Standing, Told, enqueue_apart, settled
from transparency.log.counters import Counters
from transparency.log.decisions import Decisions
from transparency.log.gathering import Gathering
from transparency.log.pending_intake import PendingIntake
from transparency.log.queue import Queue, Single, Together, Unit
from transparency.log.recent import Recent
from transparency.log.store import DOCUMENTS, NewEntry, Store
from transparency.log.upkeep import Upkeep
from transparency.log.writer import Writer
from transparency.policy.judge import Judgement
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry

MAX_BATCH = 2_048
MAX_BATCH_BYTES = 16 * 1024 * 1024
_T = TypeVar("_T")


class Keeper(Protocol):
    """What has to be made durable before the next batch: the intake."""

    @property
    def waiting(self) -> bool: ...
    async def keep_some(self) -> None: ...
    def give_up(self) -> None: ...


class _Taken(NamedTuple):
    """A batch that is to be appended at a time: what waits for it, its rows, and the tree that it comes onto."""

    units: list[Unit]
    rows: list[NewEntry]
    now: int
    intake_done: list[Entry]
    last: Candidate | None
    first: int
    left: list[bytes | None]


class Sequencer:
    def __init__(self, appender: Appender, store: Store, generation: int, writer: Writer | None = None) -> None:
        self._appender = appender
        self._store = store
        self.counters = Counters()
        self.failed: BaseException | None = None
        self._queue = Queue()
        self._recent = Recent()
        self._decisions = Decisions(store, self._recent, self.find, generation)
        # Filled by the intake, see there; emptied here when a commit removed the row.
        self.pending_intake = PendingIntake()
        self.keeper: Keeper | None = None
        self._work = asyncio.Event()
        self._gathering = Gathering(self._work.set)
        self._writer = writer or Writer()
        self._upkeep = Upkeep(appender, store, self._recent, self.write, self._write_unsynced, self._work.set)
        # Whether the task waits for work, and nothing is under way.
        self._resting = False
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.on_failure: Callable[[BaseException], None] | None = None
        # Told the new size after every batch, when its receipts may be shown. They return at once.
        self.on_published: list[Callable[[int], None]] = []
        appender.on_commit = self._committed

    def _committed(self, count: int) -> None:
        self.counters.sequenced += count  # by the writer's thread, which is the only one to raise it

    # -- the event loop's side -----------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sequencer")

    async def stop(self) -> None:
        """Drain: what was queued is committed, then the writer ends."""
        self._stopping = True
        self._work.set()
        if self._task is not None:
            await self._task
        if self.failed is None:
            with contextlib.suppress(StoreError):  # the next start catches up
                await self.write(self._appender.finish)
        await asyncio.to_thread(self._writer.close)  # it waits for a write that is under way

    @property
    def generation(self) -> int:
        """Of the policy in force."""
        return self._decisions.generation

    @generation.setter
    def generation(self, generation: int) -> None:
        self._decisions.generation = generation

    @property
    def some_erased(self) -> bool:
        """Whether any erasure stands on the log."""
        return self._decisions.some_erased

    @some_erased.setter
    def some_erased(self, some_erased: bool) -> None:
        self._decisions.some_erased = some_erased

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def alive(self) -> bool:
        return self.failed is None and self._task is not None and not self._task.done()

    @property
    def size(self) -> int:
        return self._appender.tip.size

    def decision_time(self) -> int:
        return self._appender.decision_time()

    def find(self, entry: Entry) -> int | None:
        """The index of an entry that is in the tree and may be shown: a store may find it between commit and mark."""
        index = self._recent.place(entry)
        index = self._store.find(entry) if index is None else index
        return None if index is None or index >= self.size else index

    def find_some(self, entries: Sequence[Entry]) -> dict[Entry, int]:
        """As :meth:`find`, of many at once: those that are in the tree. For who is about to write."""
        found = self._recent.places(entries)
        others = [entry for entry in entries if entry not in found] if found else entries
        return found | self._store.find_some(others, writing=self._writer.idle)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def wake(self) -> None:
        """There is something to keep or to sequence."""
        self._work.set()

    async def submit(self, candidate: Candidate) -> Place:
        """Wait until *candidate* is in the tree under a released head."""
        return await settled(self.enqueue, candidate)

    def enqueue(self, candidate: Candidate, told: Told) -> None:
        """Put *candidate* in the queue, or beside the same one that is there; *told* is called when it is settled."""
        if not self._queue.join(candidate.new.entry, told):
            self._enqueue(Single(candidate, [told]), candidate.judgement, patient=candidate.patient)
        elif not candidate.patient:
            self._gathering.make_due()

    def enqueue_lot(self, lot: Lot) -> None:
        """As :meth:`enqueue` for each of a lot; who cannot be accepted is told so. None of it raises."""
        entries = [new.entry for new in lot.rows]
        if len(set(entries)) == len(entries) and not self._queue.has_any(entries):
            with contextlib.suppress(TransparencyError):  # there may be room for some of them
                self._enqueue(Together(lot), lot.judgement, patient=lot.patient)
                return
        enqueue_apart(self.enqueue, lot)

    def hurry(self) -> None:
        """Commit what waits, also the patient: one who sent some of them sends no more.

        Others' go with them: whose they are the queue does not know, and a commit that is not full costs little.
        """
        if self._queue:
            self._gathering.make_due()

    async def write(self, job: Callable[[], _T]) -> _T:
        """Run one write on the writer's thread; a failure ends the sequencer."""
        return await self._written(self._writer.run(job))

    async def _write_unsynced(self, job: Callable[[], _T]) -> _T:
        return await self._written(self._writer.run_small(job, flushes=False))

    async def _written(self, writing: Awaitable[_T]) -> _T:
        try:
            return await writing
        except BaseException as error:
            self.fail(error)
            raise

    # -- between batches -----------------------------------------------------------------------------------------

    def _enqueue(self, unit: Unit, judgement: Judgement, *, patient: bool) -> None:
        self.refuse_if_closed()
        self._queue.put(unit)
        self._decisions.some_unique |= judgement.unique
        self.counters.accepted += len(unit.rows)
        self._gathering.joined(len(self._queue), patient=patient)

    def refuse_if_closed(self) -> None:
        if self.failed is not None:
            raise stopped(self.failed)
        if self._stopping:
            raise OverloadedError("the log is stopping; nothing was accepted", retry_after=5.0)

    async def _run(self) -> None:
        try:
            while self.failed is None:
                if self.keeper is not None and self.keeper.waiting:
                    await self.keeper.keep_some()
                if self._upkeep.settle_due:
                    await self._upkeep.settle()
                if self._queue and (self._gathering.due or self._stopping):
                    await self._flush_batch()
                    await asyncio.sleep(0)  # a batch may have been committed in place: read what came in meanwhile
                elif self.keeper is None or not self.keeper.waiting:
                    if self._stopping:
                        return
                    await self._rest()
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may be left waiting
            self.fail(error)

    async def _rest(self) -> None:
        """Wait for work. When none comes, the derived indexes catch up: a quiet log is never behind for long."""
        self._work.clear()
        with self._upkeep.watching():
            # Not wait_for, which takes two more turns of the event loop: a lone client would wait for them.
            self._resting = True
            try:
                await self._work.wait()
            finally:
                self._resting = False
        await self._upkeep.catch_up(self._appender.tip.size, self._has_work)

    def _has_work(self) -> bool:
        kept = self.keeper is not None and self.keeper.waiting
        return kept or self._stopping or self._upkeep.settle_due or (bool(self._queue) and self._gathering.due)

    async def _flush_batch(self) -> None:
        taken = self._take_batch()
        if taken is None:
            return
        head = await self._written(self._writer.run_small(partial(self._append, taken)))
        if self.failed is None:  # else by another write, or the lead was lost, meanwhile: all were told, and once
            self._publish(taken, head)
            await self._upkeep.go_on(len(taken.rows))

    def flush_at_once(self) -> None:
        """Commit what waits before this returns, if nothing else is under way and the disk is quick.

        For who has nobody else to serve meanwhile: two turns of the event loop less, for a lone client.
        """
        if not (self._resting and self._writer.in_place and self._queue and self._gathering.due) or self._stopping:
            return
        if self.failed is not None or self._upkeep.settle_due or (self.keeper is not None and self.keeper.waiting):
            return
        try:
            taken = self._take_batch()
            if taken is not None:
                self._publish(taken, self._writer.run_in_place(partial(self._append, taken)))
        except Exception as error:  # noqa: BLE001 - as in the task: whatever it was, nobody may be left waiting
            self.fail(error)
            self._work.set()  # the task ends, too

    def _take_batch(self) -> _Taken | None:
        now = self._appender.decision_time()
        batch = self._take(now)
        self._gathering.taken()
        if self._queue:  # a document ended the batch, or it is full
            self._gathering.make_due()
        if not batch:
            return None
        rows = [row for unit in batch for row in unit.rows]
        done = [row.entry for row in rows if row.entry in self.pending_intake] if self.pending_intake else []
        last = batch[-1].candidate if isinstance(batch[-1], Single) else None
        return _Taken(batch, rows, now, done, last, self._appender.tip.size, self._appender.left_subtrees())

    def _append(self, taken: _Taken) -> SignedHead:
        signer_at = None if taken.last is None else taken.last.signer_at
        return self._appender.append(taken.rows, taken.now, signer_at=signer_at, intake_done=taken.intake_done)

    def _publish(self, taken: _Taken, head: SignedHead) -> None:
        self._recent.add(taken.rows, taken.first)
        self._release(taken, Batch(taken.first, head, self._appender.newest_leaves, taken.left))
        self._upkeep.committed(head.size)

    def _take(self, now: int) -> list[Unit]:
        batch: list[Unit] = []
        signed: dict[bytes, set[Entry]] = {}
        size = 0
        entries = self._queue.entries(MAX_BATCH)
        known, looked_up = self.find_some(entries), len(entries)
        while looked_up > 0 and size < MAX_BATCH_BYTES:
            unit = self._queue.take()
            if isinstance(unit, Together):
                fits = size + unit.size <= MAX_BATCH_BYTES  # one statement more than fits is little, a lot is not
                if not fits or not self._decisions.stay_together(unit.lot, known, now):
                    self._queue.take_apart(unit)
                    continue
            else:
                outcome = self._decisions.outcome(unit.candidate, known, signed, now)
                if outcome is not None:
                    looked_up -= 1
                    self._answer(unit, outcome)
                    continue
            looked_up -= len(unit.rows)
            batch.append(unit)
            size += unit.size
            if isinstance(unit, Single) and unit.candidate.kind in DOCUMENTS:
                break
        return batch

    def _answer(self, single: Single, outcome: Standing | TransparencyError) -> None:
        self._queue.settled(single)
        single.tell(outcome)

    def _release(self, taken: _Taken, batch: Batch) -> None:
        index, head, last = batch.first, batch.head, taken.last
        for entry in taken.intake_done:
            self.pending_intake.discard(entry)
        if last is not None and last.took_effect is not None:
            last.took_effect(head.size - 1, head)
        for unit in taken.units:
            self._queue.settled(unit)
            unit.sequenced(index, batch)
            index += len(unit.rows)
        self.counters.published += head.size - batch.first
        for tell_size in self.on_published:
            tell_size(head.size)

    async def index_all(self) -> None:
        """Have the derived indexes hold everything that is in the tree now."""
        await self._upkeep.index_all(self._appender.tip.size)

    def forget_kept(self) -> None:
        """What the journal holds of statements is overwritten. Run as a write."""
        self._appender.forget()

    def fail(self, error: BaseException) -> None:
        if self.failed is not None:
            return
        self.failed = error
        if self.on_failure is not None:  # before those who wait: the first to report it is the one who says why
            self.on_failure(error)
        for unit in self._queue.strand():
            unit.tell(stopped(error))
        if self.keeper is not None:
            self.keeper.give_up()


def stopped(error: BaseException | None) -> StoreError:
    """With the store's own words, which carry no payload; another error's might."""
    why = f": {error}" if isinstance(error, StoreError) else ""
    return StoreError(f"the log has stopped because its storage failed{why}")
