"""Collecting cosignatures: honest, slow, gone and lying witnesses, fail-closed and fail-open."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log.test_checkpoints import grow, until_published
from tests.log.witness_peers import NOW, Peer, listening, policy_of
from tests.on_postgres import copy_folder
from tests.patience import PATIENCE
from transparency.cose.algorithms import ED25519, ML_DSA_44
from transparency.cose.private_key import PrivateKey
from transparency.errors import NoteError
from transparency.log.checkpoints import CheckpointPublisher, PublishSettings
from transparency.log.log import Log
from transparency.log.witnessing import Outcome, Witnesses
from transparency.merkle.hashing import leaf_hash
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.note import Signature
from transparency.notes.policy import WitnessPolicy
from transparency.notes.proof import TlogProof
from transparency.notes.signer import CosignatureSigner
from transparency.testing import MadeLog, make_log, running


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log", origin="log.example/tlog")


@asynccontextmanager
async def witnessed_by(
    made: MadeLog, log: Log, *peers: Peer, quorum: int, closed: bool = True
) -> AsyncIterator[CheckpointPublisher]:
    """A publisher that publishes when a test says so."""
    settings = PublishSettings(policy=policy_of(*peers, quorum=quorum), closed=closed, timeout=20.0)
    publisher = CheckpointPublisher(log, settings, made.clock)
    try:
        yield publisher
    finally:
        await publisher.stop()


def outcomes(publisher: CheckpointPublisher) -> dict[str, dict[Outcome, int]]:
    assert publisher.witnesses is not None
    return {witness.label: dict(witness.outcomes) for witness in publisher.witnesses.all}


def cosigners(publisher: CheckpointPublisher) -> list[str]:
    newest = publisher.published.newest
    assert newest is not None
    assert publisher.settings.policy is not None
    return list(publisher.settings.policy.check(newest).counted)


async def test_a_checkpoint_is_served_and_kept_with_what_its_witnesses_signed(made: MadeLog) -> None:
    """W-1: both kinds of cosignatures, checked by the policy over the note that is served."""
    peers = Peer("w1"), Peer("w2", alg=ML_DSA_44.id)
    async with listening(*peers), running(made) as log, witnessed_by(made, log, *peers, quorum=2) as publisher:
        assert await publisher.publish()
        await grow(made, log, 300)
        assert await publisher.publish()

        assert cosigners(publisher) == ["w1", "w2"]
        assert publisher.witnessed
        assert (publisher.cosignatures, publisher.published.size) == (2, 302)
        newest = publisher.published.newest
        assert newest is not None
        assert log.opened.store.newest_checkpoint() == newest.to_bytes()
        assert log.opened.store.checkpoint_covering(0) != newest.to_bytes()
        assert [peer.size for peer in peers] == [302, 302]


async def test_a_witness_that_has_seen_another_size_is_asked_again_from_there(made: MadeLog) -> None:
    """W-2: 409 carries the size; the proof is made from it, once."""
    peer = Peer()
    async with listening(peer), running(made) as log:
        await grow(made, log, 5)
        async with witnessed_by(made, log, peer, quorum=1) as first:
            assert await first.publish()
        await grow(made, log, 6)
        async with witnessed_by(made, log, peer, quorum=1) as second:
            assert await second.publish()

        assert peer.asked == 3
        assert (peer.size, outcomes(second)) == (13, {"w1": {Outcome.COSIGNED: 1}})


async def test_one_witness_that_is_gone_does_not_hold_up_a_quorum_of_the_others(made: MadeLog) -> None:
    peers = Peer("w1"), Peer("w2"), Peer("w3")
    async with listening(*peers[:2]), running(made) as log:
        peers[2].url = "http://127.0.0.1:1"
        async with witnessed_by(made, log, *peers, quorum=2) as publisher:
            assert await publisher.publish()
            assert cosigners(publisher) == ["w1", "w2"]


async def test_a_slow_witness_is_not_waited_for_and_its_cosignature_is_added_when_it_comes(made: MadeLog) -> None:
    peers = Peer("w1"), Peer("w2"), Peer("w3")
    peers[2].ready.clear()
    async with listening(*peers), running(made) as log, witnessed_by(made, log, *peers, quorum=2) as publisher:
        assert await publisher.publish()
        assert cosigners(publisher) == ["w1", "w2"]

        peers[2].ready.set()
        for _ in range(2000):
            if publisher.cosignatures == 3:
                break
            await asyncio.sleep(0.01)
        assert cosigners(publisher) == ["w1", "w2", "w3"]
        newest = publisher.published.newest
        assert newest is not None
        assert log.opened.store.newest_checkpoint() == newest.to_bytes()


async def test_a_witness_is_asked_one_thing_at_a_time(made: MadeLog) -> None:
    """Who is still busy with the last checkpoint is not buried under the next ones."""
    peers = Peer("w1"), Peer("w2")
    peers[1].ready.clear()
    async with listening(*peers), running(made) as log, witnessed_by(made, log, *peers, quorum=1) as publisher:
        for size in (2, 3, 4):
            assert await publisher.publish()
            assert publisher.published.size == size
            await grow(made, log, 1)

        assert [peer.asked for peer in peers] == [3, 1]


async def test_a_witness_that_was_busy_is_asked_about_the_newest_checkpoint_next(made: MadeLog) -> None:
    """And about none between: a log that stands still now must not lack its cosignature until it grows again."""
    peers = Peer("w1"), Peer("w2")
    peers[1].ready.clear()
    async with listening(*peers), running(made) as log, witnessed_by(made, log, *peers, quorum=1) as publisher:
        for size in (3, 4, 5):
            await grow(made, log, 1)
            assert await publisher.publish()
            assert publisher.published.size == size

        peers[1].ready.set()
        async with asyncio.timeout(PATIENCE):
            while publisher.cosignatures < 2:  # noqa: ASYNC110 - the event is in another part
                await asyncio.sleep(0.01)
        assert cosigners(publisher) == ["w1", "w2"]
        assert (peers[1].size, peers[1].asked) == (5, 2)


async def test_receipts_go_on_while_witnesses_are_waited_for(made: MadeLog) -> None:
    peer = Peer()
    peer.ready.clear()
    async with listening(peer), running(made) as log, witnessed_by(made, log, peer, quorum=1) as publisher:
        publishing = asyncio.create_task(publisher.publish())
        await grow(made, log, 3)

        assert log.receipt(4)
        assert not publishing.done()
        peer.ready.set()
        assert await publishing


def _another_root(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    other = replace(checkpoint, root=hashlib.sha256(b"another").digest())
    return [peer.signer.sign(other.text, NOW)]


def _another_size(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    return [peer.signer.sign(replace(checkpoint, size=checkpoint.size + 1).text, NOW)]


def _another_log(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    return [peer.signer.sign(replace(checkpoint, origin="log.example/other").text, NOW)]


def _stale(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    return [peer.signer.sign(checkpoint.text, NOW - 301)]


def _from_the_future(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    return [peer.signer.sign(checkpoint.text, NOW + 301)]


def _under_the_name_of_another(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    impostor = CosignatureSigner("w2.example", PrivateKey.generate(ED25519.id))
    return [impostor.sign(checkpoint.text, NOW)]


def _with_the_key_id_of_another(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    genuine = peer.signer.sign(checkpoint.text, NOW)
    return [Signature("w2.example", HONEST.signer.vkey.key_id, genuine.blob)]


def _with_one_line_that_is_false(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    return [peer.signer.sign(checkpoint.text, NOW), *_with_the_key_id_of_another(peer, checkpoint)]


def _cut_short(peer: Peer, checkpoint: Checkpoint) -> list[Signature]:
    genuine = peer.signer.sign(checkpoint.text, NOW)
    return [replace(genuine, blob=genuine.blob[:-1])]


HONEST = Peer("w2")


@pytest.mark.parametrize(
    "lie",
    [
        _another_root,
        _another_size,
        _another_log,
        _stale,
        _from_the_future,
        _under_the_name_of_another,
        _with_the_key_id_of_another,
        _with_one_line_that_is_false,
        _cut_short,
    ],
)
async def test_what_a_lying_witness_says_never_counts(made: MadeLog, lie: object) -> None:
    """CS-1, SN-3: valid signatures over something else, old times, the name of another key."""
    liar, honest = Peer("w1", lie=lie), Peer("w2")  # type: ignore[arg-type]
    honest.signer = HONEST.signer
    async with listening(liar, honest), running(made) as log:
        async with witnessed_by(made, log, liar, honest, quorum=2) as publisher:
            assert not await publisher.publish()
            assert publisher.published.newest is None
            assert outcomes(publisher) == {"w1": {Outcome.INVALID: 1}, "w2": {Outcome.COSIGNED: 1}}
        async with witnessed_by(made, log, liar, honest, quorum=1) as publisher:
            assert await publisher.publish()
            assert cosigners(publisher) == ["w2"]


@pytest.mark.parametrize(
    ("body", "outcome"),
    [(b"9\n", Outcome.AHEAD), (b"", Outcome.REFUSED), (b" 2\n", Outcome.REFUSED), (b"02\n", Outcome.REFUSED)],
)
async def test_a_409_that_cannot_be_followed_costs_the_witness_its_cosignature_only(
    made: MadeLog, body: bytes, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-2: the size is read byte-strictly. A witness that claims to be ahead cannot stop the log."""
    from aiohttp import web

    peer = Peer()

    async def conflict(_: web.Request) -> web.Response:
        return web.Response(status=409, body=body, content_type="text/x.tlog.size")

    monkeypatch.setattr(peer, "add", conflict)
    async with listening(peer), running(made) as log, witnessed_by(made, log, peer, quorum=1) as publisher:
        assert not await publisher.publish()
        assert outcomes(publisher) == {"w1": {outcome: 1}}
        await grow(made, log, 1)


