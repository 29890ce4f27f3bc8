"""add-checkpoint over HTTP: every answer of C2SP tlog-witness, from a real witness on a socket (W-1, W-2, W-3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.notes.world import ORIGIN, ROOT, log_signer, log_signers, witness
from tests.witness.served import cosignatures, make_witness, served, trust
from tests.witness.trees import note_of, request, tree_of
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint, origin_hash
from transparency.notes.note import Note
from transparency.notes.requests import AddCheckpoint
from transparency.notes.vkey import COSIGNATURE, MLDSA
from transparency.server.settings import ServerSettings
from transparency.testing import FakeClock
from transparency.witness.folder import WitnessFolder
from transparency.witness.logs import KnownLog, changing


@pytest.fixture
def folder(tmp_path: Path) -> WitnessFolder:
    return make_witness(tmp_path / "witness")


def raw(head: str, checkpoint: bytes) -> bytes:
    return head.encode() + b"\n" + checkpoint


async def test_a_first_checkpoint_is_cosigned_with_both_keys_at_the_witness_time(folder: WitnessFolder) -> None:
    """W-2, W-3: 200 with lines of cosignatures on the checkpoint, whose timestamp is not zero."""
    clock, tree = FakeClock(), tree_of(5)
    async with served(folder, clock) as client:
        reply = await client.add(request(tree, 0))

    assert reply.status == 200
    assert reply.content_type == "text/plain; charset=utf-8"
    found = cosignatures(reply.body, tree.checkpoint().text, folder.load_keys().vkeys)
    assert [(one.kind, one.time) for one in found] == [(COSIGNATURE, clock()), (MLDSA, clock())]


async def test_a_tree_that_grows_is_cosigned_at_every_step_also_after_a_restart(folder: WitnessFolder) -> None:
    """W-2: the proof is from the recorded size to the checkpoint's."""
    tree = tree_of(300)
    old = 0
    for sizes in ((1, 2, 3, 7), (8, 8, 64, 255), (256, 300)):
        async with served(folder) as client:
            for size in sizes:
                assert (await client.add(request(tree, old, size))).status == 200, size
                old = size


async def test_an_old_size_that_is_not_the_recorded_one_is_answered_with_that(folder: WitnessFolder) -> None:
    """W-2: 409, the body is the recorded size and a newline, its type text/x.tlog.size."""
    tree = tree_of(9)
    async with served(folder) as client:
        never = await client.add(request(tree, 3, 5))
        assert (await client.add(request(tree, 0, 5))).status == 200
        behind = await client.add(request(tree, 4, 7))
        probing = await client.add(request(tree, 0, 7))

    assert (never.status, never.content_type, never.body) == (409, "text/x.tlog.size", b"0\n")
    for reply in (behind, probing):
        assert (reply.status, reply.content_type, reply.body) == (409, "text/x.tlog.size", b"5\n")


async def test_an_unknown_origin_is_404_whoever_signed_it(folder: WitnessFolder) -> None:
    """W-2."""
    async with served(folder) as client:
        reply = await client.add(request(tree_of(5), 0, origin="other.example/log"))

    assert reply.status == 404
    assert "not known here" in reply.problem


async def test_a_checkpoint_without_a_trusted_signature_that_holds_is_403(folder: WitnessFolder) -> None:
    """W-2: none of a trusted key, one that fails beside one that holds, and one whose name or id alone is known."""
    checkpoint = tree_of(5).checkpoint()
    good = log_signer().sign(checkpoint.text)
    forged = type(good)(good.name, good.key_id, bytes(64))
    renamed = type(good)("else.example", good.key_id, good.blob)
    stranger = log_signer(name="else.example").sign(checkpoint.text)
    cosigned = witness().sign(checkpoint.text, 1)
    notes = [(stranger,), (forged,), (renamed,), (cosigned,), (stranger, cosigned)]
    async with served(folder) as client:
        for lines in notes:
            reply = await client.add(raw("old 0\n", Note(checkpoint.text, lines).to_bytes()))
            assert reply.status == 403, lines
            assert "Forbidden" in reply.problem
        both = raw("old 0\n", Note(checkpoint.text, (good,)).to_bytes()) + forged.line.encode()
        assert (await client.add(both)).status == 403
        beside = Note(checkpoint.text, (stranger, good, cosigned)).to_bytes()
        assert (await client.add(raw("old 0\n", beside))).status == 200


async def test_an_old_size_above_the_checkpoint_s_is_400(folder: WitnessFolder) -> None:
    """W-2: whatever is recorded."""
    tree = tree_of(9)
    async with served(folder) as client:
        assert (await client.add(request(tree, 6, 5))).status == 400
        assert (await client.add(request(tree, 0, 9))).status == 200
        assert (await client.add(request(tree, 9, 5))).status == 400


