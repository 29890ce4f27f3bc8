"""Statements of a batch wait for one another, so that they share a commit; whoever is alone waits for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from transparency.log import gathering as module
from transparency.log.candidate import Candidate, Sequenced
from transparency.log.log import Log
from transparency.policy.document import Policy
from transparency.policy.judge import Judge
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, make_log, running

FOREVER = 3600.0


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


def candidate(made: MadeLog, log: Log, payload: bytes, *, patient: bool) -> Candidate:
    statement = Statement.from_bytes(made.issuer.sign(payload))
    judge = Judge(Policy.from_toml(log.policy_document))
    return Candidate.of(statement, judge.judge(statement, log.sequencer.decision_time()), patient=patient)


async def submitted(log: Log, candidates: Sequence[Candidate]) -> list[asyncio.Task[int]]:
    """All of them in the queue, and what becomes of each: the size of its head."""

    async def one(candidate: Candidate) -> int:
        place = await log.sequencer.submit(candidate)
        assert isinstance(place, Sequenced)
        return place.head.size

    tasks = [asyncio.create_task(one(candidate)) for candidate in candidates]
    await asyncio.sleep(0)
    return tasks


def patient_ones(made: MadeLog, log: Log, count: int) -> list[Candidate]:
    return [candidate(made, log, b"%d" % number, patient=True) for number in range(count)]


async def test_the_patient_share_a_commit(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENT_SECONDS", FOREVER)
    monkeypatch.setattr(module, "ENOUGH", 5)
    async with running(made) as log:
        before = log.newest_head().size
        few = await submitted(log, patient_ones(made, log, 4))
        for _ in range(20):
            await asyncio.sleep(0)
        assert log.sequencer.waiting == 4
        last = log.sequencer.submit(candidate(made, log, b"the fifth", patient=True))
        await last
        assert {await one for one in few} == {before + 5}


async def test_patience_ends(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENT_SECONDS", 0.001)
    async with running(made) as log:
        for number in range(3):
            await log.sequencer.submit(candidate(made, log, b"%d" % number, patient=True))


@pytest.mark.parametrize("same", [True, False], ids=["the same statement", "another"])
async def test_who_does_not_wait_takes_the_patient_along(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    monkeypatch.setattr(module, "PATIENT_SECONDS", FOREVER)
    async with running(made) as log:
        waiting = patient_ones(made, log, 3)
        few = await submitted(log, waiting)
        await log.sequencer.submit(
            waiting[0]._replace(patient=False) if same else candidate(made, log, b"another", patient=False)
        )
        assert len({await one for one in few}) == 1


async def test_a_stop_commits_what_waits(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENT_SECONDS", FOREVER)
    async with running(made) as log:
        few = await submitted(log, patient_ones(made, log, 3))
    assert all(one.done() and not one.exception() for one in few)
