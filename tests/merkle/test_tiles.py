"""Tiles: what appending writes, and reading any hash of any size back from it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.merkle.rfc9162_reference import ReferenceTree
from transparency.errors import StoreError
from transparency.merkle import proofs
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.merkle.proofs import consistency_path, inclusion_path, root_at
from transparency.merkle.tiles import HEIGHT, WIDTH, RightEdge, TileHashes, tile_width

SIZE = 66100
TREE = ReferenceTree([b"leaf %d" % index for index in range(SIZE)])
BOUNDARIES = (1, 2, 255, 256, 257, 511, 512, 513, 65535, 65536, 65537)


class Tiles(dict[tuple[int, int], bytes]):
    """A store of growing tiles that counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[tuple[int, int]] = Counter()

    def read(self, level: int, index: int) -> bytes | None:
        self.reads[level, index] += 1
        return self.get((level, index))


def tiles_of(size: int, batch: int = 5000) -> Tiles:
    store, edge = Tiles(), RightEdge()
    for begin in range(0, size, batch):
        store.update(edge.append(TREE.leaves(begin, min(size, begin + batch))))
    return store


@pytest.fixture(scope="module")
def stored() -> Tiles:
    """Tiles of the whole tree; tests only read them."""
    return tiles_of(SIZE)


def test_a_tile_is_256_wide_and_8_high() -> None:
    assert (WIDTH, HEIGHT) == (256, 8)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 700), min_size=1, max_size=5))
def test_append_returns_every_changed_tile_with_its_whole_content(batches: list[int]) -> None:
    """TL-3: level 0 holds leaf hashes, level l+1 the roots of full tiles of level l, and no tile is empty."""
    edge, store, size = RightEdge(), Tiles(), 0
    for count in batches:
        before = dict(store)
        changed = edge.append(TREE.leaves(size, size + count))
        store.update(changed)
        size += count

        every = {(level, i) for level in range(3) for i in range(SIZE // WIDTH) if tile_width(level, i, size)}
        assert store == {(level, i): TREE.tile(level, i, size) for level, i in every}
        assert changed.keys() == {key for key in every if before.get(key) != store[key]}
        assert edge.size == size
        assert edge.root() == TREE.root(size)


@pytest.mark.parametrize("size", BOUNDARIES)
@pytest.mark.parametrize("batch", [1, 256, 5000])
def test_tiles_at_boundaries_are_those_of_the_tree(size: int, batch: int) -> None:
    """TL-3: also at the height of a third level."""
    store = tiles_of(size, batch)

    expected = {}
    for level in range(3):
        for index in range(-(-(size >> HEIGHT * level) // WIDTH)):
            expected[level, index] = TREE.tile(level, index, size)
    assert store == expected
    assert all(store.values())


def test_appending_nothing_changes_nothing() -> None:
    edge = RightEdge()
    assert edge.append([]) == {}
    assert edge.root() == EMPTY_ROOT


def check_loaded(size: int, stored: Tiles) -> None:
    edge = RightEdge.load(size, stored.read)

    assert edge.size == size
    assert edge.root() == TREE.root(size)
    more = min(300, SIZE - size)
    changed = edge.append(TREE.leaves(size, size + more))
    assert edge.root() == TREE.root(size + more)
    for (level, index), content in changed.items():
        assert content == TREE.tile(level, index, size + more)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, SIZE))
def test_an_edge_loaded_at_any_size_goes_on_like_one_that_never_stopped(stored: Tiles, size: int) -> None:
    check_loaded(size, stored)


@pytest.mark.parametrize("size", [0, *BOUNDARIES, SIZE])
def test_an_edge_loaded_at_a_boundary_goes_on_like_one_that_never_stopped(stored: Tiles, size: int) -> None:
    check_loaded(size, stored)


def test_loading_reads_at_most_one_tile_a_level(stored: Tiles) -> None:
    stored.reads.clear()
    RightEdge.load(SIZE, stored.read)
    assert stored.reads == {(0, 258): 1, (1, 1): 1, (2, 0): 1}


@pytest.mark.parametrize("size", [-1, True, 1.0, 1 << 63])
def test_loading_a_size_that_is_none_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        RightEdge.load(size, Tiles().read)


def test_loading_past_what_is_stored_names_the_tile_that_is_short() -> None:
    store = tiles_of(300)
    with pytest.raises(StoreError, match="tile 1 of level 0 has 44 hashes, 45 needed"):
        RightEdge.load(301, store.read)
    with pytest.raises(StoreError, match="tile 0 of level 1 has 1 hashes, 2 needed"):
        RightEdge.load(513, store.read)
    del store[0, 1]
    with pytest.raises(StoreError, match="tile 1 of level 0 is missing"):
        RightEdge.load(300, store.read)


def test_a_copy_that_is_dropped_leaves_nothing_behind() -> None:
    edge = RightEdge()
    edge.append(TREE.leaves(0, 300))

    attempt = edge.copy()
    attempt.append(TREE.leaves(40000, 40500))

    assert (edge.size, edge.root()) == (300, TREE.root(300))
    assert edge.append(TREE.leaves(300, 301)) == {(0, 1): TREE.tile(0, 1, 301)}


def test_a_leaf_that_is_no_hash_leaves_the_edge_as_it_was() -> None:
    edge = RightEdge()
    edge.append(TREE.leaves(0, 255))

    with pytest.raises(ValueError, match="32 bytes"):
        edge.append([TREE.leaf(255), bytes(33)])

    assert edge.append(TREE.leaves(255, 256)).keys() == {(0, 0), (1, 0)}
    assert edge.root() == TREE.root(256)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, SIZE), st.data())
