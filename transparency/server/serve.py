"""Serving: listen until told to stop, then end in the order that loses nothing (design §12).

Stop listening; let requests in flight end; close connections; only then stop the log, which commits what it still
holds. A 201 or 202 that was sent stays true, and one that could not be sent was never promised.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from transparency.log.access_digests import AccessDigests
from transparency.log.admin import AdminServer
from transparency.log.checkpoints import PublishSettings
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.log.role import Role
from transparency.log.search_worker import SearchWorker
from transparency.log.witness_check import check_before_start
from transparency.server.access_target import access_log
from transparency.server.app import create_app
from transparency.server.service import SERVICE, Service
from transparency.server.settings import ServerSettings
from transparency.server.site import first, on_a_socket, runner_of, stop_signal
from transparency.server.tokens import TokenStore
from transparency.server.workers import Workers


async def serve(
    log: Log,
    settings: ServerSettings,
    tokens: TokenStore,
    on_ready: Callable[[str], None],
    publish: PublishSettings | None = None,
) -> None:
    """Run until SIGTERM or SIGINT. *on_ready* gets the URL once requests are answered.

    Before anything else the witnesses are asked whether this is the newest state of the log (design §4). The log is
    started here and stopped here. If its store fails, the service stops itself and raises :class:`StoreError`: whoever
    runs it must notice, and the next start reads what was kept.
    """
    publish = publish or PublishSettings()
    try:
        await check_before_start(log, publish)
        await log.start(manifests=True, in_place=settings.workers > 0)
    except BaseException:
        await log.stop()
        raise
    admin = AdminServer(log)
    # A chain of digests is one machine's: several would not tell whose lines are missing (docs/cluster.md).
    digests = AccessDigests(log.data, log.origin, log.operate) if log.role is Role.OWNER else None
    try:
        if digests is not None:
            await digests.start()
        await admin.start()
        searching = SearchWorker(log.data) if settings.search else contextlib.nullcontext()
        async with searching, listening(log, settings, tokens, publish=publish) as (service, url):
            with stop_signal() as told:
                on_ready(url)
                await first(told, service.failed)
        if service.failure is not None:
            raise service.failure
    finally:
        await admin.stop()
        if digests is not None:
            await digests.stop()
        await log.stop()


@asynccontextmanager
async def listening(
    log: Log,
    settings: ServerSettings,
    tokens: TokenStore,
    clock: Callable[[], float] = time.monotonic,
    publish: PublishSettings | None = None,
) -> AsyncIterator[tuple[Service, str]]:
    """A started log on a socket, for the time of the block. Leaving it waits for the requests in flight."""
    app = create_app(log, settings, tokens, clock, publish)
    service = app[SERVICE]
    log.on_failure = service.stop_for

    def stopping() -> None:
        service.stopping = True

    with access_log(settings.access_log) as lines:
        runner = runner_of(app, settings, lines)
        await runner.setup()
        try:
            await service.publisher.start()
            access = Folder(log.data).access
            crew = (lambda site: Workers(service, site, access, settings.workers, lines)) if settings.workers else None
            async with on_a_socket(runner, settings, service.bodies, stopping, crew) as url:
                yield service, url
        finally:
            await service.publisher.stop()
            if service.background:
                await asyncio.wait(set(service.background), timeout=settings.drain_timeout)
            await service.recorder.close()
