"""The intake of a leader: rows come from every node, are brought in as they come, and are settled for all to see.

Reading, sequencing and settling overlap: while a batch is flushed, what came meanwhile is read and queued. A judgement
that is no longer good is made again here, by the leader: the row may be all that is left of the node that wrote it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from transparency.log import cluster_bell as bells
from transparency.log.appender import Clock
from transparency.log.intake import Intake, Sequence
from transparency.log.sequencer import MAX_BATCH_BYTES, Sequencer
from transparency.log.store import IntakeRow, Store
from transparency.statements.statement import Entry

# A bell that nobody heard costs no more than this.
LOOK_SECONDS: Final = 1.0

Pending = Callable[[int], list[IntakeRow]]
"""The oldest rows, as ``Store.intake_pending``. For any thread."""


class SharedIntake(Intake):
    def __init__(
        self,
        store: Store,
        sequencer: Sequencer,
        sequence: Sequence,
        clock: Clock,
        pending: Pending,
        ring: bells.Ringing,
    ) -> None:
        super().__init__(store, sequencer, sequence, clock)
        self._pending = pending
        self._ring = ring
        self._under_way: set[Entry] = set()
        self._bringing: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """A node has written rows."""
        self._to_drain.set()

    async def _drain(self) -> None:
        try:
            while not self._stopping and self._sequencer.failed is None:
                self._to_drain.clear()
                rows = await asyncio.to_thread(self._pending, MAX_BATCH_BYTES)
                new = [row for row in rows if row.entry not in self._under_way]
                if new:
                    self._begin(new)
                else:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._to_drain.wait(), LOOK_SECONDS)
        finally:
            if self._bringing:
                await asyncio.wait(self._bringing)

    def _begin(self, rows: list[IntakeRow]) -> None:
        for row in rows:
            self._under_way.add(row.entry)
            self._sequencer.pending_intake.add(row.entry, row.size)
        task = asyncio.create_task(self._bring_in_all(rows))
        self._bringing.add(task)
        task.add_done_callback(self._bringing.discard)

    async def _bring_in_all(self, rows: list[IntakeRow]) -> None:
        try:
            outcomes = await asyncio.gather(*(self._bring_in(row) for row in rows))
            ended = {row.entry: outcome for row, outcome in zip(rows, outcomes, strict=True)}
            settled = any(outcome or self.holds(entry) for entry, outcome in ended.items() if outcome is not None)
            await self._settle(ended)
            if settled:
                self._ring.ring(bells.SETTLED)
        except Exception as error:  # noqa: BLE001 - a row that nobody brings in would be a broken promise
            self._sequencer.fail(error)
        finally:
            self._under_way.difference_update(row.entry for row in rows)
            self._to_drain.set()