@pytest.mark.parametrize(
    "head",
    [
        "old 09\n", "old +9\n", "old -1\n", "old 9 \n", "old  9\n", " old 9\n", "old 9\r\n", "Old 9\n", "old\n",
        "old \n",        "old 1_0\n", "old 0x9\n", "old 9.0\n", "old ٩\n", "old 9223372036854775808\n", "\n", "",
        "old 9\nAAAA\n", "old 9\n" + "A" * 43 + "\n", "old 9\n" + "A" * 42 + "B=\n", "old 9\n" + "A" * 42 + "-=\n",
        "old 9\n" + ("A" * 43 + "=\n") * 64, "old 9\n\n" + "A" * 43 + "=\n", "old 9\nold 9\n",
    ],
)  # fmt: skip
async def test_integers_and_base64_are_read_byte_strictly(folder: WitnessFolder, head: str) -> None:
    """W-1, W-2: whatever is not in its one spelling is 400."""
    async with served(folder) as client:
        reply = await client.add(raw(head, note_of(tree_of(12).checkpoint())))

    assert reply.status == 400
    assert reply.problem.startswith("Malformed request")


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note.replace(b"\n5\n", b"\n05\n"),
        lambda note: note.replace(b"\n5\n", b"\n 5\n"),
        lambda note: note.replace(b"\n", b"\r\n"),
        lambda note: note.replace("—".encode(), b"-"),
        lambda note: note[:-1],
        lambda note: note + b"\n",
        lambda note: b"",
        lambda note: note.partition(b"\n\n")[0] + b"\n\n",
        lambda note: note.replace(b"log.example", b"log.ex\xffample"),
        lambda note: note.replace(b"=\n", b"\n"),
    ],
)
async def test_a_checkpoint_that_is_not_of_its_one_form_is_400(folder: WitnessFolder, change: object) -> None:
    assert callable(change)
    async with served(folder) as client:
        reply = await client.add(b"old 0\n\n" + change(note_of(tree_of(5).checkpoint())))

    assert reply.status == 400, reply


async def test_a_proof_from_size_zero_is_422(folder: WitnessFolder) -> None:
    """W-2: from the empty tree there is nothing to prove."""
    tree = tree_of(5)
    async with served(folder) as client:
        reply = await client.add(AddCheckpoint(0, (ROOT,), note_of(tree.checkpoint())).to_bytes())
        assert reply.status == 422
        assert "must be empty" in reply.problem
        assert (await client.add(request(tree, 0))).status == 200


async def test_the_empty_tree_has_one_root(folder: WitnessFolder) -> None:
    """W-2: a checkpoint of size 0 with another root is 422, with the right one it is cosigned, as is what follows."""
    async with served(folder) as client:
        assert (await client.add(raw("old 0\n", note_of(Checkpoint(ORIGIN, 0, ROOT))))).status == 422
        assert (await client.add(raw("old 0\n", note_of(Checkpoint(ORIGIN, 0, EMPTY_ROOT))))).status == 200
        assert (await client.add(request(tree_of(3), 0))).status == 200


async def test_a_proof_that_does_not_hold_is_422_and_changes_nothing(folder: WitnessFolder) -> None:
    """W-2: one hash wrong, missing or too many; and the proof of another fork."""
    tree = tree_of(21)
    note, path = note_of(tree.checkpoint()), tree.path(10)
    wrong = [(ROOT, *path[1:]), path[:-1], (*path, ROOT), (), tuple(reversed(path))]
    async with served(folder) as client:
        assert (await client.add(request(tree, 0, 10))).status == 200
        for each in wrong:
            reply = await client.add(AddCheckpoint(10, each, note).to_bytes())
            assert reply.status == 422
            assert "Not shown to extend" in reply.problem
        assert (await client.add(request(tree_of(21, b"fork"), 10))).status == 422
        assert (await client.add(AddCheckpoint(10, path, note).to_bytes())).status == 200


async def test_the_same_size_with_another_root_is_422_also_with_a_proof(folder: WitnessFolder) -> None:
    """W-2: the newer text; v1.0.0 said 409."""
    fork = tree_of(5, b"fork")
    async with served(folder) as client:
        assert (await client.add(request(tree_of(5), 0))).status == 200
        reply = await client.add(request(fork, 5))
        assert reply.status == 422
        assert "another root" in reply.problem
        assert (await client.add(AddCheckpoint(5, (ROOT,), note_of(fork.checkpoint())).to_bytes())).status == 422
        same = AddCheckpoint(5, (ROOT,), note_of(tree_of(5).checkpoint())).to_bytes()
        assert (await client.add(same)).status == 422


async def test_times_never_go_back_for_a_log_and_are_never_zero(folder: WitnessFolder) -> None:
    """W-3: whatever the clock does, and across a restart."""
    clock, tree = FakeClock(0), tree_of(9)
    times = []
    for old, size, now in ((0, 1, 0), (1, 2, 500), (2, 3, 400), (3, 3, 450), (3, 4, 501)):
        clock.set(now)
        async with served(folder, clock) as client:
            reply = await client.add(request(tree, old, size))
        assert reply.status == 200
        found = cosignatures(reply.body, tree.checkpoint(size).text, folder.load_keys().vkeys)
        times.append({one.time for one in found})

    assert times == [{1}, {500}, {500}, {500}, {501}]


