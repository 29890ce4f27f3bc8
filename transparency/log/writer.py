"""The writer: where everything that changes the store is done, one thing after the other.

A thread of its own, so that no flush of the disk holds up the event loop. To hand a small batch over to it and back
takes about as long as the flush itself: two turns of the interpreter's lock, each of which has to wait for whatever the
other thread is doing. So who has nothing better to do than to commit (a server with workers) may have small jobs run in
place, on the event loop's thread, while the last of them shows that the disk is quick. One slow flush, and the thread
has the next.

Invariant: never two jobs at once. In place only when the thread has none; and while one runs in place nobody can hand
the thread another, because that, too, is done by the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

# Longer than a flush and the work of a small batch take on any disk that is fit for a log.
QUICK_SECONDS = 0.01
_T = TypeVar("_T")


class Writer:
    """Owner: the event loop's thread."""

    def __init__(self, *, in_place: bool = False) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sequencer")
        self._running: set[Future[Any]] = set()
        self._in_place = in_place
        self._quick = True

    @property
    def idle(self) -> bool:
        """Whether nothing is being written. It stays so until the event loop's thread itself has something written."""
        return not self._running

    async def run(self, job: Callable[[], _T]) -> _T:
        future = self._thread.submit(job)
        # Not when the waiter goes, which it may do while the thread is still writing, but when the job is done.
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    @property
    def in_place(self) -> bool:
        """Whether a small job may run on the event loop's thread now."""
        return self._in_place and self._quick and self.idle

    async def run_small(self, job: Callable[[], _T], *, flushes: bool = True) -> _T:
        """A job that takes as long as a flush does. One that *flushes* nothing says nothing of how long that is."""
        if self.in_place:
            return self.run_in_place(job, flushes=flushes)
        began = time.perf_counter()
        result = await self.run(job)
        self._note(time.perf_counter() - began, flushes=flushes)
        return result

    def run_in_place(self, job: Callable[[], _T], *, flushes: bool = True) -> _T:
        """At once, by who has seen that it may be."""
        began = time.perf_counter()
        result = job()
        self._note(time.perf_counter() - began, flushes=flushes)
        return result

    def _note(self, seconds: float, *, flushes: bool) -> None:
        self._quick = seconds < QUICK_SECONDS and (self._quick or flushes)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
