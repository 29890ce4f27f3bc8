"""The compact range: appending with one hash a subtree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.merkle.rfc9162_reference import ReferenceTree
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import EMPTY_ROOT, MAX_SIZE

TREE = ReferenceTree([b"%d" % index for index in range(1300)])


def test_every_size_to_600_has_the_root_of_the_rfc() -> None:
    edge = CompactRange()
    assert edge.root() == EMPTY_ROOT
    for size in range(1, 601):
        edge.append(TREE.leaf(size - 1))
        assert edge.size == size
        assert edge.root() == TREE.root(size)
        assert len(edge.hashes) == size.bit_count()


@given(st.lists(st.integers(0, 300), max_size=4))
def test_batches_give_what_single_leaves_give(batches: list[int]) -> None:
    edge, size = CompactRange(), 0
    for count in batches:
        rows = edge.extend(TREE.leaves(size, size + count))

        for level, row in enumerate(rows):
            first, last = size >> level, (size + count) >> level
            assert row == [TREE.mth(i << level, (i + 1) << level) for i in range(first, last)]
        size += count
        assert edge.root() == TREE.root(size)


@given(st.integers(0, 600), st.integers(0, 100))
def test_a_range_continues_from_its_size_and_hashes(size: int, more: int) -> None:
    edge = CompactRange()
    edge.extend(TREE.leaves(0, size))

    again = CompactRange(edge.size, edge.hashes)
    again.extend(TREE.leaves(size, size + more))

    assert again.root() == TREE.root(size + more)


def test_a_copy_goes_its_own_way() -> None:
    edge = CompactRange()
    edge.extend(TREE.leaves(0, 5))
    twin = edge.copy()

    twin.extend(TREE.leaves(5, 9))

    assert (edge.size, edge.root()) == (5, TREE.root(5))
    assert (twin.size, twin.root()) == (9, TREE.root(9))


@pytest.mark.parametrize("bad", [bytes(31), bytes(33), b"", bytearray(32), "0" * 32])
def test_a_leaf_that_is_no_hash_changes_nothing(bad: Any) -> None:
    edge = CompactRange()
    edge.extend(TREE.leaves(0, 5))

    with pytest.raises(ValueError, match="32 bytes"):
        edge.extend([TREE.leaf(5), bad])

    assert (edge.size, edge.root()) == (5, TREE.root(5))


@pytest.mark.parametrize(
    ("size", "hashes"),
    [(0, [bytes(32)]), (1, []), (3, [bytes(32)]), (-1, []), (True, [bytes(32)]), (MAX_SIZE + 1, [bytes(32)])],
)
def test_hashes_that_do_not_fit_the_size_are_refused(size: int, hashes: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"out of range|complete subtrees"):
        CompactRange(size, hashes)


def test_the_tree_ends_at_the_greatest_size() -> None:
    edge = CompactRange(MAX_SIZE, [bytes(32)] * 63)

    with pytest.raises(ValueError, match="greatest tree size"):
        edge.append(bytes(32))

    assert edge.size == MAX_SIZE
