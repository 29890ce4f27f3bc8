"""The intake of a leader: rows come from every node, are brought in as they come, and are settled for all to see.

Reading, sequencing and settling overlap: while a batch is flushed, what came meanwhile is read and queued. A judgement
that is no longer good is made again here, by the leader: the row may be all that is left of the node that wrote it.

What is under way is bounded, in rows and in bytes, however much lies in the intake: beyond that rows are read as others
end. So they find room in the queue, beside what comes to the leader itself; one that found none would be brought in
the slow way, by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final

from transparency.errors import JudgementStaleError, OverloadedError, StoreError, TransparencyError
from transparency.log import cluster_bell as bells
from transparency.log.appender import Clock
from transparency.log.candidate import Candidate, Place
from transparency.log.intake import Intake, Sequence
from transparency.log.queue import MAX_WAITING
from transparency.log.sequencer import MAX_BATCH, MAX_BATCH_BYTES, Sequencer
from transparency.log.store import IntakeRow, Store
from transparency.log.waiting import is_set_within
from transparency.policy.judge import Judgement
from transparency.statements.certificates import with_collateral
from transparency.statements.statement import Entry, Statement

# A bell that nobody heard costs no more than this.
LOOK_SECONDS: Final = 1.0
MOST_ROWS: Final = MAX_WAITING // 2
# What a row is taken to have when bytes are asked for: of smaller ones more are read than are begun.
_ROW_BYTES: Final = 1024
_TRIES: Final = 8
_AGAIN_SECONDS: Final = 0.25

Pending = Callable[[int, Collection[Entry]], list[IntakeRow]]
"""The oldest rows, as ``Store.intake_pending``. For any thread."""

MakeCandidate = Callable[[Statement, Judgement], Candidate]


class SharedIntake(Intake):
    def __init__(
        self,
        store: Store,
        sequencer: Sequencer,
        sequence: Sequence,
        clock: Clock,
        pending: Pending,
        candidate: MakeCandidate,
        ring: bells.Ringing,
    ) -> None:
        super().__init__(store, sequencer, sequence, clock)
        self._pending = pending
        self._candidate = candidate
        self._ring = ring
        self._under_way: dict[Entry, int] = {}
        self._bytes = 0
        # Whether rows were left in the intake because there was no room.
        self._behind = False
        self._groups: set[_Group] = set()
        self._tasks: set[asyncio.Future[None]] = set()

    def look(self) -> None:
        """A node has written rows."""
        self._to_drain.set()

    async def _drain(self) -> None:
        try:
            while not self._stopping and self._sequencer.failed is None:
                self._to_drain.clear()
                self._behind = await self._take_up()
                # Whoever writes more rings. Only what did not fit into one reading is read as soon as there is room.
                if not self._behind or not all(self._room()):
                    await is_set_within(self._to_drain, LOOK_SECONDS)
        except Exception as error:  # noqa: BLE001 - as in _drain_all, and before what was begun is waited for
            self._sequencer.fail(error)
        finally:
            # A leader that stops ends what it has begun; one that failed has told everybody.
            while self._groups and self._sequencer.failed is None:  # noqa: ASYNC110 - they end by callbacks
                await asyncio.sleep(0.005)
            if self._tasks:
                await asyncio.wait(self._tasks)

    def _room(self) -> tuple[int, int]:
        """For how many rows and bytes the next reading has room: a batch at most, so that one is read amid another."""
        rows = min(MAX_BATCH, max(MOST_ROWS - len(self._under_way), 0))
        return rows, min(rows * _ROW_BYTES, max(MAX_BATCH_BYTES - self._bytes, 0))

    async def _take_up(self) -> bool:
        """Begin what is new, and say whether there may be more of it than there was room for."""
        most, most_bytes = self._room()
        if not most_bytes:
            return True
        new = await self._read_new(most_bytes)
        if new:
            self._begin(new[:most])
        return len(new) > most or sum(row.size for row in new) >= most_bytes

    async def _read_new(self, most_bytes: int) -> list[IntakeRow]:
        """Rows that are not under way: to read those again with every bell would cost more than to read them once.

        From the node's own store, which may be opening anew: only if that takes long, somebody else shall lead.
        """
        for left in reversed(range(_TRIES)):
            try:
                return await asyncio.to_thread(self._pending, most_bytes, frozenset(self._under_way))
            except OverloadedError:
                if not left or self._stopping or self._sequencer.failed is not None:
                    raise
                await asyncio.sleep(_AGAIN_SECONDS)
        return []

    def _begin(self, rows: list[IntakeRow]) -> None:
        """Queue *rows*. Each tells how it ended; when all have, they are settled together."""
        group = _Group(rows)
        self._groups.add(group)
        for row in rows:
            self._under_way[row.entry] = row.size
            self._bytes += row.size
            self._sequencer.pending_intake.add(row.entry, row.size)
            try:
                # As it was judged: its certificates go with it into the tree.
                statement = with_collateral(Statement.from_bytes(row.statement), row.judgement.collateral)
                candidate = self._candidate(statement, row.judgement)
                self._sequencer.enqueue(candidate, partial(self._ended, group, row))
            except TransparencyError as error:
                self._ended(group, row, error)

    def _ended(self, group: _Group, row: IntakeRow, outcome: Place | TransparencyError) -> None:
        if isinstance(outcome, StoreError):
            group.outcomes[row.entry] = None  # whoever leads next brings it in
        elif isinstance(outcome, JudgementStaleError | OverloadedError):
            self._keep(self._again(group, row))
            return
        else:
            group.outcomes[row.entry] = (str(outcome) or "refused") if isinstance(outcome, TransparencyError) else ""
        if len(group.outcomes) == len(group.rows):
            self._keep(self._settle_all(group))

    async def _again(self, group: _Group, row: IntakeRow) -> None:
        """Policy or time have moved on, or there was no room: the slow way, by which it is judged again."""
        try:
            group.outcomes[row.entry] = await self._bring_in(row)
        except Exception as error:  # noqa: BLE001 - a row that nobody brings in would be a broken promise
            self._ended(group, row, error if isinstance(error, TransparencyError) else StoreError("it could not be"))
            return
        if len(group.outcomes) == len(group.rows):
            await self._settle_all(group)

    async def _settle_all(self, group: _Group) -> None:
        ended = group.outcomes
        settled = any(outcome or self.holds(entry) for entry, outcome in ended.items() if outcome is not None)
        try:
            await self._settle(ended)
        except Exception as error:  # noqa: BLE001 - as above
            self._sequencer.fail(error)
        self._groups.discard(group)
        self._bytes -= sum([self._under_way.pop(entry) for entry in ended])
        if self._behind:
            self._to_drain.set()
        if settled:
            # What was refused may have come again meanwhile, and been passed over as being under way. So may a row that
            # was in the tree by then: whoever wrote that is told by the tree, and it goes with the next look.
            self._to_drain.set()
            self._ring.ring(bells.SETTLED)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Group:
    """Rows that were read together."""

    __slots__ = ("outcomes", "rows")

    def __init__(self, rows: list[IntakeRow]) -> None:
        self.rows = rows
        # Empty when it is in the tree, the reason when it was refused, None when it is left for who leads next.
        self.outcomes: dict[Entry, str | None] = {}
