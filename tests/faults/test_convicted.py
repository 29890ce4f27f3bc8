"""A log that shows two histories, or an old one, to a monitor: the files it keeps convict the log, offline."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

from tests.faults.ensemble import ORIGIN, Ensemble, copy_of, ensemble, forked
from tests.interop.tlog_client import ED25519, open_checkpoint
from tests.interop.tlog_writer import Signer

WITNESSES = ("w1", "w2", "w3")


async def test_a_split_view_is_convicted_by_whatever_shows_it(tmp_path: Path) -> None:
    """Two vantage points; one, and what witnesses have cosigned; one, and what the monitor itself saw before."""
    async with ensemble(tmp_path, *WITNESSES) as group:
        policy = group.policy(2)
        log, fork = await forked(group, policy, WITNESSES)
        for _ in range(4):
            forked_size = await group.grown(fork, "forked")
        await group.published(fork, forked_size)

        # The honest log alone, twice: nothing to say, nothing kept.
        for _ in range(2):
            await _monitor(group, "honest", log.url, "--policy", policy, code=0)
        assert _evidence(group, "honest", "") == []

        await _monitor(group, "two-views", log.url, fork.url, "--policy", policy, code=1)
        await _monitor(group, "witnesses", fork.url, "--policy", policy, code=1)
        keys = [word for vkey in group.log_vkeys for word in ("--log-vkey", vkey)]
        await _monitor(group, "memory", log.url, *keys, code=0)
        await _monitor(group, "memory", fork.url, *keys, code=1)
        for process in (log, fork, *group.witnesses.values()):
            await process.end()

        for state in ("two-views", "witnesses", "memory"):
            files = _evidence(group, state, "split-view")
            assert files, f"{state}: an alarm without evidence"
            for file in files:
                await _convicts(group, file, "fork")

        # The fork has no cosignatures either; but of what is missing there is no proof.
        (file,) = _evidence(group, "two-views", "missing-quorum")
        await asyncio.to_thread(group.command, "verify", file, *keys, code=1)


async def test_a_log_that_went_back_is_convicted_by_its_own_times(tmp_path: Path) -> None:
    async with ensemble(tmp_path) as group:
        log = await group.start_log()
        await group.published(log, await group.grown(log))
        await log.end()
        old = copy_of(group.made, group.home / "old")
        log = await group.start_log()
        for _ in range(3):
            newest, _, _ = await group.published(log, await group.grown(log))
        keys = [word for vkey in group.log_vkeys for word in ("--log-vkey", vkey)]
        await _monitor(group, "state", log.url, *keys, code=0)
        await log.end()

        # At another place. A mirror that is late shows what was signed before; this was signed afterwards.
        log = await group.start_log(made=old)
        older, _, _ = await group.published(log, 1)
        assert older.size < newest.size
        said = await _monitor(group, "state", log.url, *keys, code=1)
        await log.end()

        assert "rollback" in said
        (file,) = _evidence(group, "state", "rollback")
        await _convicts(group, file, "rollback")


async def _monitor(group: Ensemble, state: str, *words: str | Path, code: int) -> str:
    command = ("monitor", *words, "--once", "--state", group.home / state)
    return await asyncio.to_thread(group.command, *command, code=code)


def _evidence(group: Ensemble, state: str, alarm: str) -> list[Path]:
    return sorted((group.home / state).rglob(f"{alarm}*.evidence"))


async def _convicts(group: Ensemble, file: Path, crime: str) -> None:
    await asyncio.to_thread(_check_verdicts, group, file, crime)


def _check_verdicts(group: Ensemble, file: Path, crime: str) -> None:
    """By the log's keys, of this crime; by another's key of the same name, of nothing; changed, of nothing."""
    keys = [word for vkey in group.log_vkeys for word in ("--log-vkey", vkey)]
    said = group.command("verify", file, *keys, "--json")
    assert f'"crime": "{crime}"' in said
    group.command("verify", file, "--log-vkey", Signer(ORIGIN, ED25519).vkey, code=1)

    evidence = json.loads(file.read_text())
    notes = [open_checkpoint(note.encode(), group.log_keys) for note in evidence["checkpoints"]]
    assert len({(note.size, note.root) for note in notes}) == 2
    root = base64.b64encode(notes[0].root).decode()
    evidence["checkpoints"][0] = evidence["checkpoints"][0].replace(root, base64.b64encode(bytes(32)).decode())
    changed = file.with_name("changed.evidence")
    changed.write_text(json.dumps(evidence))
    group.command("verify", changed, *keys, code=1)
