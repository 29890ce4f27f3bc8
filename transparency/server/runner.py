"""The runner: an application's connections (server/connections.py), and the sockets they come from."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from transparency.server.acceptor import Acceptor
from transparency.server.connections import LOOK_SECONDS, Connections
from transparency.server.protocol import LINGER_SECONDS, Connection, Elsewhere, Patience
from transparency.server.settings import ServerSettings

BACKLOG = 4096
# Connections taken in one turn of the event loop: those that are served have theirs in between.
ACCEPTS_AT_ONCE = 64


class _Server(web.Server):
    """Makes our connections."""

    def __init__(self, plain: web.Server, registry: Connections, patience: Patience, elsewhere: Elsewhere) -> None:
        super().__init__(
            plain.request_handler,
            request_factory=plain.request_factory,
            loop=plain._loop,  # noqa: SLF001 - aiohttp has no way to name another protocol class
            **plain._kwargs,  # noqa: SLF001
        )
        self._registry = registry
        self._patience = patience
        self._elsewhere = elsewhere

    def connection_for(self, address: str) -> Connection | None:
        """A connection that counts from now on, or None where there is no room."""
        if not self._registry.admit(address):
            return None
        connection = Connection(
            self, self._registry, self._patience, address, self._elsewhere, loop=self._loop, **self._kwargs
        )
        self._registry.add(connection)
        return connection


class Runner(web.AppRunner):
    """aiohttp's AppRunner with these connections, within the bounds of the settings."""

    __slots__ = ("connections", "elsewhere", "settings")

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
        self.elsewhere = Elsewhere()
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
        return _Server(await super()._make_server(), self.connections, patience, self.elsewhere)

    async def cleanup(self) -> None:
        await super().cleanup()
        self.connections.close()


class Site(web.TCPSite):
    """Listens, and accepts; or leaves that to *others*, who hand connections over that are not for them."""

    __slots__ = ("_acceptor", "_others")

    def __init__(self, runner: Runner, context: ssl.SSLContext | None, *, others: bool = False) -> None:
        settings = runner.settings
        super().__init__(runner, settings.host, settings.port, ssl_context=context, backlog=BACKLOG)
        self._others = others
        self._acceptor = Acceptor(
            self._admit, at_once=ACCEPTS_AT_ONCE, tls=context, handshake_timeout=settings.handshake_timeout
        )

    async def start(self) -> None:
        await web.BaseSite.start(self)
        loop = asyncio.get_running_loop()
        server = cast("_Server", self._runner.server)
        # asyncio finds the addresses and binds them; it is not asked to serve.
        self._server = await loop.create_server(server, self._host, self._port, start_serving=False)
        if not self._others:
            self._acceptor.start(self.listening())

    def listening(self) -> list[socket.socket]:
        """The sockets that it is bound to, of the caller's own, listening."""
        sockets = []
        for bound in cast("asyncio.Server", self._server).sockets:
            own = socket.socket(fileno=os.dup(bound.fileno()))
            own.setblocking(False)
            own.listen(BACKLOG)
            sockets.append(own)
        return sockets

    def adopt(self, accepted: socket.socket, address: str, begun: bytes) -> None:
        """A connection that somebody else accepted, and what was read of it."""
        self._acceptor.take(accepted, address, begun)

    def statements_go_to(self, take: Callable[[socket.socket, bytes], None] | None) -> None:
        """Who gets connections on which statements come after something else was asked, if anybody."""
        cast("Runner", self._runner).elsewhere.take = take

    async def stop(self) -> None:
        self._acceptor.stop()
        await super().stop()

    @property
    def port(self) -> int:
        """The port it listens on, also where the settings said 0."""
        sockets = cast("asyncio.Server", self._server).sockets
        return int(sockets[0].getsockname()[1]) if sockets else self._port

    def _admit(self, client: str) -> Connection | None:
        return cast("_Server", self._runner.server).connection_for(client)
