"""What an export is made from: a log's data folder, beside its server or without one; or the log over HTTP.

Both show the log as it is under one checkpoint, which is chosen when they are opened: what comes later is not seen.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

from transparency.client.client import LogClient
from transparency.client.tiles import TileClient, TiledTree
from transparency.errors import NoteError, StoreError, UnreachableError
from transparency.log.artifacts import ArtifactStore
from transparency.log.audit_sources import RemoteSource
from transparency.log.documents import load_in_force
from transparency.log.folder import Config, Folder
from transparency.log.published import Published
from transparency.log.store import DOCUMENTS, Kind, StoredEntry
from transparency.log.stores import open_for_reading
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import WIDTH, tile_width
from transparency.notes.bundle import read_bundle
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.keyset import ServiceKeys
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement

AT_ONCE: Final = 16
_T = TypeVar("_T")


class Source(Protocol):
    """A log under one checkpoint. ``tile`` and ``bundles`` are as wide as the tree of that checkpoint has them."""

    signed: SignedCheckpoint
    keys: bytes
    policy: bytes

    def tile(self, level: int, index: int) -> bytes: ...
    def bundles(self, first: int, stop: int) -> list[tuple[bytes, list[bytes]]]:
        """Each tile of level 0 from *first* to before *stop*, with the entries under it: they belong together."""
        ...

    def root_at(self, size: int) -> bytes: ...
    def heads(self, after: int) -> Iterator[SignedHead]: ...
    def rows(self, start: int, stop: int) -> Iterator[StoredEntry]: ...
    def documents(self, start: int, stop: int) -> list[StoredEntry] | None:
        """The statements by which policies and key sets were registered; None where only ``rows`` tells."""
        ...

    def artifacts(self) -> ArtifactStore | None:
        """The records that are kept beside the log; None where they cannot be listed."""
        ...

    def close(self) -> None: ...


class FolderExport:
    """A data folder, read only; a server may be running over it."""

    def __init__(self, data: Path) -> None:
        self._folder = Folder(data.absolute())
        config = Config.read(self._folder.config)
        self._store = open_for_reading(self._folder)
        try:
            self._published = Published(self._store)
            self.signed = _newest(self._published, data)
            load_in_force(self._store, config.origin, config.policy_key)
            size = self.signed.checkpoint.size
            self._documents = [row for kind in DOCUMENTS for row in self._store.documents(kind) if row.index < size]
            self.policy = self._in_force(Kind.POLICY)
            self.keys = self._in_force(Kind.KEYS)
        except BaseException:
            self._store.close()
            raise

    def _in_force(self, kind: Kind) -> bytes:
        newest = max((row for row in self._documents if row.kind is kind), key=lambda row: row.index)
        return Statement.from_bytes(newest.statement).payload

    def tile(self, level: int, index: int) -> bytes:
        return self._published.tile(level, index, tile_width(level, index, self._published.size))

    def bundles(self, first: int, stop: int) -> list[tuple[bytes, list[bytes]]]:
        found = []
        for index in range(first, stop):
            width = tile_width(0, index, self._published.size)
            tile, entries = self.tile(0, index), read_bundle(self._published.bundle(index, width), width)
            if b"".join(map(leaf_hash, entries)) != tile:
                raise StoreError(f"the entries from {index * WIDTH} on are not those of their tile")
            found.append((tile, entries))
        return found

    def root_at(self, size: int) -> bytes:
        return self._published.root_at(size)

    def heads(self, after: int) -> Iterator[SignedHead]:
        return takewhile(lambda head: head.size <= self._published.size, self._store.heads(after))

    def rows(self, start: int, stop: int) -> Iterator[StoredEntry]:
        return self._store.entries(start, stop)

    def documents(self, start: int, stop: int) -> list[StoredEntry]:
        return [row for row in self._documents if start <= row.index < stop]

    def artifacts(self) -> ArtifactStore:
        return ArtifactStore(self._folder.artifacts)

    def close(self) -> None:
        self._store.close()


class RemoteExport:
    """The log at a URL, every byte of its tree checked on the way. Heads and statements need a token that may read."""

    def __init__(self, url: str, *, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._runner = asyncio.Runner()
        self._log = LogClient(url, token=token, tls=tls)
        self._tiles = TileClient(url, tls=tls)
        self._pages = RemoteSource(lambda what, start: self._run(self._log.export(what, start)))
        try:
            self.keys = self._run(self._log.keys_document())
            self.policy = self._run(self._log.policy())
            note = self._run(self._tiles.checkpoint())
            self.signed = open_checkpoint(note, checkpoint_vkeys(ServiceKeys.from_toml(self.keys)))
        except NoteError as error:
            self.close()
            raise UnreachableError(f"the checkpoint of {url} is not by the keys it serves: {error}") from error
        except BaseException:
            self.close()
            raise
        self._tree = TiledTree(self._tiles, self.signed.checkpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def tile(self, level: int, index: int) -> bytes:
        return self._run(self._tree.tile(level, index))

    def bundles(self, first: int, stop: int) -> list[tuple[bytes, list[bytes]]]:
        found: list[tuple[bytes, list[bytes]]] = []
        for start in range(first, stop, AT_ONCE):
            found += self._run(self._some(range(start, min(start + AT_ONCE, stop))))
        return found

    async def _some(self, indexes: range) -> list[tuple[bytes, list[bytes]]]:
        # The first alone: what they have in common is then fetched once.
        first = await self._bundle(indexes[0])
        return [first, *await asyncio.gather(*map(self._bundle, indexes[1:]))]

    async def _bundle(self, index: int) -> tuple[bytes, list[bytes]]:
        start = index * WIDTH
        entries = [entry async for _, entry in self._tree.entries(start, start + WIDTH)]
        return await self._tree.tile(0, index), entries

    def root_at(self, size: int) -> bytes:
        return self._run(self._tree.root_at(size))

    def heads(self, after: int) -> Iterator[SignedHead]:
        return takewhile(lambda head: head.size <= self._tree.size, self._pages.heads(after))

    def rows(self, start: int, stop: int) -> Iterator[StoredEntry]:
        return takewhile(lambda row: row.index < stop, self._pages.entries(start))

    def documents(self, start: int, stop: int) -> None:  # noqa: ARG002 - of a log elsewhere, only ``rows`` tells
        return None

    def artifacts(self) -> None:
        return None

    def close(self) -> None:
        self._run(self._log.close())
        self._run(self._tiles.close())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._runner.run(work)


def _newest(published: Published, data: Path) -> SignedCheckpoint:
    if published.newest is None:
        raise StoreError(f"{data} has no checkpoint yet: a log signs one when `transparency serve` runs")
    return published.newest
