"""The runner: who is let in at the socket, and the connections that are made for them (server/connections.py)."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.web_protocol import RequestHandler

from transparency.server.connections import Connections
from transparency.server.limits import client_of_address
from transparency.server.problems import unavailable
from transparency.server.protocol import LINGER_SECONDS, Connection, Patience, on_the_wire
from transparency.server.settings import ServerSettings

REFUSED_SECONDS = 1.0
MAX_REFUSING = 256
BACKLOG = 4096
# How often deadlines are looked at; four times within the shortest if that is less.
LOOK_SECONDS = 1.0


class _Refused(asyncio.Protocol):
    """A connection beyond the limit: told to come back, then closed. It never gets a parser or a task."""

    def __init__(self, registry: Connections) -> None:
        self._registry = registry
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._registry.refusing += 1
        if self._registry.refusing > MAX_REFUSING:
            self._transport.abort()
            return
        self._transport.write(on_the_wire(unavailable("Too many connections; nothing was accepted", 1.0)))
        # Closing with unread data would reset the connection, and the client might never see the answer.
        self._timer = asyncio.get_running_loop().call_later(REFUSED_SECONDS, self._transport.abort)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - read and dropped
        self._transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - nothing depends on why
        self._registry.refusing -= 1
        if self._timer is not None:
            self._timer.cancel()


class _Door(asyncio.Protocol):
    """A connection as it comes, over TLS after its handshake: made one of ours, or refused."""

    def __init__(self, server: _Server) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        address = client_of_address(peer[0] if peer else None)
        protocol = self._server.welcome(address)
        cast("asyncio.Transport", transport).set_protocol(protocol)
        protocol.connection_made(transport)


class _Server(web.Server):
    """Makes our connections, up to a number."""

    def __init__(self, plain: web.Server, registry: Connections, patience: Patience) -> None:
        super().__init__(
            plain.request_handler,
            request_factory=plain.request_factory,
            loop=plain._loop,  # noqa: SLF001 - aiohttp has no way to name another protocol class
            **plain._kwargs,  # noqa: SLF001
        )
        self._registry = registry
        self._patience = patience

    def __call__(self) -> RequestHandler:
        return cast("RequestHandler", _Door(self))

    def welcome(self, address: str) -> asyncio.Protocol:
        if not self._registry.admit(address):
            return _Refused(self._registry)
        return Connection(self, self._registry, self._patience, address, loop=self._loop, **self._kwargs)


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
    """aiohttp's TCPSite with a bound on the TLS handshake, which comes before any connection of ours is made."""

    __slots__ = ()

    def __init__(self, runner: Runner, context: ssl.SSLContext | None) -> None:
        settings = runner.settings
        super().__init__(runner, settings.host, settings.port, ssl_context=context, backlog=BACKLOG)

    async def start(self) -> None:
        await web.BaseSite.start(self)
        runner = cast("Runner", self._runner)
        timeout = runner.settings.handshake_timeout if self._ssl_context is not None else None
        self._server = await asyncio.get_running_loop().create_server(
            cast("web.Server", runner.server),
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=timeout,
        )

    @property
    def port(self) -> int:
        """The port it listens on, also where the settings said 0."""
        sockets = cast("asyncio.Server", self._server).sockets
        return int(sockets[0].getsockname()[1]) if sockets else self._port