@pytest.mark.sqlite_file
async def test_a_fork_is_refused_by_the_witness_that_saw_the_other_branch(made: MadeLog, tmp_path: Path) -> None:
    """Two data folders, same keys: 409 or 422, never a second cosignature."""
    import shutil

    peer = Peer()
    copy = tmp_path / "copy"
    copy_folder(made.data, copy, tmp_path / "mark2")
    shutil.copy(made.watermark, tmp_path / "mark2")
    twin = replace(made, data=copy, watermark=tmp_path / "mark2")
    async with listening(peer):
        async with running(made) as log:
            await log.register(made.issuer.sign(b"one history"))
            async with witnessed_by(made, log, peer, quorum=1) as publisher:
                assert await publisher.publish()
        async with running(twin) as log:
            for count, outcome in ((1, Outcome.INCONSISTENT), (2, Outcome.INCONSISTENT)):
                for n in range(count):
                    await log.register(made.issuer.sign(b"another history %d %d" % (count, n)))
                async with witnessed_by(twin, log, peer, quorum=1) as publisher:
                    assert not await publisher.publish()
                    assert outcomes(publisher) == {"w1": {outcome: 1}}
    assert peer.size == 3


async def test_fail_closed_serves_what_was_witnessed_last_and_fail_open_serves_without(made: MadeLog) -> None:
    peer = Peer()
    async with listening(peer), running(made) as log:
        async with witnessed_by(made, log, peer, quorum=1) as publisher:
            assert await publisher.publish()
            peer.status = 500
            await grow(made, log, 3)
            assert not await publisher.publish()
            assert publisher.published.size == 2
            assert publisher.witnessed
            assert outcomes(publisher) == {"w1": {Outcome.COSIGNED: 1, Outcome.REFUSED: 1}}
        async with witnessed_by(made, log, peer, quorum=1, closed=False) as publisher:
            assert await publisher.publish()
            assert publisher.published.size == 5
            assert not publisher.witnessed
            # A proof prefers what was witnessed.
            assert _proven_at(log, publisher, 1) == 2
            assert _proven_at(log, publisher, 4) == 5


