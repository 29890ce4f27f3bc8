"""Who has nobody else to serve has its statement committed before the call returns; where it cannot be, in its turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE, until
from transparency.errors import StoreError, TransparencyError
from transparency.log import upkeep, writer
from transparency.log.candidate import Candidate, Place, Sequenced
from transparency.log.log import Log
from transparency.statements.statement import Statement
from transparency.testing import Fault, MadeLog, make_log

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


@pytest.fixture
async def log(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Log]:
    monkeypatch.setattr(writer, "QUICK_SECONDS", PATIENCE)  # whatever else the disk has to do
    log = made.open()
    await log.start(in_place=True)
    await asyncio.sleep(0)
    yield log
    await log.stop()


class Waiting:
    """What was told of each statement that was handed in."""

    def __init__(self, made: MadeLog, log: Log) -> None:
        self._made, self._log = made, log
        self.told: list[Place | TransparencyError] = []

    def hand_in(self, payload: bytes) -> None:
        statement = Statement.from_bytes(self._made.issuer.sign(payload))
        judgement = self._log.judge.judge(statement, self._log.sequencer.decision_time())
        self._log.sequencer.enqueue(Candidate.of(statement, judgement), self.told.append)

    @property
    def places(self) -> list[int]:
        return [place.index for place in self.told if isinstance(place, Sequenced)]


async def test_it_is_in_the_tree_when_the_call_returns(made: MadeLog, log: Log) -> None:
    waiting = Waiting(made, log)
    for number, payload in enumerate((b"one", b"two"), 1):
        waiting.hand_in(payload)
        assert len(waiting.told) == number - 1
        log.sequencer.flush_at_once()
        assert len(waiting.told) == number

    assert waiting.places == [2, 3]
    assert log.newest_head().size == 4


async def test_all_that_wait_go_with_it(made: MadeLog, log: Log) -> None:
    waiting = Waiting(made, log)
    for payload in (b"one", b"two", b"three"):
        waiting.hand_in(payload)

    log.sequencer.flush_at_once()

    assert waiting.places == [2, 3, 4]
    assert log.newest_head().size == 5
    log.sequencer.flush_at_once()  # nothing waits: nothing happens
    assert log.newest_head().size == 5


async def test_without_a_quick_disk_it_has_its_turn(made: MadeLog) -> None:
    log = made.open()
    await log.start(in_place=False)
    await asyncio.sleep(0)
    waiting = Waiting(made, log)

    waiting.hand_in(b"one")
    log.sequencer.flush_at_once()
    assert waiting.told == []

    await until(lambda: waiting.places == [2])
    await log.stop()


async def test_while_something_is_being_written_it_has_its_turn(made: MadeLog, log: Log) -> None:
    waiting = Waiting(made, log)
    may_end = threading.Event()
    writing = asyncio.create_task(log.sequencer.write(lambda: may_end.wait(PATIENCE)))
    await asyncio.sleep(0)

    waiting.hand_in(b"one")
    log.sequencer.flush_at_once()
    assert waiting.told == []

    may_end.set()
    await writing
    await until(lambda: waiting.places == [2])


@pytest.mark.parametrize("method", ["find_some", "commit", "check_owned"])
async def test_a_store_that_fails_ends_the_log_and_who_waits_is_told(made: MadeLog, method: str) -> None:
    log, store = made.open_faulty()
    await log.start(in_place=True)
    await asyncio.sleep(0)
    store.fail(method, Fault.FAILS)
    waiting = Waiting(made, log)

    waiting.hand_in(b"one")
    log.sequencer.flush_at_once()

    (told,) = waiting.told
    assert isinstance(told, StoreError)
    assert log.sequencer.failed is not None
    await until(lambda: not log.sequencer.alive)
    await log.stop()


async def test_whoever_is_told_and_fails_ends_the_log(made: MadeLog, log: Log) -> None:
    """As it does when the task tells them: what comes behind it was not done."""

    def fails(_size: int) -> None:
        raise OSError("no")

    log.sequencer.on_published.append(fails)
    Waiting(made, log).hand_in(b"one")
    log.sequencer.flush_at_once()

    assert isinstance(log.sequencer.failed, OSError)


@pytest.mark.parametrize(("seconds", "indexed"), [(3600.0, 2), (0.0, 5)])
async def test_the_indexes_catch_up_when_nobody_has_come_for_a_while(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch, seconds: float, indexed: int
) -> None:
    """By the task, which wakes behind each of them: that somebody came is not that nobody did."""
    monkeypatch.setattr(upkeep, "INDEX_AFTER_SECONDS", seconds)
    log = made.open()
    await log.start(in_place=True)
    waiting = Waiting(made, log)
    for payload in (b"one", b"two", b"three"):
        await asyncio.sleep(0.01)
        waiting.hand_in(payload)
        log.sequencer.flush_at_once()

    await asyncio.sleep(0.2)
    await until(lambda: log.opened.store.indexed_size() == indexed)
    assert len(waiting.places) == 3
    await log.stop()
