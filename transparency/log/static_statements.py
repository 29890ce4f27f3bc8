"""The statements of an export: bundles of 256 entries, and what erasures take out of them again.

A statement that is erased in the log is erased in its exports by the next run: the erasure is an entry like any other,
so it is found among the new ones. One that the log had not carried out yet is remembered, and looked at again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from transparency.client.static_layout import LARGE, large_path, read_items, statements_path
from transparency.cose import cbor
from transparency.errors import MalformedError, StoreError
from transparency.log.static_source import Source
from transparency.log.static_target import Target
from transparency.log.static_writer import Writer
from transparency.log.store import Kind, StoredEntry
from transparency.merkle.tiles import WIDTH, tile_width
from transparency.policy import operations
from transparency.policy.erasure import PAYLOAD, Erasure
from transparency.statements.statement import Statement, entry_id

_ROW: Final = (int, bytes, int, int, (bytes, type(None)), (bytes, type(None)))


class Statements:
    """*awaited* are the entries whose erasure an earlier run found, and did not see carried out."""

    def __init__(self, source: Source, target: Target, writer: Writer, awaited: Iterable[int]) -> None:
        self._source = source
        self._target = target
        self._writer = writer
        self._rows: Iterator[StoredEntry] = iter(())
        self._orders = set(awaited)
        self.erased = 0

    @property
    def orders(self) -> tuple[int, ...]:
        """Entries whose erasure was found, and is to be looked at before the run ends."""
        return tuple(sorted(self._orders))

    def begin(self, start: int, stop: int) -> None:
        self._rows = self._source.rows(start, stop)

    def write(self, index: int, width: int) -> list[StoredEntry]:
        """The next bundle; gives its rows."""
        rows = list(islice(self._rows, width))
        if [row.index for row in rows] != list(range(index * WIDTH, index * WIDTH + width)):
            raise StoreError(f"statements from {index * WIDTH} on are missing")
        for row in rows:
            self._orders.update(_ordered(row))
            if _is_large(row):
                self._writer.put(large_path(entry_id(row.entry)), cbor.encode([row.statement, row.collateral]))
        self._writer.put(statements_path(index, width), b"".join(map(_item, rows)))
        return rows

    def carry_out(self, size: int) -> tuple[int, ...]:
        """Take out what the log has erased; gives the entries that it has not erased yet."""
        self._writer.flush()
        by_bundle = defaultdict(list)
        for index in sorted(self._orders):
            if index < size:
                by_bundle[index // WIDTH].append(index)
        waiting: list[int] = []
        for bundle, indexes in by_bundle.items():
            waiting += self._carry_out(bundle, indexes, size)
        return tuple(waiting)

    def _carry_out(self, bundle: int, indexes: list[int], size: int) -> list[int]:
        path = statements_path(bundle, tile_width(0, bundle, size))
        items = self._read(path)
        waiting, changed = [], False
        for index in indexes:
            row = next(self._source.rows(index, index + 1))
            if not row.erased:
                waiting.append(index)
                continue
            item = items[index % WIDTH]
            if item[4] is None:
                self._target.delete(large_path(entry_id(row.entry)))
            if item[4] != b"":
                items[index % WIDTH] = [row.index, row.entry, int(row.kind), row.generation, b"", row.collateral]
                changed = True
                self.erased += 1
        if changed:
            self._target.put(path, b"".join(map(cbor.encode, items)))
        return waiting

    def _read(self, path: str) -> list[list[Any]]:
        data = self._target.get(path)
        if data is None:
            raise StoreError(f"{path} is missing in {self._target.name}")
        try:
            return read_items(data, _ROW)
        except MalformedError as error:
            raise StoreError(f"{path} in {self._target.name} is damaged: {error}") from error


def _is_large(row: StoredEntry) -> bool:
    return len(row.statement) + len(row.collateral) > LARGE


def _item(row: StoredEntry) -> bytes:
    large = _is_large(row)
    statement, collateral = (None, None) if large else (row.statement, row.collateral)
    return cbor.encode([row.index, row.entry, int(row.kind), row.generation, statement, collateral])


def _ordered(row: StoredEntry) -> list[int]:
    """The entries whose statements an erasure takes away."""
    if row.kind is not Kind.OPERATION:
        return []
    try:
        statement = Statement.from_bytes(row.statement)
        if statement.claims.sub != operations.ERASURE:
            return []
        return [item.index for item in Erasure.from_bytes(statement.payload).items if item.what == PAYLOAD]
    except MalformedError:
        return []  # fsck and the audit name it
