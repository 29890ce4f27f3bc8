"""Reads of a store in the SQL that SQLite and PostgreSQL share: each question is written once, whoever answers it.

What differs is the store's own: how rows are fetched, where a statement lies, the digest index, tiles, and the order of
the intake. A value stands where there is a ``?``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final, cast

from transparency.errors import LogUnusableError, StoreError
from transparency.log.store import Admitted, IntakeRow, Kind, StoredEntry, Tip
from transparency.policy.judge import Judgement
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry

INTAKE_COLUMNS: Final = "entry, statement, generation, not_before, not_after, accepted, failed, collateral, is_unique"
TIP: Final = "SELECT size, root, epoch FROM tip"
_HEAD_COLUMNS: Final = "size, root, time, kid, protected, signature"
_KINDS: Final = frozenset(Kind)
_CHUNK: Final = 1024
_PAGE_BYTES: Final = 8 * 1024 * 1024
_NOTES: Final = 256

Row = tuple[Any, ...]


class SqlReads(ABC):
    ENTRIES: ClassVar[str]
    """Whole entries: idx, entry, kind, generation, tbs, statement, collateral's content; without a condition."""

    @abstractmethod
    def _one(self, sql: str, parameters: Sequence[Any] = ()) -> Row | None: ...
    @abstractmethod
    def _all(self, sql: str, parameters: Sequence[Any]) -> list[Row]: ...
    @abstractmethod
    def _some(self, sql: str, parameters: Sequence[Any], most_bytes: int) -> list[Row]:
        """Rows until their byte strings reach *most_bytes*: at least one, if there is any."""

    def tip(self) -> Tip:
        return tip_of(self._one(TIP))

    def entry(self, index: int) -> StoredEntry | None:
        row = self._one(f"{self.ENTRIES} WHERE idx = ?", (index,))
        return _stored(row) if row else None

    def entries(self, start: int, stop: int) -> Iterator[StoredEntry]:
        while start < stop:
            upto = min(start + _CHUNK, stop)
            rows = self._some(f"{self.ENTRIES} WHERE idx >= ? AND idx < ? ORDER BY idx", (start, upto), _PAGE_BYTES)
            yield from map(_stored, rows)
            # Rows that are missing are the caller's to notice.
            start = rows[-1][0] + 1 if rows else upto

    def digests(self, start: int, stop: int) -> list[Entry]:
        sql = "SELECT entry FROM entries WHERE idx >= ? AND idx < ? ORDER BY idx"
        return [Entry(entry) for (entry,) in self._all(sql, (start, stop))]

    def admitted(self, start: int, stop: int) -> list[Admitted]:
        sql = "SELECT idx, kind, generation, collateral FROM entries WHERE idx >= ? AND idx < ? ORDER BY idx"
        # Rows are tuples as they come: making each another would cost as much as reading it.
        return cast("list[Admitted]", self._all(sql, (start, stop)))

    def documents(self, kind: Kind) -> list[StoredEntry]:
        rows = self._all(f"{self.ENTRIES} WHERE kind <> 0 AND kind = ? ORDER BY idx", (int(kind),))
        return [_stored(row) for row in rows]

    def newest_documents(self, kind: Kind, before: int, most: int) -> list[StoredEntry]:
        sql = f"{self.ENTRIES} WHERE kind <> 0 AND kind = ? AND idx < ? ORDER BY idx DESC LIMIT ?"
        return [_stored(row) for row in self._all(sql, (int(kind), before, most))]

    def head(self, size: int) -> SignedHead | None:
        return self._head("WHERE size = ?", (size,))

    def head_covering(self, index: int) -> SignedHead | None:
        return self._head("WHERE size > ? ORDER BY size LIMIT 1", (index,))

    def newest_head(self) -> SignedHead | None:
        return self._head("ORDER BY size DESC LIMIT 1", ())

    def heads(self, after: int = 0) -> Iterator[SignedHead]:
        sql = f"SELECT {_HEAD_COLUMNS} FROM heads WHERE size > ? ORDER BY size LIMIT {_CHUNK}"
        rows: list[Row] | None = None
        # A page that is not full is the last: who follows a log asks with every batch, and need not ask twice.
        while rows is None or len(rows) == _CHUNK:
            rows = self._all(sql, (after,))
            yield from (SignedHead(*row) for row in rows)
            after = rows[-1][0] if rows else after

    def heads_made(self) -> int:
        row = self._one("SELECT number + 1 FROM heads ORDER BY size DESC LIMIT 1")
        return int(row[0]) if row else 0

    def erased_upto(self) -> int:
        row = self._one("SELECT upto FROM erased")
        return int(row[0]) if row else 0

    def intake_get(self, entry: Entry) -> IntakeRow | None:
        row = self._one(f"SELECT {INTAKE_COLUMNS} FROM intake WHERE entry = ?", (entry,))
        return intake_of(row) if row else None

    def intake_sizes(self) -> dict[Entry, int]:
        sql = "SELECT entry, length(statement) + length(collateral) FROM intake WHERE failed IS NULL"
        return {Entry(entry): size for entry, size in self._all(sql, ())}

    def newest_checkpoint(self) -> bytes | None:
        row = self._one("SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1")
        return row[0] if row else None

    def checkpoint_covering(self, index: int) -> bytes | None:
        row = self._one("SELECT note FROM checkpoints WHERE size > ? AND witnessed ORDER BY size LIMIT 1", (index,))
        return row[0] if row else None

    def checkpoints(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        sql = f"SELECT size, note FROM checkpoints WHERE size > ? ORDER BY size LIMIT {_NOTES}"
        while rows := self._all(sql, (after,)):
            yield from ((size, note) for size, note in rows)
            after = rows[-1][0]

    def _head(self, clause: str, parameters: Sequence[Any]) -> SignedHead | None:
        row = self._one(f"SELECT {_HEAD_COLUMNS} FROM heads {clause}", parameters)
        return SignedHead(*row) if row else None


def tip_of(row: Sequence[Any] | None) -> Tip:
    if row is None:
        raise LogUnusableError("the log database has no tip; it was not made by init")
    return Tip(*row)


def intake_of(row: Row) -> IntakeRow:
    entry, statement, generation, not_before, not_after, accepted, failed, collateral, unique = row
    judgement = Judgement(generation, not_before, not_after, collateral, bool(unique))
    # PostgreSQL keeps a reason as bytes: it may hold what text may not.
    reason = failed.decode("utf-8", "replace") if isinstance(failed, bytes) else failed
    return IntakeRow(Entry(entry), statement, judgement, accepted, reason)


def address_of(collateral: bytes) -> bytes | None:
    """Collateral is kept once, by its digest."""
    return hashlib.sha256(collateral).digest() if collateral else None


def _stored(row: Row) -> StoredEntry:
    index, entry, kind, generation, tbs, statement, collateral = row
    if kind not in _KINDS:
        raise StoreError(f"entry {index} has a kind that this version does not know")
    if statement is None:
        raise StoreError(f"entry {index} has no statement, not even an erased one; run `transparency log fsck`")
    return StoredEntry(index, Entry(entry), Kind(kind), generation, tbs, statement, collateral)
