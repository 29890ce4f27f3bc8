"""The publisher: what is signed, kept and shown, and in which order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.log.witness_peers import NOW
from tests.patience import PATIENCE
from transparency.cose.algorithms import ED25519 as ED25519_ALGORITHM
from transparency.cose.algorithms import ML_DSA_44
from transparency.cose.private_key import PrivateKey
from transparency.errors import LogUnusableError, NotFoundError
from transparency.log.checkpoints import CheckpointPublisher, PublishSettings
from transparency.log.documents import sign_document
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import tile_width
from transparency.notes.bundle import read_bundle
from transparency.notes.checkpoint import SignedCheckpoint, open_checkpoint
from transparency.notes.note import Note
from transparency.notes.proof import TlogProof
from transparency.notes.signer import NoteSigner
from transparency.notes.vkey import ED25519, MLDSA
from transparency.policy import keyset
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.testing import Fault, MadeLog, make_log, running


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log", origin="log.example/tlog")


@asynccontextmanager
async def publishing(made: MadeLog, log: Log, **settings: object) -> AsyncIterator[CheckpointPublisher]:
    publisher = CheckpointPublisher(log, PublishSettings(**settings), made.clock)  # type: ignore[arg-type]
    await publisher.start()
    try:
        yield publisher
    finally:
        await publisher.stop()


async def grow(made: MadeLog, log: Log, count: int) -> None:
    start = log.sequencer.size
    await asyncio.gather(*(log.register(made.issuer.sign(b"%d" % n)) for n in range(start, start + count)))


async def until_published(publisher: CheckpointPublisher, size: int) -> SignedCheckpoint:
    async with asyncio.timeout(PATIENCE):
        while publisher.published.size < size:  # noqa: ASYNC110 - the event is in another part
            await asyncio.sleep(0.01)
    assert publisher.published.newest is not None
    return publisher.published.newest


async def test_a_log_publishes_its_newest_head_when_it_starts(made: MadeLog) -> None:
    """CP-1, CP-2, TL-6: origin, size, root; signed with Ed25519 and ML-DSA-44 under the origin's name."""
    async with running(made) as log, publishing(made, log) as publisher:
        newest = publisher.published.newest
        assert newest is not None
        checkpoint = open_checkpoint(newest.to_bytes(), checkpoint_vkeys(log.service_keys)).checkpoint

        head = log.newest_head()
        assert (checkpoint.origin, checkpoint.size, checkpoint.root) == ("log.example/tlog", head.size, head.root)
        assert checkpoint.extensions == ()
        assert [line.name for line in newest.note.signatures] == ["log.example/tlog"] * 2
        assert [key.kind for key in publisher.vkeys()] == [ED25519, MLDSA]
        for key in publisher.vkeys():
            assert open_checkpoint(newest.to_bytes(), [key]) == newest


async def test_growth_is_published_within_the_interval_and_kept(made: MadeLog) -> None:
    async with running(made) as log, publishing(made, log, interval=0.01) as publisher:
        await grow(made, log, 5)
        newest = await until_published(publisher, 7)

        assert newest.checkpoint.root == log.newest_head().root
        assert log.opened.store.newest_checkpoint() == newest.to_bytes()
        assert publisher.behind == 0


async def test_many_batches_are_one_publication_while_the_interval_lasts(made: MadeLog) -> None:
    """Sizes are published at most once an interval: what is kept is bounded in rate."""
    async with running(made) as log, publishing(made, log, interval=3600) as publisher:
        for _ in range(5):
            await grow(made, log, 1)

        assert [size for size, _ in log.opened.store.checkpoints()] == [2]
        assert (publisher.published.size, publisher.behind) == (2, 5)
        await publisher.publish()
        assert [size for size, _ in log.opened.store.checkpoints()] == [7], "nothing needs the one before"


