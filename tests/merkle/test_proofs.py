"""Proofs made and checked, against RFC 9162 written out naively."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.merkle.rfc9162_reference import ReferenceTree
from transparency.errors import ProofError
from transparency.merkle.hashing import EMPTY_ROOT, MAX_SIZE, leaf_hash, node_hash
from transparency.merkle.proofs import (
    consistency_path,
    inclusion_path,
    root_at,
    root_from_consistency,
    root_from_inclusion,
    roots_of_consistency,
    verify_consistency,
    verify_inclusion,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from transparency.merkle.proofs import ReadHash

TREE = ReferenceTree([b"entry %d" % index for index in range(65537)])
BOUNDARIES = (255, 256, 257, 511, 512, 513, 65535, 65536, 65537)

# Entries and roots that the Certificate Transparency reference implementations have used since RFC 6962.
CT_ENTRIES = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def read(level: int, index: int) -> bytes:
    return TREE.mth(index << level, (index + 1) << level)


def read_only_below(size: int) -> ReadHash:
    """A reader that fails the test when a hash outside the first ``size`` leaves is asked for."""

    def bounded(level: int, index: int) -> bytes:
        assert (index + 1) << level <= size, "a proof used leaves that its tree does not have"
        return read(level, index)

    return bounded


def test_roots_are_those_of_the_certificate_transparency_references() -> None:
    leaves = [leaf_hash(bytes.fromhex(entry)) for entry in CT_ENTRIES]

    def read_ct(level: int, index: int) -> bytes:
        if level == 0:
            return leaves[index]
        return node_hash(read_ct(level - 1, 2 * index), read_ct(level - 1, 2 * index + 1))

    assert [root_at(size, read_ct).hex() for size in range(1, 9)] == CT_ROOTS


def test_the_root_of_the_empty_tree_is_the_hash_of_nothing() -> None:
    assert root_at(0, read) == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_every_inclusion_proof_up_to_size_70_is_that_of_the_rfc_and_verifies() -> None:
    """RC-9: the root recomputed from the entry is the tree's."""
    for size in range(1, 71):
        root = TREE.root(size)
        assert root_at(size, read_only_below(size)) == root
        for index in range(size):
            path = inclusion_path(index, size, read_only_below(size))
            assert path == TREE.path(index, size)
            verify_inclusion(TREE.leaf(index), index, size, path, root)


def test_every_consistency_proof_up_to_size_70_is_that_of_the_rfc_and_verifies() -> None:
    """RC-10: the newer root follows from the trusted older one."""
    for new in range(1, 71):
        for old in range(1, new + 1):
            path = consistency_path(old, new, read_only_below(new))
            assert path == TREE.proof(old, new)
            verify_consistency(old, new, TREE.root(old), TREE.root(new), path)
            if old < new:
                assert root_from_consistency(old, new, TREE.root(old), path) == TREE.root(new)


@given(st.integers(1, 600), st.data())
def test_proofs_at_any_size_up_to_600_are_those_of_the_rfc(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size))

    inclusion = inclusion_path(index, size, read_only_below(size))
    consistency = consistency_path(old, size, read_only_below(size))

    assert inclusion == TREE.path(index, size)
    assert consistency == TREE.proof(old, size)
    verify_inclusion(TREE.leaf(index), index, size, inclusion, TREE.root(size))
    verify_consistency(old, size, TREE.root(old), TREE.root(size), consistency)


