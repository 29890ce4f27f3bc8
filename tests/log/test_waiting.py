"""Whoever waits for an event is ended by cancelling it, in whatever moment that comes."""

from __future__ import annotations

import asyncio

import pytest

from tests.project.tree import ROOT
from transparency.log.waiting import is_set_within


async def test_an_event_that_is_set_in_time_is_told_from_one_that_is_not() -> None:
    event = asyncio.Event()

    assert not await is_set_within(event, 0.001)
    asyncio.get_running_loop().call_soon(event.set)
    assert await is_set_within(event, 60)
    assert await is_set_within(event, 0)


@pytest.mark.parametrize("turns", range(6))
async def test_a_task_that_is_cancelled_while_the_event_is_set_ends(turns: int) -> None:
    """With asyncio.wait_for one of these goes on for ever before Python 3.12, and so did the stop of a log."""
    event, looks = asyncio.Event(), 0

    async def look_for_ever() -> None:
        nonlocal looks
        while True:
            await is_set_within(event, 60)
            event.clear()
            looks += 1

    task = asyncio.create_task(look_for_ever())
    for _ in range(3):
        await asyncio.sleep(0)
    event.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5)

    assert task.cancelled()


def test_nobody_here_uses_what_forgets_cancellations() -> None:
    using = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "transparency").rglob("*.py"))
        if "asyncio.wait_for(" in path.read_text(encoding="utf-8")
    ]

    assert not using, "asyncio.timeout, or log/waiting.py"
