"""Checkpoint, tiles, entries and proofs over HTTP (spec §10, TL rows)."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.log.witness_peers import Peer, listening, policy_of
from tests.server.served import Served, served
from transparency.cose import labels
from transparency.log.checkpoints import PublishSettings
from transparency.log.log import system_clock
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import TileHashes, tile_path, widths
from transparency.notes.bundle import read_bundle
from transparency.notes.checkpoint import open_checkpoint
from transparency.notes.paths import entries_path
from transparency.notes.proof import TlogProof
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement

FOR_EVER = "public, max-age=31536000, immutable"
SLOW = PublishSettings(interval=3600)


@pytest.fixture
async def tiled(tmp_path: Path) -> AsyncIterator[Served]:
    """A log that publishes when the test says so."""
    async with served(tmp_path, publish=SLOW) as running:
        yield running


async def grow(site: Served, count: int) -> list[str]:
    start = site.log.sequencer.size
    return [(await site.log.register(site.statement(b'{"n":%d}' % n))).entry_id for n in range(start, start + count)]


async def test_the_checkpoint_is_a_signed_note_that_caches_keep_for_seconds(site: Served) -> None:
    """TL-1, TL-6."""
    reply = await site.get("/checkpoint")

    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "public, max-age=1"
    signed = open_checkpoint(reply.body, checkpoint_vkeys(site.log.service_keys))
    assert signed.checkpoint.size == 2
    again = await site.get("/checkpoint", If_None_Match=reply.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    head = await site.ask("HEAD", "/checkpoint")
    assert (head.status, head.body, head.headers["ETag"]) == (200, b"", reply.headers["ETag"])


async def test_the_origin_is_the_logs_name(site: Served) -> None:
    """TL-7: schemeless, without a trailing slash."""
    assert (await site.get("/checkpoint")).body.split(b"\n")[0] == b"log.example/test"


async def test_the_tree_can_be_rebuilt_from_tiles_and_entries(tiled: Served) -> None:
    """TL-2, TL-3, TL-4, TL-5: full and partial tiles of each level, and the entries under them."""
    await grow(tiled, 300)
    await tiled.service.publisher.publish()
    tree = open_checkpoint((await tiled.get("/checkpoint")).body, checkpoint_vkeys(tiled.log.service_keys)).checkpoint
    assert tree.size == 302

    tiles: dict[tuple[int, int], bytes] = {}
    for level, width in enumerate(widths(tree.size)):
        last = tree.size >> 8 * (level + 1)
        for index, wide in [(n, 256) for n in range(last)] + ([(last, width)] if width else []):
            reply = await tiled.get(f"/{tile_path(level, index, wide)}")
            assert (reply.status, len(reply.body)) == (200, 32 * wide)
            assert reply.headers["Content-Type"] == "application/octet-stream"
            assert reply.headers["Cache-Control"] == FOR_EVER
            tiles[level, index] = reply.body
    assert root_at(tree.size, TileHashes(lambda level, index: tiles[level, index])) == tree.root

    for index, wide in ((0, 256), (1, 46)):
        reply = await tiled.get(f"/{entries_path(index, wide)}", Accept_Encoding="identity")
        assert reply.headers["Cache-Control"] == FOR_EVER
        entries = read_bundle(reply.body, wide)
        assert {len(entry) for entry in entries} == {32}
        assert b"".join(map(leaf_hash, entries)) == tiles[0, index]


async def test_partial_tiles_of_earlier_checkpoints_stay(tiled: Served) -> None:
    """TL-4, TL-8: of every size a checkpoint was produced for; nothing is ever pruned."""
    sizes = []
    for count in (1, 4, 60, 200):
        await grow(tiled, count)
        await tiled.service.publisher.publish()
        sizes.append(tiled.log.sequencer.size)

    assert sizes == [3, 7, 67, 267]
    full = (await tiled.get("/tile/0/000")).body
    for size in (2, *sizes[:3]):
        assert (await tiled.get(f"/tile/0/000.p/{size}")).body == full[: 32 * size]
        assert (await tiled.get(f"/tile/entries/000.p/{size}", Accept_Encoding="identity")).status == 200


async def test_what_is_beyond_the_published_checkpoint_is_not_there(tiled: Served) -> None:
    """The tree is larger than what was published: its receipts are out, its tiles are not."""
    await grow(tiled, 5)

    for path in ("/tile/0/000.p/3", "/tile/entries/000.p/3", "/tile/0/000", "/tile/1/000.p/1", "/tile/0/001.p/1"):
        reply = await tiled.get(path)
        assert (reply.status, reply.title) == (404, "Not Found")
        assert reply.headers["Cache-Control"] == "no-store"
    await tiled.service.publisher.publish()
    assert (await tiled.get("/tile/0/000.p/7")).status == 200
    assert (await tiled.get("/tile/0/000.p/8")).status == 404


@pytest.mark.parametrize(
    "path",
    [
        "0/000.p/0", "0/000.p/256", "0/000.p/02", "0/000.p/", "0/000.p", "0/0", "0/00", "00/000.p/2", "64/000.p/1",
        "-1/000", "0/x000/000.p/2", "0/000/000", "0/000.p/2/", "entries/000.p/0", "entries/0/000.p/2", "entries",
        "entries/", "0/", "x", "0/000.p/+2", "0/000.p/٢", "0/000.P/2", "0/x999/x999/x999/x999/x999/x999/999",
    ],
)  # fmt: skip
async def test_a_tile_has_one_path_and_no_other(site: Served, path: str) -> None:
    """TL-2: no leading zeros, no `.p/256`, no empty groups; empty tiles are never served (TL-3)."""
    assert (await site.get(f"/tile/{path}")).status == 404


async def test_a_path_with_escapes_is_another_spelling(tiled: Served) -> None:
    await grow(tiled, 5)
    await tiled.service.publisher.publish()
    async with aiohttp.ClientSession() as session:
        for path, status in (("0/000.p/7", 200), ("0/%30%30%30.p/7", 404), ("entries/000.p/%37", 404)):
            url = URL(f"{str(tiled.url).rstrip('/')}/tile/{path}", encoded=True)
            async with session.get(url) as answer:
                assert (path, answer.status) == (path, status)


async def test_entries_are_compressed_for_who_can_read_that(site: Served) -> None:
    """TL-5: SHOULD compress."""
    plain = await site.get("/tile/entries/000.p/2", Accept_Encoding="identity")
    packed = await site.get("/tile/entries/000.p/2", Accept_Encoding="br, gzip;q=0.5")

    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] != packed.headers["ETag"]
    wild = await site.get("/tile/entries/000.p/2", Accept_Encoding="br;q=0, *;q=0.1")
    assert wild.body == packed.body
    for refused in ("gzip;q=0", "gzip;q=0.000", "br", "gzip;q=x", "gzip;q=0, *", "*, GZIP ; q=0.0", "*;q=0"):
        assert "Content-Encoding" not in (await site.get("/tile/entries/000.p/2", Accept_Encoding=refused)).headers


async def test_there_are_no_addenda(site: Served) -> None:
    """AD-1: the draft asks every entry to end with a digest index; here it is a digest (LEAF-2), so none is claimed."""
    digest = "00" * 32

    assert (await site.get("/addenda.v1")).status == 404
    assert (await site.get(f"/addenda/00/00/{digest}")).status == 404
    bundle = await site.get("/tile/entries/000.p/2", Accept_Encoding="identity")
    assert [len(entry) for entry in read_bundle(bundle.body, 2)] == [32, 32]


async def test_a_tile_that_the_client_has_is_not_sent_again(site: Served) -> None:
    for path in ("/tile/0/000.p/2", "/tile/entries/000.p/2"):
        etag = (await site.get(path)).headers["ETag"]
        reply = await site.get(path, If_None_Match=etag)
        assert (reply.status, reply.body) == (304, b"")


async def test_the_tree_is_public_where_statements_are_not(tmp_path: Path) -> None:
    async with served(tmp_path, open=False) as site:
        entry = site.log.policy_entry_id
        for path in ("/checkpoint", "/tile/0/000.p/2", "/tile/entries/000.p/2", f"/entries/{entry}/proof"):
            assert (await site.get(path)).status == 200
        assert (await site.get(f"/entries/{entry}/statement")).status == 401


async def test_an_entry_has_a_proof_file(tiled: Served) -> None:
    """P-1: 204 until a published checkpoint covers it, then text that verifies offline."""
    (entry,) = await grow(tiled, 1)
    pending = await tiled.get(f"/entries/{entry}/proof")
    assert (pending.status, pending.body) == (204, b"")
    assert int(pending.headers["Retry-After"]) >= 1
    await tiled.service.publisher.publish()

    reply = await tiled.get(f"/entries/{entry}/proof")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    proof = TlogProof.from_bytes(reply.body)
    leaf = leaf_hash(Statement.from_bytes(tiled.statement(b'{"n":2}')).entry)
    assert proof.verify(leaf, checkpoint_vkeys(tiled.log.service_keys)).checkpoint.size == 3
    assert (await tiled.get(f"/entries/{entry}/proof", If_None_Match=reply.headers["ETag"])).status == 304
    assert (await tiled.get(f"/entries/{entry}/proof", Accept="application/json")).status == 406


async def test_proofs_of_what_is_not_an_entry(site: Served) -> None:
    assert (await site.get("/entries/nonsense/proof")).status == 400
    assert (await site.get(f"/entries/{'A' * 43}/proof")).status == 404


async def test_a_receipt_carries_its_proof_when_asked(tiled: Served) -> None:
    """Label -70104 of the unprotected header; what is signed is the same receipt."""
    (entry,) = await grow(tiled, 1)
    assert (await tiled.get(f"/entries/{entry}?witnessed=1")).status == 204
    await tiled.service.publisher.publish()
    bare = await tiled.get(f"/entries/{entry}")
    reply = await tiled.get(f"/entries/{entry}?witnessed=1")

    assert reply.status == 200
    assert reply.headers["Location"].endswith(f"/entries/{entry}?witnessed=1")
    assert reply.headers["Content-Type"] == "application/cose"
    receipt, plain = Receipt.from_bytes(reply.body), Receipt.from_bytes(bare.body)
    digest = tiled.log.stored(2).entry
    assert receipt.verify_inclusion(digest, tiled.log.receipt_keys()[0]) == tiled.log.newest_head().root
    assert (receipt.message.protected, receipt.message.signature) == (plain.message.protected, plain.message.signature)
    proof = TlogProof.from_bytes(receipt.message.unprotected[labels.TLOG_PROOF])
    assert proof.to_bytes() == (await tiled.get(f"/entries/{entry}/proof")).body
    assert labels.TLOG_PROOF not in plain.message.unprotected
    assert (await tiled.get(f"/entries/{entry}?witnessed=1&size=3")).status == 200
    for query in ("witnessed=0", "witnessed=yes", "witnessed=", "witnessed=1&witnessed=1"):
        assert (await tiled.get(f"/entries/{entry}?{query}")).status == 400


async def test_a_checkpoint_that_waits_for_its_witnesses_is_not_served(tmp_path: Path) -> None:
    """Fail-closed, and what the metrics say of it."""
    peer = Peer(time=system_clock(), status=503)
    async with listening(peer):
        publish = PublishSettings(interval=3600, policy=policy_of(peer), timeout=20)
        async with served(tmp_path, publish=publish) as site:
            while not site.service.publisher.failures:  # noqa: ASYNC110 - its first attempt is a task of its own
                await asyncio.sleep(0.01)
            assert (await site.get("/checkpoint")).status == 503
            assert (await site.get("/tile/0/000.p/2")).status == 404
            assert (await site.get(f"/entries/{site.log.policy_entry_id}/proof")).status == 204
            assert (await site.get(f"/entries/{site.log.policy_entry_id}")).status == 200

            peer.status = None
            await site.service.publisher.publish()
            assert f"— {peer.signer.vkey.name} ".encode() in (await site.get("/checkpoint")).body
            metrics = (await site.get("/metrics")).body.decode()
            assert "transparency_checkpoint_entries 2.0" in metrics
            assert "transparency_checkpoint_witnessed 1.0" in metrics
            assert "transparency_checkpoint_cosignatures 1.0" in metrics
            assert 'transparency_witness_answers_total{outcome="cosigned",witness="w1"} 1.0' in metrics
            assert 'transparency_witness_answers_total{outcome="refused",witness="w1"}' in metrics
