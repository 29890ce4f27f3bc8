"""The balance: how many batches and how many connections each worker has, where all of them can see it.

Workers accept from the same listening sockets, and whoever is awake first takes what is there: of two clients that send
a batch each, every second time both would get the same worker, and a core would stand idle until both are done; of 64
that keep their connections, one worker had twice as many as the other. So a worker that has a batch, or a connection on
which statements come, passes the next one on, as it is and with what was read of it, to one that has fewer
(server/worker.py; by way of the owner, who has a line to each).

The owner of the log serves one connection itself, while no worker has any (server/own_desk.py). Two workers may both
see that, and pass theirs on: then it gives one away again, and the other when a worker has that.

A page of shared memory: two numbers for each worker, one for the owner's own connections. Each writes its own alone,
and the owner for one that has ended; a number that is read while it changes is an old one or a new one, and nothing
follows but a batch in the other place.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
import time
from typing import IO, Final, Protocol

# For whom a connection is that a worker sends away: the place of another worker, or the owner.
TO: Final = struct.Struct("<H")
TO_OWNER: Final = 0xFFFF
# The owner as one who registers, not as one who answers everything else.
TO_DESK: Final = 0xFFFE
_NUMBER: Final = struct.Struct("<I")
# Of each worker: its batches, in the first half of the page, and its connections, in the second.
_KINDS: Final = 2
# How long it takes at the most until a connection has been passed on.
_ARRIVES_SECONDS: Final = 0.5
# Not there: nothing is passed on to it.
_ABSENT: Final = 0xFFFFFFFF


class Balance:
    """The owner's end. It outlives every worker."""

    def __init__(self, workers: int) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this does
        size = (_KINDS * workers + 1) * _NUMBER.size
        self._file.truncate(size)
        self._memory = mmap.mmap(self._file.fileno(), size)
        self._workers = workers
        self._free = list(range(workers))
        for place in self._free:
            self._put_absent(place)

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def enter(self) -> int:
        """A place for a worker that is to be started. There is one for each that may run at once."""
        return self._free.pop()

    def leave(self, place: int) -> None:
        """The worker that had it has ended."""
        self._put_absent(place)
        self._free.append(place)

    def own_share(self) -> OwnShare:
        """Of a memory map of its own: a connection may end when this is closed."""
        return OwnShare(mmap.mmap(self._file.fileno(), 0), self._workers)

    def close(self) -> None:
        self._memory.close()
        self._file.close()

    def _put_absent(self, place: int) -> None:
        for kind in range(_KINDS):
            _NUMBER.pack_into(self._memory, (kind * self._workers + place) * _NUMBER.size, _ABSENT)


class Share:
    """A worker's end."""

    def __init__(self, descriptor: int, place: int) -> None:
        memory = mmap.mmap(descriptor, 0)
        workers = len(memory) // _NUMBER.size // _KINDS
        self.batches = Number(memory, 0, workers, place)
        # Those on which statements come one by one.
        self.connections = ConnectionNumber(memory, workers, workers, place)

    def enter(self) -> None:
        """It is there: it can take what others pass on."""
        self.batches.put(0)
        self.connections.put(0)


class Counted(Protocol):
    """What a connection needs of these: it is counted, and goes elsewhere."""

    @property
    def insists(self) -> bool:
        """Whether also one that was passed on before is passed on again."""

    def begin(self) -> None: ...
    def end(self) -> None: ...
    def pass_on(self) -> int | None:
        """Who should have the next, if that is another: then it is counted as that one's."""


class Shared(Protocol):
    @property
    def batches(self) -> Counted: ...
    @property
    def connections(self) -> Counted: ...


class Number:
    """A worker's own number of one kind, and the sight of the others'."""

    insists = False

    def __init__(self, memory: mmap.mmap, first: int, workers: int, place: int) -> None:
        self._memory = memory
        self._numbers = struct.Struct(f"<{workers}I")
        self._first = first * _NUMBER.size
        self._at = (first + place) * _NUMBER.size
        self._own = 0
        # What another has with what was passed on to it and may still be under way, and until when that counts.
        self._promised: dict[int, tuple[int, float]] = {}

    def begin(self) -> None:
        self.put(self._own + 1)

    def end(self) -> None:
        self.put(self._own - 1)

    def pass_on(self) -> int | None:
        numbers = list(self._numbers.unpack_from(self._memory, self._first))
        # A crowd of clients comes in one turn of the event loop: before any that is passed on has arrived.
        now = time.monotonic()
        for place, (promised, until) in list(self._promised.items()):
            if numbers[place] < promised and now < until:
                numbers[place] = promised
            else:
                del self._promised[place]
        least = min(numbers)
        if least >= self._own:
            return None
        place = numbers.index(least)
        self._promised[place] = least + 1, now + _ARRIVES_SECONDS
        return place

    def put(self, number: int) -> None:
        self._own = number
        _NUMBER.pack_into(self._memory, self._at, number)


class ConnectionNumber(Number):
    """The first goes to the owner itself, if nobody has any."""

    def __init__(self, memory: mmap.mmap, first: int, workers: int, place: int) -> None:
        super().__init__(memory, first, workers, place)
        self._desk = _KINDS * workers * _NUMBER.size
        self._promised_to_desk = 0.0

    def pass_on(self) -> int | None:
        if self._own == 0 and self._is_first():
            self._promised_to_desk = time.monotonic() + _ARRIVES_SECONDS
            return TO_DESK
        return super().pass_on()

    def _is_first(self) -> bool:
        numbers = self._numbers.unpack_from(self._memory, self._first)
        if any(number not in (0, _ABSENT) for number in numbers) or time.monotonic() < self._promised_to_desk:
            return False
        return bool(_NUMBER.unpack_from(self._memory, self._desk) == (0,))


class OwnShare:
    """The owner's: its connection goes to a worker as soon as one of those has any, and every batch does."""

    def __init__(self, memory: mmap.mmap, workers: int) -> None:
        self.batches = OwnBatches(memory, workers)
        self.connections = OwnConnections(memory, workers)


class OwnConnections:
    insists = True

    def __init__(self, memory: mmap.mmap, workers: int) -> None:
        self._memory = memory
        self._numbers = struct.Struct(f"<{workers}I")
        self._first = workers * _NUMBER.size
        self._at = _KINDS * workers * _NUMBER.size
        self._own = 0

    def begin(self) -> None:
        self._put(self._own + 1)

    def end(self) -> None:
        self._put(self._own - 1)

    def pass_on(self) -> int | None:
        numbers = self._numbers.unpack_from(self._memory, self._first)
        least = min(numbers)
        alone = self._own < 2 and all(number in (0, _ABSENT) for number in numbers)
        return None if alone or least == _ABSENT else numbers.index(least)

    def _put(self, number: int) -> None:
        self._own = number
        _NUMBER.pack_into(self._memory, self._at, number)


class OwnBatches:
    """Signatures by the thousand are nothing for the one process that all wait for."""

    insists = True

    def __init__(self, memory: mmap.mmap, workers: int) -> None:
        self._memory = memory
        self._numbers = struct.Struct(f"<{workers}I")

    def begin(self) -> None:
        """Nobody else took it: it is not counted."""

    def end(self) -> None:
        """As above."""

    def pass_on(self) -> int | None:
        numbers = self._numbers.unpack_from(self._memory, 0)
        least = min(numbers)
        return None if least == _ABSENT else numbers.index(least)
