"""The writer: one thing after the other, in place while the disk is quick."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from transparency.log import writer as module
from transparency.log.writer import Writer


def where() -> int:
    return threading.get_ident()


async def test_a_small_job_is_done_by_the_thread_unless_it_may_be_done_in_place() -> None:
    thread, in_place = Writer(), Writer(in_place=True)

    assert await thread.run_small(where) != threading.get_ident()
    assert await in_place.run_small(where) == threading.get_ident()
    assert await in_place.run(where) != threading.get_ident()

    thread.close()
    in_place.close()


async def test_after_a_slow_one_the_thread_has_the_next_until_they_are_quick_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "QUICK_SECONDS", 10.0)
    writer = Writer(in_place=True)
    with monkeypatch.context() as slow:
        slow.setattr(module, "QUICK_SECONDS", 0.0)
        assert await writer.run_small(where) == threading.get_ident()
        assert await writer.run_small(where) != threading.get_ident()

    assert await writer.run_small(where) != threading.get_ident()
    assert await writer.run_small(where) == threading.get_ident()
    writer.close()


async def test_nothing_is_done_in_place_while_the_thread_writes_even_if_nobody_waits_for_that_any_more() -> None:
    writer = Writer(in_place=True)
    may_end, done = threading.Event(), []

    def long() -> None:
        may_end.wait(30)
        done.append("long")

    abandoned = asyncio.create_task(writer.run(long))
    await asyncio.sleep(0)
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    small = asyncio.create_task(writer.run_small(lambda: done.append("small")))
    await asyncio.sleep(0)

    assert done == []
    may_end.set()
    await small
    assert done == ["long", "small"]
    writer.close()


@pytest.mark.parametrize("in_place", [False, True])
async def test_what_a_job_raises_reaches_who_asked_for_it(*, in_place: bool) -> None:
    writer = Writer(in_place=in_place)

    def fails() -> None:
        raise OSError(28, "no space")

    with pytest.raises(OSError, match="no space"):
        await writer.run_small(fails)
    began = time.perf_counter()
    assert await writer.run_small(time.perf_counter) >= began
    writer.close()


async def test_what_flushes_nothing_does_not_show_that_the_disk_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have the next flush run in place, and the event loop wait for a slow disk every second time."""
    writer = Writer(in_place=True)
    monkeypatch.setattr(module, "QUICK_SECONDS", 0.0)
    await writer.run_small(where)
    monkeypatch.setattr(module, "QUICK_SECONDS", 10.0)

    assert await writer.run_small(where, flushes=False) != threading.get_ident()
    assert await writer.run_small(where) != threading.get_ident()
    assert await writer.run_small(where, flushes=False) == threading.get_ident()
    writer.close()
