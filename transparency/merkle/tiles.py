"""Tiles: the tree as blobs of 256 hashes (C2SP tlog-tiles), how they grow, how any hash is read from them.

Level 0 holds leaf hashes; a hash of level l+1 is the root of a *full* tile of level l (TL-3). Seven of
eight rows of the tree are in no tile: they are recomputed from the row below, 255 hashes at most, and kept
while in use. A tile that is not full is a prefix of what it will be, so a store keeps one growing blob a
tile, and a tree of any earlier size is read from the same blobs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

from transparency.errors import StoreError
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import HASH_SIZE, MAX_SIZE, node_hash, pair_up, pair_up_bytes
from transparency.merkle.proofs import complete_subtrees
from transparency.merkle.tile_paths import (
    HEIGHT,
    WIDTH,
    parse_tile_path,
    tile_path,
    tile_width,
    widths,
)

__all__ = [
    "HEIGHT",
    "WIDTH",
    "ReadTile",
    "RightEdge",
    "TileHashes",
    "parse_tile_path",
    "tile_path",
    "tile_width",
    "widths",
]

ReadTile: TypeAlias = Callable[[int, int], bytes | None]
"""``(tile level, tile index)`` -> the whole content as stored, or None."""

TILE_BYTES: Final = WIDTH * HASH_SIZE


class RightEdge:
    """What the sequencer holds of a tree: each level's last tile, and the compact range. One owner.

    The tiles are immutable bytes that are replaced, so ``copy`` shares them and costs a microsecond: append
    to a copy, commit, then keep the copy; when the commit fails, drop it.
    """

    __slots__ = ("_range", "_tiles")

    def __init__(self) -> None:
        """Start with the empty tree."""
        self._range = CompactRange()
        self._tiles: list[bytes] = []

    @classmethod
    def load(cls, size: int, read_tile: ReadTile) -> RightEdge:
        """The edge at ``size``, which may be less than what is stored: at most eight tiles are read."""
        if type(size) is not int or not 0 <= size <= MAX_SIZE:
            raise ValueError(f"tree size {size!r} is out of range")
        read = TileHashes(read_tile, cache_size=MAX_SIZE.bit_length() // HEIGHT + 1)
        edge = cls()
        edge._range = CompactRange(size, [read(*subtree) for subtree in complete_subtrees(0, size)])
        for level, width in enumerate(widths(size)):
            edge._tiles.append(read.tile(level, size >> HEIGHT * (level + 1), width) if width else b"")
        return edge

    @property
    def size(self) -> int:
        """How many leaves."""
        return self._range.size

    def append(self, leaf_hashes: Sequence[bytes]) -> dict[tuple[int, int], bytes]:
        """Add leaves; returns every tile that changed, by ``(level, index)``, each with its whole content."""
        before = self.size
        changed: dict[tuple[int, int], bytes] = {}
        # Of the rows that grew, each eighth is a row of tiles.
        for level, row in enumerate(self._range.extend(leaf_hashes)[::HEIGHT]):
            if level == len(self._tiles):
                self._tiles.append(b"")
            content = self._tiles[level] + b"".join(row)
            index = before >> HEIGHT * (level + 1)
            for start in range(0, len(content), TILE_BYTES):
                changed[level, index] = content[start : start + TILE_BYTES]
                index += 1
            self._tiles[level] = content[len(content) - len(content) % TILE_BYTES :]
        return changed

    def left_subtrees(self) -> list[bytes | None]:
        """``CompactRange.by_level``: all that paths of leaves to come need of what stands left of them."""
        return self._range.by_level

    def root(self) -> bytes:
        """The root at ``size``."""
        return self._range.root()

    def copy(self) -> RightEdge:
        """An independent edge with the same content."""
        twin = RightEdge.__new__(RightEdge)
        twin._range = self._range.copy()  # noqa: SLF001 - one of our own kind
        twin._tiles = self._tiles.copy()  # noqa: SLF001 - likewise
        return twin


class TileHashes:
    """Any hash of the tree, read from tiles: a ``ReadHash`` with a bounded cache. For one thread.

    It outlives the growth of its store. A cached tile answers only for hashes within the width it was read
    at; for one beyond, the tile is read again. Complete subtrees never change, so what was computed stays.
    """

    __slots__ = ("_cache", "_cache_size", "_read_tile", "ranges")

    def __init__(self, read_tile: ReadTile, cache_size: int = 512) -> None:
        """``cache_size`` counts tiles; one takes up to 25 KB when all its rows have been asked for."""
        if cache_size < 1:
            raise ValueError(f"cache size {cache_size} is not positive")
        self._read_tile = read_tile
        self._cache_size = cache_size
        self._cache: OrderedDict[tuple[int, int], _Tile] = OrderedDict()
        # Of ragged right edges, for those who prove (proofs.py).
        self.ranges: dict[tuple[int, int], bytes] = {}

    def __call__(self, level: int, index: int) -> bytes:
        """The hash of the complete subtree over leaves ``[index << level, (index + 1) << level)``."""
        if level < 0 or index < 0:
            raise ValueError(f"there is no hash {index} at level {level}")
        tile_level, row = divmod(level, HEIGHT)
        tile_index, place = divmod(index, WIDTH >> row)
        return self._tile(tile_level, tile_index, (place + 1) << row).node(row, place)

    def beside(self, low: int, high: int, index: int) -> list[bytes]:
        """Hashes beside the ancestors of leaf ``index``, from level ``low`` to below ``high``.

        The subtree of level ``high`` over the leaf must be complete. Then so is each part of a tile that they lie in,
        and a tile is looked up once for up to eight of them: most of what a proof from the cache costs.
        """
        path: list[bytes] = []
        while low < high:
            level = low // HEIGHT
            base = level * HEIGHT
            top = min(high - base, HEIGHT)
            place = index >> base
            tile = self._tile(level, place // WIDTH, ((place % WIDTH >> top) + 1) << top)
            path += tile.beside(place % WIDTH, low - base, top)
            low = base + HEIGHT
        return path

    def tile(self, level: int, index: int, width: int = WIDTH) -> bytes:
        """The first ``width`` hashes of a tile."""
        return self._tile(level, index, width).content[: width * HASH_SIZE]

    def _tile(self, level: int, index: int, width: int) -> _Tile:
        """The tile with at least ``width`` hashes, from the cache or the store."""
        key = level, index
        tile = self._cache.get(key)
        if tile is not None and width * HASH_SIZE <= len(tile.content):
            self._cache.move_to_end(key)
            return tile
        content = self._read(level, index, width)
        if tile is None:
            tile = self._cache[key] = _Tile(content)
            if len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        elif content.startswith(tile.content):
            tile.content = content
            self._cache.move_to_end(key)
        else:
            raise StoreError(f"tile {index} of level {level} changed instead of growing: the store is damaged")
        return tile

    def _read(self, level: int, index: int, width: int) -> bytes:
        content = self._read_tile(level, index)
        if content is None:
            raise StoreError(f"tile {index} of level {level} is missing")
        if len(content) % HASH_SIZE or len(content) > TILE_BYTES:
            raise StoreError(f"tile {index} of level {level} has {len(content)} bytes: not up to {WIDTH} hashes")
        if len(content) < width * HASH_SIZE:
            raise StoreError(f"tile {index} of level {level} has {len(content) // HASH_SIZE} hashes, {width} needed")
        return bytes(content)


# Of a tile's nodes as in a heap (node n has 2n and 2n+1 below it): those beside the ancestors of a place, above row 0.
_ABOVE: Final = [
    itemgetter(*(((WIDTH + place) >> row) ^ 1 for row in range(1, HEIGHT))) for place in range(0, WIDTH, 2)
]


class _Tile:
    """A tile's content and what has been computed of the seven rows above it."""

    __slots__ = ("_nodes", "content")

    def __init__(self, content: bytes) -> None:
        self.content = content
        # Node (row, place) is number (WIDTH >> row) + place.
        self._nodes: list[bytes | None] = [None] * WIDTH

    def node(self, row: int, place: int) -> bytes:
        """The hash at ``place`` of a row; the caller made sure that the content covers it."""
        if row == 0:
            return self.content[place * HASH_SIZE : (place + 1) * HASH_SIZE]
        known = self._nodes[(WIDTH >> row) + place]
        return known if known is not None else self._compute(row, place)

    def beside(self, place: int, low: int, top: int) -> Sequence[bytes]:
        """The hashes beside the ancestors of ``place`` from row ``low`` to below ``top``, which the content covers."""
        other = (place ^ 1) * HASH_SIZE
        path = (self.content[other : other + HASH_SIZE], *_ABOVE[place >> 1](self._nodes))
        if top - low < HEIGHT:
            path = path[low:top]
        return path if all(path) else [self.node(row, (place >> row) ^ 1) for row in range(low, top)]

    def _compute(self, row: int, place: int) -> bytes:
        """Fill the whole subtree below, row by row: cheaper than by node, and a proof needs its parts."""
        number = (WIDTH >> row) + place
        if row > 1:
            left, right = self._nodes[2 * number : 2 * number + 2]
            if left is not None and right is not None:
                self._nodes[number] = known = node_hash(left, right)
                return known
        nodes = pair_up_bytes(self.content[(place << row) * HASH_SIZE : ((place + 1) << row) * HASH_SIZE])
        for height in range(1, row + 1):
            if height > 1:
                nodes = pair_up(nodes)
            first = number << row - height
            self._nodes[first : first + len(nodes)] = nodes
        return nodes[0]
