"""The sequencer: puts judged candidates in order, in batches as large as the disk is slow (design.md §4).

Ownership
---------
* The *event loop* owns the queue with its table of entries in flight (queue.py), the table of recent entries and the
  policy generation. All decisions are taken there, between batches, so they need no lock.
* The *writer* (writer.py) has the appender and every write to the store, in the order the event loop hands them over:
  batches from here, rows from the intake. While it flushes a batch the next one collects: one client alone waits for
  one flush, thousands share one (gathering.py).

Order of decisions for a batch, at one decision time (the next head's):
1. A candidate judged under another generation than the current, or whose interval does not hold at that time, goes
   back to be judged again (:class:`JudgementStaleError`). It was not sequenced.
2. A document of the service (policy, keys) is checked against the one in force, and ends its batch: what follows it
   is judged under what it says (REG-21, REG-22). What the service states about itself (operations) is checked against
   the key set in force and the time, and does not end its batch.
3. Whoever submits an entry that is waiting or being flushed is told with the first one and shares its fate. An entry
   that is in the tree already, by the recent table or the digest index, is answered with its place. All of a batch are
   looked up at once: one query for each would cost more than all else that is done here.
4. A candidate whose judgement says *unique* is refused if the tree or this batch holds another signature over the
   same bytes, unless its (r, n-s) twin is among them: a malleated copy must not block the genuine one (LEAF-7).
5. The (r, n-s) twin of an erased entry is refused: what was erased stays erased (REG-20).
A lot of statements that were judged alike is decided on as one while none of this can tell one of them from another;
else it is taken apart, and each is decided on by itself.

Any failure of the store ends the sequencer: all who wait get :class:`StoreError`, ``failed`` is set, and the service
stops. It never retries a write whose outcome it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from transparency.errors import (
    GoneError,
    JudgementStaleError,
    OverloadedError,
    RefusedError,
    StoreError,
    TransparencyError,
)
from transparency.log.appender import Appender
from transparency.log.candidate import Batch, Candidate, Lot, Place, Standing, Told, enqueue_apart, settled
from transparency.log.counters import Counters
from transparency.log.gathering import Gathering
from transparency.log.pending_intake import PendingIntake
from transparency.log.queue import Queue, Single, Together, Unit
from transparency.log.recent import Recent
from transparency.log.store import DOCUMENTS, Kind, NewEntry, Store
from transparency.log.writer import Writer
from transparency.policy.judge import Judgement
from transparency.statements.statement import Entry, Statement
from transparency.statements.twins import twin_entry

MAX_BATCH = 2_048
MAX_BATCH_BYTES = 16 * 1024 * 1024
# A round through the indexes for so many entries, so many of them between two batches (recent.py).
INDEX_EVERY = 65_536
INDEX_AT_ONCE = 512
INDEX_AFTER_SECONDS = 1.0
_T = TypeVar("_T")


class Keeper(Protocol):
    """What has to be made durable before the next batch: the intake."""

    @property
    def waiting(self) -> bool: ...
    async def keep_some(self) -> None: ...
    def give_up(self) -> None: ...


class Sequencer:
    def __init__(self, appender: Appender, store: Store, generation: int, writer: Writer | None = None) -> None:
        self._appender = appender
        self._store = store
        self.generation = generation
        self.counters = Counters()
        # Whether any erasure stands on the log: only then is it asked whether something erased comes back.
        self.some_erased = False
        # Whether any policy has asked for it: only then are the signed bytes of a batch compared.
        self._some_unique = False
        self.failed: BaseException | None = None
        self._queue = Queue()
        self._recent = Recent()
        # Filled by the intake, see there; emptied here when a commit removed the row.
        self.pending_intake = PendingIntake()
        self.keeper: Keeper | None = None
        self._work = asyncio.Event()
        self._gathering = Gathering(self._work.set)
        self._writer = writer or Writer()
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

    async def write(self, job: Callable[[], _T]) -> _T:
        """Run one write on the writer's thread; a failure ends the sequencer."""
        try:
            return await self._writer.run(job)
        except BaseException as error:
            self.fail(error)
            raise

    # -- between batches -----------------------------------------------------------------------------------------

    def _enqueue(self, unit: Unit, judgement: Judgement, *, patient: bool) -> None:
        self.refuse_if_closed()
        self._queue.put(unit)
        self._some_unique |= judgement.unique
        self.counters.accepted += len(unit.rows)
        self._gathering.joined(len(self._queue), patient=patient)

    def refuse_if_closed(self) -> None:
        if self.failed is not None:
            raise stopped(self.failed)
        if self._stopping:
            raise OverloadedError("the log is stopping; nothing was accepted", retry_after=5.0)

    async def _run(self) -> None:
        try:
            while True:
                if self.keeper is not None and self.keeper.waiting:
                    await self.keeper.keep_some()
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
        if not self._recent:
            await self._work.wait()
            return
        # Not wait_for, which takes two more turns of the event loop: a lone client would wait for them.
        quiet = asyncio.get_running_loop().call_later(INDEX_AFTER_SECONDS, self._work.set)
        await self._work.wait()
        quiet.cancel()
        if not self._has_work() and not self._recent.in_round:
            self._recent.begin_round(self._appender.tip.size)
        while self._recent.in_round and not self._has_work():
            await self._index_some(INDEX_AT_ONCE)

    def _has_work(self) -> bool:
        kept = self.keeper is not None and self.keeper.waiting
        return kept or self._stopping or (bool(self._queue) and self._gathering.due)

    async def _flush_batch(self) -> None:
        now = self._appender.decision_time()
        batch = self._take(now)
        self._gathering.taken()
        if self._queue:  # a document ended the batch, or it is full
            self._gathering.make_due()
        if not batch:
            return
        new = [row for unit in batch for row in unit.rows]
        done = [row.entry for row in new if row.entry in self.pending_intake] if self.pending_intake else []
        last = batch[-1].candidate if isinstance(batch[-1], Single) else None
        signer_at = None if last is None else last.signer_at
        first, left = self._appender.tip.size, self._appender.left_subtrees()
        try:
            head = await self._writer.run_small(
                lambda: self._appender.append(new, now, signer_at=signer_at, intake_done=done)
            )
        except BaseException as error:
            self.fail(error)
            raise
        if self.failed is not None:
            return  # by another write, or the lead was lost, meanwhile: all of them were told, and are told once
        self._recent.add(new, first)
        self._release(batch, Batch(first, head, self._appender.newest_leaves, left), done, last)
        if len(self._recent) >= INDEX_EVERY and not self._recent.in_round:
            self._recent.begin_round(head.size)
        if self._recent.in_round:
            await self._index_some(max(INDEX_AT_ONCE, 2 * len(new)))  # faster than batches come in

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
                if not fits or not self._stays_together(unit.lot, known, now):
                    self._queue.take_apart(unit)
                    continue
            else:
                outcome = self._outcome(unit.candidate, known, signed, now)
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

    def _stays_together(self, lot: Lot, known: Collection[Entry], now: int) -> bool:
        """Whether nothing that is asked of each of a lot can have two answers, and the answer is yes."""
        if self._some_unique or self.some_erased or not self._holds(lot.judgement, now):
            return False
        return not known or not any(new.entry in known for new in lot.rows)

    def _outcome(
        self, candidate: Candidate, known: Mapping[Entry, int], signed: dict[bytes, set[Entry]], now: int
    ) -> Standing | TransparencyError | None:
        """How it ends without a commit; None if it is to be committed. *signed* is what this batch signs."""
        new = candidate.new
        if new.entry in known:
            return Standing(known[new.entry])
        refusal = self._refusal(candidate, now)
        if self._some_unique and refusal is None:
            refusal = self._second(candidate, signed)
        if self.some_erased and refusal is None:
            refusal = self._brings_back(new)
        if self._some_unique and refusal is None:
            signed.setdefault(new.tbs_digest, set()).add(new.entry)
        return refusal

    def _holds(self, judgement: Judgement, now: int) -> bool:
        return judgement.generation == self.generation and judgement.holds_at(now)

    def _refusal(self, candidate: Candidate, now: int) -> TransparencyError | None:
        if candidate.check is not None:
            try:
                candidate.check(now)
            except TransparencyError as error:
                return error
        if candidate.kind in DOCUMENTS:
            return None  # its place is what was checked
        if not self._holds(candidate.judgement, now):
            return JudgementStaleError("the policy or the time has moved on; judge again")
        return None

    def _second(self, candidate: Candidate, signed: dict[bytes, set[Entry]]) -> TransparencyError | None:
        """The refusal of a second signature over the same bytes, where the policy wants but one."""
        if not candidate.judgement.unique:
            return None
        tbs = candidate.new.tbs_digest
        if tbs not in signed and not self._recent.has_signed(tbs) and not self._store.siblings(tbs, 1):
            return None
        twin = twin_entry(Statement.from_bytes(candidate.new.statement))
        if twin is not None and (twin in signed.get(tbs, ()) or self.find(twin) is not None):
            return None
        return RefusedError("the policy refuses duplicates: these bytes are registered under another signature")

    def _brings_back(self, new: NewEntry) -> TransparencyError | None:
        """The refusal of an erased statement in its signature's other form, which whoever has it can write (REG-20)."""
        twin = twin_entry(Statement.from_bytes(new.statement)) if new.kind is Kind.STATEMENT else None
        index = self.find(twin) if twin is not None else None
        row = self._store.entry(index) if index is not None else None
        if row is None or not row.erased:
            return None
        return GoneError(f"this is entry {row.index}, which was erased, with its signature in another form")

    def _answer(self, single: Single, outcome: Standing | TransparencyError) -> None:
        self._queue.settled(single)
        single.tell(outcome)

    def _release(self, units: list[Unit], batch: Batch, intake_done: list[Entry], last: Candidate | None) -> None:
        index, head = batch.first, batch.head
        for entry in intake_done:
            self.pending_intake.discard(entry)
        if last is not None and last.took_effect is not None:
            last.took_effect(head.size - 1, head)
        for unit in units:
            self._queue.settled(unit)
            unit.sequenced(index, batch)
            index += len(unit.rows)
        self.counters.published += head.size - batch.first
        for tell_size in self.on_published:
            tell_size(head.size)

    async def _index_some(self, least: int) -> None:
        some = self._recent.next_slice(least)
        await self.write(lambda: self._store.index_some(*some))
        if some.upto is not None and self._recent.in_round:
            self._recent.end_round()

    async def index_all(self) -> None:
        """Have the derived indexes hold everything that is in the tree now."""
        upto = self._appender.tip.size
        await self.write(lambda: self._store.extend_index(upto))
        self._recent.forget(upto)

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