async def test_a_log_that_gets_witnesses_serves_nothing_that_they_have_not_cosigned(made: MadeLog) -> None:
    peer = Peer()
    async with listening(peer), running(made) as log:
        alone = CheckpointPublisher(log, PublishSettings(interval=3600), made.clock)
        await alone.publish()
        await alone.stop()
        async with witnessed_by(made, log, peer, quorum=1) as publisher:
            assert publisher.published.newest is None
            assert await publisher.publish()
            assert cosigners(publisher) == ["w1"]


async def test_the_first_witnessed_checkpoint_proves_an_entry_until_the_quorum_asks_for_others(made: MadeLog) -> None:
    old, new = Peer("w1"), Peer("w2")
    async with listening(old, new), running(made) as log:
        async with witnessed_by(made, log, old, quorum=1) as publisher:
            assert await publisher.publish()
            await grow(made, log, 4)
            assert await publisher.publish()
            assert [_proven_at(log, publisher, index) for index in (0, 1, 2, 5)] == [2, 2, 6, 6]
        async with witnessed_by(made, log, new, quorum=1) as publisher:
            assert await publisher.publish()
            assert [_proven_at(log, publisher, index) for index in (0, 5)] == [6, 6]


def _proven_at(log: Log, publisher: CheckpointPublisher, index: int) -> int:
    data = publisher.proof(index)
    assert data is not None
    proof = TlogProof.from_bytes(data)
    return proof.verify(leaf_hash(log.stored(index).entry), publisher.vkeys()).checkpoint.size