def test_proofs_of_any_earlier_size_are_read_from_the_tiles_of_today(
    stored: Tiles, size: int, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(1, size))
    read = TileHashes(stored.read, cache_size=data.draw(st.integers(1, 8)))

    assert root_at(size, read) == TREE.root(size)
    assert inclusion_path(index, size, read) == TREE.path(index, size)
    assert consistency_path(old, size, read) == TREE.proof(old, size)


@pytest.mark.parametrize("size", BOUNDARIES)
def test_a_tree_of_exactly_this_size_proves_itself_from_its_tiles(size: int) -> None:
    read = TileHashes(tiles_of(size).read)

    assert root_at(size, read) == TREE.root(size)
    for index in {0, size // 2, size - 1}:
        assert inclusion_path(index, size, read) == TREE.path(index, size)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 200), min_size=2, max_size=6))
def test_one_reader_follows_a_store_that_grows(batches: list[int]) -> None:
    store, edge, size = Tiles(), RightEdge(), 0
    read = TileHashes(store.read, cache_size=4)
    for count in batches:
        store.update(edge.append(TREE.leaves(size, size + count)))
        size += count
        assert root_at(size, read) == TREE.root(size)
        for index in (0, size // 2, size - 1):
            assert inclusion_path(index, size, read) == TREE.path(index, size)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, SIZE - 1), st.integers(0, 16), st.integers(0, 16), st.booleans())
def test_hashes_taken_together_are_those_taken_one_by_one(
    stored: Tiles, index: int, low: int, high: int, warm: bool
) -> None:
    while ((index >> high) + 1) << high > SIZE:  # until the subtree they lie in is complete
        high -= 1
    read, single = TileHashes(stored.read), TileHashes(stored.read)
    if warm:
        read.beside(0, high, index)

    assert read.beside(low, high, index) == [single(level, (index >> level) ^ 1) for level in range(low, high)]


