"""Serving: listen until told to stop, then end in the order that loses nothing (design §12).

Stop listening; let requests in flight end; close connections; only then stop the log, which commits what it still
holds. A 201 or 202 that was sent stays true, and one that could not be sent was never promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

from aiohttp import web
from yarl import URL

from transparency.log.access_digests import AccessDigests
from transparency.log.admin import AdminServer
from transparency.log.log import Log
from transparency.log.search_worker import SearchWorker
from transparency.server.access_log import JsonAccessLogger, access_log
from transparency.server.app import create_app
from transparency.server.protocol import Runner
from transparency.server.service import SERVICE, Service
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore

BODY_GRACE_SECONDS = 2.0
BACKLOG = 1024
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(log: Log, settings: ServerSettings, tokens: TokenStore, on_ready: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT. *on_ready* gets the URL once requests are answered.

    The log is started here and stopped here. If its store fails, the service stops itself and raises
    :class:`StoreError`: whoever runs it must notice, and the next start reads what was kept.
    """
    await log.start(manifests=True)
    admin = AdminServer(log)
    digests = AccessDigests(log.data, log.origin, log.operate)
    try:
        await digests.start()
        await admin.start()
        async with SearchWorker(log.data), listening(log, settings, tokens) as (service, url):
            with _stop_signal() as told:
                on_ready(url)
                await _first(told, service.failed)
        if service.failure is not None:
            raise service.failure
    finally:
        await admin.stop()
        await digests.stop()
        await log.stop()


@asynccontextmanager
async def listening(
    log: Log, settings: ServerSettings, tokens: TokenStore, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[tuple[Service, str]]:
    """A started log on a socket, for the time of the block. Leaving it waits for the requests in flight."""
    app = create_app(log, settings, tokens, clock)
    service = app[SERVICE]
    log.on_failure = service.stop_for
    with access_log(settings.access_log) as lines:
        runner = Runner(
            app,
            max_connections=settings.max_connections,
            access_log_class=JsonAccessLogger,
            access_log=lines,
            keepalive_timeout=settings.idle_timeout,
            max_line_size=settings.max_header_line,
            max_field_size=settings.max_header_line,
            max_headers=settings.max_headers,
            shutdown_timeout=settings.drain_timeout,
        )
        await runner.setup()
        try:
            async with _site(runner, service) as url:
                yield service, url
        finally:
            await service.recorder.close()


@asynccontextmanager
async def _site(runner: Runner, service: Service) -> AsyncIterator[str]:
    """Listen; at the end stop in order: no new connections, bodies in, handlers done, connections closed."""
    settings = service.settings
    try:
        site = web.TCPSite(runner, settings.host, settings.port, ssl_context=tls_context(settings), backlog=BACKLOG)
        await site.start()
        yield _url(settings, site.port)
        service.stopping = True
        await site.stop()
        await service.bodies.stop(BODY_GRACE_SECONDS)
    finally:
        service.stopping = True
        # A client that does not read its answer would hold the stop for as long as aiohttp waits, twice.
        deadline = asyncio.get_running_loop().call_later(settings.drain_timeout, _abort_all, runner)
        await runner.cleanup()
        deadline.cancel()
        if service.background:
            await asyncio.wait(set(service.background), timeout=settings.drain_timeout)


def _abort_all(runner: Runner) -> None:
    for connection in runner.server.connections if runner.server is not None else ():
        if connection.transport is not None:
            connection.transport.abort()


def tls_context(settings: ServerSettings) -> ssl.SSLContext | None:
    """TLS 1.2 or newer, with the certificate chain and key of the settings (API-11)."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(settings.tls_cert, settings.tls_key)
    return context


def _url(settings: ServerSettings, port: int) -> str:
    return str(URL.build(scheme=settings.scheme, host=settings.host, port=port))


@contextlib.contextmanager
def _stop_signal() -> Iterator[asyncio.Event]:
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


async def _first(*events: asyncio.Event) -> None:
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
