"""The keeper of a lease: a thread with a connection of its own, which asks the database as the campaign says.

It has a thread so that nothing the event loop does, or waits for, keeps a lease from being renewed; and a connection so
that no transaction stands before a renewal. What it finds out it tells the event loop. It never sequences anything.

An event loop that hangs, though, must not keep the lease: the keeper asks it for a sign of life beside each renewal,
and gives up for it when none has come for ten seconds.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import psycopg

from transparency.errors import TransparencyError
from transparency.log.lease import LOOP_SECONDS, RENEW_SECONDS, Campaign
from transparency.log.lease_table import LeaseTable, Seen, Taken
from transparency.log.mark_postgres import Place
from transparency.log.postgres_connection import Connection, words

_logger = logging.getLogger("transparency.cluster")


class Told(Protocol):
    """What a node is told, by the keeper's thread. All return at once."""

    def lease_taken(self, taken: Taken) -> None: ...
    def lease_lost(self, reason: str) -> None: ...
    def lease_seen(self, seen: Seen) -> None: ...
    def lease_unreachable(self, reason: str) -> None: ...
    def lease_alive(self, answer: Callable[[], None]) -> None:
        """Have the event loop call *answer*."""


Connect = Callable[[], Connection]


class LeaseKeeper:
    def __init__(
        self,
        connect: Connect,
        holder: str,
        told: Told,
        clock: Callable[[], float] = time.monotonic,
        *,
        candidate: bool = True,
    ) -> None:
        """*connect* opens a session in autocommit that gives up soon. Who is no *candidate* only looks."""
        self.holder = holder
        # How far the tree is released: set by the event loop, told with each renewal.
        self.published = 0
        # Whether the node has checked all it must, and sequences: likewise.
        self.leads = False
        self._connect = connect
        self._told = told
        self._clock = clock
        self._candidate = candidate
        self._campaign = Campaign()
        self._table: LeaseTable | None = None
        self._place: Place | None = None
        self._connection: Connection | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._reachable = True
        self._looking = False
        self._give_ups: deque[tuple[int, float]] = deque()
        # Since when the event loop owes a sign of life.
        self._loop_asked: float | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Release the lease, if it is ours, so that another may begin at once; wait for that no longer than this."""
        self._stopping = True
        self._wake.set()
        self._thread.join(seconds)

    def believes(self, epoch: int) -> bool:
        """Whether this node may sequence in *epoch* at this moment. For any thread."""
        return self._campaign.epoch == epoch and self._campaign.believes(self._clock())

    def give_up(self, epoch: int, pause: float = 0.0) -> None:
        """This node does not lead in *epoch*: release that lease, and ask for another after *pause* seconds."""
        self._give_ups.append((epoch, pause))
        self._wake.set()

    def look(self) -> None:
        """Ask now: somebody said that something has changed."""
        self._looking = True
        self._wake.set()

    def withdraw(self) -> None:
        """This node must not lead: release the lease, and never ask for it again."""
        self._candidate = False
        self.give_up(self._campaign.epoch)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self._turn()
            self._wake.wait(self._campaign.rest(self._clock()))
        self._release(0.0)
        self._disconnect()

    def _turn(self) -> None:
        while self._give_ups:
            epoch, pause = self._give_ups.popleft()
            if epoch == self._campaign.epoch:  # else it is lost already, and perhaps another one taken
                self._release(pause)
        if self._looking or self._campaign.rest(self._clock()) <= 0:
            self._looking = False
            if self._loop_turns():
                self._ask_once()
            else:
                self._give_up_for_it()
        if self._campaign.leading and not self._campaign.believes(self._clock()):
            self._campaign.given_up(self._clock())
            self._told.lease_lost("it could not be renewed in time")

    def _ask_once(self) -> None:
        asked = self._clock()
        try:
            self._ask(asked)
            self._reachable = True
        except (psycopg.Error, TransparencyError) as error:
            self._unanswered(asked, words(error) if isinstance(error, psycopg.Error) else str(error))
        except Exception:  # without a keeper this node would never lead again
            _logger.exception("asking for the lease failed")
            self._unanswered(asked, "a fault of this program")

    def _unanswered(self, asked: float, reason: str) -> None:
        self._disconnect()
        self._campaign.unanswered(asked)
        if self._reachable:  # once, not every quarter of a second
            self._told.lease_unreachable(reason)
        self._reachable = False

    def _ask(self, asked: float) -> None:
        table = self._connected()
        if self._campaign.leading:
            over = (
                table.renew(self._campaign.epoch, self.published, self._place, leads=self.leads)
                if self._place is not None
                else "nobody knows where it was taken"
            )
            if over is None:
                self._campaign.granted(asked, self._campaign.epoch)
            else:
                self._campaign.refused(asked, 0.0)
                self._told.lease_lost(over)
                table.release(self._campaign.epoch, self.published)  # if it is still ours
            return
        seen = table.look()
        if self._candidate and seen.left <= 0:
            taken = table.take(self._campaign.epoch)
            if taken is not None:
                self._campaign.granted(asked, taken.tip.epoch)
                self._place, self.leads = taken.now, False
                self._told.lease_taken(taken)
                return
            seen = table.look()
        self._told.lease_seen(seen)
        self._campaign.refused(asked, seen.left)

    def _loop_turns(self) -> bool:
        if self._loop_asked is None:
            self._loop_asked = self._clock()
            self._told.lease_alive(self._loop_answered)
        return self._loop_silent() <= LOOP_SECONDS

    def _loop_silent(self) -> float:
        asked = self._loop_asked
        return 0.0 if asked is None else self._clock() - asked

    def _loop_answered(self) -> None:
        self._loop_asked = None

    def _give_up_for_it(self) -> None:
        if self._campaign.leading:
            _logger.error("the event loop of this node does not turn: the lease is given up")
            self._told.lease_lost("the event loop did not turn")
        self._release(RENEW_SECONDS)

    def _connected(self) -> LeaseTable:
        if self._table is None:
            self._connection = self._connect()
            self._table = LeaseTable(self._connection, self.holder)
        return self._table

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        self._connection = self._table = None

    def _release(self, pause: float) -> None:
        if self._campaign.leading and self._table is not None:
            with contextlib.suppress(psycopg.Error):  # it then ends by itself
                self._table.release(self._campaign.epoch, self.published)
        self._campaign.given_up(self._clock(), pause)