async def test_a_log_that_does_not_grow_is_signed_anew_and_stays_one_checkpoint(made: MadeLog) -> None:
    """CP-2: two checkpoints of one size are the same text. The time in the ML-DSA-44 line moves on."""
    async with running(made) as log, publishing(made, log, interval=3600) as publisher:
        first = publisher.published.newest
        made.clock.advance(700)  # type: ignore[attr-defined]
        await publisher.publish()
        second = publisher.published.newest

        assert first is not None
        assert second is not None
        assert first.note.text == second.note.text
        times = [
            key.verify_note(note.text, line.blob)
            for note in (first.note, second.note)
            for line in note.signatures
            for key in publisher.vkeys()
            if key.kind == MLDSA and key.key_id == line.key_id
        ]
        assert times == [NOW, NOW + 700]
        assert [size for size, _ in log.opened.store.checkpoints()] == [2]


async def test_what_was_published_is_served_after_a_restart_before_anything_new_is_signed(made: MadeLog) -> None:
    async with running(made) as log, publishing(made, log) as publisher:
        await grow(made, log, 3)
        newest = await until_published(publisher, 5)

    async with running(made) as log:
        assert CheckpointPublisher(log).published.newest == newest


async def test_nothing_is_served_that_is_not_stored(made: MadeLog) -> None:
    """A store that fails, before or after it kept the note: the old checkpoint stays, and the log stops."""
    for fault in Fault:
        log, faulty = made.open_faulty()
        await log.start()
        publisher = CheckpointPublisher(log, PublishSettings(interval=3600), made.clock)
        await publisher.publish()
        served = publisher.published.newest
        await grow(made, log, 1)
        faulty.fail("put_checkpoint", fault)

        with pytest.raises(Exception, match="made to fail"):
            await publisher.publish()

        assert publisher.published.newest == served
        assert not log.sequencer.alive
        await publisher.stop()
        await log.stop()
    async with running(made) as log, publishing(made, log) as publisher:
        assert publisher.published.size == log.sequencer.size


async def test_a_log_whose_published_checkpoint_is_of_another_tree_is_refused(made: MadeLog) -> None:
    """A restart never continues beside what was shown."""
    async with running(made) as log, publishing(made, log) as publisher:
        newest = publisher.published.newest
        assert newest is not None
        text = newest.note.text.replace(b"\n2\n", b"\n3\n")
        signer = NoteSigner(log.origin, PrivateKey.generate(ED25519_ALGORITHM.id))
        other = Note(text).with_signature(signer.sign(text)).to_bytes()
        await log.sequencer.write(lambda: log.opened.store.put_checkpoint(3, other, witnessed=False))

    with pytest.raises(LogUnusableError, match="published at size 3"):
        made.open()


async def test_tiles_and_entries_are_served_to_the_published_size_and_not_beyond(made: MadeLog) -> None:
    """TL-3, TL-4: every width up to what the newest published checkpoint has; the rest is not there."""
    async with running(made) as log, publishing(made, log, interval=3600) as publisher:
        published = publisher.published
        await grow(made, log, 300)
        with pytest.raises(NotFoundError):
            published.tile(0, 0, 3)
        await publisher.publish()

        leaves = [leaf_hash(row.entry) for row in log.opened.store.entries(0, 302)]
        assert published.tile(0, 0) == b"".join(leaves[:256])
        assert [published.tile(0, 1, width) for width in (1, 46)] == [b"".join(leaves[256 : 256 + w]) for w in (1, 46)]
        assert published.tile(0, 0, 7) == b"".join(leaves[:7])
        assert published.tile(1, 0, 1) == published.root_at(256)
        assert [leaf_hash(entry) for entry in read_bundle(published.bundle(1, 46), 46)] == leaves[256:]
        for level, index, width in ((0, 1, 47), (0, 1, 256), (1, 0, 2), (0, 2, 1), (2, 0, 1), (63, 0, 1)):
            assert width > tile_width(level, index, 302)
            with pytest.raises(NotFoundError):
                published.tile(level, index, width)
        with pytest.raises(NotFoundError):
            published.bundle(1, 47)


