"""Any tlog-tiles log as a client sees it: its checkpoint, and the tree under one, every byte of it checked.

A checkpoint is a size and a root. The partial tiles at the right edge give that root, or they are false; a full tile
gives the hash that its parent has, or it is false; an entry gives the hash that its tile has. So whoever trusts a
checkpoint needs to trust nobody who serves the tiles: a mirror, a cache, the log itself.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeVar

import aiohttp
from yarl import URL

from transparency.client.places import log_url, open_transport
from transparency.client.retry import Backoff
from transparency.client.transport import Answer, Connected, Request, Transport
from transparency.errors import NoteError, ProofError, ServiceRefusedError, UnreachableError
from transparency.merkle.hashing import EMPTY_ROOT, HASH_SIZE, leaf_hash, pair_up, pair_up_bytes
from transparency.merkle.proofs import complete_subtrees, consistency_path, inclusion_path, root_at
from transparency.merkle.tiles import HEIGHT, WIDTH, TileHashes, tile_path, tile_width, widths
from transparency.notes.bundle import MAX_ENTRY, read_bundle
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.numbers import MAX_BYTES
from transparency.notes.paths import CHECKPOINT, entries_path
from transparency.statements.media_types import OCTETS

MAX_BUNDLE: Final = WIDTH * (MAX_ENTRY + 2)
CACHED_TILES: Final = 512
_MAX_TILE: Final = WIDTH * HASH_SIZE
_GONE: Final = (403, 404, 410)  # a bucket that may not be listed says 403 of what it does not have
_T = TypeVar("_T")


class TileClient(Connected):
    """The resources below a log's prefix, as they come: nothing is checked here but their form."""

    def __init__(
        self,
        url: str,
        *,
        session: aiohttp.ClientSession | None = None,
        timeout: float = 30.0,
        retries: int = 5,
        tls: ssl.SSLContext | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.url = log_url(url)
        backoff = Backoff(retries=retries)
        self._transport = transport or open_transport(
            self.url, session=session, timeout=timeout, backoff=backoff, tls=tls
        )

    async def checkpoint(self) -> bytes:
        """The newest checkpoint: a note that ``open_checkpoint`` reads, and whose signatures it checks."""
        return (await self._get(CHECKPOINT, "text/plain", MAX_BYTES)).body

    async def tile(self, level: int, index: int, width: int = WIDTH) -> bytes:
        """The first *width* hashes of a tile."""
        body, wide = await self.wide(lambda wide: tile_path(level, index, wide), width, _MAX_TILE)
        if len(body) != wide * HASH_SIZE:
            raise UnreachableError(f"{self.url} answered with {len(body)} bytes for a tile of {wide} hashes")
        return body[: width * HASH_SIZE]

    async def bundle(self, index: int, width: int = WIDTH) -> list[bytes]:
        """The entries under the first *width* hashes of a tile of level 0."""
        body, wide = await self.wide(lambda wide: entries_path(index, wide), width, MAX_BUNDLE)
        try:
            return read_bundle(body, wide)[:width]
        except NoteError as error:
            raise UnreachableError(f"{self.url} answered with another thing than entries: {error}") from error

    async def file(self, path: str, most: int) -> bytes:
        """What else lies below the prefix."""
        return (await self._get(path, "*/*", most)).body

    async def wide(self, path: Callable[[int], str], width: int, most: int) -> tuple[bytes, int]:
        """What is at a path, and how wide it is: logs may drop a partial tile once it is full (TL-4)."""
        try:
            return (await self._get(path(width), OCTETS, most)).body, width
        except ServiceRefusedError as error:
            if error.status not in _GONE or width == WIDTH:
                raise
        return (await self._get(path(WIDTH), OCTETS, most)).body, WIDTH

    async def _get(self, path: str, accept: str, most: int) -> Answer:
        url = URL(f"{str(self.url).rstrip('/')}/{path}", encoded=True)
        return await self._transport.send(Request("GET", url, {"Accept": accept}, None, most))


class TiledTree:
    """The tree under one checkpoint, which the caller trusts. What does not belong to it is a ProofError."""

    def __init__(self, client: TileClient, checkpoint: Checkpoint, *, cached: int = CACHED_TILES) -> None:
        self.checkpoint = checkpoint
        self._client = client
        self._cached = cached
        self._edge: dict[tuple[int, int], bytes] | None = None
        self._tiles: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    @property
    def size(self) -> int:
        return self.checkpoint.size

    async def check_root(self) -> None:
        """That the right edge of the tiles gives the checkpoint's root: done once, before anything else is read."""
        if self._edge is not None:
            return
        places = [(level, self.size >> HEIGHT * (level + 1), wide) for level, wide in enumerate(widths(self.size))]
        wanted = [place for place in places if place[2]]
        tiles = await asyncio.gather(*(self._client.tile(*place) for place in wanted))
        edge = {(level, index): tile for (level, index, _), tile in zip(wanted, tiles, strict=True)}
        reached = root_at(self.size, TileHashes(lambda level, index: edge.get((level, index)))) if edge else EMPTY_ROOT
        if reached != self.checkpoint.root:
            raise ProofError(f"the tiles at the right edge do not give the root of the checkpoint of size {self.size}")
        self._edge = edge

    async def tile(self, level: int, index: int) -> bytes:
        """A tile as wide as this tree has it."""
        await self.check_root()
        assert self._edge is not None  # noqa: S101 - the line above
        width = tile_width(level, index, self.size)
        if not width:
            raise ValueError(f"a tree of size {self.size} has no tile {index} of level {level}")
        known = self._edge.get((level, index)) or self._tiles.get((level, index))
        if known is None:
            # Only full tiles are not at the edge, and each of them has its root in the tile above.
            known = await self._client.tile(level, index, width)
            parent, place = await self.tile(level + 1, index // WIDTH), index % WIDTH
            if _root_of(known) != parent[place * HASH_SIZE : (place + 1) * HASH_SIZE]:
                raise ProofError(f"tile {index} of level {level} is not the one that the tree of {self.size} has")
            self._tiles[level, index] = known
            if len(self._tiles) > self._cached:
                self._tiles.popitem(last=False)
        return known

    async def entries(self, start: int = 0, stop: int | None = None) -> AsyncIterator[tuple[int, bytes]]:
        """Index and bytes of the entries of a range, in order; of all of them by default."""
        stop = self.size if stop is None else min(stop, self.size)
        for index in range(start // WIDTH, -(-stop // WIDTH)):
            first = index * WIDTH
            bundle = await self._client.bundle(index, tile_width(0, index, self.size))
            if b"".join(map(leaf_hash, bundle)) != await self.tile(0, index):
                raise ProofError(f"entries from {first} on are not those that the tree of {self.size} has")
            for at, entry in enumerate(bundle, first):
                if start <= at < stop:
                    yield at, entry

    async def root_at(self, size: int) -> bytes:
        """The root when the log had *size* entries."""
        return await self.computed(lambda read: root_at(size, read), size)

    async def subtrees(self, size: int) -> list[bytes]:
        """The complete subtrees of the first *size* entries: what a CompactRange goes on from."""
        return await self.computed(lambda read: [read(*each) for each in complete_subtrees(0, size)], size)

    async def inclusion_path(self, index: int) -> list[bytes]:
        return await self.computed(lambda read: inclusion_path(index, self.size, read), index + 1)

    async def consistency_path(self, old: int) -> list[bytes]:
        return await self.computed(lambda read: consistency_path(old, self.size, read), old)

    async def computed(self, compute: Callable[[TileHashes], _T], reach: int = 0) -> _T:
        """Compute from what is here; fetch what was missing, and again: a proof takes a handful of tiles."""
        if reach > self.size:
            raise ValueError(f"{reach} is beyond the tree of size {self.size}")
        have: dict[tuple[int, int], bytes] = {}
        while True:
            try:
                return compute(TileHashes(lambda level, index: _present(have, level, index)))
            except _MissingTileError as missing:
                have[missing.place] = await self.tile(*missing.place)


class _MissingTileError(Exception):
    def __init__(self, place: tuple[int, int]) -> None:
        super().__init__()
        self.place = place


def _present(have: dict[tuple[int, int], bytes], level: int, index: int) -> bytes:
    if (level, index) not in have:
        raise _MissingTileError((level, index))
    return have[level, index]


def _root_of(tile: bytes) -> bytes:
    """The root of a full tile."""
    nodes = pair_up_bytes(tile)
    while len(nodes) > 1:
        nodes = pair_up(nodes)
    return nodes[0]
