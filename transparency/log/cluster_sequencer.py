"""The sequencer of a node, for those who do not ask who leads: this process while it does, else the hand-over.

A statement that was queued here when the leadership was lost is handed over: if it was committed it is found, if not it
is sequenced by whoever leads next. Who waits for it does not notice. A document of the service is not: its place in the
order was part of what was asked, so who asked has to look and ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from transparency.errors import NotLeadingError, OverloadedError, StoreError, TransparencyError
from transparency.log.appender import Clock
from transparency.log.candidate import Candidate, Lot, Place, Told, enqueue_apart, settled
from transparency.log.cluster_handover import HandOver
from transparency.log.counters import Counters
from transparency.log.intake import Intake
from transparency.log.sequencer import Sequencer
from transparency.log.store import DOCUMENTS, IntakeRow, Store
from transparency.statements.statement import Entry

_T = TypeVar("_T")


class Node(Protocol):
    """What is asked of a node: how far the tree is released and when, and who leads."""

    @property
    def published(self) -> int: ...
    @property
    def head_time(self) -> int: ...
    @property
    def leader(self) -> str: ...


class NodeSequencer:
    """Owner: the event loop. What it leads with is there while this node leads."""

    def __init__(self, node: Node, store: Store, hand_over: HandOver, clock: Clock) -> None:
        self._node = node
        self._store = store
        self._hand_over = hand_over
        self._clock = clock
        self._inner: Sequencer | None = None
        self._intake: Intake | None = None
        self.counters = Counters()
        self.failed: BaseException | None = None
        self.some_erased = False
        self.stopping = False
        self.on_published: list[Callable[[int], None]] = []

    def lead(self, sequencer: Sequencer | None, intake: Intake | None) -> None:
        """From now on by these; without, by the hand-over."""
        self._inner, self._intake = sequencer, intake

    @property
    def alive(self) -> bool:
        """Whether statements that are given here get somewhere."""
        return self.failed is None and not self.stopping and (self._inner is not None or bool(self._node.leader))

    @property
    def waiting(self) -> int:
        return self._hand_over.waiting + (self._inner.waiting if self._inner is not None else 0)

    @property
    def size(self) -> int:
        return self._node.published

    @property
    def generation(self) -> int:
        return self._leading().generation

    @generation.setter
    def generation(self, generation: int) -> None:
        if self._inner is not None:
            self._inner.generation = generation

    def decision_time(self) -> int:
        return self._inner.decision_time() if self._inner is not None else max(self._clock(), self._node.head_time)

    def find(self, entry: Entry) -> int | None:
        """The index of an entry that is in the tree and may be shown."""
        index = self._store.find(entry)
        return index if index is not None and index < self._node.published else None

    def find_some(self, entries: Sequence[Entry]) -> dict[Entry, int]:
        published = self._node.published
        return {entry: index for entry, index in self._store.find_some(entries).items() if index < published}

    async def submit(self, candidate: Candidate) -> Place:
        return await settled(self.enqueue, candidate)

    def enqueue(self, candidate: Candidate, told: Told) -> None:
        if candidate.kind in DOCUMENTS:
            self._leading().enqueue(candidate, told)
        elif self._inner is None or self._inner.failed is not None:
            self._count()
            self._hand_over.enqueue(candidate, told)
        else:
            self._inner.enqueue(candidate, self._or_hand_over(candidate, told))

    def flush_at_once(self) -> None:
        """No disk of ours is quick: it is the database's."""

    def hurry(self) -> None:
        if self._inner is not None:
            self._inner.hurry()

    def enqueue_lot(self, lot: Lot) -> None:
        """Each by itself: what is queued here when the lead is lost is handed over one by one."""
        enqueue_apart(self.enqueue, lot)

    def _or_hand_over(self, candidate: Candidate, told: Told) -> Told:
        since = asyncio.get_running_loop().time()

        def tell(outcome: Place | TransparencyError) -> None:
            if not isinstance(outcome, StoreError):
                told(outcome)
                return
            try:
                self._hand_over.enqueue(candidate, told, since)
            except TransparencyError as error:
                told(error)

        return tell

    def _count(self) -> None:
        self.counters.accepted += 1

    async def write(self, job: Callable[[], _T]) -> _T:
        """One write that only a leader makes, to the node's own store, and may make again.

        That store says "come back" while it is opened anew. It is no word on the leader's, and ends nobody's lead.
        """

        def attempt() -> _T | OverloadedError:
            try:
                return job()
            except OverloadedError as error:
                return error

        try:
            outcome = await self._leading().write(attempt)
        except StoreError as error:
            raise self.elsewhere() from error
        if isinstance(outcome, OverloadedError):
            raise outcome
        return outcome

    def _leading(self) -> Sequencer:
        if self._inner is None or self._inner.failed is not None:
            raise self.elsewhere()
        return self._inner

    def elsewhere(self) -> NotLeadingError:
        leader = self._node.leader
        return NotLeadingError(f"this node does not lead the log; {f'ask {leader}' if leader else 'nobody does yet'}")

    # -- as the intake -------------------------------------------------------------------------------------------

    def holds(self, entry: Entry) -> bool:
        return self._hand_over.holds(entry) or (self._intake is not None and self._intake.holds(entry))

    async def take_in(self, row: IntakeRow) -> None:
        if self._intake is not None and self._inner is not None and self._inner.failed is None:
            try:
                await self._intake.take_in(row)
            except StoreError:
                await self._hand_over.take_in(row)
        else:
            await self._hand_over.take_in(row)
