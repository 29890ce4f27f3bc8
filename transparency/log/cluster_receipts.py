"""Receipts of a batch that another process committed: from its head, its entries, and the tiles left of them."""

from __future__ import annotations

from transparency.log.store import Store
from transparency.merkle.batch_paths import batch_paths
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import TileHashes
from transparency.statements.receipt import PATH_MARK, SignedHead, inclusion_receipts
from transparency.statements.statement import Entry


class BatchReceipts:
    """Reads only. The tile cache belongs to the thread that reads, which is the event loop's."""

    def __init__(self, store: Store) -> None:
        self._hashes = TileHashes(store.tile)

    def make(self, first: int, head: SignedHead, entries: list[Entry], wanted: set[Entry]) -> list[bytes]:
        """By place in the batch: a receipt for each of *wanted*, nothing for the others."""
        left = [self._hashes(level, (first >> level) - 1) if first >> level & 1 else None
                for level in range(first.bit_length())]  # fmt: skip
        paths = batch_paths(first, [leaf_hash(entry) for entry in entries], left, PATH_MARK)
        return [
            inclusion_receipts(head, index, (path,))[0] if entry in wanted else b""
            for index, (entry, path) in enumerate(zip(entries, paths, strict=True), first)
        ]
