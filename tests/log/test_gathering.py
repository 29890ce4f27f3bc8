"""When what waits is committed: who waits for others, and who for nobody."""

from __future__ import annotations

import asyncio

from transparency.log.gathering import ENOUGH, Gathering


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

    def commit(self) -> None:
        self.waiting = 0
        self.gathering.taken()
        self.told.clear()


async def test_who_is_not_patient_never_waits_and_takes_the_patient_along() -> None:
    queue = Queue()
    queue.join()
    assert queue.due()
    queue.commit()

    queue.join(2, patient=True)
    assert not queue.due()
    queue.join()
    assert queue.due()


async def test_the_patient_wait_until_they_are_enough() -> None:
    queue = Queue()
    queue.join(ENOUGH - 1, patient=True)
    assert not queue.due()
    queue.join(patient=True)
    assert queue.due()


async def test_the_patient_do_not_wait_for_long() -> None:
    queue = Queue()
    queue.join(patient=True)

    await queue.told.wait()

    assert queue.due()


async def test_a_wait_that_is_over_makes_no_later_commit_due() -> None:
    queue = Queue()
    queue.join(patient=True)
    queue.commit()

    await asyncio.sleep(0.05)

    assert not queue.due()


async def test_one_that_joins_what_is_due_is_not_forgotten() -> None:
    """It was made due for another copy of a statement that was being flushed; whoever is told has rested since."""
    queue = Queue()
    queue.gathering.make_due()
    queue.told.clear()

    queue.join(patient=True)

    assert queue.told.is_set()
