"""Receipts on demand: from stored heads and tiles, for any entry, at any time (REG-14).

Entry *i*'s receipt is built from the first head that covers it while that head's key is current, so that the same
statement gives the same receipt; once that key is retired, from the newest head (API-4). A compromised key always is.
"""

from __future__ import annotations

from collections.abc import Callable

from transparency.errors import NotFoundError
from transparency.log.candidate import Batch
from transparency.log.store import Store
from transparency.merkle.batch_paths import batch_paths
from transparency.merkle.proofs import consistency_path, inclusion_path
from transparency.merkle.tiles import TileHashes
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import (
    PATH_MARK,
    SignedHead,
    consistency_receipt,
    inclusion_receipt,
    inclusion_receipts,
)


class Receipts:
    """Reads only. The tile cache belongs to the thread that reads, which is the event loop's.

    *published* is the size of the newest head whose mark is written. The store may hold one more, between its commit
    and its mark: that one is shown to nobody, else an old copy that the mark still lets in could contradict it.
    """

    def __init__(self, store: Store, published: Callable[[], int]) -> None:
        self._store = store
        self._published = published
        self._hashes = TileHashes(store.tile)

    def newest(self) -> SignedHead:
        head = self._store.head(self._published())
        if head is None:
            raise NotFoundError("this log has no head")
        return head

    def head_for(self, index: int, keys: ServiceKeys) -> SignedHead:
        head = self._store.head_covering(index)
        if head is None or head.size > self._published():
            raise NotFoundError(f"no tree head covers index {index}")
        if any(key.kid == head.kid for key in keys.current(keyset.RECEIPTS)):
            return head
        newest = self.newest()
        # While another key is announced, the one in use is not the last in line, and its receipts need no renewal.
        return head if any(key.kid == head.kid for key in keys.at(keyset.RECEIPTS, newest.time)) else newest

    def head_of_size(self, size: int) -> SignedHead:
        head = self._store.head(size) if size <= self._published() else None
        if head is None:
            raise NotFoundError(f"this log has signed no tree head of size {size}")
        return head

    def inclusion(self, index: int, head: SignedHead) -> bytes:
        if index >= head.size:
            raise NotFoundError(f"the tree head of size {head.size} does not cover index {index}")
        return inclusion_receipt(head, index, inclusion_path(index, head.size, self._hashes))

    def of_batch(self, batch: Batch, index: int, count: int) -> list[bytes]:
        """The receipts of *count* entries from *index* on, under the head that they came in with.

        Those of the whole batch are made with the first that is asked for.
        """
        if batch.receipts is None:
            paths = batch_paths(batch.first, batch.leaves, batch.left, PATH_MARK)
            batch.receipts = inclusion_receipts(batch.head, batch.first, paths)
        start = index - batch.first
        if not 0 <= start <= len(batch.receipts) - count:  # a slice would give fewer, or others
            raise NotFoundError(f"the batch from index {batch.first} on does not hold {count} entries from {index} on")
        return batch.receipts[start : start + count]

    def consistency(self, old_size: int, head: SignedHead) -> bytes:
        """RFC 9942 §5.3: from one stored head to a newer one."""
        if old_size >= head.size:
            raise NotFoundError(f"a consistency proof leads to a larger tree; {old_size} is not below {head.size}")
        self.head_of_size(old_size)
        return consistency_receipt(head, old_size, consistency_path(old_size, head.size, self._hashes))
