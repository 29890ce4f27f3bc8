"""The export: entries and heads as CBOR sequences (RFC 8742), page by page, so that anybody allowed can audit a log.

An entry is ``[index, entry, kind, generation, statement, collateral]``, the statement empty where it was erased; a
head is ``[size, root, time, kid, protected, signature]``. A page holds at least one item unless there is none left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from transparency.client.static_layout import head_item, read_heads, read_items
from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.log.store import Kind, StoredEntry
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import ENTRY_BYTES, Entry

__all__ = ["PAGE_ENTRIES", "PAGE_HEADS", "read_entries", "read_heads", "write_entries", "write_heads"]

PAGE_ENTRIES: Final = 1_024
PAGE_HEADS: Final = 4_096
PAGE_BYTES: Final = 4 * 1024 * 1024
_ENTRY: Final = (int, bytes, int, int, bytes, bytes)


def write_entries(rows: Iterable[StoredEntry]) -> bytes:
    """One page of *rows*: as many as fit."""
    page = bytearray()
    for count, row in enumerate(rows, 1):
        page += cbor.encode([row.index, row.entry, int(row.kind), row.generation, row.statement, row.collateral])
        if count >= PAGE_ENTRIES or len(page) >= PAGE_BYTES:
            break
    return bytes(page)


def write_heads(heads: Iterable[SignedHead]) -> bytes:
    page = bytearray()
    for count, head in enumerate(heads, 1):
        page += head_item(head)
        if count >= PAGE_HEADS or len(page) >= PAGE_BYTES:
            break
    return bytes(page)


def read_entries(page: bytes) -> list[StoredEntry]:
    rows = []
    for index, entry, kind, generation, statement, collateral in read_items(page, _ENTRY):
        if len(entry) != ENTRY_BYTES or kind not in set(Kind):
            raise MalformedError("the export holds something that is no entry")
        rows.append(StoredEntry(index, Entry(entry), Kind(kind), generation, b"", statement, collateral))
    return rows
