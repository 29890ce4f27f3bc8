"""The intake: what 202 promises (REG-23). Durable first, then brought into the tree, or recorded as failed.

Waiting statements are made durable by the sequencer's loop, before each batch, as many in one transaction as fit: a
202 waits for one flush, like a 201. A task of its own then reads durable ones back, oldest first and a bounded number
of bytes at a time, and has them sequenced; memory is bounded whatever waits on the disk. A stop leaves what is durable
where it is: the next start drains it.

Ownership: everything here belongs to the event loop. ``sequencer.pending_intake`` names each row that is durable and
not settled; the sequencer takes names out when a commit removed the row in the same transaction.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from transparency.errors import GoneError, OverloadedError, RefusedError
from transparency.log.appender import Clock
from transparency.log.candidate import Place
from transparency.log.queue import overloaded
from transparency.log.sequencer import MAX_BATCH_BYTES, Sequencer, stopped
from transparency.log.store import IntakeRow, Store
from transparency.policy.judge import Judgement
from transparency.statements.certificates import with_collateral
from transparency.statements.statement import Entry, Statement

MAX_PENDING = 10_000
MAX_PENDING_BYTES = 256 * 1024 * 1024
MAX_WAITING_BYTES = 64 * 1024 * 1024
# A failed 202 is told for a week, then it is unknown (AMB-8).
KEEP_FAILED_SECONDS: Final = 7 * 24 * 3600
FORGET_EVERY_SECONDS: Final = 3600

Sequence = Callable[[Statement, Judgement], Awaitable[Place]]


class Intake:
    def __init__(self, store: Store, sequencer: Sequencer, sequence: Sequence, clock: Clock) -> None:
        self._store = store
        self._sequencer = sequencer
        self._sequence = sequence
        self._clock = clock
        self._waiting: deque[tuple[IntakeRow, asyncio.Future[None]]] = deque()
        self._waiting_bytes = 0
        self._to_drain = asyncio.Event()
        self._stopping = False
        self._forgot = 0
        self._draining: asyncio.Task[None] | None = None
        sequencer.keeper = self

    async def start(self, *, drain: bool = True) -> None:
        """Take up what an earlier process acknowledged. Without *drain* it waits for the next start."""
        for entry, size in self._store.intake_sizes().items():
            self._sequencer.pending_intake.add(entry, size)
        await self._forget()
        if drain:
            self._draining = asyncio.create_task(self._drain_all(), name="intake")

    async def stop(self) -> None:
        """What is being sequenced ends; the rest stays for the next start. What waits is the sequencer's to keep."""
        self._stopping = True
        self._to_drain.set()
        if self._draining is not None:
            await self._draining

    def holds(self, entry: Entry) -> bool:
        return entry in self._sequencer.pending_intake

    async def take_in(self, row: IntakeRow) -> None:
        """Return once *row* survives power loss. A caller that goes away leaves it to be kept and drained."""
        self._sequencer.refuse_if_closed()
        if self._stopping:
            raise OverloadedError("the log is stopping; nothing was accepted", retry_after=5.0)
        size = row.size
        pending = self._sequencer.pending_intake
        if (
            len(self._waiting) + len(pending) >= MAX_PENDING
            or self._waiting_bytes + size > MAX_WAITING_BYTES
            or self._waiting_bytes + pending.bytes + size > MAX_PENDING_BYTES
        ):
            raise overloaded()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting.append((row, future))
        self._waiting_bytes += size
        self._sequencer.wake()
        await asyncio.shield(future)

    # -- keep: called by the sequencer ---------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def give_up(self) -> None:
        """The store failed: tell everyone who waits."""
        _give_up((future for _, future in self._waiting), self._sequencer.failed)
        self._waiting.clear()
        self._to_drain.set()

    async def keep_some(self) -> None:
        taken: list[tuple[IntakeRow, asyncio.Future[None]]] = []
        size = 0
        while self._waiting and size < MAX_BATCH_BYTES:
            taken.append(self._waiting.popleft())
            size += taken[-1][0].size
        rows = [row for row, _ in taken]
        try:
            await self._sequencer.write(lambda: self._store.intake_add(rows))
        except BaseException:
            _give_up((future for _, future in taken), self._sequencer.failed)
            raise
        finally:
            self._waiting_bytes -= size
        for row, future in taken:
            self._sequencer.pending_intake.add(row.entry, row.size)
            if not future.done():
                future.set_result(None)
        self._to_drain.set()

    # -- drain ---------------------------------------------------------------------------------------------------

    async def _drain_all(self) -> None:
        """Whatever ends this early ends the log: a 202 that nobody brings in would be a broken promise."""
        try:
            await self._drain()
        except Exception as error:  # noqa: BLE001 - storage above all
            self._sequencer.fail(error)

    async def _drain(self) -> None:
        while not self._stopping and self._sequencer.failed is None:
            self._to_drain.clear()
            rows = [row for row in self._store.intake_pending(MAX_BATCH_BYTES) if self.holds(row.entry)]
            if not rows:
                await self._to_drain.wait()
                continue
            outcomes = await asyncio.gather(*(self._bring_in(row) for row in rows))
            await self._settle({row.entry: outcome for row, outcome in zip(rows, outcomes, strict=True)})

    async def _bring_in(self, row: IntakeRow) -> str | None:
        """Empty when *row* is in the tree, the reason when it was refused, None when it is left for the next start."""
        # As it was judged: should it have to be judged again, its certificates are needed again.
        statement = with_collateral(Statement.from_bytes(row.statement), row.judgement.collateral)
        while not self._stopping:
            try:
                if self._sequencer.find(row.entry) is None:
                    await self._sequence(statement, row.judgement)
            except (RefusedError, GoneError) as error:
                return str(error) or "refused"
            except OverloadedError as error:
                await asyncio.sleep(error.retry_after)
            else:
                return ""
        return None

    async def _settle(self, outcomes: dict[Entry, str | None]) -> None:
        """Close the rows that no commit has removed: refused ones, and those that were in the tree already."""
        failed = [(entry, reason) for entry, reason in outcomes.items() if reason]
        known = [entry for entry, reason in outcomes.items() if reason == "" and self.holds(entry)]
        now = self._clock()
        if known:
            await self._sequencer.write(lambda: self._store.intake_remove(known))
        if failed:
            await self._sequencer.write(lambda: self._store.intake_fail(failed, now))
        for entry in (*known, *(entry for entry, _ in failed)):
            self._sequencer.pending_intake.discard(entry)
        if now - self._forgot >= FORGET_EVERY_SECONDS:
            await self._forget()

    async def _forget(self) -> None:
        self._forgot = self._clock()
        before = self._forgot - KEEP_FAILED_SECONDS
        await self._sequencer.write(lambda: self._store.intake_forget(before))


def _give_up(waiting: Iterable[asyncio.Future[Any]], why: BaseException | None) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(stopped(why))
