"""The worker: follows the log, finds records that arrive late, and ends with the server. And fsck over its index."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.log.searching import Found, filling, indexed, put, session, term
from tests.patience import PATIENCE
from transparency.log.folder import Folder
from transparency.log.search import SearchIndex
from transparency.log.search_check import check_index
from transparency.log.search_worker import (
    BUSY_RATE,
    LONGEST_WAIT_SECONDS,
    TURN_SECONDS,
    Courtesy,
    Follower,
    SearchWorker,
)
from transparency.testing import settled


def follower(found: Found) -> Follower:
    return Follower(found.index, found.store, found.artifacts)


async def test_a_step_brings_in_new_entries_and_late_records(tmp_path: Path) -> None:
    record = session("late")
    async with filling(tmp_path) as log:
        await log.envelope(record, upload=False)
        await settled(log.log)
        with indexed(log.data) as found:
            following = follower(found)
            following.step(0.0)
            await log.record(session("new"))
            await settled(log.log)
            put(log.data, record)
            following.step(100.0)

            assert found.hits(term("session", "new")) == [3]
            assert found.hits(term("session", "late")) == [2]


async def test_a_shelf_that_did_not_change_is_not_looked_through_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with filling(tmp_path) as log:
        await log.envelope(session("here"))
    with indexed(log.data) as found:
        following = follower(found)
        looked: list[str] = []
        monkeypatch.setattr(found.index, "look_for_records", lambda _store, _artifacts, shelf: looked.append(shelf))
        following.look()
        following.look()

        assert looked == [hashlib.sha256(session("here")).hexdigest()[:2]]


async def test_what_was_erased_is_renewed_from_what_is_left(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        index = await log.record(session("kept"))
    with indexed(log.data) as found:
        found.index.erase(index)
        assert found.hits(term("session", "kept")) == []
        follower(found).step(0.0)

        assert found.hits(term("session", "kept")) == [index]  # the store still has it: nothing was erased there


async def test_the_process_follows_a_running_log_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It runs when nobody else wants to: on a busy machine that may be after it would have been killed.
    monkeypatch.setattr("transparency.log.search_worker._STOP_SECONDS", PATIENCE)
    async with filling(tmp_path) as log:
        index = SearchIndex(Folder(log.data).search)
        async with SearchWorker(log.data) as worker:
            await until(index, 2)
            await log.record(session("followed"))
            await until(index, 3)
            process = worker._process
            assert process is not None
            assert process.returncode is None
        assert process.returncode == 0


async def test_a_process_whose_server_is_gone_ends_though_it_is_far_behind(tmp_path: Path) -> None:
    """The next server has one of its own, on the same file: this one would go on until it had caught up."""
    async with filling(tmp_path) as log:
        await log.record(session("nobody asks for it"))
        command = [sys.executable, "-m", "transparency.log.search_worker", str(log.data)]
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        code = await asyncio.wait_for(process.wait(), PATIENCE)
        with SearchIndex(Folder(log.data).search) as index:
            assert (code, index.indexed()) == (0, 0)


async def test_a_process_that_was_killed_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transparency.log.search_worker.RESTART_SECONDS", (0.01, 1.0))
    async with filling(tmp_path) as log:
        index = SearchIndex(Folder(log.data).search)
        async with SearchWorker(log.data) as worker:
            await until(index, 2)
            assert worker._process is not None
            worker._process.kill()
            await log.record(session("after"))
            await until(index, 3)


async def test_a_process_that_ends_again_and_again_for_one_reason_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("transparency.log.search_worker.RESTART_SECONDS", (0.01, 60.0))
    async with SearchWorker(tmp_path / "nothing") as worker, asyncio.timeout(PATIENCE):
        seen: set[int] = set()
        while len(seen) < 3:
            if worker._process is not None:
                seen.add(worker._process.pid)
            await asyncio.sleep(0.01)

    told = [record.message for record in caplog.records]
    assert len(told) == 1
    assert "ended (1): " in told[0]
    assert "\n" not in told[0]
    assert capfd.readouterr().err == ""


async def until(index: SearchIndex, size: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await asyncio.to_thread(index.indexed) < size:  # noqa: ASYNC110 - another process' doing
            await asyncio.sleep(0.05)


def findings(found: Found) -> list[str]:
    said: list[str] = []
    check_index(found.index.path, found.store, found.artifacts, lambda where, what: said.append(f"{where}: {what}"))
    return said


async def test_an_index_that_follows_from_the_log_is_clean_also_while_it_lags(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        await log.record(session("a"))
        await log.envelope(session("b"))
        await log.envelope(session("c"), upload=False)
        with indexed(log.data) as found:
            await log.record(session("not indexed yet"))
            assert findings(found) == []
            put(log.data, session("c"))
            assert findings(found) == []
            found.index.erase(2)
            assert findings(found) == []


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE entries SET time = time + 1 WHERE idx = 2", "search index, entry 2: is not what the log gives"),
        ("UPDATE entries SET content = x'00' WHERE idx = 2", "search index, entry 2: is not what the log gives"),
        ("DELETE FROM postings WHERE idx = 2", "search index, entry 2: is not found by all it has"),
        ("INSERT INTO postings VALUES (7, 2)", "postings where"),
    ],
)
async def test_an_index_that_does_not_is_named(tmp_path: Path, damage: str, says: str) -> None:
    async with filling(tmp_path) as log:
        await log.record(session("a"))
    with indexed(log.data) as found:
        with found.index._transaction() as run:
            run(damage)

        (finding,) = findings(found)
        assert says in finding
        assert "transparency log reindex" in finding
        found.index.clear()
        found.catch_up()
        assert findings(found) == []


async def test_a_log_that_has_no_index_yet_is_clean(tmp_path: Path) -> None:
    async with filling(tmp_path) as log:
        pass
    with indexed(log.data) as found:
        Folder(log.data).search.unlink()

        assert findings(found) == []


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has a policy for what may wait")
def test_it_runs_when_nobody_else_wants_to() -> None:
    asks = "import os; from transparency.log import search_worker as w; w._step_back(); print(os.sched_getscheduler(0))"
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)

    assert int(done.stdout) == os.SCHED_IDLE


def test_a_burst_of_registrations_is_waited_for_and_a_steady_trickle_is_not() -> None:
    courtesy = Courtesy()
    waited = [
        courtesy.waits(float(second), size) for second, size in enumerate((0, 10, 10 + 2 * BUSY_RATE, 2500, 2500))
    ]

    assert waited == [False, False, True, False, False]


def test_a_log_that_is_always_busy_is_indexed_all_the_same() -> None:
    """By turns of some seconds, in which many slices are indexed: one after each wait would be too few."""
    courtesy = Courtesy()
    waited = [courtesy.waits(float(second), second * 2 * BUSY_RATE) for second in range(60)]

    runs = [(waits, len(list(some))) for waits, some in groupby(waited)]
    longest = {waits: max(length for each, length in runs if each == waits) for waits in (True, False)}
    assert longest == {True: int(LONGEST_WAIT_SECONDS) + 1, False: int(TURN_SECONDS)}
    assert 0.4 * 60 < sum(waited) < 0.6 * 60
