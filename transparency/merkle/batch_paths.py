"""The inclusion paths of all leaves that one batch appended, made together.

A path of its own takes about twenty look-ups for each leaf. Here each row of the new part of the tree is hashed once,
and what two neighbours share of their way to the root is put together once: two hashes and two joins a leaf, however
large the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from transparency.merkle.hashing import pair_up


def batch_paths(
    first: int, leaves: Sequence[bytes], left: Sequence[bytes | None], mark: bytes = b""
) -> list[tuple[int, bytes]]:
    """For each of the last *leaves* of a tree (hashes, the first one's index is *first*) its path (RFC 9162 §2.1.3.1).

    A path is the number of its hashes and the hashes in one string, each behind *mark*. *left* are the complete
    subtrees of the tree of size *first*, by level, as ``CompactRange.by_level`` has them: a path into the new part
    meets no other hash of the old one.
    """
    if len(leaves) == 1:
        return [_path_of_last(first, left, mark)]
    rows: list[list[bytes]] = []
    begin, nodes = first, list(leaves)
    while nodes and (begin or len(nodes) > 1):
        if begin & 1:
            begin -= 1
            nodes.insert(0, _waiting(left, len(rows)))
        rows.append(nodes)
        above = pair_up(nodes)
        if len(nodes) & 1:
            above.append(nodes[-1])  # the ragged edge: it has no sibling in this row and is its own parent
        begin, nodes = begin >> 1, above
    ways: list[tuple[int, bytes]] = [(0, b"")]
    for row in reversed(rows):
        ways = _one_row_down(row, ways, mark)
    return ways[len(ways) - len(leaves) :]


def _path_of_last(index: int, left: Sequence[bytes | None], mark: bytes) -> tuple[int, bytes]:
    """Of the last leaf of a tree: beside it stand complete subtrees, and nothing that has to be hashed."""
    beside = [_waiting(left, level) for level in range(index.bit_length()) if index >> level & 1]
    return len(beside), b"".join([mark + subtree for subtree in beside])


def _waiting(left: Sequence[bytes | None], level: int) -> bytes:
    subtree = left[level] if level < len(left) else None
    if subtree is None:
        raise ValueError(f"of the tree before the batch the subtree at level {level} is missing")
    return subtree


def _one_row_down(nodes: list[bytes], above: list[tuple[int, bytes]], mark: bytes) -> list[tuple[int, bytes]]:
    """The ways to the root of a row's nodes, from those of their parents. A row begins at an even place."""
    ways: list[tuple[int, bytes]] = []
    for at, (count, way) in zip(range(0, len(nodes), 2), above[len(above) - (len(nodes) + 1) // 2 :], strict=True):
        if at + 1 == len(nodes):
            ways.append((count, way))
        else:
            ways.append((count + 1, mark + nodes[at + 1] + way))
            ways.append((count + 1, mark + nodes[at] + way))
    return ways