async def test_a_checkpoint_replayed_within_the_second_gets_the_same_lines_and_causes_no_write(
    folder: WitnessFolder,
) -> None:
    clock, tree = FakeClock(), tree_of(5)
    async with served(folder, clock) as client:
        first = await client.add(request(tree, 0))
        before = client.state.sequence
        again = await client.add(request(tree, 5))
        assert (again.body, client.state.sequence) == (first.body, before)

        clock.advance(1)
        later = await client.add(request(tree, 5))
        assert later.status == 200
        assert later.body != first.body


async def test_many_requests_at_once_share_flushes_and_none_overtakes_another(folder: WitnessFolder) -> None:
    """W-3: fifty sizes at once, all from 0: exactly one is cosigned, the others are told its size."""
    tree = tree_of(50)
    async with served(folder) as client:
        replies = await asyncio.gather(*(client.add(request(tree, 0, size)) for size in range(1, 51)))
        note = (await client.send("GET", f"/{origin_hash(ORIGIN)}/checkpoint")).body
        assert client.state.sequence == 1

    size = SignedCheckpoint.from_bytes(note).checkpoint.size
    assert sorted(reply.status for reply in replies) == [200] + [409] * 49
    assert replies[size - 1].status == 200
    # Those before it in the queue were judged when nothing was recorded; none was.
    assert {reply.body for reply in replies if reply.status == 409} == {b"%d\n" % size}


async def test_logs_are_limited_each_by_its_own_rate_and_not_by_what_others_replay(tmp_path: Path) -> None:
    folder = make_witness(tmp_path / "witness", per_minute=3)
    trust(folder, "other.example/log", per_minute=None)
    tree = tree_of(9)
    async with served(folder, FakeClock()) as client:
        for size in (1, 2, 3):
            assert (await client.add(request(tree, size - 1, size))).status == 200
            for _ in range(3):
                assert (await client.add(request(tree, size, size))).status == 200
                assert (await client.add(request(tree, 0, size))).status == 409
        limited = await client.add(request(tree, 3, 4))
        assert limited.status == 429
        assert int(limited.headers["retry-after"]) >= 1
        assert "3 new checkpoints per minute" in limited.problem
        assert (await client.add(request(tree, 0, 4, origin="other.example/log"))).status == 200


async def test_clients_are_limited_by_address(folder: WitnessFolder) -> None:
    async with served(folder, settings=ServerSettings(port=0, rate_limit=2)) as client:
        statuses = [(await client.add(b"junk")).status for _ in range(4)]

    assert statuses == [400, 400, 429, 429]


async def test_a_log_that_signs_with_ml_dsa_alone_is_cosigned(folder: WitnessFolder) -> None:
    signers = log_signers()
    with changing(folder.logs) as logs:
        logs[ORIGIN] = KnownLog((signers[1].vkey,))
    tree = tree_of(5)
    async with served(folder) as client:
        assert (await client.add(request(tree, 0, by=signers[:1]))).status == 403
        assert (await client.add(request(tree, 0, by=signers))).status == 200


async def test_a_log_that_is_added_or_taken_off_meanwhile_is_noticed(folder: WitnessFolder) -> None:
    tree, origin = tree_of(5), "new.example/log"
    async with served(folder) as client:
        assert (await client.add(request(tree, 0, origin=origin))).status == 404
        trust(folder, origin)
        assert (await client.add(request(tree, 0, 3, origin=origin))).status == 200
        with changing(folder.logs) as logs:
            del logs[origin]
        assert (await client.add(request(tree, 3, origin=origin))).status == 404
        trust(folder, origin)
        # Back on the list, and nothing was forgotten.
        assert (await client.add(request(tree, 0, origin=origin))).body == b"3\n"


async def test_a_list_that_cannot_be_read_leaves_the_witness_as_it_was(
    folder: WitnessFolder, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(folder) as client:
        folder.logs.write_text("[[log]]\nvkeys = 5\n")
        assert (await client.add(request(tree_of(5), 0))).status == 200

    assert "the log list stays as it was" in caplog.text


async def test_what_is_no_request_at_all_is_a_problem(folder: WitnessFolder) -> None:
    async with served(folder) as client:
        for method, path, body, status in (
            ("GET", "/add-checkpoint", None, 405),
            ("POST", "/add-checkpoint", b"", 400),
            ("POST", "/add-checkpoint", bytes(2**20 + 1), 413),
            ("POST", "/add-checkpoints", b"x", 404),
            ("GET", "/../etc/passwd", None, 404),
        ):
            reply = await client.send(method, path, body)
            assert reply.status == status, path
            assert reply.problem


async def test_the_example_of_a_log_that_does_not_know_its_witness_works(folder: WitnessFolder) -> None:
    """W-2: "If a client doesn't have information […] it MAY initially make a request with a old size of zero"."""
    tree = tree_of(40)
    async with served(folder) as client:
        assert (await client.add(request(tree, 0, 17))).status == 200
        told = await client.add(request(tree, 0))
        assert (await client.add(request(tree, int(told.body)))).status == 200
