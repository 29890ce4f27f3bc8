"""The connections: how many there may be, in all and from one address, and how long one may keep the server waiting.

Who opens connections and says nothing must not shut others out. So a new one is let in whenever there is one to cut off
for it: of the address that has the most, the oldest whose client owes us bytes (the head of a request, the rest of a
body), and before those that were served already. An address that itself has many, or its own limit, gets room only
where one of them had its time: a flood would otherwise be let in one for one, which costs far more than to turn it
away. Where there is none to cut off, the new one is told to come back.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

# A client that reads slower than this is not reading.
LEAST_BYTES_PER_SECOND = 32 * 1024
# How often deadlines are looked at; four times within the shortest if that is less.
LOOK_SECONDS = 1.0
# An address with fewer connections than this is no crowd, whatever others have.
_CROWD = 4


class Guest(Protocol):
    """What this needs to know of a connection."""

    @property
    def address(self) -> str: ...
    @property
    def owing_since(self) -> float | None: ...
    @property
    def served(self) -> bool: ...
    def cut(self) -> None: ...
    def look(self, now: float) -> None: ...


class Connections:
    """All that are open. Owner: the event loop's thread."""

    def __init__(
        self, *, most: int, most_per_address: int | None, most_unsent: int, grace: float, every: float
    ) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._most_unsent = most_unsent
        self._grace = grace
        self._every = every
        self._by_address: dict[str, dict[Guest, None]] = {}
        self._unsent: dict[Guest, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.unsent = 0
        self.total = 0
        self.cut_off = 0
        # Connections that are being told to come back.
        self.refusing = 0

    def admit(self, address: str) -> bool:
        """Whether there is room for one more from *address*; if need be, room is made."""
        now = asyncio.get_running_loop().time()
        own = self._by_address.get(address, {})
        if self._most_per_address is not None and len(own) >= self._most_per_address:
            return self._cut_one(own, now - self._grace)
        if self.total < self._most:
            return True
        fullest = max(self._by_address.values(), key=len)
        modest = len(fullest) >= _CROWD and 2 * len(own) < len(fullest)
        return self._cut_one(fullest, now if modest else now - self._grace)

    def add(self, guest: Guest) -> None:
        self._by_address.setdefault(guest.address, {})[guest] = None
        self.total += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._look)

    def remove(self, guest: Guest) -> None:
        """Also for one that is gone already: a connection that was cut off ends some moments later."""
        self.sent(guest)
        own = self._by_address.get(guest.address)
        if own is None or guest not in own:
            return
        del own[guest]
        self.total -= 1
        if not own:
            del self._by_address[guest.address]

    def holds(self, guest: Guest, unsent: int) -> None:
        """*unsent* bytes of an answer wait for their reader. Beyond the bound, who makes us wait longest goes."""
        self._unsent[guest] = unsent
        self.unsent += unsent
        while self.unsent > self._most_unsent and self._unsent:
            self._cut(next(iter(self._unsent)))

    def sent(self, guest: Guest) -> None:
        self.unsent -= self._unsent.pop(guest, 0)

    def cut_all(self) -> None:
        """Those that are left have had their time."""
        for guests in list(self._by_address.values()):
            for guest in list(guests):
                self._cut(guest)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cut_one(self, guests: dict[Guest, None], before: float) -> bool:
        """Cut off one that has owed us since *before* that time."""
        known = None
        for guest in guests:
            since = guest.owing_since
            if since is None or since > before:
                continue
            if not guest.served:
                self._cut(guest)
                return True
            known = known or guest
        if known is not None:
            self._cut(known)
        return known is not None

    def _cut(self, guest: Guest) -> None:
        self.cut_off += 1
        self.remove(guest)
        guest.cut()

    def look(self) -> None:
        """Each connection looks at its own deadlines."""
        now = asyncio.get_running_loop().time()
        for guests in list(self._by_address.values()):
            for guest in list(guests):
                guest.look(now)

    def _look(self) -> None:
        self.look()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._every, self._look) if self.total else None
