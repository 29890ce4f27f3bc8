"""Tiles in SQLite: each in rows of 32 hashes, one kilobyte. Inside a transaction of the caller's.

A whole tile is 8,192 bytes, and of two such rows a page of 16 KB takes but one: 64 bytes of file a leaf. Of these rows
a page takes all but the last: 36 (docs/growth.md). And a batch at the edge of the tree writes only the rows that grew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from transparency.merkle.hashing import HASH_SIZE
from transparency.merkle.tile_paths import HEIGHT, WIDTH

_ROW_HASHES: Final = 32
_ROW_BYTES: Final = _ROW_HASHES * HASH_SIZE
_ROWS: Final = WIDTH // _ROW_HASHES
_LEVEL_SHIFT: Final = 48

READ: Final = "SELECT hashes FROM tiles WHERE key >= ? AND key < ? ORDER BY key"


def put(writer: Any, tiles: Mapping[tuple[int, int], bytes], size: int) -> None:  # noqa: ANN401 - as sqlite.connect gives
    """*tiles*, whole, as a batch onto a tree of *size* made them: what was there is not written again."""
    rows = []
    for (level, index), hashes in tiles.items():
        there = max((size >> HEIGHT * level) - index * WIDTH, 0) // _ROW_HASHES
        first = key(level, index)[0]
        rows += [
            (first + row, hashes[row * _ROW_BYTES : (row + 1) * _ROW_BYTES])
            for row in range(there, -(-len(hashes) // _ROW_BYTES))
        ]
    writer.executemany("INSERT OR REPLACE INTO tiles VALUES (?, ?)", rows)


def key(level: int, index: int) -> tuple[int, int]:
    """The keys of a tile's rows: from, and up to."""
    first = level << _LEVEL_SHIFT | index * _ROWS
    return first, first + _ROWS


def whole(rows: Sequence[tuple[bytes]]) -> bytes | None:
    """A tile of what :data:`READ` found."""
    return b"".join(hashes for (hashes,) in rows) if rows else None
