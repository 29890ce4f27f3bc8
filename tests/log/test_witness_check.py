"""The start-up check: a log does not start behind, or different from, what a witness has cosigned (design §4, W-4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log.test_checkpoints import grow
from tests.log.test_witnessing import witnessed_by
from tests.log.witness_peers import Peer, listening, policy_of
from tests.on_postgres import copy_folder
from transparency.cose.algorithms import ED25519
from transparency.cose.private_key import PrivateKey
from transparency.errors import LogUnusableError, UnreachableError
from transparency.log.checkpoints import PublishSettings
from transparency.log.log import Log
from transparency.log.witness_check import check_before_start
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.note import Note
from transparency.notes.signer import NoteSigner
from transparency.testing import MadeLog, make_log, running


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log", origin="log.example/tlog")


@pytest.fixture
def twin(made: MadeLog, tmp_path: Path) -> MadeLog:
    """An old copy with its own mark: nothing but a witness can tell."""
    copy_folder(made.data, tmp_path / "copy", tmp_path / "mark2")
    shutil.copy(made.watermark, tmp_path / "mark2")
    return replace(made, data=tmp_path / "copy", watermark=tmp_path / "mark2")


async def cosigned(made: MadeLog, peer: Peer, count: int) -> None:
    """Let the witness see the log with *count* entries more."""
    async with running(made) as log:
        await grow(made, log, count)
        async with witnessed_by(made, log, peer, quorum=1) as publisher:
            assert await publisher.publish()


async def check(made: MadeLog, *peers: Peer, quorum: int = 1, closed: bool = True) -> None:
    log = made.open()
    try:
        await check_before_start(log, PublishSettings(policy=policy_of(*peers, quorum=quorum), closed=closed))
    finally:
        await log.stop()


async def test_a_log_at_or_past_what_its_witnesses_saw_may_start(made: MadeLog) -> None:
    peer, fresh = Peer("w1"), Peer("w2")
    async with listening(peer, fresh):
        await cosigned(made, peer, 3)
        await check(made, peer, fresh, quorum=2)
        async with running(made) as log:
            await grow(made, log, 2)
        await check(made, peer, fresh, quorum=2)


@pytest.mark.sqlite_file
async def test_an_old_copy_is_refused(made: MadeLog, twin: MadeLog) -> None:
    peer = Peer()
    async with listening(peer):
        await cosigned(made, peer, 3)
        for closed in (True, False):
            with pytest.raises(
                LogUnusableError, match=r"has 2 entries here, and witness w1 has cosigned 5.*older copy"
            ):
                await check(twin, peer, closed=closed)


@pytest.mark.sqlite_file
async def test_a_copy_that_went_another_way_is_refused(made: MadeLog, twin: MadeLog) -> None:
    peer = Peer()
    async with listening(peer):
        await cosigned(made, peer, 3)
        async with running(twin) as log:
            for n in range(4):
                await log.register(made.issuer.sign(b"another history %d" % n))
        for closed in (True, False):
            with pytest.raises(LogUnusableError, match="at size 5 its root is another"):
                await check(twin, peer, closed=closed)


@pytest.mark.sqlite_file
async def test_one_witness_that_saw_more_is_enough_to_refuse(made: MadeLog, twin: MadeLog) -> None:
    peers = Peer("w1"), Peer("w2"), Peer("w3")
    async with listening(*peers):
        await cosigned(made, peers[2], 1)
        with pytest.raises(LogUnusableError, match="w3"):
            await check(twin, *peers, quorum=1)


def _not_ours(log: Log) -> SignedCheckpoint:
    """What anybody can write: the log's name and a size beyond it, under a key that is not the log's."""
    checkpoint = Checkpoint(log.origin, 999, bytes(32))
    signer = NoteSigner(log.origin, PrivateKey.generate(ED25519.id))
    return SignedCheckpoint(Note(checkpoint.text).with_signature(signer.sign(checkpoint.text)), checkpoint)


async def test_a_witness_cannot_stop_a_log_with_a_checkpoint_that_the_log_did_not_sign(
    made: MadeLog, caplog: pytest.LogCaptureFixture
) -> None:
    liar, honest = Peer("w1"), Peer("w2")
    async with listening(liar, honest):
        async with running(made) as log:
            liar.seen = _not_ours(log)
        await check(made, liar, honest, quorum=1)
        assert "not signed by this log" in caplog.text
        with pytest.raises(UnreachableError, match="too few witnesses"):
            await check(made, liar, honest, quorum=2)


def _gone(peer: Peer) -> None:
    peer.url = "http://127.0.0.1:1"


def _broken(peer: Peer) -> None:
    peer.status = 500


@pytest.mark.parametrize("trouble", [_gone, _broken])
async def test_where_too_few_answer_a_log_starts_only_if_it_may_serve_without_them(
    made: MadeLog, trouble: Callable[[Peer], None], caplog: pytest.LogCaptureFixture
) -> None:
    peers = Peer("w1"), Peer("w2")
    async with listening(*peers):
        trouble(peers[0])
        await check(made, *peers, quorum=1)
        assert "witness w1 was not asked" in caplog.text
        with pytest.raises(UnreachableError, match="--witness-quorum open"):
            await check(made, *peers, quorum=2)
        await check(made, *peers, quorum=2, closed=False)


async def test_a_log_without_witnesses_asks_nobody(made: MadeLog) -> None:
    async with running(made) as log:
        await check_before_start(log, PublishSettings())
