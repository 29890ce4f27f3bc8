"""The queue: what was accepted and is not settled yet, in the order in which it came.

Statements come alone or in lots (candidate.py). A lot waits, is committed and told as one; whatever makes one of it
different (it is known already, or it has to be judged again) takes it apart, and each goes on by itself.

Invariant: an entry is in the table from ``put`` to ``settled``, with the one unit that has it. So whoever submits it
meanwhile finds that unit and shares its fate.

Bounded in number and in bytes: beyond that, nothing is accepted. Owner: the event loop.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat

from transparency.errors import OverloadedError, TransparencyError
from transparency.log.candidate import Batch, Candidate, Lot, Sequenced, Standing, Told
from transparency.log.store import NewEntry
from transparency.statements.statement import Entry

MAX_WAITING = 10_000
MAX_WAITING_BYTES = 64 * 1024 * 1024


class Single:
    """One candidate, and all who wait for it."""

    __slots__ = ("candidate", "size", "told")

    def __init__(self, candidate: Candidate, told: list[Told]) -> None:
        self.candidate = candidate
        self.told = told
        self.size = candidate.size

    @property
    def rows(self) -> Sequence[NewEntry]:
        return (self.candidate.new,)

    def join(self, _entry: Entry, told: Told) -> None:
        self.told.append(told)

    def sequenced(self, index: int, batch: Batch) -> None:
        self.tell(Sequenced(index, batch))

    def tell(self, outcome: Sequenced | Standing | TransparencyError) -> None:
        for told in self.told:
            told(outcome)


class Together:
    """A lot, and who else waits for one of its entries."""

    __slots__ = ("lot", "others", "rows", "size")

    def __init__(self, lot: Lot) -> None:
        self.lot = lot
        self.rows = lot.rows
        self.others: list[tuple[Entry, Told]] = []
        # All of a lot have the same collateral.
        self.size = sum([len(new.statement) for new in lot.rows]) + len(lot.rows) * len(lot.judgement.collateral)

    def join(self, entry: Entry, told: Told) -> None:
        self.others.append((entry, told))

    def sequenced(self, index: int, batch: Batch) -> None:
        self.lot.together(index, batch)
        if self.others:
            places = {new.entry: place for place, new in enumerate(self.rows, index)}
            for entry, told in self.others:
                told(Sequenced(places[entry], batch))

    def tell(self, outcome: TransparencyError) -> None:
        """All of them the same."""
        for single in self.taken_apart():
            single.tell(outcome)

    def taken_apart(self) -> list[Single]:
        singles = [Single(candidate, [told]) for candidate, told in self.lot.each()]
        if self.others:
            by_entry = {single.candidate.new.entry: single for single in singles}
            for entry, told in self.others:
                by_entry[entry].told.append(told)
        return singles


Unit = Single | Together


class Queue:
    def __init__(self) -> None:
        self._units: deque[Unit] = deque()
        self._in_flight: dict[Entry, Unit] = {}
        self._bytes = 0
        self._count = 0

    def __len__(self) -> int:
        """How many statements wait. Those that were taken and are not settled do not count."""
        return self._count

    def join(self, entry: Entry, told: Told) -> bool:
        """Whether that entry is waiting or being flushed: then *told* is told with the first who sent it."""
        unit = self._in_flight.get(entry)
        if unit is None:
            return False
        unit.join(entry, told)
        return True

    def has_any(self, entries: Iterable[Entry]) -> bool:
        return not self._in_flight.keys().isdisjoint(entries)

    def put(self, unit: Unit) -> None:
        rows, size = unit.rows, unit.size
        if self._count + len(rows) > MAX_WAITING or self._bytes + size > MAX_WAITING_BYTES:
            raise overloaded()
        self._own(unit)
        self._units.append(unit)
        self._count += len(rows)
        self._bytes += size

    def entries(self, most: int) -> list[Entry]:
        """Of those that are next, up to *most* and the rest of a lot."""
        found: list[Entry] = []
        for unit in self._units:
            found += [new.entry for new in unit.rows]
            if len(found) >= most:
                break
        return found

    def take(self) -> Unit:
        """The next. It stays in the table until it is settled."""
        unit = self._units.popleft()
        self._count -= len(unit.rows)
        self._bytes -= unit.size
        return unit

    def take_apart(self, together: Together) -> None:
        """What was just taken goes on one by one, and is next again."""
        for single in reversed(together.taken_apart()):
            self._own(single)
            self._units.appendleft(single)
            self._count += 1
            self._bytes += single.size

    def settled(self, unit: Unit) -> None:
        for new in unit.rows:
            del self._in_flight[new.entry]

    def strand(self) -> list[Unit]:
        """All that is not settled; nothing is left."""
        stranded = list(dict.fromkeys(self._in_flight.values()))
        self._in_flight.clear()
        self._units.clear()
        self._count = self._bytes = 0
        return stranded

    def _own(self, unit: Unit) -> None:
        self._in_flight.update(zip([new.entry for new in unit.rows], repeat(unit)))


def overloaded() -> OverloadedError:
    # Jittered, so that those turned away together do not come back together.
    return OverloadedError("too many statements are waiting; nothing was accepted", retry_after=random.uniform(1, 4))  # noqa: S311
