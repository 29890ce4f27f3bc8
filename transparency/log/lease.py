"""The lease: which node of a cluster leads. Its rules, without a database and without a clock.

1. The lease is one row of the log's database: holder, epoch, the time it ends, and on which server and timeline it was
   taken. Whether it has ended is asked of the database's clock alone, in the transaction that changes the row.
2. Who holds it renews it every second, for three seconds from then. Who does not, takes it when it has ended, by
   raising the epoch of the lease *and of the tip* in one transaction. Epochs only rise.
3. The compare-and-swap on the tip names the epoch (log/store.py). So whoever lost the lease can commit nothing, whether
   it knows or not, whatever its clock says: the lease decides who *tries*, never what is true.
4. A holder believes in its lease for three seconds from the moment it *began* to ask for the last renewal it was
   granted, by a clock of its own that only counts. The database counted its three seconds from a later moment, so it
   stops by itself before another may begin. It has no need of having been told.
5. A renewal that is refused ends the belief at once. One that got no answer decides nothing: the belief runs out.

Owner of a :class:`Campaign`: the thread that keeps the lease. ``believes`` may be asked by any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

TTL_SECONDS: Final = 3.0
RENEW_SECONDS: Final = 1.0
# Who waits for a lease to end looks again this much after it should have: two that wait must not meet each time.
LOOK_AGAIN_SECONDS: Final = 0.05
# An event loop that has not turned for so long does nothing for the log: another node can.
LOOP_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The row. ``ends`` is a time of the database's clock; a lease that nobody ever held ended long ago."""

    holder: str
    epoch: int
    ends: float

    def taken(self, holder: str, epoch: int, now: float, ttl: float = TTL_SECONDS) -> Lease | None:
        """What the row is after *holder* took it at *now*; None if it has not ended. *epoch* is the tip's."""
        if now < self.ends:
            return None
        return Lease(holder, max(self.epoch, epoch) + 1, now + ttl)

    def renewed(self, holder: str, epoch: int, now: float, ttl: float = TTL_SECONDS) -> Lease | None:
        """The row after its holder renewed it; None if it is another's by now.

        One that has ended and that nobody took is still its holder's: it would only be taken back.
        """
        if (self.holder, self.epoch) != (holder, epoch):
            return None
        return replace(self, ends=max(self.ends, now + ttl))

    def released(self, holder: str, epoch: int, now: float) -> Lease | None:
        """The row after a clean stop: another may begin at once."""
        if (self.holder, self.epoch) != (holder, epoch):
            return None
        return replace(self, ends=min(self.ends, now))


class Campaign:
    """What one node knows of the lease. Times are of its own clock, which only counts."""

    def __init__(self, ttl: float = TTL_SECONDS, every: float = RENEW_SECONDS) -> None:
        self._ttl = ttl
        self._every = every
        self._until: float | None = None
        self._next = 0.0
        self.epoch = 0

    def believes(self, now: float) -> bool:
        """Whether it may sequence. Ends by itself."""
        until = self._until
        return until is not None and now < until

    @property
    def leading(self) -> bool:
        """Whether it was granted the lease and has not given it up yet, be it in time or not."""
        return self._until is not None

    def rest(self, now: float) -> float:
        """Seconds until the next question to the database is due."""
        return max(self._next - now, 0.0)

    def granted(self, asked: float, epoch: int) -> None:
        """The database said yes to what was asked at *asked*."""
        if epoch < self.epoch:
            raise ValueError(f"epoch {epoch} was granted after epoch {self.epoch}")
        self.epoch = epoch
        self._until = asked + self._ttl
        self._next = asked + self._every

    def unanswered(self, asked: float) -> None:
        """Nobody knows what became of it: ask again soon, and believe no longer than before."""
        self._next = asked + self._every / 4

    def refused(self, asked: float, left: float) -> None:
        """It is another's, for *left* more seconds by the database's clock."""
        self._until = None
        self._next = asked + min(max(left, 0.0) + LOOK_AGAIN_SECONDS, self._every)

    def given_up(self, now: float, pause: float = 0.0) -> None:
        """This node leads no more, by its own decision; it asks again after *pause*."""
        self._until = None
        self._next = now + pause
