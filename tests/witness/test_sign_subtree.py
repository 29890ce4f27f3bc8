"""sign-subtree over HTTP: part of a tree that the witness has cosigned as a whole (tlog-witness, optional; W-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.notes.world import ORIGIN, ROOT, log_signer
from tests.witness.served import Client, make_witness, served
from tests.witness.trees import note_of, request, tree_of
from transparency.notes.checkpoint import origin_hash
from transparency.notes.cosignature import verify_subtree_cosignature
from transparency.notes.note import Note, read_signatures
from transparency.notes.requests import SignSubtree
from transparency.notes.subtree import is_subtree, subtree_hash, subtree_path
from transparency.notes.vkey import MLDSA

SIZE = 14
TREE = tree_of(SIZE)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with served(make_witness(tmp_path / "witness")) as client:
        assert (await client.add(request(TREE, 0))).status == 200
        yield client


async def cosigned(client: Client) -> bytes:
    return (await client.send("GET", f"/{origin_hash(ORIGIN)}/checkpoint")).body


def asking(start: int, end: int, checkpoint: bytes) -> SignSubtree:
    root = subtree_hash(start, end, TREE.read)
    return SignSubtree(start, end, root, tuple(subtree_path(start, end, SIZE, TREE.read)), checkpoint)


async def test_every_subtree_of_a_cosigned_tree_is_signed_without_a_time(client: Client) -> None:
    """W-4, CS-2: ML-DSA-44, timestamp 0."""
    note = await cosigned(client)
    (key,) = (key for key in client.keeper.keys.vkeys if key.kind == MLDSA)
    for start, end in ((0, 1), (8, 13), (13, 14), (0, SIZE), (0, 8), (12, 14), (4, 8)):
        wanted = asking(start, end, note)
        reply = await client.send("POST", "/sign-subtree", wanted.to_bytes())
        assert (reply.status, reply.content_type) == (200, "text/plain; charset=utf-8")
        (line,) = read_signatures(reply.body)
        assert verify_subtree_cosignature(line, key, ORIGIN, start, end, wanted.root).time == 0


async def test_a_checkpoint_with_either_cosignature_of_the_witness_will_do(client: Client) -> None:
    note = Note.from_bytes(await cosigned(client))
    for line in note.signatures[1:]:
        reply = await client.send(
            "POST", "/sign-subtree", asking(8, 13, Note(note.text, (line,)).to_bytes()).to_bytes()
        )
        assert reply.status == 200


async def test_a_range_that_is_no_subtree_or_reaches_beyond_the_tree_is_400(client: Client) -> None:
    note = await cosigned(client)
    for start, end in ((1, 3), (8, 8), (9, 8), (2, 6), (8, 15), (16, 17)):
        assert not is_subtree(start, end) or end > SIZE
        body = SignSubtree(start, end, ROOT, (), note).to_bytes()
        assert (await client.send("POST", "/sign-subtree", body)).status == 400
    for body in (b"", b"subtree 08 13\n", asking(8, 13, note).to_bytes().replace(b"subtree 8 ", b"subtree +8 ")):
        assert (await client.send("POST", "/sign-subtree", body)).status == 400


async def test_a_checkpoint_that_this_witness_did_not_cosign_is_403(client: Client) -> None:
    note = Note.from_bytes(await cosigned(client))
    line = note.signatures[1]
    forged = type(line)(line.name, line.key_id, bytes(len(line.blob)))
    for lines in (note.signatures[:1], (*note.signatures[2:], forged)):
        body = asking(8, 13, Note(note.text, lines).to_bytes()).to_bytes()
        reply = await client.send("POST", "/sign-subtree", body)
        assert reply.status == 403
        assert "Forbidden" in reply.problem


async def test_a_log_that_is_not_known_is_404(client: Client) -> None:
    stranger = TREE.checkpoint(origin="other.example/log")
    body = asking(8, 13, note_of(stranger, (log_signer(),))).to_bytes()

    assert (await client.send("POST", "/sign-subtree", body)).status == 404


async def test_a_proof_that_does_not_hold_is_422(client: Client) -> None:
    wanted = asking(8, 13, await cosigned(client))
    for root, path in (
        (ROOT, wanted.path),
        (wanted.root, ()),
        (wanted.root, wanted.path[:-1]),
        (wanted.root, (*wanted.path, ROOT)),
        (wanted.root, (ROOT, *wanted.path[1:])),
    ):
        body = SignSubtree(8, 13, root, path, wanted.checkpoint).to_bytes()
        assert (await client.send("POST", "/sign-subtree", body)).status == 422
