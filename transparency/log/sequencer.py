"""The sequencer: puts judged candidates in order, in batches as large as the disk is slow (design.md §4).

Ownership
---------
* The *event loop* owns the queue, the table of entries in flight, the table of recent entries and the policy
  generation. All decisions are taken there, between batches, so they need no lock.
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

Any failure of the store ends the sequencer: all who wait get :class:`StoreError`, ``failed`` is set, and the service
stops. It never retries a write whose outcome it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
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
from transparency.log.candidate import Batch, Candidate, Place, Sequenced, Standing, Told, settled
from transparency.log.counters import Counters
from transparency.log.gathering import Gathering
from transparency.log.pending_intake import PendingIntake
from transparency.log.recent import Recent
from transparency.log.store import DOCUMENTS, Kind, NewEntry, Store
from transparency.log.writer import Writer
from transparency.policy.judge import Judgement
from transparency.statements.statement import Entry, Statement
from transparency.statements.twins import twin_entry

MAX_WAITING = 10_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_BATCH = 2_048
MAX_BATCH_BYTES = 16 * 1024 * 1024
# A round through the indexes for so many entries, so many of them between two batches (recent.py).
INDEX_EVERY = 65_536
INDEX_AT_ONCE = 512
INDEX_AFTER_SECONDS = 1.0
_T = TypeVar("_T")


@dataclass(slots=True)
class _Waiting:
    candidate: Candidate
    told: list[Told]


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
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._in_flight: dict[Entry, _Waiting] = {}
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
            with contextlib.suppress(StoreError):  # the index is derived; the next start catches up
                await self.write(lambda: self._store.extend_index(self._appender.tip.size))
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
        """As :meth:`find`, of many at once: those that are in the tree."""
        found = self._recent.places(entries)
        others = [entry for entry in entries if entry not in found] if found else entries
        return found | self._store.find_some(others)

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
        waiting = self._in_flight.get(candidate.new.entry)
        if waiting is not None:
            waiting.told.append(told)
            if not candidate.patient:
                self._gathering.make_due()
        else:
            self._enqueue(candidate, told)

    async def write(self, job: Callable[[], _T]) -> _T:
        """Run one write on the writer's thread; a failure ends the sequencer."""
        try:
            return await self._writer.run(job)
        except BaseException as error:
            self.fail(error)
            raise

    # -- between batches -----------------------------------------------------------------------------------------

    def _enqueue(self, candidate: Candidate, told: Told) -> None:
        self.refuse_if_closed()
        size = candidate.size
        if len(self._queue) >= MAX_WAITING or self._queued_bytes + size > MAX_WAITING_BYTES:
            raise overloaded()
        waiting = self._in_flight[candidate.new.entry] = _Waiting(candidate, [told])
        self._queue.append(waiting)
        self._queued_bytes += size
        self._some_unique |= candidate.judgement.unique
        self.counters.accepted += 1
        self._gathering.joined(len(self._queue), patient=candidate.patient)

    def refuse_if_closed(self) -> None:
        if self.failed is not None:
            raise stopped()
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
        new = [waiting.candidate.new for waiting in batch]
        done = [entry.entry for entry in new if entry.entry in self.pending_intake]
        signer_at = batch[-1].candidate.signer_at
        first, left = self._appender.tip.size, self._appender.left_subtrees()
        try:
            head = await self._writer.run_small(
                lambda: self._appender.append(new, now, signer_at=signer_at, intake_done=done)
            )
        except BaseException as error:
            self.fail(error)
            raise
        self._recent.add(new, first)
        self._release(batch, Batch(first, head, [entry.entry for entry in new], left), done)
        if len(self._recent) >= INDEX_EVERY and not self._recent.in_round:
            self._recent.begin_round(head.size)
        if self._recent.in_round:
            await self._index_some(max(INDEX_AT_ONCE, 2 * len(batch)))  # faster than batches come in

    def _take(self, now: int) -> list[_Waiting]:
        batch: list[_Waiting] = []
        signed: dict[bytes, set[Entry]] = {}
        size = 0
        count = min(len(self._queue), MAX_BATCH)
        known = self.find_some([waiting.candidate.new.entry for waiting in islice(self._queue, count)])
        # Whose judgement was found to hold: those that were judged together share it.
        holds: Judgement | None = None
        for _ in range(count):
            if size >= MAX_BATCH_BYTES:
                break
            waiting = self._queue.popleft()
            candidate = waiting.candidate
            new, length = candidate.new, candidate.size
            self._queued_bytes -= length
            if new.entry in known:
                self._answer(waiting, Standing(known[new.entry]))
                continue
            refusal = None
            if candidate.judgement is not holds or candidate.check is not None:
                refusal = self._refusal(candidate, now)
                holds = candidate.judgement if refusal is None and candidate.kind not in DOCUMENTS else None
            if self._some_unique and refusal is None:
                refusal = self._second(candidate, signed)
            if self.some_erased and refusal is None:
                refusal = self._brings_back(new)
            if refusal is not None:
                self._answer(waiting, refusal)
                continue
            batch.append(waiting)
            if self._some_unique:
                signed.setdefault(new.tbs_digest, set()).add(new.entry)
            size += length
            if candidate.kind in DOCUMENTS:
                break
        return batch

    def _refusal(self, candidate: Candidate, now: int) -> TransparencyError | None:
        if candidate.check is not None:
            try:
                candidate.check(now)
            except TransparencyError as error:
                return error
        if candidate.kind in DOCUMENTS:
            return None  # its place is what was checked
        if candidate.judgement.generation != self.generation or not candidate.judgement.holds_at(now):
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

    def _answer(self, waiting: _Waiting, outcome: Standing | TransparencyError) -> None:
        self._in_flight.pop(waiting.candidate.new.entry, None)
        for told in waiting.told:
            told(outcome)

    def _release(self, batch: list[_Waiting], together: Batch, intake_done: list[Entry]) -> None:
        first, head = together.first, together.head
        for entry in intake_done:
            self.pending_intake.discard(entry)
        last = batch[-1].candidate
        if last.took_effect is not None:
            last.took_effect(head.size - 1, head)
        for index, waiting in enumerate(batch, first):
            self._in_flight.pop(waiting.candidate.new.entry, None)
            outcome = Sequenced(index, together)
            for told in waiting.told:
                told(outcome)
        self.counters.published += len(batch)
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

    def fail(self, error: BaseException) -> None:
        if self.failed is not None:
            return
        self.failed = error
        stranded, self._in_flight = self._in_flight, {}
        self._queue.clear()
        for waiting in stranded.values():
            for told in waiting.told:
                told(stopped())
        if self.keeper is not None:
            self.keeper.give_up()
        if self.on_failure is not None:
            self.on_failure(error)


def stopped() -> StoreError:
    return StoreError("the log has stopped because its storage failed")


def overloaded() -> OverloadedError:
    # Jittered, so that those turned away together do not come back together.
    return OverloadedError("too many statements are waiting; nothing was accepted", retry_after=random.uniform(1, 4))  # noqa: S311
