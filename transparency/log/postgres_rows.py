"""Rows of a log as PostgreSQL's binary COPY takes them.

COPY is fed whole: one buffer a table, packed here. That is quicker than the driver's row by row, and than INSERT with
arrays (docs/decisions/0017).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from transparency.log.sql_reads import address_of
from transparency.log.store import NewEntry

_SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER: Final = b"\xff\xff"
_NULL: Final = b"\xff\xff\xff\xff"
# Each value follows its length; a row its number of values.
_ENTRY: Final = struct.Struct("!hiqi")
_MIDDLE: Final = struct.Struct("!ihiqi")
_STATEMENT: Final = struct.Struct("!hiqi")
_LENGTH: Final = struct.Struct("!i")

COPY_ENTRIES: Final = "COPY entries (idx, entry, kind, generation, tbs, collateral) FROM STDIN (FORMAT BINARY)"
COPY_STATEMENTS: Final = "COPY statements (idx, statement) FROM STDIN (FORMAT BINARY)"


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
