"""A log and its witnesses, as processes that are killed, stopped and lied to: two of three are enough, one is not."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.faults.ensemble import Folder, ensemble
from tests.interop.tlog_client import read_note
from tests.log.witness_peers import Peer, listening
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.note import Signature
from transparency.notes.signer import CosignatureSigner
from transparency.notes.vkey import VerifierKey

QUORUM = 2


async def test_two_of_three_are_enough_while_one_is_killed_and_while_one_is_slow(tmp_path: Path) -> None:
    async with ensemble(tmp_path, "w1", "w2", "w3") as group:
        log = await group.start_log("--witness-policy", group.policy(QUORUM), "--witness-timeout", "60")
        size = await group.grown(log)
        await group.published(log, size, by=["w1", "w2", "w3"])

        # Killed: the two others are enough.
        await group.witnesses["w1"].end(signal.SIGKILL)
        size = await group.grown(log)
        _, signed, _ = await group.published(log, size, by=["w2", "w3"])
        assert signed == {"w2", "w3"}

        # Back on the same disk and port, it goes on where it was.
        await group.start_witness("w1", port=group.witnesses["w1"].url.rpartition(":")[2])
        size = await group.grown(log)
        await group.published(log, size, by=["w1", "w2", "w3"])

        # Slow: it is not waited for, and what it says late is added.
        group.witnesses["w3"].send(signal.SIGSTOP)
        size = await group.grown(log)
        _, signed, _ = await group.published(log, size)
        assert signed == {"w1", "w2"}
        group.witnesses["w3"].send(signal.SIGCONT)
        await group.published(log, size, by=["w1", "w2", "w3"])


async def test_one_of_three_is_not_enough_and_receipts_go_on(tmp_path: Path) -> None:
    """Fail-closed: the checkpoint before stays, with its cosignatures, until a second witness is back."""
    async with ensemble(tmp_path, "w1", "w2", "w3") as group:
        log = await group.start_log("--witness-policy", group.policy(QUORUM))
        before, _, _ = await group.published(log, await group.grown(log), by=["w1", "w2", "w3"])

        await group.witnesses["w1"].end(signal.SIGKILL)
        group.witnesses["w2"].send(signal.SIGSTOP)
        size = await group.grown(log)
        await group.risen(log, "checkpoint_failures", by=2)
        served = await group.checkpoint(log)
        assert served is not None
        assert served[0].root == before.root
        assert await group.metric(log, "checkpoint_behind") > 0

        group.witnesses["w2"].send(signal.SIGCONT)
        _, signed, _ = await group.published(log, size)
        assert signed == {"w2", "w3"}


async def test_a_witness_that_lies_counts_for_nothing(tmp_path: Path) -> None:
    """Cosignatures over another root, of another time, in another's name: none is served, none makes a quorum."""
    liar = Peer("liar", time=int(time.time()))
    async with ensemble(tmp_path, "w1", "w2") as group, listening(liar):
        log = await group.start_log("--witness-policy", group.policy(QUORUM, liar.line), "--witness-timeout", "60")
        group.folders["liar"] = Folder("liar", tmp_path, liar.signer.vkey.text)
        invalid = 'witness_answers_total{outcome="invalid",witness="liar"}'
        honest = VerifierKey.parse(group.folders["w1"].vkey)
        lies = _lies(honest)

        for lie in lies:
            liar.lie = lie
            heard = await group.metric(log, invalid)
            size = await group.grown(log)
            _, signed, note = await group.published(log, size, by=["w1", "w2"])
            await group.risen(log, invalid, since=heard)
            assert signed == {"w1", "w2"}
            _no_lie_in(note, liar)

        # With one honest witness left, a lie must not make up the quorum.
        await group.witnesses["w2"].end(signal.SIGKILL)
        size = await group.grown(log)
        for lie in lies:
            liar.lie = lie
            await group.risen(log, invalid, by=2)
            served = await group.checkpoint(log)
            assert served is not None
            assert served[0].size < size
            _no_lie_in(served[2], liar)

        # And once it speaks the truth, it counts like any other.
        liar.lie, liar.time = None, int(time.time())
        _, signed, _ = await group.published(log, size)
        assert signed == {"w1", "liar"}


def _lies(honest: VerifierKey) -> list[Callable[[Peer, Checkpoint], list[Signature]]]:
    def other_root(peer: Peer, seen: Checkpoint) -> list[Signature]:
        return [peer.signer.sign(replace(seen, root=bytes(32)).text, peer.time)]

    def stale(peer: Peer, seen: Checkpoint) -> list[Signature]:
        return [peer.signer.sign(seen.text, peer.time - 86_400)]

    def of_tomorrow(peer: Peer, seen: Checkpoint) -> list[Signature]:
        return [peer.signer.sign(seen.text, peer.time + 86_400)]

    def in_anothers_name(peer: Peer, seen: Checkpoint) -> list[Signature]:
        """The name of an honest witness, over a key of its own: a key that nobody knows."""
        return [CosignatureSigner(honest.name, peer.signer._signer).sign(seen.text, peer.time)]

    def with_anothers_id(peer: Peer, seen: Checkpoint) -> list[Signature]:
        """Name and id of an honest witness' key: a signature that does not hold."""
        line = peer.signer.sign(seen.text, peer.time)
        return [Signature(honest.name, honest.key_id, line.blob)]

    def true_and_false(peer: Peer, seen: Checkpoint) -> list[Signature]:
        return [peer.signer.sign(seen.text, peer.time), *with_anothers_id(peer, seen)]

    return [other_root, stale, of_tomorrow, in_anothers_name, with_anothers_id, true_and_false]


def _no_lie_in(note: bytes, liar: Peer) -> None:
    names = [line.name for line in read_note(note).lines]
    assert liar.signer.vkey.name not in names
    assert len(set(names)) == len(names) - 1, "the log signs twice, each witness once"
