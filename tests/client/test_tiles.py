"""Reading any tlog-tiles log: what belongs to the checkpoint is read, and a flipped bit anywhere is found."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
from aiohttp import web

from tests.server.served import served
from transparency.client.tiles import TileClient, TiledTree
from transparency.errors import MalformedError, ProofError, ServiceRefusedError, UnreachableError
from transparency.merkle.hashing import HASH_SIZE, leaf_hash
from transparency.merkle.proofs import verify_consistency, verify_inclusion
from transparency.merkle.tiles import WIDTH, RightEdge, tile_path, tile_width
from transparency.notes.bundle import write_bundle
from transparency.notes.checkpoint import Checkpoint, open_checkpoint
from transparency.notes.paths import entries_path
from transparency.policy.checkpoint_keys import checkpoint_vkeys

LARGE = 70_000


def entry_of(n: int) -> bytes:
    return hashlib.sha256(b"%d" % n).digest()


@cache
def grown() -> tuple[dict[tuple[int, int], bytes], dict[int, bytes]]:
    """All tiles of a tree of 70,000 entries, and its root at some sizes."""
    edge, tiles, roots = RightEdge(), {}, {}
    for size in (0, 1, 2, 255, 256, 257, 1000, 65_535, 65_536, 65_537, LARGE):
        tiles.update(edge.append([leaf_hash(entry_of(n)) for n in range(edge.size, size)]))
        roots[size] = edge.root()
    return tiles, roots


def files(size: int) -> dict[str, bytes]:
    """What a log that has published *size* serves, by path: partial tiles of this size only."""
    served: dict[str, bytes] = {}
    for (level, index), content in grown()[0].items():
        width = tile_width(level, index, size)
        if width:
            served[tile_path(level, index, width)] = content[: width * HASH_SIZE]
            if level == 0:
                first = index * WIDTH
                entries = [entry_of(n) for n in range(first, first + width)]
                served[entries_path(index, width)] = write_bundle(entries)
    return served


def checkpoint(size: int) -> Checkpoint:
    return Checkpoint("log.example/tiles", size, grown()[1][size])


@asynccontextmanager
async def log_of(content: dict[str, bytes], *, packed: bool = False) -> AsyncIterator[TileClient]:
    async def answer(request: web.Request) -> web.Response:
        body = content.get(request.match_info["path"])
        if body is None:
            return web.Response(status=404)
        return (
            web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})
            if packed
            else web.Response(body=body)
        )

    app = web.Application()
    app.router.add_get("/prefix/{path:.+}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with TileClient(f"http://127.0.0.1:{runner.addresses[0][1]}/prefix/", retries=0) as client:
            yield client
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 1000])
async def test_every_entry_of_a_tree_is_read_and_proven(size: int) -> None:
    async with log_of(files(size), packed=size % 2 == 1) as client:
        tree = TiledTree(client, checkpoint(size))
        assert [entry async for _, entry in tree.entries()] == [entry_of(n) for n in range(size)]
        for index in {0, size // 2, size - 1}:
            path = await tree.inclusion_path(index)
            verify_inclusion(leaf_hash(entry_of(index)), index, size, path, tree.checkpoint.root)


async def test_a_range_of_a_large_tree_takes_a_handful_of_tiles() -> None:
    async with log_of(files(LARGE)) as client:
        tree = TiledTree(client, checkpoint(LARGE))
        found = [at async for at, entry in tree.entries(65_530, 65_540) if entry == entry_of(at)]
        assert found == list(range(65_530, 65_540))
        for index in (0, 255, 256, 65_535, 65_536, LARGE - 1):
            path = await tree.inclusion_path(index)
            verify_inclusion(leaf_hash(entry_of(index)), index, LARGE, path, tree.checkpoint.root)


@pytest.mark.parametrize("old", [1, 2, 255, 256, 257, 1000, 65_535, 65_536, 65_537])
async def test_the_tree_is_shown_to_follow_every_earlier_one(old: int) -> None:
    async with log_of(files(LARGE)) as client:
        tree = TiledTree(client, checkpoint(LARGE))
        assert await tree.root_at(old) == grown()[1][old]
        path = await tree.consistency_path(old)
        verify_consistency(old, LARGE, grown()[1][old], tree.checkpoint.root, path)


async def test_the_empty_tree_has_nothing_to_read() -> None:
    async with log_of({}) as client:
        tree = TiledTree(client, checkpoint(0))
        await tree.check_root()
        assert [entry async for entry in tree.entries()] == []
        with pytest.raises(ProofError):
            await TiledTree(client, Checkpoint("x", 0, bytes(32))).check_root()


async def test_a_flipped_bit_in_any_tile_or_bundle_is_found() -> None:
    """Nobody who serves tiles is trusted: what does not lead to the checkpoint's root is refused."""
    size = 1000
    good = files(size)
    for path, content in good.items():
        for at in (0, len(content) // 2, len(content) - 1):
            bad = bytearray(content)
            bad[at] ^= 1
            async with log_of({**good, path: bytes(bad)}) as client:
                with pytest.raises((ProofError, UnreachableError)):
                    await _read_all(TiledTree(client, checkpoint(size)))


async def _read_all(tree: TiledTree) -> None:
    async for _ in tree.entries():
        pass


async def test_a_checkpoint_of_another_tree_is_found_before_anything_is_read() -> None:
    async with log_of(files(1000)) as client:
        for wrong in (Checkpoint("x", 1000, bytes(32)), Checkpoint("x", 1000, grown()[1][257])):
            with pytest.raises(ProofError, match="right edge"):
                await TiledTree(client, wrong).tile(0, 0)


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data + bytes(32), lambda _: b"", lambda data: data[:32]]
)
async def test_a_tile_of_another_width_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    good = files(1000)
    async with log_of({path: spoil(content) for path, content in good.items()}) as client:
        with pytest.raises((UnreachableError, ProofError)):
            await _read_all(TiledTree(client, checkpoint(1000)))


