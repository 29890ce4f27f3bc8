"""The paths of a batch are those that each leaf has by itself."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.merkle.batch_paths import batch_paths
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import inclusion_path
from transparency.merkle.tiles import RightEdge, TileHashes


def tree(size: int) -> tuple[list[bytes], TileHashes]:
    leaves = [leaf_hash(hashlib.sha256(b"%d" % at).digest()) for at in range(size)]
    tiles = RightEdge().append(leaves)
    return leaves, TileHashes(lambda level, index: tiles.get((level, index)))


def left_of(leaves: list[bytes]) -> list[bytes | None]:
    edge = RightEdge()
    edge.append(leaves)
    return edge.left_subtrees()


@given(st.integers(0, 700), st.integers(1, 700))
def test_each_path_is_the_one_that_the_leaf_has_alone(first: int, count: int) -> None:
    size = first + count
    leaves, read = tree(size)

    paths = batch_paths(first, leaves[first:], left_of(leaves[:first]), b"\x58\x20")

    assert len(paths) == count
    for index, (length, path) in enumerate(paths, first):
        alone = inclusion_path(index, size, read)
        assert length == len(alone)
        assert path == b"".join(b"\x58\x20" + node for node in alone)


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 65_537])
def test_the_last_leaf_of_a_tree_is_a_batch_too(size: int) -> None:
    leaves, read = tree(size)

    [(length, path)] = batch_paths(size - 1, leaves[-1:], left_of(leaves[:-1]))

    alone = inclusion_path(size - 1, size, read)
    assert (length, path) == (len(alone), b"".join(alone))


def test_no_leaves_have_no_paths() -> None:
    assert batch_paths(5, [], left_of(tree(5)[0])) == []


@pytest.mark.parametrize("first", [1, 6, 7])
def test_without_the_tree_before_it_a_batch_has_no_paths(first: int) -> None:
    leaves, _ = tree(first + 1)

    with pytest.raises(ValueError, match="is missing"):
        batch_paths(first, leaves[first:], left_of(leaves[: first - 1]))
