"""The recent entries: those in the tree that the derived indexes may not hold yet, and how they get there.

Digests are random. A row of the index put in by itself dirties a page of its own, which is written twice: at a hundred
thousand entries that cost the owner of a log as much as everything else it did (docs/performance.md). So many rows wait
here and go in *rounds*, each through the whole index from its low end to its high one: neighbours share a page. A round
is done in slices between batches, so that no batch waits for all of it.

Two generations: one that grows, and one that is being indexed and stays to be asked until its round is over. Should the
process end before, the next start indexes by what the index says of itself; rows that are there already do no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from transparency.log.store import NewEntry
from transparency.statements.statement import Entry

# By the highest bits of a digest: what is sorted at once is small.
_BUCKETS = 64
_SHIFT = 2

Rows = list[tuple[bytes, int]]


class Slice(NamedTuple):
    """Rows to put into the indexes, each list in order. ``upto``: from then on all below is indexed."""

    digests: Rows
    siblings: Rows
    upto: int | None


class _Generation:
    __slots__ = ("digests", "places", "siblings", "signed")

    def __init__(self) -> None:
        self.places: dict[Entry, int] = {}
        self.signed: set[bytes] = set()
        self.digests: list[Rows] = [[] for _ in range(_BUCKETS)]
        self.siblings: list[Rows] = [[] for _ in range(_BUCKETS)]

    def add(self, rows: Iterable[tuple[Entry, bytes, int]]) -> None:
        """Entries, each with the digest of what it signs and its place."""
        places, signed, digests, siblings = self.places, self.signed, self.digests, self.siblings
        for entry, tbs, index in rows:
            places[entry] = index
            digests[entry[0] >> _SHIFT].append((entry, index))
            if tbs:  # what erasure has taken away has none
                signed.add(tbs)
                siblings[tbs[0] >> _SHIFT].append((tbs, index))


class Recent:
    """Owner: the event loop's thread."""

    def __init__(self) -> None:
        self._growing = _Generation()
        self._indexing = _Generation()
        self._slices: Iterator[tuple[Rows, Rows]] | None = None
        self._upto = 0

    def __len__(self) -> int:
        """How many wait for the next round."""
        return len(self._growing.places)

    def __bool__(self) -> bool:
        return bool(self._growing.places) or self.in_round

    def add(self, entries: Sequence[NewEntry], first: int) -> None:
        self._growing.add((new.entry, new.tbs_digest, index) for index, new in enumerate(entries, first))

    def place(self, entry: Entry) -> int | None:
        index = self._growing.places.get(entry)
        return self._indexing.places.get(entry) if index is None else index

    def places(self, entries: Sequence[Entry]) -> dict[Entry, int]:
        growing, indexing = self._growing.places, self._indexing.places
        found = {entry: growing[entry] for entry in entries if entry in growing}
        if indexing:
            found |= {entry: indexing[entry] for entry in entries if entry in indexing}
        return found

    def has_signed(self, tbs: bytes) -> bool:
        return tbs in self._growing.signed or tbs in self._indexing.signed

    # -- rounds --------------------------------------------------------------------------------------------------

    @property
    def in_round(self) -> bool:
        return self._slices is not None

    def begin_round(self, upto: int) -> None:
        """All that there are, whose places are below *upto*, are to be indexed."""
        self._indexing, self._growing, self._upto = self._growing, _Generation(), upto
        self._slices = zip(self._indexing.digests, self._indexing.siblings, strict=True)

    def next_slice(self, least: int) -> Slice:
        """The next rows of a round, at least so many unless they are the last."""
        digests: Rows = []
        siblings: Rows = []
        for some, others in self._slices or ():
            digests += sorted(some)
            siblings += sorted(others)
            if len(digests) >= least:
                return Slice(digests, siblings, None)
        return Slice(digests, siblings, self._upto)

    def end_round(self) -> None:
        """The last slice is in the index."""
        self._indexing, self._slices = _Generation(), None

    def forget(self, upto: int) -> None:
        """The index has everything below *upto* by other means."""
        old, self._growing = self._growing, _Generation()
        self.end_round()
        signed = {index: tbs for rows in old.siblings for tbs, index in rows}
        self._growing.add(
            (entry, signed.get(index, b""), index) for entry, index in old.places.items() if index >= upto
        )
