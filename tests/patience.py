"""How long anything may take before a test says that it never comes.

Nothing waits for it to pass, so it is generous: a process that shares two cores with others may stand still for
seconds, and a new one takes many to start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE = 120.0


async def until(holds: Callable[[], bool]) -> None:
    """Wait for what tells nobody when it comes to hold."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - as it says
            await asyncio.sleep(0.005)
