"""Bells: how the nodes of a cluster wake each other, by NOTIFY and LISTEN. A bell tells that something is worth a look.

Nothing depends on being heard: whoever waits looks by itself every second. So a bell is rung after the transaction it
tells of, in one of its own that is not flushed: a NOTIFY inside would have every commit of every node wait for the one
lock that PostgreSQL takes for them.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Final, Protocol

import psycopg
from psycopg import sql

from transparency.errors import TransparencyError
from transparency.log.postgres_connection import Connection

INTAKE: Final = "transparency_intake"
"""There are rows for the leader."""
PUBLISHED: Final = "transparency_published"
"""The tree is released up to this size."""
SETTLED: Final = "transparency_settled"
"""Rows were found to be in the tree already, or have failed."""
IN_FORCE: Final = "transparency_in_force"
"""Another policy or key set has taken effect."""
LEASE: Final = "transparency_lease"
"""The lease was released."""

_PAUSE_SECONDS: Final = 0.25
Connect = Callable[[], Connection]
Heard = Callable[[str, str], None]


class Ringing(Protocol):
    def ring(self, bell: str, said: str = "") -> None: ...


class Ringer:
    """A thread that rings. Of what is said with one bell while it is busy, the last word counts."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._due: dict[str, str] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="ringer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(seconds)

    def ring(self, bell: str, said: str = "") -> None:
        """Returns at once. For any thread."""
        with self._changed:
            self._due[bell] = said
            self._changed.notify()

    def _run(self) -> None:
        connection: Connection | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._stopping)
                due, self._due = self._due, {}
            if not due:
                break
            try:
                if connection is None:
                    connection = self._connect()
                for bell, said in due.items():
                    connection.execute("SELECT pg_notify(%s, %s)", (bell, said))
            except (psycopg.Error, TransparencyError):
                # Who would have heard it looks by itself.
                _close(connection)
                connection = None
                self._pause()
        _close(connection)

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, _PAUSE_SECONDS)


class Listener:
    """A thread that hears, and connects again when it has to. *heard* is called by it, with the bell and the word."""

    def __init__(self, connect: Connect, bells: tuple[str, ...], heard: Heard) -> None:
        self._connect = connect
        self._bells = bells
        self._heard = heard
        self._ours: socket.socket | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        # Not before: who never starts, or fails to, has nothing to close.
        self._ours, its = socket.socketpair()
        self._thread = threading.Thread(target=self._run, args=(its,), name="listener", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        self._stopping.set()
        if self._ours is not None:
            with contextlib.suppress(OSError):  # it saw by itself that it is to stop, and has gone
                self._ours.send(b"x")
            self._thread.join(seconds)
            self._ours.close()

    def _run(self, its: socket.socket) -> None:
        with its:
            self._hear(its)

    def _hear(self, its: socket.socket) -> None:
        while not self._stopping.is_set():
            connection: Connection | None = None
            try:
                connection = self._connect()
                for bell in self._bells:
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(bell)))
                for bell in self._bells:
                    self._heard(bell, "")  # what was rung before is worth a look, too
                self._listen(connection, its)
            except (psycopg.Error, TransparencyError, OSError):
                self._stopping.wait(_PAUSE_SECONDS)
            finally:
                _close(connection)

    def _listen(self, connection: Connection, its: socket.socket) -> None:
        # Not select(), which knows no descriptor above 1,023: a server has a connection for each client.
        with selectors.DefaultSelector() as selector:
            for each in (connection, its):
                selector.register(each, selectors.EVENT_READ)
            while not self._stopping.is_set():
                selector.select()
                for notice in connection.notifies(timeout=0):
                    self._heard(notice.channel, notice.payload)


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with contextlib.suppress(psycopg.Error):
            connection.close()
