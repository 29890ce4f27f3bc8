"""What a mirror shows of each log: the checkpoint that it cosigned, and the tiles and entries under it (M-3).

What came beyond that checkpoint is here, and is not shown: nothing is served that is not under its cosignature.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from transparency.errors import NotFoundError
from transparency.merkle.hashing import HASH_SIZE
from transparency.merkle.tiles import WIDTH, tile_width
from transparency.mirror.check import check_entries
from transparency.mirror.mirror import Mirror
from transparency.mirror.trees import DamagedError, Trees
from transparency.notes.bundle import read_bundle
from transparency.witness.record import Record


class Shelf:
    """Reads by a connection of its own, one request at a time: writes go on meanwhile."""

    def __init__(self, mirror: Mirror, path: Path) -> None:
        self.mirror = mirror
        self.trees = Trees.for_reading(path)
        self.lock = threading.Lock()

    def close(self) -> None:
        with self.lock:
            self.trees.close()

    def find(self, hashed: str) -> Shelved:
        """The log with this hash of its origin."""
        origin = self.mirror.origin_of(hashed)
        record = None if origin is None else self.mirror.cosigned(origin)
        if origin is None or record is None:
            raise NotFoundError("This mirror has not cosigned a checkpoint of a log with this origin")
        return Shelved(self, origin, record)


@dataclass(frozen=True, slots=True)
class Shelved:
    """One log at one moment. ``tile`` and ``bundle`` wait for the disk.

    Where they find that it is damaged, the mirror is told, and DamagedError is raised.
    """

    shelf: Shelf
    origin: str
    record: Record
    read: dict[int, list[bytes]] = field(default_factory=dict)

    def tile(self, level: int, index: int, width: int) -> bytes:
        self._check(level, index, width)
        with self.shelf.lock:
            content = self.shelf.trees.tile(self.origin, level, index)
        if content is None or len(content) < width * HASH_SIZE:
            raise self._damaged(index * WIDTH**level, f"tile {index} of level {level} is missing or too short")
        return content[: width * HASH_SIZE]

    def bundle(self, index: int, width: int) -> bytes:
        self._check(0, index, width)
        try:
            with self.shelf.lock:
                content = self.shelf.trees.bundle(self.origin, index, width)
                tile = self.shelf.trees.tile(self.origin, 0, index)
            check_entries(content, width, tile, index)
        except DamagedError as error:
            raise self._damaged(index, str(error)) from error
        return content

    def entry(self, index: int) -> bytes:
        """One entry, whatever bundle it is in; the last bundle is kept for the next."""
        number, place = divmod(index, WIDTH)
        if number not in self.read:
            self.read.clear()
            width = tile_width(0, number, self.record.size)
            self.read[number] = read_bundle(self.bundle(number, width), width)
        return self.read[number][place]

    def _damaged(self, index: int, words: str) -> DamagedError:
        self.shelf.mirror.note_damage(self.origin, index, words)
        return DamagedError(words)

    def _check(self, level: int, index: int, width: int) -> None:
        if not 1 <= width <= tile_width(level, index, self.record.size):
            raise NotFoundError("the mirrored tree has no such tile; its checkpoint says how far it goes")
