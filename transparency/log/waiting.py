"""Waiting for an event, but not for ever; by tasks that are ended by cancelling them.

Not ``asyncio.wait_for``: before Python 3.12 it forgets a cancellation that comes in the moment when the event is set
(gh-86296). The task goes on, and whoever cancelled it and waits for its end waits for ever: a log that does not stop.
"""

from __future__ import annotations

import asyncio


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether *event* was set when so much time had passed, or before."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
