"""A mirror through other eyes: the client written from the C2SP texts reads our mirror, of our log and of another's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.interop import tlog_client
from tests.interop.grown import grown_log
from tests.interop.tlog_client import COSIGNATURE, ED25519, ML_DSA_44, Audited, Key, TlogError
from tests.interop.tlog_pusher import Pusher
from tests.interop.tlog_writer import Signer, Writer
from tests.mirror.mirrored import Client, served
from transparency.client.tiles import TileClient
from transparency.mirror.folder import MirrorFolder, create_mirror
from transparency.mirror.push import Pusher as OurPusher
from transparency.mirror.source import SourceTree
from transparency.notes.checkpoint import open_checkpoint, origin_hash
from transparency.notes.vkey import VerifierKey
from transparency.witness.logs import KnownLog, changing

TIME = 1_790_000_000
LOG = "foreign.example/log"


@pytest.fixture
def folder(tmp_path: Path) -> MirrorFolder:
    return create_mirror(tmp_path / "mirror", "mirror.example/m1")


@pytest.fixture
def writer() -> Writer:
    """An independent log: files that were written from the C2SP texts alone."""
    kinds = [(LOG, ED25519), (LOG, ML_DSA_44), ("w.example/1", COSIGNATURE)]
    return Writer(LOG, [Signer(name, kind) for name, kind in kinds])


async def test_a_mirror_of_our_log_is_a_tiled_log_with_its_cosignature(tmp_path: Path, folder: MirrorFolder) -> None:
    """M-3: every signature, entry, tile and root, at every step; partial tiles of earlier checkpoints stay."""
    async with grown_log(tmp_path) as grown:
        _trust(folder, [key.text for key in grown.publisher.vkeys()], grown.site.url)
        async with served(folder) as client:
            for size in (2, 255, 256, 257, 700, 1300):
                await grown.publish(size)
                await client.running.puller.round()
                audited = await _audit(client, grown.site.log.origin, grown.keys, folder)
                assert audited.checkpoint.size == size
                assert audited.entries == grown.site.log.opened.store.digests(0, size)
            get = tlog_client.over_http(f"{client.url}/{origin_hash(grown.site.log.origin)}")
            for level, index, width in [*tlog_client.tiles_of(255), *tlog_client.tiles_of(700)]:
                tile = await asyncio.to_thread(get, tlog_client.tile_path(level, index, width))
                start = index * tlog_client.WIDTH
                assert tile == b"".join(audited.tree.levels[level][start : start + width])


async def test_a_mirror_that_follows_another_s_log_is_a_tiled_log(folder: MirrorFolder, writer: Writer) -> None:
    """M-3: entries from none to 65,535 bytes, of a log that deletes its partial tiles."""
    async with _serving(writer) as url:
        _trust(folder, [signer.vkey for signer in writer.signers[:2]], url)
        async with served(folder) as client:
            entries = _entries(1300)
            for start, stop in ((0, 1), (1, 300), (300, 512), (512, 1300)):
                writer.publish(entries[start:stop], TIME + stop)
                await client.running.puller.round()
                audited = await _audit(client, LOG, _keys(writer), folder)
                assert audited.entries == entries[:stop]


async def test_another_s_client_pushes_another_s_log(folder: MirrorFolder, writer: Writer) -> None:
    """M-1, M-2: add-checkpoint, add-entries in parts with gzip and tickets, as the text has it."""
    _trust(folder, [signer.vkey for signer in writer.signers[:2]], None)
    entries = _entries(256 * 33 + 77, largest=300)
    async with served(folder) as client:
        pusher = Pusher(client.url, LOG)
        for stop in (3, 300, len(entries)):
            writer.publish(entries[len(writer.entries) : stop], TIME + stop)
            lines = await asyncio.to_thread(pusher.push, entries[:stop], writer.files["checkpoint"])
            tlog_client.open_checkpoint(writer.files["checkpoint"] + lines, [*_keys(writer), *_own(folder)])
            audited = await _audit(client, LOG, _keys(writer), folder)
            assert audited.entries == entries[:stop]

    assert pusher.answers == [200, 200, 409, 200, 200, 409, 200, 202, 200]


async def test_our_client_pushes_as_well(folder: MirrorFolder, writer: Writer) -> None:
    """M-1: from the tiles of any log; what is pushed a second time is cosigned again."""
    _trust(folder, [signer.vkey for signer in writer.signers[:2]], None)
    entries = _entries(256 * 33 + 77, largest=300)
    keys = folder.load_keys().vkeys
    async with _serving(writer) as url, served(folder) as client, TileClient(url) as reader:
        for stop in (300, len(entries), len(entries)):
            writer.publish(entries[len(writer.entries) : stop], TIME + stop)
            signed = open_checkpoint(await reader.checkpoint(), _known(writer))
            _, cosigned = await OurPusher(client.url).push(signed, SourceTree(reader, signed.checkpoint), keys)
            assert [each.name for each in cosigned] == ["mirror.example/m1"] * 2
        audited = await _audit(client, LOG, _keys(writer), folder)

    assert audited.entries == entries


@pytest.mark.parametrize("seed", range(8))
async def test_no_flipped_bit_of_a_log_reaches_its_mirror(folder: MirrorFolder, writer: Writer, seed: int) -> None:
    """What a mirror serves is right, or it is not there."""
    writer.publish(_entries(600), TIME)
    whole, chance = dict(writer.files), random.Random(seed)
    path = sorted(path for path in writer.files if "tile/1" not in path)[seed % (len(writer.files) - 1)]
    body = bytearray(writer.files[path])
    body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    async with _serving(writer) as url, served(folder) as client:
        _trust(folder, [signer.vkey for signer in writer.signers[:2]], url)
        writer.files[path] = bytes(body)
        await client.running.puller.round()
        if path != "checkpoint":
            assert client.running.conditions.all[LOG].code == "bad-tile"
            with pytest.raises(TlogError, match="404"):
                await _audit(client, LOG, _keys(writer), folder)
        writer.files |= whole
        await client.running.puller.round()
        audited = await _audit(client, LOG, _keys(writer), folder)

    assert audited.entries == writer.entries


def _trust(folder: MirrorFolder, vkeys: list[str], url: str | None) -> None:
    keys = tuple(VerifierKey.parse(text) for text in vkeys)
    with changing(folder.logs) as logs:
        logs[keys[0].name] = KnownLog(keys, url, None)


def _known(writer: Writer) -> list[VerifierKey]:
    return [VerifierKey.parse(signer.vkey) for signer in writer.signers[:2]]


def _keys(writer: Writer) -> list[Key]:
    """Of the log: whose witnesses are not the mirror's."""
    return [Key.from_vkey(signer.vkey) for signer in writer.signers[:2]]


def _own(folder: MirrorFolder) -> list[Key]:
    return [Key.from_vkey(key.text) for key in folder.load_keys().vkeys]


async def _audit(client: Client, origin: str, keys: list[Key], folder: MirrorFolder) -> Audited:
    get = tlog_client.over_http(f"{client.url}/{origin_hash(origin)}")
    return await asyncio.to_thread(tlog_client.audit, get, [*keys, *_own(folder)])


@asynccontextmanager
async def _serving(writer: Writer) -> AsyncIterator[str]:
    """The files, as any web server gives them."""

    async def file(request: web.Request) -> web.Response:
        body = writer.files.get(request.match_info["path"])
        return web.Response(status=404) if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", file)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


def _entries(count: int, largest: int = 65_535) -> list[bytes]:
    chance = random.Random(count)
    lengths = [0, 1, 31, 32, 33, 255, 256]
    entries = [b"%d " % index + chance.randbytes(lengths[index % len(lengths)]) for index in range(count)]
    entries[0] = b""
    entries[2] = bytes(largest)
    return entries