async def test_every_entry_has_a_proof_to_a_published_checkpoint(made: MadeLog) -> None:
    """P-1."""
    async with running(made) as log, publishing(made, log, interval=3600) as publisher:
        await grow(made, log, 4)
        assert publisher.proof(5) is None
        await publisher.publish()

        for index in range(6):
            data = publisher.proof(index)
            assert data is not None
            proof = TlogProof.from_bytes(data)
            entry = log.stored(index).entry
            assert proof.verify(leaf_hash(entry), publisher.vkeys()).checkpoint.size == 6
            assert proof.index == index


async def test_rotated_checkpoint_keys_sign_the_next_checkpoint(made: MadeLog) -> None:
    async with running(made) as log, publishing(made, log, interval=3600) as publisher:
        before = publisher.vkeys()
        pair = [PrivateKey.generate(alg) for alg in (ED25519_ALGORITHM.id, ML_DSA_44.id)]
        folder = Folder(made.data)
        for key in pair:
            folder.save_key(keyset.CHECKPOINTS, key)
        following = log.service_keys.rotated(
            keyset.CHECKPOINTS, *(key.public for key in pair), previous=log.service_keys_entry_id, now=made.clock()
        )
        signer = folder.load_key(keyset.POLICY, log.policy.policy_key)
        await log.update_keys(sign_document(following, signer, log.iss))
        await publisher.publish()

        newest = publisher.published.newest
        assert newest is not None
        assert open_checkpoint(newest.to_bytes(), publisher.vkeys()) == newest
        assert {key.key_id for key in before}.isdisjoint(line.key_id for line in newest.note.signatures)
        assert set(before) < set(checkpoint_vkeys(log.service_keys))


@pytest.mark.sqlite_file
async def test_fsck_holds_every_published_checkpoint_against_its_head_and_the_keys(made: MadeLog) -> None:
    async with running(made) as log, publishing(made, log, interval=3600) as publisher:
        await grow(made, log, 2)
        await publisher.publish()
        newest = publisher.published.newest
    assert made.fsck().clean
    assert newest is not None
    signer = NoteSigner(newest.checkpoint.origin, PrivateKey.generate(ED25519_ALGORITHM.id))
    strange = Note(newest.note.text).with_signature(signer.sign(newest.note.text)).to_bytes()
    genuine = newest.to_bytes()
    for size, note in ((4, strange), (4, genuine[:-9]), (3, genuine)):
        with sqlite3.connect(made.data / "log.sqlite") as connection:
            connection.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, 0)", (size, note))
        connection.close()
        findings = made.fsck().findings
        assert [finding.where for finding in findings] == [f"checkpoint {size}"]
        with sqlite3.connect(made.data / "log.sqlite") as connection:
            connection.execute("DELETE FROM checkpoints WHERE size = ?", (size,))
        connection.close()


async def test_a_log_without_its_checkpoint_key_does_not_start_to_publish(made: MadeLog) -> None:
    for path in Folder(made.data).keys.glob("checkpoints-*"):
        path.unlink()
    async with running(made) as log:
        with pytest.raises(LogUnusableError, match="checkpoints key is missing"):
            await CheckpointPublisher(log).start()


async def test_a_publication_that_fails_is_tried_again_and_counted(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transparency.log.checkpoints.RETRY_SECONDS", 0.01)
    async with running(made) as log, publishing(made, log, interval=0.01) as publisher:
        working = publisher._sign
        failed = asyncio.Event()

        async def failing(*_: object) -> SignedCheckpoint:
            failed.set()
            raise LogUnusableError("for this test")

        monkeypatch.setattr(publisher, "_sign", failing)
        await grow(made, log, 1)
        await asyncio.wait_for(failed.wait(), PATIENCE)
        monkeypatch.setattr(publisher, "_sign", working)

        assert (await until_published(publisher, 3)).checkpoint.size == 3
        assert publisher.failures >= 1