async def test_a_partial_tile_that_is_gone_is_read_from_the_full_one() -> None:
    """TL-4: logs may delete a partial tile once the full one is there."""
    content = files(1000)
    async with log_of({path: data for path, data in content.items() if ".p/" not in path or "/003" in path}) as client:
        assert await client.tile(0, 1, 7) == content["tile/0/001"][: 7 * HASH_SIZE]
        assert await client.bundle(1, 7) == [entry_of(n) for n in range(256, 263)]
        with pytest.raises(ServiceRefusedError):
            await client.tile(0, 9, 7)


@pytest.mark.parametrize("call", ["root_at", "inclusion_path", "consistency_path"])
async def test_what_is_beyond_the_tree_is_the_callers_mistake(call: str) -> None:
    async with log_of(files(257)) as client:
        with pytest.raises(ValueError, match="beyond the tree"):
            await getattr(TiledTree(client, checkpoint(257)), call)(258)


@pytest.mark.parametrize(
    "url", ["", "log.example", "ftp://log.example", "https://u@log.example", "https://log.example/?q"]
)
def test_a_log_is_named_by_its_url(url: str) -> None:
    with pytest.raises(MalformedError):
        TileClient(url)


async def test_our_own_log_is_one_of_them(tmp_path: Path) -> None:
    async with served(tmp_path) as site, TileClient(site.url) as client:
        for n in range(20):
            await site.log.register(site.statement(b'{"n":%d}' % n))
        await site.service.publisher.publish()
        signed = open_checkpoint(await client.checkpoint(), checkpoint_vkeys(site.log.service_keys))
        tree = TiledTree(client, signed.checkpoint)

        entries = [entry async for _, entry in tree.entries()]
        assert entries == [row.entry for row in site.log.opened.store.entries(0, 22)]
