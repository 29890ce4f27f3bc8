"""The derived indexes in SQLite: of entries, and of what they sign. Inside a transaction of the caller's.

Digests are random: at ten million entries every second row of a round (recent.py) would dirty a page of its own, 17 µs
of work and 45 of writing for a row. So each index is two tables of one form: a *young* one that takes the rounds, and
an old one. When the young one has grown, its rows are moved, a range of digests with every slice of a round: a fold.
They are then so many that neighbours share a page of the old one. Whoever looks, looks into both.

How many rows the young ones take before a fold grows with the square root of the whole, which is where rounds through
the young ones and folds into the old ones cost the same. A fold that is cut short begins again; a row that is in both
tables is the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt
from typing import Any, Final

from transparency.log.sqlite_rows import insert

Rows = Sequence[tuple[bytes, int]]
_ROUND: Final = 65_536  # recent.py
SORTED: Final = 4 * _ROUND
_FOLD_LEAST: Final = 4 * _ROUND
_SLICE_ENTRIES: Final = 32_768
_PREFIXES: Final = 65_536
_PAIRS: Final = (("digest_young", "digest_index", "entry"), ("sibling_young", "sibling_index", "tbs"))

# Of an entry that is in the log twice the first place counts: the old table's.
FIND: Final = (
    "SELECT idx FROM digest_index WHERE entry = ?1 UNION ALL SELECT idx FROM digest_young WHERE entry = ?1 LIMIT 1"
)
SIBLINGS: Final = (
    "SELECT idx, entry FROM entries WHERE idx IN ("
    "SELECT idx FROM (SELECT idx FROM sibling_young WHERE tbs = ?1 ORDER BY idx LIMIT ?2) UNION "
    "SELECT idx FROM (SELECT idx FROM sibling_index WHERE tbs = ?1 ORDER BY idx LIMIT ?2)"
    ") ORDER BY idx LIMIT ?2"
)


@cache
def find_some(count: int) -> str:
    """The query for *count* entries at once; the row that comes last counts."""
    marks = ",".join(f"?{number}" for number in range(1, count + 1))
    where = f"WHERE entry IN ({marks})"
    tables = ("digest_young", "digest_index")
    return " UNION ALL ".join(f"SELECT entry, idx FROM {table} {where}" for table in tables)


def extend(writer: Any, start: int, stop: int) -> None:  # noqa: ANN401 - as sqlite.connect gives
    """The rows of the entries from *start* to *stop*, below which all are there; many of them into the old tables.

    SQLite sorts them, in files (of SQLITE_TMPDIR, /var/tmp or /tmp) when they are many.
    """
    few = stop - start <= SORTED
    for (young, old, key), having in zip(_PAIRS, ("", "AND tbs <> x''"), strict=True):  # what was erased has no tbs
        ordered = f"SELECT {key}, idx FROM entries WHERE idx >= ? AND idx < ? {having} ORDER BY {key}, idx"
        writer.execute(f"INSERT OR IGNORE INTO {young if few else old} {ordered}", (start, stop))
    _count(writer, stop - start if few else 0, stop)


def _count(writer: Any, more: int, upto: int) -> None:  # noqa: ANN401 - likewise
    writer.execute("UPDATE indexed SET size = max(size, ?), young = young + ?", (upto, more))


class Rounds:
    """Rounds, and the fold that goes along with them. Owner: the sequencer's thread."""

    def __init__(self, writer: Any) -> None:  # noqa: ANN401 - as sqlite.connect gives
        self._writer = writer
        # Which range of digests the fold is at, and of how many.
        self._at = self._ranges = 0

    @property
    def folding(self) -> bool:
        return self._at < self._ranges

    def put(self, digests: Rows, siblings: Rows, upto: int | None) -> None:
        """Rows, best in order, which may be there; all below *upto* are there from now on. And a slice of a fold."""
        insert(self._writer, "INSERT OR IGNORE INTO digest_young VALUES", digests)
        insert(self._writer, "INSERT OR IGNORE INTO sibling_young VALUES", siblings)
        _count(self._writer, len(digests), upto or 0)
        if not self.folding:
            size, young = self._writer.execute("SELECT size, young FROM indexed").fetchone()
            if young < max(_FOLD_LEAST, isqrt(_ROUND * size)):
                return
            self._at, self._ranges = 0, min(-(-size // _SLICE_ENTRIES), _PREFIXES)
        self._fold()

    def _fold(self) -> None:
        low, high = (place * _PREFIXES // self._ranges for place in (self._at, self._at + 1))
        # No digest is longer than 32 bytes: this is above them all.
        bounds = low.to_bytes(2, "big"), high.to_bytes(2, "big") if high < _PREFIXES else b"\xff" * 33
        for young, old, key in _PAIRS:
            where = f"FROM {young} WHERE {key} >= ? AND {key} < ?"
            self._writer.execute(f"INSERT OR IGNORE INTO {old} SELECT {key}, idx {where}", bounds)
            self._writer.execute(f"DELETE {where}", bounds)
        self._at += 1
        if not self.folding:
            self._writer.execute("UPDATE indexed SET young = (SELECT count(*) FROM digest_young)")
