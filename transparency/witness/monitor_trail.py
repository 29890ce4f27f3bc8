"""The end of the tree that a monitor follows: enough to say which root it had at any size that is not long past.

Whoever shows a smaller tree may show another one. The tiles that tell are gone if their log is, so the last leaf hashes
are kept here, and before them one hash for each complete subtree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from transparency.client.tiles import TiledTree
from transparency.errors import ProofError
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import HASH_SIZE, leaf_hash, node_hash, pair_up
from transparency.merkle.proofs import complete_subtrees, consistency_path, root_at
from transparency.merkle.tiles import WIDTH

KEPT: Final = 64 * WIDTH
"""Leaf hashes that are kept at least, where the tree has so many: half a megabyte."""
_SLACK: Final = 16 * WIDTH


class Trail:
    """A tree by its first ``base`` leaves, as complete subtrees, and the hash of each leaf after them. One owner."""

    def __init__(self, base: CompactRange | None = None, leaves: Sequence[bytes] = ()) -> None:
        base = CompactRange() if base is None else base
        self._base = dict(zip(complete_subtrees(0, base.size), base.hashes, strict=True))
        self._leaves = list(leaves)
        self._edge = base.copy()
        self._edge.extend(self._leaves)
        self.base = base.size

    @property
    def size(self) -> int:
        return self._edge.size

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The complete subtrees of the base: with ``base`` and ``leaves``, all that there is."""
        return tuple(self._base.values())

    @property
    def leaves(self) -> tuple[bytes, ...]:
        return tuple(self._leaves)

    def root(self) -> bytes:
        return self._edge.root()

    def extended(self, leaves: Sequence[bytes]) -> Trail:
        """This tree with more leaves; what is long past is let go."""
        hashes = [*self._leaves, *leaves]
        gone = 0 if len(hashes) <= KEPT + _SLACK else len(hashes) - KEPT
        base = CompactRange(self.base, self.hashes)
        base.extend(hashes[:gone])
        return Trail(base, hashes[gone:])

    def reaches(self, size: int) -> bool:
        return self.base <= size <= self.size

    def root_at(self, size: int) -> bytes:
        """The root when there were *size* leaves, which this must reach."""
        return root_at(size, self._read)

    def consistency_path(self, old: int) -> list[bytes]:
        return consistency_path(old, self.size, self._read)

    def _read(self, level: int, index: int) -> bytes:
        """A complete subtree. Those before the base are asked for whole, since no size before it is."""
        known = self._base.get((level, index))
        if known is not None:
            return known
        begin, end = index << level, (index + 1) << level
        if begin < self.base:
            return node_hash(self._read(level - 1, 2 * index), self._read(level - 1, 2 * index + 1))
        row = self._leaves[begin - self.base : end - self.base]
        while len(row) > 1:
            row = pair_up(row)
        return row[0]


async def first_trail(tree: TiledTree) -> Trail:
    """A tree that is seen for the first time, by its tiles."""
    base = max(0, tree.size - KEPT) // WIDTH * WIDTH
    subtrees = await tree.subtrees(base)
    leaves: list[bytes] = []
    for index in range(base // WIDTH, -(-tree.size // WIDTH)):
        tile = await tree.tile(0, index)
        leaves += [tile[at : at + HASH_SIZE] for at in range(0, len(tile), HASH_SIZE)]
    return _held(Trail(CompactRange(base, subtrees), leaves), tree)


async def longer_trail(trail: Trail, tree: TiledTree) -> Trail:
    """The tree before, with the entries after it appended; each of them was checked against its tile."""
    leaves: list[bytes] = []
    async for _, entry in tree.entries(trail.size):
        leaves.append(leaf_hash(entry))
        if len(leaves) >= KEPT:
            trail, leaves = trail.extended(leaves), []
    return _held(trail.extended(leaves), tree)


def _held(trail: Trail, tree: TiledTree) -> Trail:
    if trail.root() != tree.checkpoint.root:
        raise ProofError(f"the entries up to {tree.size} do not give the root that was signed")
    return trail