@pytest.mark.parametrize("size", BOUNDARIES)
def test_proofs_around_tile_boundaries_are_those_of_the_rfc(size: int) -> None:
    places = sorted({0, 1, 254, 255, 256, 257, size // 2, 65279, 65280, 65535, size - 2, size - 1})
    for index in (place for place in places if place < size):
        path = inclusion_path(index, size, read_only_below(size))
        assert path == TREE.path(index, size)
        verify_inclusion(TREE.leaf(index), index, size, path, TREE.root(size))
    for old in (place + 1 for place in places if place < size):
        path = consistency_path(old, size, read_only_below(size))
        assert path == TREE.proof(old, size)
        verify_consistency(old, size, TREE.root(old), TREE.root(size), path)


def flip(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@st.composite
def mutated(draw: st.DrawFn, path: list[bytes]) -> list[bytes]:
    """``path``, changed in one way."""
    kinds = ["insert"] if not path else ["insert", "flip", "remove", "repeat", "shorten", "lengthen", "empty"]
    if len(path) > 1:
        kinds += ["swap", "reverse"]
    kind = draw(st.sampled_from(kinds))
    result = list(path)
    at = draw(st.integers(0, max(0, len(path) - 1)))
    match kind:
        case "insert":
            result.insert(draw(st.integers(0, len(path))), draw(st.binary(min_size=32, max_size=32)))
        case "flip":
            result[at] = flip(result[at], draw(st.integers(0, 255)))
        case "remove":
            del result[at]
        case "repeat":
            result.insert(at, result[at])
        case "shorten":
            result[at] = result[at][:-1]
        case "lengthen":
            result[at] += b"\x00"
        case "empty":
            result[at] = b""
        case "swap":
            other = draw(st.integers(0, len(path) - 1).filter(lambda place: place != at))
            result[at], result[other] = result[other], result[at]
        case "reverse":
            result.reverse()
    return result


@given(st.integers(1, 600), st.data())
def test_a_changed_inclusion_path_is_refused(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    path = data.draw(mutated(TREE.path(index, size)))

    with pytest.raises(ProofError):
        verify_inclusion(TREE.leaf(index), index, size, path, TREE.root(size))


@given(st.integers(2, 600), st.data())
def test_a_changed_consistency_path_is_refused(new: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, new - 1))
    path = data.draw(mutated(TREE.proof(old, new)))

    with pytest.raises(ProofError):
        verify_consistency(old, new, TREE.root(old), TREE.root(new), path)


@given(st.integers(2, 600), st.data())
def test_an_inclusion_proof_holds_for_no_other_leaf_index_or_root(size: int, data: st.DataObject) -> None:
    index, other = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    path, root, leaf = TREE.path(index, size), TREE.root(size), TREE.leaf(index)
    bit = data.draw(st.integers(0, 255))

    for claim in (
        (leaf, other, size, path, root),
        (TREE.leaf(other), index, size, path, root),
        (flip(leaf, bit), index, size, path, root),
        (leaf, index, size, path, flip(root, bit)),
    ):
        with pytest.raises(ProofError):
            verify_inclusion(*claim)


@given(st.integers(2, 600), st.data())
def test_a_consistency_proof_holds_for_no_other_roots(new: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, new - 1))
    path, old_root, new_root = TREE.proof(old, new), TREE.root(old), TREE.root(new)
    bit = data.draw(st.integers(0, 255))

    for first, second in (
        (flip(old_root, bit), new_root),
        (old_root, flip(new_root, bit)),
        (new_root, old_root),
    ):
        with pytest.raises(ProofError):
            verify_consistency(old, new, first, second, path)


@given(st.integers(2, 600), st.data())
def test_a_wrong_old_root_is_refused_or_leads_to_another_new_root(new: int, data: st.DataObject) -> None:
    """RC-10: from a power of two the old root itself starts the climb, so only the new root tells."""
    old = data.draw(st.integers(1, new - 1))
    wrong = flip(TREE.root(old), data.draw(st.integers(0, 255)))

    if old.bit_count() == 1:
        assert root_from_consistency(old, new, wrong, TREE.proof(old, new)) != TREE.root(new)
    else:
        with pytest.raises(ProofError, match="does not reproduce the old root"):
            root_from_consistency(old, new, wrong, TREE.proof(old, new))


def test_a_consistency_path_has_both_roots_in_it_unless_the_old_one_is_a_complete_subtree() -> None:
    for new in range(2, 40):
        for old in range(1, new):
            path = consistency_path(old, new, read)
            if old.bit_count() == 1:
                with pytest.raises(ProofError, match="leaves the old root out"):
                    roots_of_consistency(old, new, path)
            else:
                assert roots_of_consistency(old, new, path) == (root_at(old, read), root_at(new, read))
    for old, new in ((5, 5), (7, 5), (0, 5)):
        with pytest.raises(ProofError):
            roots_of_consistency(old, new, [])


def test_a_path_alone_does_not_fix_the_size_of_its_tree() -> None:
    """RC-18: leaf 4 of 5 has the path of leaf 1 of 2, which is why receipts sign the size."""
    path = TREE.path(4, 5)

    assert root_from_inclusion(TREE.leaf(4), 1, 2, path) == TREE.root(5)


BAD_SIZES = [0, -1, -5, True, 5.0, "5", None, MAX_SIZE + 1, 1 << 64, 1 << 5000]


@pytest.mark.parametrize("size", BAD_SIZES, ids=lambda value: str(value)[:24])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    leaf, root = TREE.leaf(0), TREE.root(5)
    with pytest.raises(ProofError):
        verify_inclusion(leaf, 0, size, [], leaf)
    with pytest.raises(ProofError):
        root_from_consistency(size, 5, leaf, TREE.proof(1, 5))
    with pytest.raises(ProofError):
        root_from_consistency(1, size, leaf, TREE.proof(1, 5))
    with pytest.raises(ProofError):
        verify_consistency(size, size, root, root, [])


@pytest.mark.parametrize("index", [-1, True, False, 0.0, "0", None, 5, 6, MAX_SIZE, 1 << 70], ids=str)
def test_an_index_outside_its_tree_is_refused(index: Any) -> None:
    with pytest.raises(ProofError):
        root_from_inclusion(TREE.leaf(0), index, 5, TREE.path(0, 5))


@pytest.mark.parametrize(
    "value",
    [b"", bytes(31), bytes(33), bytearray(32), memoryview(bytes(32)), "0" * 32, None, 32, [0] * 32],
    ids=lambda value: f"{type(value).__name__}",
)
def test_what_is_not_a_hash_is_refused_wherever_one_belongs(value: Any) -> None:
    leaf, root = TREE.leaf(0), TREE.root(2)
    for call in (
        lambda: root_from_inclusion(value, 0, 1, []),
        lambda: root_from_inclusion(leaf, 0, 2, [value]),
        lambda: verify_inclusion(leaf, 0, 1, [], value),
        lambda: root_from_consistency(1, 2, value, [leaf]),
        lambda: root_from_consistency(1, 2, leaf, [value]),
        lambda: verify_consistency(1, 2, leaf, value, [leaf]),
        lambda: verify_consistency(2, 2, value, root, []),
        lambda: verify_consistency(2, 2, value, value, []),
    ):
        with pytest.raises(ProofError):
            call()


def test_an_index_just_past_the_tree_is_refused_whatever_the_length_of_its_path() -> None:
    for length in range(8):
        with pytest.raises(ProofError, match="leaf index 5 is not below tree size 5"):
            root_from_inclusion(TREE.leaf(0), 5, 5, [bytes(32)] * length)


def test_between_equal_sizes_only_equal_roots_and_an_empty_path_are_consistent() -> None:
    root = TREE.root(7)

    verify_consistency(7, 7, root, root, [])

    with pytest.raises(ProofError, match="another root"):
        verify_consistency(7, 7, root, TREE.root(6), [])
    with pytest.raises(ProofError, match="not empty"):
        verify_consistency(7, 7, root, root, [root])
    with pytest.raises(ProofError, match="not below"):
        root_from_consistency(7, 7, root, [])


def test_a_tree_that_shrank_is_refused() -> None:
    with pytest.raises(ProofError, match="not below"):
        verify_consistency(7, 6, TREE.root(7), TREE.root(6), TREE.proof(6, 7))


def test_a_consistency_path_is_never_empty_between_different_sizes() -> None:
    """RFC 9162 §2.1.4.2, step 1."""
    with pytest.raises(ProofError, match="has 0 hashes"):
        root_from_consistency(4, 8, TREE.root(4), [])


def test_a_hostile_path_costs_nothing_before_it_is_refused() -> None:
    class Endless(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            pytest.fail("the path was walked although its length is wrong")

    path = Endless([bytes(32)] * 1000)
    with pytest.raises(ProofError, match="has 1000 hashes"):
        root_from_inclusion(TREE.leaf(0), 0, 5, path)
    with pytest.raises(ProofError, match="has 1000 hashes"):
        root_from_consistency(3, 5, TREE.root(3), path)


@settings(max_examples=50)
@given(st.integers(1, MAX_SIZE), st.data())
def test_proofs_work_up_to_the_greatest_size(size: int, data: st.DataObject) -> None:
    """In a tree of equal leaves every complete subtree of a level has one hash, so any size can be tried."""
    levels = [leaf_hash(b"")]
    for _ in range(63):
        levels.append(node_hash(levels[-1], levels[-1]))

    def read_equal(level: int, index: int) -> bytes:
        assert (index + 1) << level <= size
        return levels[level]

    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size))
    root = root_at(size, read_equal)
    verify_inclusion(levels[0], index, size, inclusion_path(index, size, read_equal), root)
    verify_consistency(old, size, root_at(old, read_equal), root, consistency_path(old, size, read_equal))


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (root_at, (-1,)),
        (root_at, (True,)),
        (root_at, (MAX_SIZE + 1,)),
        (inclusion_path, (0, 0)),
        (inclusion_path, (5, 5)),
        (inclusion_path, (-1, 5)),
        (inclusion_path, (False, 5)),
        (consistency_path, (0, 5)),
        (consistency_path, (6, 5)),
        (consistency_path, (True, 5)),
        (consistency_path, (1, MAX_SIZE + 1)),
    ],
)
def test_making_a_proof_that_cannot_exist_is_the_callers_error(
    make: Callable[..., object], arguments: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="out of range"):
        make(*arguments, read)
