"""The outlook of a front end: whether what it hands over is going to be registered, by all that it can see.

The row of the lease says who has it, not that it leads: a node that has the lease and cannot lead, because its mark is
away, gives it up, another takes it, and so on; each looks like a leader for a moment. So a front end looks at three
things beside it: that the lease is seen at all, that those who take it get to lead, and that what waits moves on.

It only tells who asks whether this node is ready. Nothing that is sequenced depends on it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from transparency.errors import OverloadedError
from transparency.log.lease import RENEW_SECONDS, TTL_SECONDS

# Longer than any takeover that was measured (docs/cluster.md), and sooner than who waits is sent away.
STALLED_SECONDS: Final = 8.0
# Who lost patience sends nothing for a while, and no news is no good news.
REMEMBERED_SECONDS: Final = 15.0
# It is looked at every second.
UNSEEN_SECONDS: Final = TTL_SECONDS + 2 * RENEW_SECONDS
# So many nodes, or the same one so often, had the lease within that time, and none of them began to lead.
TAKEN_IN_VAIN: Final = 3
IN_VAIN_SECONDS: Final = 30.0

Monotonic = Callable[[], float]


class Outlook:
    """What is seen of the lease. Owner: the event loop."""

    def __init__(self, clock: Monotonic = time.monotonic) -> None:
        self._clock = clock
        self._seen = clock()
        self._epoch = 0
        self._taken: deque[float] = deque(maxlen=TAKEN_IN_VAIN)

    def saw(self, epoch: int) -> None:
        """The lease, by whomever it is held."""
        self._seen = self._clock()
        if epoch > self._epoch:
            self._epoch = epoch
            self._taken.append(self._seen)

    def led(self) -> None:
        """Somebody said how far the tree is released: who begins to lead does, and with each batch."""
        self._taken.clear()

    @property
    def now(self) -> str:
        """What is wrong; empty if nothing is seen to be."""
        now = self._clock()
        if now - self._seen > UNSEEN_SECONDS:
            return f"this node has not seen for {int(now - self._seen)} seconds who leads the log"
        if len(self._taken) == TAKEN_IN_VAIN and now - self._taken[0] < IN_VAIN_SECONDS:
            return "nodes take the lease one after the other, and none gets to lead; the log of each says why"
        return ""

    def check(self) -> None:
        if self.now:
            raise OverloadedError(f"Nothing is registered at the moment: {self.now}", retry_after=2.0)


class Progress:
    """Whether what was handed over moves on. Owner: the event loop."""

    def __init__(self, clock: Monotonic) -> None:
        """*clock* is the event loop's: asked there only."""
        self._clock = clock
        self._moved = self._given_up = 0.0

    def moved(self) -> None:
        """It is known what became of one, or the tree has grown: somebody sequences, be it others' first."""
        self._moved = self._clock()

    def gave_up(self) -> None:
        """One was sent away, because nobody knows."""
        self._given_up = self._clock()

    def check(self, oldest: float | None) -> None:
        """*oldest* is since when the one that waits longest does."""
        now = self._clock()
        waits = oldest is not None and now - max(oldest, self._moved) > STALLED_SECONDS
        if waits or (self._given_up > self._moved and now - self._given_up < REMEMBERED_SECONDS):
            raise OverloadedError(
                "Nothing is registered at the moment: statements were handed over, and for "
                f"{int(STALLED_SECONDS)} seconds or more nobody has sequenced any",
                retry_after=2.0,
            )
