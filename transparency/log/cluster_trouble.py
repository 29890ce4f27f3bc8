"""Trouble: what keeps a node from having statements registered, said once, and known while it lasts.

A node tries again every second, and would say the same each time. What is wrong is written to its log when it is
another than before; what of it is fit for strangers is the answer to who asks whether the node is ready, or waits in
vain. It is over when something was registered; if nothing is tried any more, after a while, so that somebody tries.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from transparency.errors import (
    DatabaseRefusedError,
    DatabaseUnreachableError,
    MarkUnreachableError,
    OverloadedError,
    StoreError,
)

KEPT_SECONDS: Final = 15.0
_logger = logging.getLogger("transparency.cluster")


class AwayError(OverloadedError):
    """The log's database cannot be used. *reason* is for the operator, *public* for everybody: it names no host."""

    def __init__(self, reason: str, public: str) -> None:
        super().__init__(f"{public}; nothing was accepted", retry_after=2.0)
        self.reason = reason
        self.public = public


class Trouble:
    """Owner: the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reason = ""
        self._public = ""
        self._until = 0.0

    @property
    def now(self) -> str:
        """For everybody; empty if nothing is known to be wrong."""
        return self._public if self._clock() < self._until else ""

    def check(self) -> None:
        if self.now:
            raise OverloadedError(f"Nothing is registered at the moment: {self.now}", retry_after=2.0)

    def note(self, what: str, error: BaseException, *, lasting: bool = True) -> None:
        """Unless it is *lasting* it is said, and no trouble."""
        reason = error.reason if isinstance(error, AwayError) else str(error) or type(error).__name__
        if not lasting or reason != self._reason or not self.now:
            _logger.error("%s: %s", what, reason)
        if lasting:
            self._reason, self._public = reason, _public(error)
            self._until = self._clock() + KEPT_SECONDS

    def over(self) -> None:
        self._until = 0.0


def _public(error: BaseException) -> str:
    """For strangers: what kind of thing is wrong, and not where it is."""
    match error:
        case AwayError():
            return error.public
        case StoreError() | OverloadedError():
            # These are a server's own words about itself (postgres_connection.words), or ours.
            return str(error)
        case MarkUnreachableError():
            return "the store of the high-water mark does not answer, and without it no receipt may leave"
        case DatabaseUnreachableError():
            return "the database of this log does not answer"
        case DatabaseRefusedError():
            return "this node is refused by a database that it needs to lead; its log says by which"
    return "this node cannot lead; its log says why"
