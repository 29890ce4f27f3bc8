"""The acceptor: takes connections from listening sockets and makes protocols of them, as many as there is room for.

Connections are accepted here and not by asyncio: whoever is turned away costs a system call and not a transport, a task
and a parser, so that a flood of connections is turned away faster than it comes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import cycle
from typing import Protocol, cast

from transparency.server.limits import client_of_address
from transparency.server.problems import on_the_wire, unavailable

REFUSED_SECONDS = 1.0
MAX_REFUSED = 256
REFUSED_AT_ONCE = 256
MANY_AT_ONCE = 64
# Answers to those that are turned away, which differ in when to come back.
REFUSALS = 32
# What is read of who was turned away: most requests are less.
REFUSED_BYTES = 64 * 1024
# Without a free file nothing can be accepted; asking again at once would only burn time.
OUT_OF_FILES_SECONDS = 0.2


class Admitted(Protocol):
    """A connection that counts from now on.

    ``admission`` is what makes it of a socket, over TLS by a handshake. ``begun`` is what somebody else read of it
    before: the first that it receives.
    """

    admission: asyncio.Task[None] | None
    begun: bytes

    def connection_made(self, transport: asyncio.BaseTransport, /) -> None: ...
    def connection_lost(self, exc: Exception | None, /) -> None: ...
    def gone(self) -> None:
        """It ended before it began."""


Admit = Callable[[str], Admitted | None]
"""A connection for this client; None where there is no room."""


class Acceptor:
    """Owner: the event loop's thread. The sockets are its own from :meth:`start` on."""

    def __init__(
        self,
        admit: Admit,
        *,
        at_once: int,
        tls: ssl.SSLContext | None = None,
        handshake_timeout: float | None = None,
    ) -> None:
        """*at_once*: connections taken in one turn of the loop; those that are served have theirs in between."""
        self._admit = admit
        self._at_once = at_once
        self._tls = tls
        self._handshake_timeout = handshake_timeout if tls is not None else None
        self._listening: list[socket.socket] = []
        self._refused = _Refused()
        self._admissions: set[asyncio.Task[None]] = set()

    def start(self, sockets: Iterable[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for own in sockets:
            self._listening.append(own)
            loop.add_reader(own, self._accept, own, self._at_once)

    def stop(self) -> None:
        loop = asyncio.get_running_loop()
        for own in self._listening:
            loop.remove_reader(own)
            own.close()
        self._listening.clear()
        self._refused.close()

    def look(self) -> None:
        """Take who waits at the door now, for who has much to do before the loop comes to it.

        More than the loop takes: who has much to do sees to it seldom, and so does every other worker.
        """
        for own in list(self._listening):
            self._accept(own, MANY_AT_ONCE)

    def _accept(self, listening: socket.socket, left: int) -> None:
        """Until *left* are let in, or nobody is left, or ``REFUSED_AT_ONCE`` were taken, most of them turned away."""
        for _ in range(max(REFUSED_AT_ONCE, left)):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                loop = asyncio.get_running_loop()
                if loop.remove_reader(listening):
                    loop.call_later(OUT_OF_FILES_SECONDS, self._resume, listening)
                return
            # Turning away costs little, and whoever waits to be let in where there is no room should know soon.
            left -= self.take(accepted, peer[0])
            if not left:
                return

    def take(self, accepted: socket.socket, address: str, begun: bytes = b"") -> bool:
        """Let a connection in, or tell it to come back. *begun* is what was read of it by somebody else."""
        accepted.setblocking(False)
        connection = self._admit(client_of_address(address))
        if connection is None:
            self._refused.take(accepted, tls=self._tls is not None)
            return False
        connection.begun = begun
        task = asyncio.create_task(self._let_in(accepted, connection))
        connection.admission = task
        self._admissions.add(task)
        task.add_done_callback(self._admissions.discard)
        return True

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening, self._at_once)

    async def _let_in(self, accepted: socket.socket, connection: Admitted) -> None:
        """Over TLS, until the handshake is done."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: cast("asyncio.Protocol", connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._handshake_timeout,
            )
        except (OSError, asyncio.CancelledError):
            # A handshake that failed, took too long, or was cut off for another: none of it is a fault of ours.
            accepted.close()
            connection.gone()


def address_of(accepted: socket.socket) -> str | None:
    """Whose it is; None if it has gone already."""
    try:
        address: str = accepted.getpeername()[0]
    except OSError:
        return None
    return address


class _Refused:
    """Connections beyond the limit: told to come back, and closed when they had time to read that, the oldest first.

    A flood of them is the larger half of what a crowded server does: the answers are made once, with different times
    to come back after, and one timer serves all.
    """

    def __init__(self) -> None:
        # With when each has had its time.
        self._held: deque[tuple[float, socket.socket]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        problems = (unavailable("Too many connections; nothing was accepted", 1.0) for _ in range(REFUSALS))
        self._answers = cycle([on_the_wire(problem) for problem in problems])

    def take(self, accepted: socket.socket, *, tls: bool) -> None:
        if not tls:
            with suppress(OSError):
                accepted.send(next(self._answers))
                accepted.shutdown(socket.SHUT_WR)
        # Its request may still be under way. Closed before it has come, or unread, the connection is reset, and the
        # client might never see the answer.
        loop = asyncio.get_running_loop()
        self._held.append((loop.time() + REFUSED_SECONDS, accepted))
        if len(self._held) > MAX_REFUSED:
            _close(self._held.popleft()[1])
        if self._timer is None:
            self._timer = loop.call_later(REFUSED_SECONDS, self._release)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._held:
            _close(self._held.popleft()[1])

    def _release(self) -> None:
        loop = asyncio.get_running_loop()
        while self._held and self._held[0][0] <= loop.time():
            _close(self._held.popleft()[1])
        self._timer = loop.call_at(self._held[0][0], self._release) if self._held else None


def _close(refused: socket.socket) -> None:
    with suppress(OSError):
        refused.recv(REFUSED_BYTES)
    refused.close()
