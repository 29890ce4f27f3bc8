"""The keeper of a lease: a thread with a connection of its own, which asks the database as the campaign says.

It has a thread so that nothing the event loop does, or waits for, keeps a lease from being renewed; and a connection so
that no transaction stands before a renewal. What it finds out it tells the event loop. It never sequences anything.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import psycopg

from transparency.errors import TransparencyError
from transparency.log.lease import Campaign
from transparency.log.lease_table import LeaseTable, Seen, Taken
from transparency.log.mark_postgres import Place
from transparency.log.postgres_connection import words


class Told(Protocol):
    """What a node is told, by the keeper's thread. All return at once."""

    def lease_taken(self, taken: Taken) -> None: ...
    def lease_lost(self, reason: str) -> None: ...
    def lease_seen(self, seen: Seen) -> None: ...
    def lease_unreachable(self, reason: str) -> None: ...


Connect = Callable[[], psycopg.Connection[Any]]


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
        self._connection: psycopg.Connection[Any] | None = None
        self._wake = threading.Event()
        self._stopping = False
        self._reachable = True
        self._looking = False
        self._give_up: tuple[int, float] | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Release the lease, if it is ours, so that another may begin at once; wait for that no longer than this."""
        self._stopping = True
        self._wake.set()
        self._thread.join(seconds)

    def believes(self) -> bool:
        """Whether this node may sequence at this moment. For any thread."""
        return self._campaign.believes(self._clock())

    def give_up(self, epoch: int, pause: float = 0.0) -> None:
        """This node does not lead in *epoch*: release that lease, and ask for another after *pause* seconds."""
        self._give_up = epoch, pause
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
            if self._give_up is not None:
                (epoch, pause), self._give_up = self._give_up, None
                if epoch == self._campaign.epoch:  # else it is lost already, and perhaps another one taken
                    self._release(pause)
            elif self._looking or self._campaign.rest(self._clock()) <= 0:
                self._looking = False
                self._ask_once()
            if self._campaign.leading and not self.believes():
                self._campaign.given_up(self._clock())
                self._told.lease_lost("it could not be renewed in time")
            self._wake.wait(self._campaign.rest(self._clock()))
        self._release(0.0)
        self._disconnect()

    def _ask_once(self) -> None:
        asked = self._clock()
        try:
            self._ask(asked)
            self._reachable = True
        except (psycopg.Error, TransparencyError) as error:
            self._disconnect()
            self._campaign.unanswered(asked)
            if self._reachable:  # once, not every quarter of a second
                self._told.lease_unreachable(words(error))
            self._reachable = False

    def _ask(self, asked: float) -> None:
        table = self._connected()
        if self._campaign.leading:
            if self._place is not None and table.renew(
                self._campaign.epoch, self.published, self._place, leads=self.leads
            ):
                self._campaign.granted(asked, self._campaign.epoch)
            else:
                self._campaign.refused(asked, 0.0)
                self._told.lease_lost("another node has taken it")
            return
        seen = table.look()
        if self._candidate and (seen is None or seen.left <= 0):
            taken = table.take()
            if taken is not None:
                self._campaign.granted(asked, taken.tip.epoch)
                self._place, self.leads = taken.now, False
                self._told.lease_taken(taken)
                return
            seen = table.look()
        if seen is not None:
            self._told.lease_seen(seen)
        self._campaign.refused(asked, 0.0 if seen is None else seen.left)

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
