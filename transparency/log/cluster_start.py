"""The start of a node: it waits until it has something to show, and says for what it waits.

Who may lead waits until it does, or knows who does. Who may not has nothing to decide: it shows what the last leader
released, as its row of the lease says, also while nobody leads. Only a log that nobody ever led has nothing to show.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from transparency.errors import NobodyLeadsError
from transparency.log.cluster_trouble import Trouble

START_SECONDS: Final = 60.0
# A takeover takes less than this: what lasts longer is worth a word.
TELL_SECONDS: Final = 5.0
_logger = logging.getLogger("transparency.cluster")


async def until_ready(ready: asyncio.Event, trouble: Trouble, *, candidate: bool) -> None:
    """*trouble* is what keeps this node from leading, if it is a *candidate*."""
    loop = asyncio.get_running_loop()
    telling = loop.call_later(TELL_SECONDS, _say_that_it_waits, candidate)
    try:
        async with asyncio.timeout(START_SECONDS):
            await ready.wait()
    except TimeoutError:
        raise _nobody(trouble, candidate=candidate) from None
    finally:
        telling.cancel()


def say_that_nobody_leads(size: int) -> None:
    _logger.warning(
        "nobody leads this log at the moment: this node shows its tree of size %d, and what is sent to it waits until "
        "somebody does",
        size,
    )


def _say_that_it_waits(candidate: bool) -> None:  # noqa: FBT001 - by position, as the loop calls it
    _logger.warning(
        "this node does not serve yet: no node of this log leads. It waits up to %d seconds %s",
        START_SECONDS,
        "to lead, or for another that does" if candidate else "for one that may lead, which is to be started",
    )


def _nobody(trouble: Trouble, *, candidate: bool) -> NobodyLeadsError:
    if not candidate:
        return NobodyLeadsError("no node leads this log or ever did, and this one may not (--never-lead)")
    why = f": {trouble.now}" if trouble.now else "; its log says why, if it got the lease"
    return NobodyLeadsError(f"no node of this log leads, and this one does not get to{why}")
