"""The runner: who is let in at the socket, and the connections that are made for them (server/connections.py).

Connections are accepted here and not by asyncio: whoever is turned away costs a system call and not a transport, a task
and a parser, so that a flood of connections is turned away faster than it comes.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from contextlib import suppress
from typing import Any, cast

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from transparency.server.connections import Connections
from transparency.server.limits import client_of_address
from transparency.server.problems import unavailable
from transparency.server.protocol import LINGER_SECONDS, Connection, Patience, on_the_wire
from transparency.server.settings import ServerSettings

REFUSED_SECONDS = 1.0
MAX_REFUSED = 256
BACKLOG = 4096
# Connections taken in one turn of the event loop: those that are served have theirs in between.
ACCEPTS_AT_ONCE = 64
# Without a free file nothing can be accepted; asking again at once would only burn time.
OUT_OF_FILES_SECONDS = 0.2
# How often deadlines are looked at; four times within the shortest if that is less.
LOOK_SECONDS = 1.0


class _Server(web.Server):
    """Makes our connections."""

    def __init__(self, plain: web.Server, registry: Connections, patience: Patience) -> None:
        super().__init__(
            plain.request_handler,
            request_factory=plain.request_factory,
            loop=plain._loop,  # noqa: SLF001 - aiohttp has no way to name another protocol class
            **plain._kwargs,  # noqa: SLF001
        )
        self._registry = registry
        self._patience = patience

    def connection_for(self, address: str) -> Connection | None:
        """A connection that counts from now on, or None where there is no room."""
        if not self._registry.admit(address):
            return None
        connection = Connection(self, self._registry, self._patience, address, loop=self._loop, **self._kwargs)
        self._registry.add(connection)
        return connection


class Runner(web.AppRunner):
    """aiohttp's AppRunner with these connections, within the bounds of the settings."""

    __slots__ = ("connections", "settings")

    def __init__(
        self,
        app: web.Application,
        settings: ServerSettings,
        *,
        access_log_class: type[AbstractAccessLogger],
        **options: Any,  # noqa: ANN401 - passed on to aiohttp
    ) -> None:
        super().__init__(
            app, access_log_class=access_log_class, auto_decompress=False, lingering_time=LINGER_SECONDS, **options
        )
        self.settings = settings
        self.connections = Connections(
            most=settings.max_connections,
            most_per_address=settings.max_connections_per_address,
            most_unsent=settings.max_unsent_bytes,
            grace=settings.connection_grace,
            every=min(LOOK_SECONDS, settings.header_timeout / 4, settings.send_timeout / 4),
        )

    async def _make_server(self) -> web.Server:
        settings = self.settings
        patience = Patience(settings.header_timeout, settings.send_timeout, settings.max_header_bytes)
        return _Server(await super()._make_server(), self.connections, patience)

    async def cleanup(self) -> None:
        await super().cleanup()
        self.connections.close()


class Site(web.TCPSite):
    """Listens, and accepts."""

    __slots__ = ("_admissions", "_listening", "_refused")

    def __init__(self, runner: Runner, context: ssl.SSLContext | None) -> None:
        settings = runner.settings
        super().__init__(runner, settings.host, settings.port, ssl_context=context, backlog=BACKLOG)
        self._listening: list[socket.socket] = []
        self._refused = _Refused()
        self._admissions: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        await web.BaseSite.start(self)
        loop = asyncio.get_running_loop()
        server = cast("_Server", self._runner.server)
        # asyncio finds the addresses and binds them; it is not asked to serve.
        self._server = await loop.create_server(server, self._host, self._port, start_serving=False)
        for bound in self._server.sockets:
            own = socket.socket(fileno=os.dup(bound.fileno()))
            own.setblocking(False)
            own.listen(BACKLOG)
            self._listening.append(own)
            loop.add_reader(own, self._accept, own)

    async def stop(self) -> None:
        loop = asyncio.get_running_loop()
        for own in self._listening:
            loop.remove_reader(own)
            own.close()
        self._listening.clear()
        self._refused.close()
        await super().stop()

    @property
    def port(self) -> int:
        """The port it listens on, also where the settings said 0."""
        sockets = cast("asyncio.Server", self._server).sockets
        return int(sockets[0].getsockname()[1]) if sockets else self._port

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(OUT_OF_FILES_SECONDS, self._resume, listening)
                return
            accepted.setblocking(False)
            connection = cast("_Server", self._runner.server).connection_for(client_of_address(peer[0]))
            if connection is None:
                self._refused.take(accepted, tls=self._ssl_context is not None)
                continue
            task = asyncio.create_task(self._let_in(accepted, connection))
            connection.admission = task
            self._admissions.add(task)
            task.add_done_callback(self._admissions.discard)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    async def _let_in(self, accepted: socket.socket, connection: Connection) -> None:
        """Over TLS, until the handshake is done."""
        timeout = cast("Runner", self._runner).settings.handshake_timeout if self._ssl_context is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._ssl_context, ssl_handshake_timeout=timeout
            )
        except (OSError, asyncio.CancelledError):
            # A handshake that failed, took too long, or was cut off for another: none of it is a fault of ours.
            accepted.close()
            connection.gone()


class _Refused:
    """Connections beyond the limit: told to come back, and closed when they had time to read that, the oldest first."""

    def __init__(self) -> None:
        self._held: deque[socket.socket] = deque()

    def take(self, accepted: socket.socket, *, tls: bool) -> None:
        if not tls:
            with suppress(OSError):
                accepted.send(on_the_wire(unavailable("Too many connections; nothing was accepted", 1.0)))
                accepted.shutdown(socket.SHUT_WR)
        # Closed with data that nobody read it is reset, and its client might never see the answer.
        self._held.append(accepted)
        if len(self._held) > MAX_REFUSED:
            self._held.popleft().close()
        asyncio.get_running_loop().call_later(REFUSED_SECONDS, self._release, accepted)

    def close(self) -> None:
        while self._held:
            self._held.popleft().close()

    def _release(self, accepted: socket.socket) -> None:
        if accepted in self._held:
            self._held.remove(accepted)
        accepted.close()
