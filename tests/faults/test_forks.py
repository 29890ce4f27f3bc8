"""Two histories under one name: refused by the witnesses, convicted by a monitor; and an old state that is put back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.faults.ensemble import Ensemble, Process, at, copy_of, ensemble, forked
from transparency.client.tiles import TileClient, TiledTree
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.requests import AddCheckpoint

WITNESSES = ("w1", "w2", "w3")


async def test_a_log_that_was_forked_on_purpose_is_refused_by_its_witnesses(tmp_path: Path) -> None:
    """W-2: whatever size the second history has, and whatever proof it gives of itself."""
    async with ensemble(tmp_path, *WITNESSES) as group:
        policy = group.policy(2)
        log, fork = await forked(group, policy, WITNESSES)
        honest, _, _ = await group.published(log, await group.grown(log), by=WITNESSES)

        answers: dict[int, tuple[int, int]] = {}
        while max(answers, default=0) < honest.size + 2:
            served, signed, note = await group.published(fork, await group.grown(fork, "forked"))
            assert signed == set()
            answers[served.size] = await _offer(group, fork, note, 0), await _offer(group, fork, note, honest.size)

        # From nothing: it has seen more. From what it has seen: smaller, or with another beginning.
        assert {size: each[0] for size, each in answers.items()} == dict.fromkeys(answers, 409)
        assert {size: each[1] for size, each in answers.items()} == {
            size: 400 if size < honest.size else 422 for size in answers
        }
        assert {honest.size, honest.size + 1} <= set(answers)

        # The witnesses stand where they stood, and the honest log goes on.
        await group.published(log, await group.grown(log), by=WITNESSES)


async def test_a_copy_that_has_gone_its_own_way_does_not_start_under_its_witnesses(tmp_path: Path) -> None:
    """Its own mark is content, for it was copied too."""
    async with ensemble(tmp_path, *WITNESSES) as group:
        policy = group.policy(2)
        log, fork = await forked(group, policy, WITNESSES)
        for _ in range(4):
            size = await group.grown(fork, "forked")
        await fork.end()
        honest, _, _ = await group.published(log, 0)
        assert honest.size <= size
        await log.end()

        said = await _refused(group, policy, group.home / "twin")

        assert "differs from the one that witness w" in said
        assert f"at size {honest.size} its root is another" in said
        assert "log restore --new-origin" in said


async def test_an_old_state_does_not_start_because_a_witness_has_seen_more(tmp_path: Path) -> None:
    """Design §4: the mark was put back with the data, so only the witnesses know."""
    async with ensemble(tmp_path, *WITNESSES) as group:
        policy = group.policy(2)
        log = await group.start_log("--witness-policy", policy)
        await group.published(log, await group.grown(log), by=WITNESSES)
        await log.end()
        copy_of(group.made, group.home / "old")
        log = await group.start_log("--witness-policy", policy)
        for _ in range(3):
            newest, _, _ = await group.published(log, await group.grown(log), by=WITNESSES)
        await log.end()

        said = await _refused(group, policy, group.home / "old")
        assert f"has cosigned {newest.size}: an older copy was put back" in said

        # One witness that remembers is enough.
        for name in WITNESSES[:2]:
            await group.witnesses[name].end()
        said = await _refused(group, policy, group.home / "old", "--witness-quorum", "open")
        assert f"witness w3 has cosigned {newest.size}" in said

        # With none to ask, a log that wants a quorum does not guess.
        await group.witnesses["w3"].end()
        said = await _refused(group, policy, group.home / "old", code=69)
        assert "too few witnesses say what they have cosigned" in said

        # The newest state starts as soon as they are back.
        for name in WITNESSES:
            await group.start_witness(name)
        log = await group.start_log("--witness-policy", group.policy(2))
        await group.published(log, await group.grown(log), by=WITNESSES)


async def _refused(group: Ensemble, policy: Path, home: Path, *flags: str, code: int = 1) -> str:
    """What a log that does not start says."""
    words = group.serve_words("--witness-policy", policy, *flags, made=at(group.made, home))
    return await asyncio.to_thread(group.command, *words, code=code)


async def _offer(group: Ensemble, fork: Process, note: bytes, old: int) -> int:
    """What each witness answers to the fork's checkpoint, with the proof that the fork's own tiles give."""
    checkpoint = SignedCheckpoint.from_bytes(note).checkpoint
    path: tuple[bytes, ...] = ()
    if 0 < old < checkpoint.size:
        async with TileClient(fork.url) as client:
            path = tuple(await TiledTree(client, checkpoint).consistency_path(old))
    body = AddCheckpoint(old, path, note).to_bytes()
    statuses = set()
    for name in WITNESSES:
        async with group.session.post(f"{group.witnesses[name].url}/add-checkpoint", data=body) as response:
            statuses.add(response.status)
    (status,) = statuses
    return status
