"""Listening: an application on a socket, from the first connection to the last. Shared by every server here.

Stop in order: no new connections, bodies in, handlers done, connections closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

from aiohttp import web
from yarl import URL

from transparency.server.access_log import JsonAccessLogger
from transparency.server.bodies import Bodies
from transparency.server.runner import Runner, Site
from transparency.server.settings import BODY_GRACE_SECONDS, ServerSettings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Crew(Protocol):
    """Processes beside this one."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


def runner_of(app: web.Application, settings: ServerSettings, lines: logging.Logger | None) -> Runner:
    """What runs *app* with the limits of the settings; *lines* is its access log."""
    return Runner(
        app,
        settings,
        access_log_class=JsonAccessLogger,
        access_log=lines,
        keepalive_timeout=settings.idle_timeout,
        max_line_size=settings.max_header_line,
        max_field_size=settings.max_header_line,
        max_headers=settings.max_headers,
        shutdown_timeout=settings.drain_timeout,
    )


@contextlib.asynccontextmanager
async def on_a_socket(
    runner: Runner,
    settings: ServerSettings,
    bodies: Bodies,
    stopping: Callable[[], None],
    crew: Callable[[Site], Crew] | None = None,
) -> AsyncIterator[str]:
    """Listen with a runner that is set up, for the time of the block; *stopping* is told when it ends.

    With a *crew* it is those who accept connections, and hand over what is not for them.
    """
    helping: Crew | None = None
    try:
        site = Site(runner, tls_context(settings), others=crew is not None)
        await site.start()
        if crew is not None:
            helping = crew(site)
            await helping.start()
        yield _url(settings, site.port)
        stopping()
        if helping is not None:
            await helping.stop()
            helping = None
        await site.stop()
        await bodies.stop(BODY_GRACE_SECONDS)
    finally:
        stopping()
        if helping is not None:
            await helping.stop()
        # A client that does not read its answer would hold the stop for as long as aiohttp waits, twice.
        deadline = asyncio.get_running_loop().call_later(settings.drain_timeout, _abort_all, runner)
        await runner.cleanup()
        deadline.cancel()


def tls_context(settings: ServerSettings) -> ssl.SSLContext | None:
    """TLS 1.2 or newer, with the certificate chain and key of the settings (API-11)."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_cert, settings.tls_key)
    return context


@contextlib.contextmanager
def stop_signal() -> Iterator[asyncio.Event]:
    """Set by the first signal. Once the block is left a second one has its default effect: it ends the process."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, told.set)
    try:
        yield told
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def first(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _abort_all(runner: Runner) -> None:
    for connection in runner.server.connections if runner.server is not None else ():
        if connection.transport is not None:
            connection.transport.abort()


def _url(settings: ServerSettings, port: int) -> str:
    return str(URL.build(scheme=settings.scheme, host=settings.host, port=port))
