"""What others see of a witness: the checkpoint it cosigned last, and its metrics (W-4)."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.notes.world import ORIGIN, log_signer
from tests.witness.served import Client, make_witness, served
from tests.witness.trees import Tree, note_of, request, tree_of
from transparency.notes.checkpoint import origin_hash
from transparency.witness.folder import WitnessFolder


@pytest.fixture
def folder(tmp_path: Path) -> WitnessFolder:
    return make_witness(tmp_path / "witness")


async def _sizes(client: Client, tree: Tree, sizes: list[int]) -> None:
    old = 0
    for size in sizes:
        assert (await client.add(request(tree, old, size))).status == 200
        old = size


async def test_the_monitoring_endpoint_has_the_log_s_lines_and_the_cosignatures_that_were_given(
    folder: WitnessFolder,
) -> None:
    """W-4: 404 before the first, then always the last one cosigned, without lines of others."""
    path = f"/{origin_hash(ORIGIN)}/checkpoint"
    tree, stranger = tree_of(9), log_signer(name="else.example")
    async with served(folder) as client:
        none = await client.send("GET", path)
        assert none.status == 404
        assert "not cosigned" in none.problem
        await _sizes(client, tree, [2, 5])
        last = await client.add(request(tree, 5, by=(log_signer(), stranger)))
        reply = await client.send("GET", path)
        head = await client.send("HEAD", path)
        assert (await client.send("GET", path.upper())).status == 404
        assert (await client.send("GET", f"/{origin_hash('else')}/checkpoint")).status == 404
    async with served(folder) as client:
        assert (await client.send("GET", path)).body == reply.body

    assert (reply.status, reply.content_type) == (200, "text/plain; charset=utf-8")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(reply.body)))
    assert reply.body == note_of(tree.checkpoint()) + last.body
    assert base64.b64encode(tree.root()) in reply.body


async def test_a_witness_does_not_pretend_to_be_a_mirror(folder: WitnessFolder) -> None:
    """M-1, M-2, M-3: it keeps no entries, so it takes none and serves no tiles; its cosignatures promise neither."""
    async with served(folder) as client:
        await _sizes(client, tree_of(5), [5])

        assert (await client.send("POST", "/add-entries", b"")).status == 404
        for path in ("tile/0/000.p/5", "tile/entries/000.p/5"):
            assert (await client.send("GET", f"/{origin_hash(ORIGIN)}/{path}")).status == 404


async def test_metrics_count_checkpoints_by_log_and_answer(folder: WitnessFolder) -> None:
    tree = tree_of(5)
    async with served(folder) as client:
        await _sizes(client, tree, [2, 5])
        await client.add(request(tree_of(5, b"fork"), 5))
        await client.add(request(tree, 0, origin="invented.example/log"))
        text = (await client.send("GET", "/metrics")).body.decode()
        assert (await client.send("GET", "/healthz")).status == 200
        assert (await client.send("GET", "/readyz")).status == 200

    for line in (
        f'transparency_witness_checkpoints_total{{origin="{ORIGIN}",status="200"}} 2.0',
        f'transparency_witness_checkpoints_total{{origin="{ORIGIN}",status="422"}} 1.0',
        'transparency_witness_checkpoints_total{origin="unknown",status="404"} 1.0',
        f'transparency_witness_size{{origin="{ORIGIN}"}} 5.0',
        "transparency_witness_evidence 1.0",
        'transparency_requests_total{method="POST",route="/add-checkpoint",status="200"} 2.0',
    ):
        assert line in text, line
    assert "invented" not in text