def test_ragged_edges_are_remembered_for_many_sizes_and_for_no_more_than_there_is_room_for(
    stored: Tiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "MAX_RANGES", 5)
    read = TileHashes(stored.read)
    for size in (SIZE, SIZE - 1, 300, SIZE, 777, 1000, 301, SIZE):
        for index in (0, size // 2, size - 2, size - 1):
            assert inclusion_path(index, size, read) == TREE.path(index, size)
            assert len(read.ranges) <= 5


def test_a_tile_is_read_again_only_for_a_hash_beyond_its_cached_width() -> None:
    store = tiles_of(10)
    read = TileHashes(store.read)
    assert read(1, 4) == TREE.mth(8, 10)

    store.update(tiles_of(20))
    assert read(0, 9) == TREE.leaf(9)
    assert store.reads[0, 0] == 1
    assert read(2, 2) == TREE.mth(8, 12)
    assert store.reads[0, 0] == 2


def test_a_full_tile_is_read_once() -> None:
    store = tiles_of(256)
    read = TileHashes(store.read)
    for level in range(8):
        for index in range(256 >> level):
            assert read(level, index) == TREE.mth(index << level, (index + 1) << level)
    assert store.reads == {(0, 0): 1}


def test_the_cache_holds_no_more_than_it_may_and_drops_the_longest_unused(stored: Tiles) -> None:
    stored.reads.clear()
    read = TileHashes(stored.read, cache_size=2)

    for tile in (0, 1, 0, 2, 0, 1):
        read(0, tile * WIDTH)

    assert stored.reads == {(0, 0): 1, (0, 1): 2, (0, 2): 1}


@pytest.mark.parametrize("cache_size", [0, -1])
def test_a_cache_of_nothing_is_refused(cache_size: int) -> None:
    with pytest.raises(ValueError, match="cache size"):
        TileHashes(Tiles().read, cache_size=cache_size)


def test_a_missing_tile_is_named() -> None:
    read = TileHashes(Tiles().read)
    with pytest.raises(StoreError, match="tile 3 of level 0 is missing"):
        read(0, 3 * 256)
    with pytest.raises(StoreError, match="tile 1 of level 2 is missing"):
        read(23, 2)


def test_a_tile_too_short_for_a_subtree_is_named() -> None:
    read = TileHashes(tiles_of(300).read)
    with pytest.raises(StoreError, match="tile 1 of level 0 has 44 hashes, 64 needed"):
        read(6, 4)
    with pytest.raises(StoreError, match="tile 0 of level 1 has 1 hashes, 2 needed"):
        read(8, 1)


@pytest.mark.parametrize("length", [1, 31, 33, 8191, 8193, 8224])
def test_a_tile_of_broken_length_is_refused(length: int) -> None:
    read = TileHashes(lambda _level, _index: bytes(length))
    with pytest.raises(StoreError, match=f"tile 0 of level 0 has {length} bytes"):
        read(0, 0)


def test_a_tile_that_changed_instead_of_growing_is_refused() -> None:
    store = tiles_of(10)
    read = TileHashes(store.read)
    read(0, 0)

    store[0, 0] = bytes(32) + TREE.tile(0, 0, 11)[32:]

    with pytest.raises(StoreError, match="tile 0 of level 0 changed"):
        read(0, 10)


def test_a_proof_from_a_tile_that_is_short_or_changed_is_refused() -> None:
    store = tiles_of(300)
    read = TileHashes(store.read)
    for cut in (31, 64 * 32, 127 * 32):
        short = {**store, (0, 0): store[0, 0][:cut]}
        with pytest.raises(StoreError, match=r"tile 0 of level 0 has"):
            inclusion_path(5, 300, TileHashes(lambda *at, short=short: short.get(at)))
    assert inclusion_path(290, 300, read) == TREE.path(290, 300)

    store[0, 1] = bytes(32) + store[0, 1][32:] + TREE.leaf(300) + TREE.leaf(301)

    with pytest.raises(StoreError, match=r"tile 1 of level 0 changed"):
        inclusion_path(300, 304, read)


@pytest.mark.parametrize(("level", "index"), [(-1, 0), (0, -1)])
def test_there_are_no_negative_hashes(stored: Tiles, level: int, index: int) -> None:
    with pytest.raises(ValueError, match="there is no hash"):
        TileHashes(stored.read)(level, index)
