"""The gathering: when what waits is committed. A commit has a fixed cost, so those that come together should share one.

* The *patient*, who come by hundreds over one connection, wait until they are enough, or for a moment at most.
* All others wait for nobody: while one commit is being flushed the next one gathers by itself. To have them wait for as
  many as came the last time was tried: larger commits, and less of the machine in use (docs/performance.md).

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
        self._timer: asyncio.TimerHandle | None = None

    def joined(self, waiting: int, *, patient: bool) -> None:
        """One more waits, or a lot; with it there are so many."""
        if self.due or not patient or waiting >= ENOUGH:
            # Told again where it was due already: that may have been for somebody who is being committed by now.
            self.make_due()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENT_SECONDS, self.make_due)

    def make_due(self) -> None:
        self.due = True
        self._stop_waiting()
        self._on_due()

    def taken(self) -> None:
        """What waited is being committed; who comes now waits for the next."""
        self.due = False
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
