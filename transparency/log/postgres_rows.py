"""Rows of a log as PostgreSQL's binary COPY takes them, and as its queries give them back.

COPY is fed whole: one buffer a table, packed here. That is quicker than the driver's row by row, and than INSERT with
arrays (docs/decisions/0017).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from transparency.errors import LogUnusableError, StoreError
from transparency.log.store import IntakeRow, Kind, NewEntry, StoredEntry, Tip
from transparency.policy.judge import Judgement
from transparency.statements.statement import Entry

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
_KINDS: Final = frozenset(Kind)
# Each value follows its length; a row its number of values.
_ENTRY: Final = struct.Struct("!hiqi")
_MIDDLE: Final = struct.Struct("!ihiqi")
_STATEMENT: Final = struct.Struct("!hiqi")
_LENGTH: Final = struct.Struct("!i")

COPY_ENTRIES: Final = "COPY entries (idx, entry, kind, generation, tbs, collateral) FROM STDIN (FORMAT BINARY)"
COPY_STATEMENTS: Final = "COPY statements (idx, statement) FROM STDIN (FORMAT BINARY)"
ENTRIES: Final = (
    "SELECT entries.idx, entry, kind, generation, tbs, statement, coalesce(content, '')"
    " FROM entries LEFT JOIN statements USING (idx) LEFT JOIN collateral ON digest = collateral"
)
HEAD_COLUMNS: Final = "size, root, time, kid, protected, signature"
INTAKE_COLUMNS: Final = "entry, statement, generation, not_before, not_after, accepted, failed, collateral, is_unique"


def pack_entries(first: int, entries: Iterable[NewEntry]) -> bytes:
    parts = [_SIGNATURE]
    for index, new in enumerate(entries, first):
        address = address_of(new.collateral)
        parts += (
            _ENTRY.pack(6, 8, index, len(new.entry)),
            new.entry,
            _MIDDLE.pack(2, new.kind, 8, new.generation, len(new.tbs_digest)),
            new.tbs_digest,
            _NULL if address is None else _LENGTH.pack(len(address)) + address,
        )
    parts.append(_TRAILER)
    return b"".join(parts)


def pack_statements(first: int, entries: Iterable[NewEntry]) -> bytes:
    parts = [_SIGNATURE]
    for index, new in enumerate(entries, first):
        parts += (_STATEMENT.pack(2, 8, index, len(new.statement)), new.statement)
    parts.append(_TRAILER)
    return b"".join(parts)


def address_of(collateral: bytes) -> bytes | None:
    return hashlib.sha256(collateral).digest() if collateral else None


def tip(row: Sequence[Any] | None) -> Tip:
    if row is None:
        raise LogUnusableError("the log database has no tip; it was not made by init")
    return Tip(*row)


def stored(row: Sequence[Any]) -> StoredEntry:
    index, entry, kind, generation, tbs, statement, collateral = row
    if kind not in _KINDS:
        raise StoreError(f"entry {index} has a kind that this version does not know")
    if statement is None:
        raise StoreError(f"entry {index} has no statement, not even an erased one; run `transparency log fsck`")
    return StoredEntry(index, Entry(entry), Kind(kind), generation, tbs, statement, collateral)


def intake(row: Sequence[Any]) -> IntakeRow:
    entry, statement, generation, not_before, not_after, accepted, failed, collateral, unique = row
    judgement = Judgement(generation, not_before, not_after, collateral, unique)
    reason = None if failed is None else failed.decode("utf-8", "replace")
    return IntakeRow(Entry(entry), statement, judgement, accepted, reason)