async def test_a_witness_with_two_keys_is_asked_once(made: MadeLog) -> None:
    peer = Peer("w1")
    second = CosignatureSigner("w1.example", PrivateKey.generate(ML_DSA_44.id))

    def both(each: Peer, checkpoint: Checkpoint) -> list[Signature]:
        return [each.signer.sign(checkpoint.text, NOW), second.sign(checkpoint.text, NOW)]

    peer.lie = both
    async with listening(peer), running(made) as log:
        lines = f"{peer.line}witness w1-pq {second.vkey.text} {peer.url}/\ngroup both all w1 w1-pq\nquorum both\n"
        settings = PublishSettings(policy=WitnessPolicy.from_text(lines.encode()), timeout=20)
        publisher = CheckpointPublisher(log, settings, made.clock)
        assert await publisher.publish()
        assert (peer.asked, publisher.cosignatures) == (1, 2)
        await publisher.stop()


async def test_a_publisher_in_its_own_time_recovers_when_its_witnesses_do(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.checkpoints.RETRY_SECONDS", 0.01)
    peer = Peer()
    peer.status = 503
    async with listening(peer), running(made) as log:
        settings = PublishSettings(interval=0.01, policy=policy_of(peer), timeout=20)
        publisher = CheckpointPublisher(log, settings, made.clock)
        await publisher.start()
        while peer.asked < 2:  # noqa: ASYNC110 - the event is in another part
            await asyncio.sleep(0.01)
        assert publisher.published.newest is None
        peer.status = None
        await until_published(publisher, 2)
        await publisher.stop()
        assert cosigners(publisher) == ["w1"]


@pytest.mark.parametrize(
    "url",
    ["ftp://w.example", "https://", "https://w.example/?a=1", "https://u@w.example/", "w.example", "https://[::1"],
)
def test_a_witness_url_that_cannot_be_asked_is_refused(url: str) -> None:
    peer = Peer(url=url)
    with pytest.raises(NoteError, match="URL"):
        Witnesses(policy_of(peer), timeout=1, clock=lambda: NOW)


def test_a_quorum_that_nobody_can_be_asked_for_is_refused() -> None:
    """A log that could never publish says so at its start."""
    reachable, offline = Peer("w1", url="https://w1.example"), Peer("w2")
    with pytest.raises(NoteError, match="quorum"):
        Witnesses(policy_of(reachable, offline, quorum=2), timeout=1, clock=lambda: NOW)
    assert len(Witnesses(policy_of(reachable, offline, quorum=1), timeout=1, clock=lambda: NOW).all) == 1
