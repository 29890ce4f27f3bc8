"""Mending: a bundle that is damaged here, once more from the log that it came from.

The log is believed no more than the first time. What it shows must be of the tree that was proven here before: every
tile is held against the root of a checkpoint that covers all that is here, that against the one that was cosigned, and
every entry against its tile. The tiles above a bundle come with it, because the damage may lie in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transparency.client.tiles import TileClient
from transparency.errors import ProofError
from transparency.merkle.hashing import HASH_SIZE
from transparency.merkle.tiles import WIDTH, tile_width
from transparency.mirror.source import SourceTree
from transparency.notes.checkpoint import Checkpoint
from transparency.witness.record import Record

Tiles = Mapping[tuple[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bundle *index* of a log is not what it was, or a tile above it; None if more is wrong than a bundle can mend.

    *tried* is why it was not mended, when that was tried last.
    """

    index: int | None
    words: str
    tried: str = ""

    def __str__(self) -> str:
        return f"{self.words}; {self.tried}" if self.tried else self.words


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was proven here: the checkpoint that covers all that is here, and the newest one that was cosigned."""

    origin: str
    index: int
    covering: Record
    cosigned: Record | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bundle *index* of the tree of *size* entries, and all tiles above it."""

    index: int
    size: int
    entries: Sequence[bytes]
    tiles: Tiles

    def within(self, size: int) -> tuple[Sequence[bytes], Tiles]:
        """As a tree of fewer entries has them: a tile that grew begins as it was."""
        widths = {place: tile_width(*place, size) for place in self.tiles}
        tiles = {place: content[: widths[place] * HASH_SIZE] for place, content in self.tiles.items() if widths[place]}
        return self.entries[: widths[0, self.index]], tiles


async def fetch(client: TileClient, wanted: Wanted) -> Fetched:
    """Raises ProofError where the log shows anything else than what was proven before."""
    covering, cosigned, index = wanted.covering, wanted.cosigned, wanted.index
    tree = SourceTree(client, Checkpoint(wanted.origin, covering.size, covering.root))
    await tree.check_root()
    if cosigned is not None and await tree.root_at(cosigned.size) != cosigned.root:
        raise ProofError(f"the tree of {covering.size} does not extend the one of {cosigned.size}")
    entries = [entry async for _, entry in tree.entries(index * WIDTH, (index + 1) * WIDTH)]
    tiles: dict[tuple[int, int], bytes] = {}
    place = 0, index
    while tile_width(*place, tree.size):
        tiles[place] = await tree.tile(*place)
        place = place[0] + 1, place[1] // WIDTH
    return Fetched(index, tree.size, entries, tiles)
