"""Another's log through our eyes: files that were written from the C2SP texts alone, read by our client."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.interop import tlog_client
from tests.interop.tlog_client import COSIGNATURE, ED25519, ML_DSA_44, Key
from tests.interop.tlog_writer import Signer, Writer
from transparency.client.tiles import TileClient, TiledTree
from transparency.errors import NoteError, ProofError, SignatureInvalidError, UnreachableError
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import verify_consistency, verify_inclusion
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint
from transparency.notes.cosignature import verify_cosignatures
from transparency.notes.proof import TlogProof
from transparency.notes.vkey import VerifierKey

TIME = 1_790_000_000
SIZES = [1, 2, 3, 255, 256, 257, 511, 512, 513, 700, 1_000]


@pytest.fixture
def writer() -> Writer:
    log = "foreign.example/log"
    kinds = [(log, ED25519), (log, ML_DSA_44), ("w.example/1", COSIGNATURE), ("w.example/2", ML_DSA_44)]
    return Writer(log, [Signer(name, kind) for name, kind in kinds])


@pytest.mark.parametrize("size", SIZES)
async def test_our_client_reads_every_entry_of_a_log_it_does_not_know(writer: Writer, size: int) -> None:
    """TL-2 to TL-5, with entries from none to the 65,535 bytes there may be."""
    writer.publish(_entries(size), TIME)

    async with _served(writer) as client:
        signed = await _checkpoint(client, writer)
        tree = TiledTree(client, signed.checkpoint)
        found = [entry async for entry in tree.entries()]

    assert found == list(enumerate(writer.entries))
    assert (signed.checkpoint.origin, signed.checkpoint.size) == (writer.origin, size)


async def test_our_client_follows_a_log_whose_partial_tiles_go_when_they_are_full(writer: Writer) -> None:
    """TL-4: each size consistent with the one before it, its root from tiles that became wider meanwhile."""
    entries = _entries(1_000)
    before: SignedCheckpoint | None = None
    async with _served(writer) as client:
        for start, stop in zip([0, *SIZES], SIZES, strict=False):
            writer.publish(entries[start:stop], TIME + stop)
            signed = await _checkpoint(client, writer)
            tree = TiledTree(client, signed.checkpoint)
            if before is not None:
                old = before.checkpoint
                path = await tree.consistency_path(old.size)
                verify_consistency(old.size, tree.size, old.root, tree.checkpoint.root, path)
                assert await tree.root_at(old.size) == old.root
                assert [entry async for _, entry in TiledTree(client, old).entries()] == entries[: old.size]
            before = signed


async def test_proofs_that_our_client_makes_are_verified_by_the_texts(writer: Writer) -> None:
    """P-1: from a foreign log's tiles, by our code, for theirs."""
    writer.publish(_entries(700), TIME)
    keys = [Key.from_vkey(signer.vkey) for signer in writer.signers]

    async with _served(writer) as client:
        note = await client.checkpoint()
        tree = TiledTree(client, (await _checkpoint(client, writer)).checkpoint)
        for index in (0, 1, 255, 256, 511, 512, 698, 699):
            path = await tree.inclusion_path(index)
            verify_inclusion(leaf_hash(writer.entries[index]), index, 700, path, tree.checkpoint.root)
            proof = TlogProof(index, tuple(path), note).to_bytes()
            found, checkpoint = tlog_client.verify_proof(proof, writer.entries[index], keys)
            assert (found, checkpoint.size) == (index, 700)


def test_our_reader_finds_every_signature_of_the_texts(writer: Writer) -> None:
    """SN-2, CS-1, CS-2: a log's two kinds, a witness' two kinds, and whose is whose."""
    writer.publish(_entries(5), TIME)
    log, pq, first, second = (VerifierKey.parse(signer.vkey) for signer in writer.signers)

    signed = open_checkpoint(writer.files["checkpoint"], [log, pq])

    assert [line.name for line in signed.note.signatures] == [log.name, pq.name, first.name, second.name]
    cosigned = verify_cosignatures(signed, [first, second])
    assert [(each.name, each.time) for each in cosigned] == [(first.name, TIME), (second.name, TIME)]
    stranger = VerifierKey.parse(Signer("foreign.example/log", ED25519).vkey)
    with pytest.raises((NoteError, SignatureInvalidError)):
        open_checkpoint(writer.files["checkpoint"], [stranger])


@pytest.mark.parametrize("seed", range(60))
async def test_our_client_finds_a_bit_that_was_flipped_anywhere(writer: Writer, seed: int) -> None:
    writer.publish(_entries(600), TIME)
    chance = random.Random(seed)
    path = sorted(writer.files)[seed % len(writer.files)]
    body = bytearray(writer.files[path])
    body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    writer.files[path] = bytes(body)

    async with _served(writer) as client:
        with pytest.raises((NoteError, SignatureInvalidError, ProofError, UnreachableError)):
            await _read_all(client, writer)


async def _read_all(client: TileClient, writer: Writer) -> None:
    """Every signature, every entry, and every tile: those that entries do not need too."""
    signed = await _checkpoint(client, writer)
    tree = TiledTree(client, signed.checkpoint)
    async for _ in tree.entries():
        pass
    for level, index, _ in tlog_client.tiles_of(tree.size):
        await tree.tile(level, index)


async def _checkpoint(client: TileClient, writer: Writer) -> SignedCheckpoint:
    keys = [VerifierKey.parse(signer.vkey) for signer in writer.signers]
    signed = open_checkpoint(await client.checkpoint(), keys[:2])
    missing = {key.name for key in keys[2:]} - {each.name for each in verify_cosignatures(signed, keys[2:])}
    if missing or {(key.name, key.key_id) for key in keys} - {(s.name, s.key_id) for s in signed.note.signatures}:
        raise NoteError("a signature is missing")
    return signed


@asynccontextmanager
async def _served(writer: Writer) -> AsyncIterator[TileClient]:
    """The files, as any web server gives them."""

    async def file(request: web.Request) -> web.Response:
        body = writer.files.get(request.match_info["path"])
        return web.Response(status=404) if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", file)
    async with TestServer(app) as server, TileClient(str(server.make_url("/")), retries=0) as client:
        yield client


def _entries(count: int) -> list[bytes]:
    chance = random.Random(count)
    lengths = [0, 1, 31, 32, 33, 255, 256, 1000]
    entries = [b"%d " % index + chance.randbytes(lengths[index % len(lengths)]) for index in range(count)]
    entries[0] = b""
    if count > 2:
        entries[2] = bytes(65_535)
    return entries
