"""Subtrees and their consistency with the tree (draft-ietf-plants-merkle-tree-certs-03 §4)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.errors import ProofError
from transparency.merkle.hashing import MAX_SIZE, leaf_hash, node_hash
from transparency.merkle.proofs import consistency_path, inclusion_path
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.notes.subtree import is_subtree, subtree_hash, subtree_path, verify_subtree_consistency

COUNT = 40
LEAVES = [leaf_hash(bytes([index])) for index in range(COUNT)]
TILES = RightEdge().append(LEAVES)
READ = TileHashes(lambda level, index: TILES.get((level, index)))


def mth(leaves: list[bytes]) -> bytes:
    """RFC 9162 §2.1.1, word for word."""
    if len(leaves) == 1:
        return leaves[0]
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(mth(leaves[:k]), mth(leaves[k:]))


def subproof(start: int, end: int, leaves: list[bytes], *, known: bool = True) -> list[bytes]:
    """SUBTREE_SUBPROOF of §4.4.1, word for word."""
    n = len(leaves)
    if (start, end) == (0, n):
        return [] if known else [mth(leaves)]
    k = 1 << (n - 1).bit_length() - 1
    if end <= k:
        return [*subproof(start, end, leaves[:k], known=known), mth(leaves[k:])]
    if k <= start:
        return [*subproof(start - k, end - k, leaves[k:], known=known), mth(leaves[:k])]
    return [*subproof(0, end - k, leaves[k:], known=False), mth(leaves[:k])]


def every_subtree(size: int) -> list[tuple[int, int]]:
    return [(start, end) for start in range(size) for end in range(start + 1, size + 1) if is_subtree(start, end)]


def test_the_subtrees_of_the_draft_s_examples() -> None:
    """CS-2: §4.1, §4.2."""
    assert is_subtree(4, 8)
    assert is_subtree(8, 13)
    assert is_subtree(0, MAX_SIZE)
    for start, end in ((5, 13), (7, 9), (4, 9), (2, 5), (4, 4), (5, 4), (-8, 0), (0, 0), (0, MAX_SIZE + 1), (True, 2)):
        assert not is_subtree(start, end)


@given(st.integers(0, 300), st.integers(0, 300))
def test_a_subtree_starts_at_a_multiple_of_the_power_of_two_that_holds_it(start: int, end: int) -> None:
    """CS-2."""
    ceil = 1
    while ceil < end - start:
        ceil *= 2
    assert is_subtree(start, end) == (start < end and start % ceil == 0)


def test_hash_and_proof_of_every_subtree_are_those_of_the_definition_and_verify() -> None:
    """CS-2: every subtree of every tree up to 40 leaves."""
    for size in range(1, COUNT + 1):
        root = mth(LEAVES[:size])
        for start, end in every_subtree(size):
            subtree = subtree_hash(start, end, READ)
            path = subtree_path(start, end, size, READ)

            assert subtree == mth(LEAVES[start:end])
            assert path == subproof(start, end, LEAVES[:size])
            verify_subtree_consistency(start, end, size, path, subtree, root)


def test_a_subtree_from_0_has_a_consistency_proof_and_a_leaf_an_inclusion_proof() -> None:
    """CS-2: §4.4.1, as the draft says."""
    for size in range(1, COUNT + 1):
        for index in range(size):
            assert subtree_path(0, index + 1, size, READ) == consistency_path(index + 1, size, READ)
            assert subtree_path(index, index + 1, size, READ) == inclusion_path(index, size, READ)


def test_the_proof_of_the_draft_s_example() -> None:
    """CS-2: [8, 13) in a tree of 14."""
    expected = [LEAVES[12], LEAVES[13], mth(LEAVES[8:12]), mth(LEAVES[:8])]

    assert subtree_path(8, 13, 14, READ) == expected


@settings(max_examples=300)
@given(st.data())
def test_a_changed_proof_never_verifies(data: st.DataObject) -> None:
    """CS-2: a hash changed, added, left out or moved; another range, size, subtree or root."""
    size = data.draw(st.integers(1, COUNT))
    start, end = data.draw(st.sampled_from(every_subtree(size)))
    subtree, root = mth(LEAVES[start:end]), mth(LEAVES[:size])
    path = subtree_path(start, end, size, READ)
    other = data.draw(st.binary(min_size=32, max_size=32))
    at = data.draw(st.integers(0, len(path)))
    match data.draw(st.sampled_from(["add", "cut", "change", "subtree", "root", "size"])):
        case "add":
            path.insert(at, other)
        case "cut" if path:
            del path[min(at, len(path) - 1)]
        case "change" if path:
            path[min(at, len(path) - 1)] = other
        case "subtree":
            subtree = other
        case "size" if (start, end) != (0, size):
            # The smaller or greater tree has another root.
            size = data.draw(st.integers(end, 2 * COUNT).filter(lambda each: each != size))
            root = mth((LEAVES + LEAVES)[:size])
        case _:
            root = other

    with pytest.raises(ProofError):
        verify_subtree_consistency(start, end, size, path, subtree, root)


def test_a_range_that_is_no_subtree_is_refused_whatever_the_proof() -> None:
    """CS-2."""
    for start, end, size in ((5, 13, 14), (8, 13, 12), (0, 0, 5), (-8, 8, 8), (0, 5, MAX_SIZE + 1)):
        with pytest.raises(ProofError, match="not a subtree"):
            verify_subtree_consistency(start, end, size, [], LEAVES[0], LEAVES[0])
        with pytest.raises(ValueError, match="not a subtree"):
            subtree_path(start, end, size, READ)
    with pytest.raises(ValueError, match="not a subtree"):
        subtree_hash(5, 13, READ)


def test_hashes_of_another_length_and_endless_paths_are_refused() -> None:
    """CS-2."""
    for path, subtree in (([b"x"], LEAVES[0]), ([LEAVES[0]] * 64, LEAVES[0]), ([], b"x")):
        with pytest.raises(ProofError, match="hashes of 32"):
            verify_subtree_consistency(0, 1, 2, path, subtree, LEAVES[0])
