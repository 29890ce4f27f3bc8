"""What a node has only while it leads: sequencer, intake, manifests and erasures, over a store of its own.

A leader ends in one of two ways. ``stop`` drains, as a log's stop does. ``fail`` ends it at once: nothing more is
sequenced, everybody who waits is told, and what it held is closed behind its back, however long that takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from transparency.errors import TransparencyError
from transparency.log.appender import Clock
from transparency.log.cluster_bell import Ringing
from transparency.log.cluster_intake import MakeCandidate, Pending, SharedIntake
from transparency.log.cluster_lead import Leading
from transparency.log.counters import Counters
from transparency.log.erasure import Erasures
from transparency.log.folder import Folder
from transparency.log.intake import Sequence
from transparency.log.manifests import Manifests, Operate
from transparency.log.sequencer import Sequencer
from transparency.log.stated import any_erasure
from transparency.log.store import Store, Tip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a leader needs of its node."""

    folder: Path
    origin: str
    store: Store
    sequence: Sequence
    operate: Operate
    pending: Pending
    candidate: MakeCandidate
    published: Callable[[], int]
    ring: Ringing
    clock: Clock


class Leader:
    def __init__(self, leading: Leading, around: Surroundings, counters: Counters, *, manifests: bool) -> None:
        self._leading = leading
        self._around = around
        self._makes_manifests = manifests
        generation = leading.in_force.policy.policy.generation
        self.sequencer = Sequencer(leading.appender, leading.store, generation)
        self.sequencer.counters = counters
        self.intake = SharedIntake(
            leading.store, self.sequencer, around.sequence, around.clock, around.pending, around.candidate, around.ring
        )
        self._starting = asyncio.Lock()
        self._closed = False
        self.manifests = Manifests(around.store, around.origin, around.published, around.operate, around.clock)
        self.erasures = Erasures(
            leading.store, Folder(around.folder), around.origin, around.operate, self.sequencer, around.clock
        )
        self.sequencer.on_published.append(self.manifests.grown)

    @property
    def tip(self) -> Tip:
        return self._leading.appender.tip

    async def start(self) -> None:
        async with self._starting:
            self.sequencer.start()
            self.sequencer.some_erased = await asyncio.to_thread(any_erasure, self._around.store)
            await self.erasures.take_up()
            await self.intake.start()
            if self._makes_manifests:
                self.manifests.start()

    async def stop(self) -> None:
        async with self._starting:  # what a start that is under way begins must be ended, too
            pass
        await self.intake.stop()
        await self.erasures.settle()
        await self.manifests.stop(cover=self.sequencer.alive)
        await self.sequencer.stop()
        await self._close()

    def fail(self, error: BaseException) -> None:
        self.sequencer.fail(error)

    async def retire(self) -> None:
        """After it failed: wait for what is under way, and close."""
        async with self._starting:
            pass
        for ending in (self.intake.stop(), self.manifests.stop(cover=False), self.sequencer.stop()):
            with contextlib.suppress(TransparencyError):
                await ending
        await self._close()

    async def _close(self) -> None:
        """Once, whichever way it ends, and be it both: a descriptor that is closed twice may be somebody else's."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._leading.close)
