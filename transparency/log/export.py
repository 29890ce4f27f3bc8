"""The export: entries and heads as CBOR sequences (RFC 8742), page by page, so that anybody allowed can audit a log.

An entry is ``[index, entry, kind, generation, statement, collateral]``, the statement empty where it was erased; a
head is ``[size, root, time, kid, protected, signature]``. A page holds at least one item unless there is none left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from transparency.cose import cbor
from transparency.errors import MalformedError
from transparency.log.store import Kind, StoredEntry
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import ENTRY_BYTES, Entry

PAGE_ENTRIES: Final = 1_024
PAGE_HEADS: Final = 4_096
PAGE_BYTES: Final = 4 * 1024 * 1024
_MAX_NUMBER: Final = 2**53
_ENTRY: Final = (int, bytes, int, int, bytes, bytes)
_HEAD: Final = (int, bytes, int, bytes, bytes, bytes)


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
        page += cbor.encode([head.size, head.root, head.time, head.kid, head.protected, head.signature])
        if count >= PAGE_HEADS or len(page) >= PAGE_BYTES:
            break
    return bytes(page)


def read_entries(page: bytes) -> list[StoredEntry]:
    rows = []
    for index, entry, kind, generation, statement, collateral in _items(page, _ENTRY):
        if len(entry) != ENTRY_BYTES or kind not in set(Kind):
            raise MalformedError("the export holds something that is no entry")
        rows.append(StoredEntry(index, Entry(entry), Kind(kind), generation, b"", statement, collateral))
    return rows


def read_heads(page: bytes) -> list[SignedHead]:
    return [SignedHead(*item) for item in _items(page, _HEAD)]


def _items(page: bytes, types: tuple[type, ...]) -> list[list[Any]]:
    items = []
    position = 0
    while position < len(page):
        item, position = cbor.read(page, position, max_depth=2)
        if not isinstance(item, list) or [type(member) for member in item] != list(types):
            raise MalformedError("the export is not a sequence of its items")
        if any(isinstance(member, int) and not 0 <= member <= _MAX_NUMBER for member in item):
            raise MalformedError("the export has a number that is out of range")
        items.append(item)
    return items
