"""The scrub: reads everything that a mirror has, again and again, slowly, and tells the mirror where it is damaged.

A pass looks at every bundle of every log by check.check_bundle. It goes on where it was when the mirror stopped. A
pause follows each bundle, so that it takes little of the disk and of a core whatever there is; and one each pass.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from transparency.errors import StoreError
from transparency.merkle.tiles import WIDTH
from transparency.mirror.check import check_bundle
from transparency.mirror.mirror import Mirror
from transparency.mirror.trees import DamagedError, Trees


@dataclass(frozen=True, slots=True)
class Pace:
    """At most so many bundles and so many bytes a second, and so many seconds between two passes."""

    bundles: float = 32
    bytes: float = 4 * 1024 * 1024
    rest: float = 3600
    # How often it is looked, while it rests, whether damage that cut the pass short was mended.
    again: float = 10
    # What a kill makes it read again.
    saved_every: float = 60


class Scrub:
    """Owner: the event loop. It reads by a connection of its own, in a thread."""

    def __init__(
        self,
        mirror: Mirror,
        path: Path,
        pace: Pace | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._mirror = mirror
        self.path = path
        self._reached = mirror.reached
        self._pace = pace or Pace()
        self._sleep = sleep
        self._saved = time.monotonic()

    async def run(self) -> None:
        """Until it is cancelled, or the disk cannot be read: then StoreError is raised."""
        try:
            while True:
                await self.round()
                await self._rest()
        finally:
            self._reached.save()

    async def _rest(self) -> None:
        """Not longer than until a log is mended that the pass has not gone through for its damage."""
        damaged, left = set(self._mirror.damaged), self._pace.rest
        while left > 0 and damaged <= set(self._mirror.damaged):
            step = min(left, self._pace.again) if damaged else left
            await self._sleep(step)
            left -= step

    async def round(self) -> None:
        """To the end of every log, each from where it was."""
        for origin in self._mirror.origins:
            await self._go_through(origin)
        await asyncio.to_thread(self._reached.save)

    async def _go_through(self, origin: str) -> None:
        index = self._reached.places.get(origin, 0)
        while origin not in self._mirror.damaged:
            size = self._mirror.next_entry(origin)
            if index * WIDTH >= size:
                self._reached.move(origin, 0)
                return
            held = await asyncio.to_thread(self._look, origin, index, size)
            if held is None:
                return
            index += 1
            self._reached.move(origin, index)
            if time.monotonic() - self._saved >= self._pace.saved_every:
                self._saved = time.monotonic()
                await asyncio.to_thread(self._reached.save)
            await self._sleep(max(1 / self._pace.bundles, held / self._pace.bytes))

    def _look(self, origin: str, index: int, size: int) -> int | None:
        """How many bytes were read; None where they are damaged, of which the mirror is told."""
        with closing(Trees.for_reading(self.path)) as trees:
            try:
                return check_bundle(trees, origin, index, size)
            except DamagedError as error:
                self._mirror.note_damage(origin, index, str(error))
                return None
            except StoreError:
                # SQLite itself cannot read it. A new start begins here.
                self._reached.move(origin, index)
                raise
