"""The gathering: when what waits is committed. A commit has a fixed cost, so those that come together should share one.

* The *patient*, who come by hundreds over one connection, wait until they are enough, or for a moment at most.
* All others wait for those who come along with them, and for nobody else. How many that are is learnt from commits: who
  came in while one was being flushed might have shared it, so the next waits for as many as that one had and as came
  meanwhile; but no longer than the commit took, and if they do not come, fewer are expected. A client by itself never
  waits: nobody comes in while it waits for its receipt.

Owner: the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# A commit of so many costs each as little as one of more.
ENOUGH: Final = 256
PATIENT_SECONDS: Final = 0.02


class Gathering:
    """*on_due* is called when those that wait are to be committed."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self.due = False
        # How many are expected to come together, and for how long they are waited for.
        self._expected = 1
        self._seconds = 0.0
        # Whether anybody who waits is not patient.
        self._hurried = False
        self._timer: asyncio.TimerHandle | None = None

    def joined(self, waiting: int, *, patient: bool) -> None:
        """One more waits; with it there are so many."""
        if self.due:
            return
        hurried = self._hurried or not patient
        if waiting >= (self._expected if hurried else ENOUGH):
            self.make_due()
        elif hurried and not self._hurried:
            self._hurried = True
            self._wait(self._seconds)
        elif self._timer is None:
            self._wait(PATIENT_SECONDS)

    def make_due(self) -> None:
        self.due = True
        self._stop_waiting()
        self._on_due()

    def taken(self) -> None:
        """What waited is being committed; who comes now waits for the next."""
        self.due = self._hurried = False
        self._stop_waiting()

    def committed(self, size: int, arrived: int, seconds: float) -> None:
        """A commit of *size* took so many *seconds*, in which so many arrived."""
        self._expected = min(size + arrived, ENOUGH)
        self._seconds = min(seconds, PATIENT_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.make_due)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
