"""The least that must be kept to go on appending: one hash for each complete subtree at the right edge.

A tree of ``size`` leaves is a row of complete subtrees, one for each bit of ``size``. Appending is adding
one to a binary number: equal subtrees pair up and carry. So a leaf costs one inner hash on average, at any
size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from transparency.merkle.hashing import EMPTY_ROOT, HASH_SIZE, MAX_SIZE, node_hash, pair_up

if TYPE_CHECKING:
    from collections.abc import Sequence


class CompactRange:
    """The right edge of a tree as hashes of complete subtrees. Mutable; one owner."""

    __slots__ = ("_pending", "_size")

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        """``hashes``: of the complete subtrees of ``size`` leaves, from the left (the biggest first)."""
        if type(size) is not int or not 0 <= size <= MAX_SIZE:
            raise ValueError(f"tree size {size!r} is out of range")
        if len(hashes) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} complete subtrees, not {len(hashes)}")
        _check_hashes(hashes)
        self._size = size
        # By level, lowest first: the subtree that waits there for its right sibling.
        self._pending: list[bytes | None] = [None] * size.bit_length()
        levels = (level for level in range(size.bit_length()) if size >> level & 1)
        for level, subtree in zip(levels, reversed(hashes), strict=True):
            self._pending[level] = subtree

    @property
    def size(self) -> int:
        """How many leaves."""
        return self._size

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The complete subtrees from the left: what the constructor takes."""
        return tuple(subtree for subtree in reversed(self._pending) if subtree is not None)

    @property
    def by_level(self) -> list[bytes | None]:
        """The same by level, lowest first; None where no subtree waits for its right sibling."""
        return self._pending.copy()

    def append(self, leaf_hash: bytes) -> None:
        """Add one leaf."""
        self.extend([leaf_hash])

    def extend(self, leaf_hashes: Sequence[bytes]) -> list[list[bytes]]:
        """Add leaves; returns, by level, the hashes of the subtrees that became complete, in order.

        A batch is carried up row by row rather than leaf by leaf: the same hashes at half the cost. Nothing
        is changed when it raises.
        """
        _check_hashes(leaf_hashes)
        if self._size + len(leaf_hashes) > MAX_SIZE:
            raise ValueError(f"{len(leaf_hashes)} more leaves pass the greatest tree size, 2^63-1")
        self._size += len(leaf_hashes)
        pending = self._pending
        completed: list[list[bytes]] = []
        row = list(leaf_hashes)
        while row:
            completed.append(row)
            level = len(completed) - 1
            if level == len(pending):
                pending.append(None)
            waiting = pending[level]
            if waiting is not None:
                row = [waiting, *row]
            pending[level] = row[-1] if len(row) & 1 else None
            row = pair_up(row)
        return completed

    def root(self) -> bytes:
        """The root: complete subtrees folded from the right (RFC 9162 §2.1.2)."""
        root: bytes | None = None
        for subtree in self._pending:
            if subtree is not None:
                root = subtree if root is None else node_hash(subtree, root)
        return EMPTY_ROOT if root is None else root

    def copy(self) -> CompactRange:
        """An independent copy."""
        # Not through the constructor, which would check again what is known: a copy is made for every batch.
        twin = CompactRange.__new__(CompactRange)
        twin._size = self._size  # noqa: SLF001 - one of our own kind
        twin._pending = self._pending.copy()  # noqa: SLF001 - likewise
        return twin


def _check_hashes(hashes: Sequence[bytes]) -> None:
    # Over a million leaves two sets by map() cost a tenth of a loop with two tests.
    if not (set(map(type, hashes)) <= {bytes} and set(map(len, hashes)) <= {HASH_SIZE}):
        raise ValueError(f"every hash must be {HASH_SIZE} bytes")
