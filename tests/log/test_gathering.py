"""When what waits is committed: for whom a commit waits, for how long, and for whom it never does."""

from __future__ import annotations

import asyncio

import pytest

from transparency.log import gathering as module
from transparency.log.gathering import ENOUGH, Gathering

FOREVER = 3600.0


class Queue:
    """What a sequencer does, without the disk."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.gathering = Gathering(self.told.set)
        self.waiting = 0

    def due(self) -> bool:
        return self.gathering.due

    def join(self, count: int = 1, *, patient: bool = False) -> None:
        for _ in range(count):
            self.waiting += 1
            self.gathering.joined(self.waiting, patient=patient)

    def commit(self, *, arriving: int = 0, seconds: float = FOREVER) -> None:
        size, self.waiting = self.waiting, 0
        self.gathering.taken()
        self.told.clear()
        self.join(arriving)
        self.gathering.committed(size, arriving, seconds)


async def test_a_client_by_itself_never_waits() -> None:
    queue = Queue()
    for _ in range(3):
        queue.join()
        assert queue.due()
        queue.commit()


async def test_those_that_came_while_others_were_committed_are_waited_for_the_next_time() -> None:
    queue = Queue()
    queue.join()
    queue.commit(arriving=3)
    assert queue.due()  # one was expected, and three are there
    queue.commit()

    queue.join(2)
    assert not queue.due()
    queue.join()
    assert queue.due()


async def test_nobody_is_waited_for_longer_than_a_commit_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENT_SECONDS", FOREVER)
    queue = Queue()
    queue.join(3)
    queue.commit(seconds=0.001)

    queue.join()
    assert not queue.due()
    await queue.told.wait()
    assert queue.due()

    queue.commit()
    queue.join()
    assert queue.due()  # one came the last time: no more are expected


async def test_a_slow_disk_makes_nobody_wait_for_others_for_long() -> None:
    queue = Queue()
    queue.join(3)
    queue.commit(seconds=FOREVER)

    queue.join()
    await queue.told.wait()
    assert queue.due()


async def test_the_patient_wait_until_they_are_enough() -> None:
    queue = Queue()
    queue.join(ENOUGH - 1, patient=True)
    assert not queue.due()
    queue.join(patient=True)
    assert queue.due()


async def test_who_is_not_patient_does_not_wait_as_the_patient_do() -> None:
    queue = Queue()
    queue.join(2, patient=True)
    assert not queue.due()
    queue.join()
    assert queue.due()


async def test_after_large_batches_no_more_are_waited_for_than_are_enough() -> None:
    queue = Queue()
    queue.join(4 * ENOUGH, patient=True)
    queue.commit()

    queue.join(ENOUGH - 1)
    assert not queue.due()
    queue.join()
    assert queue.due()
