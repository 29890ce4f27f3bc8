"""Our tree through other eyes: a client that was written from the C2SP texts alone reads what our log publishes."""

from __future__ import annotations

import ast
import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop import tlog_client
from tests.interop.grown import Grown, grown_log
from tests.interop.tlog_client import Audited, TlogError
from transparency.cose import base64url

# Where tiles of level 1, 2 and 3 begin, a few more widths, and the end.
BOUNDARIES = [65_535, 65_536, 65_537, 65_791, 65_792, 65_793, 131_071, 131_072, 131_073, 196_608, 199_999, 200_000]


@pytest.fixture
async def grown(tmp_path: Path) -> AsyncIterator[Grown]:
    async with grown_log(tmp_path) as grown:
        yield grown


def test_the_client_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(tlog_client.__file__).read_text())
    plain = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert {name.partition(".")[0] for name in plain | named} - sys.stdlib_module_names == {"cryptography"}


# -- every tile and root --------------------------------------------------------------------------------------------


async def test_every_size_to_a_thousand_is_derived_anew_from_its_entries(grown: Grown) -> None:
    """TL-1 to TL-5: and when the log has grown, each older checkpoint's partial tiles are still there."""
    for size in range(2, 1001):
        await grown.publish(size)
        audited = grown.audit()
        assert audited.checkpoint.size == size

    notes = grown.notes()
    assert len(notes) == 999
    for note in notes:
        _check_right_edge(grown, note, audited)


async def test_sizes_around_the_powers_of_256_are_derived_anew_from_their_entries(grown: Grown) -> None:
    """TL-3, TL-4: tiles of level 2, and those of level 1 and 2 that are just full or just begun."""
    for size in BOUNDARIES:
        await grown.publish(size)
        audited = grown.audit()
        assert len(audited.entries) == size
        if size == 65_793:
            _check_flips(
                grown, ["tile/1/000", "tile/1/001.p/1", "tile/2/000.p/1", "tile/0/256", "tile/entries/257.p/1"]
            )

    assert grown.publisher.published.size == 200_000
    for note in grown.notes():
        _check_right_edge(grown, note, audited)


async def test_what_is_not_published_yet_is_not_there(grown: Grown) -> None:
    """What lies beyond the checkpoint is under no signature."""
    await grown.publish(300)
    await grown.grow(600)

    assert grown.audit().checkpoint.size == 300
    wider = set(tlog_client.paths_of(600)) - set(tlog_client.paths_of(300))
    assert wider == {"tile/0/001", "tile/0/002.p/88", "tile/1/000.p/2"} | {"tile/entries/001", "tile/entries/002.p/88"}
    for path in [*wider, "tile/0/001.p/45", "tile/1/001.p/1", "tile/2/000.p/1"]:
        with pytest.raises(TlogError, match="not found"):
            grown.get(path)


@pytest.mark.parametrize(
    "path",
    [
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/0/001.p/300",
        "tile/0/0",
        "tile/0/000/",
        "tile/0/x000/000",
        "tile/00/000",
        "tile/-1/000",
        "tile/64/000.p/1",
        "tile/data/000",
        "tile/entries/000.p/+1",
    ],
)
async def test_a_path_that_the_text_does_not_know_is_no_resource(grown: Grown, path: str) -> None:
    """TL-2: one path for each tile."""
    await grown.publish(600)

    with pytest.raises(TlogError, match="not found"):
        grown.get(path)


@pytest.mark.parametrize("size", [2, 255, 256, 257, 700])
async def test_the_same_log_over_real_http(grown: Grown, size: int) -> None:
    """TL-1, TL-2, TL-5: types, gzip and paths as they reach a client."""
    await grown.publish(size)
    get = tlog_client.over_http(grown.site.url)

    audited = await asyncio.to_thread(tlog_client.audit, get, grown.keys)

    assert audited.checkpoint.size == size
    assert audited.checkpoint.origin == grown.site.log.origin
    assert audited.entries == grown.site.log.opened.store.digests(0, size)
    with pytest.raises(TlogError, match="HTTP 404"):
        await asyncio.to_thread(get, tlog_client.tile_path(0, 3, 255))


async def test_registered_statements_are_the_entries_that_the_client_finds(grown: Grown) -> None:
    """LEAF-2: the tree of the receipts is the tree of the tiles."""
    answer = await grown.site.post(grown.site.statement(b'{"n":1}'))
    await grown.publish(3)

    audited = grown.audit()

    assert base64url.encode(audited.entries[2]) == answer.headers["Location"].rpartition("/")[2]


async def test_a_proof_of_each_entry_is_verified_by_the_texts(grown: Grown) -> None:
    """P-1: at sizes that are no powers of two, so that paths are of several lengths."""
    await grown.publish(300)
    for index in range(300):
        proof = grown.publisher.published.proof(index, grown.publisher.suits)
        assert proof is not None
        entry = grown.site.log.stored(index).entry
        found, checkpoint = tlog_client.verify_proof(proof.to_bytes(), entry, grown.keys)
        assert (found, checkpoint.size) == (index, 300)
        with pytest.raises(TlogError):
            tlog_client.verify_proof(proof.to_bytes(), entry[::-1], grown.keys)


def _check_flips(grown: Grown, paths: list[str]) -> None:
    """One bit of each is found, on every level there is."""
    for changed in paths:

        def get(path: str, changed: str = changed) -> bytes:
            body = grown.get(path)
            return body[:-1] + bytes([body[-1] ^ 1]) if path == changed else body

        with pytest.raises(TlogError):
            tlog_client.audit(get, grown.keys)


def _check_right_edge(grown: Grown, note: bytes, audited: Audited) -> None:
    """What of an older checkpoint is not a full tile, from the tree derived before."""
    checkpoint = tlog_client.open_checkpoint(note, grown.keys)
    assert audited.tree.mth(0, checkpoint.size) == checkpoint.root
    for level, index, width in tlog_client.tiles_of(checkpoint.size):
        if width == tlog_client.WIDTH:
            continue
        start = index * tlog_client.WIDTH
        assert grown.get(tlog_client.tile_path(level, index, width)) == b"".join(
            audited.tree.levels[level][start : start + width]
        )
        if level == 0:
            bundle = tlog_client.read_bundle(grown.get(tlog_client.tile_path("entries", index, width)), width)
            assert bundle == audited.entries[start : start + width]
