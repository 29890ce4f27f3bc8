"""Running a witness: own its folder, listen, and stop so that nothing that was answered is in doubt."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from transparency.server.access_target import access_log
from transparency.server.settings import ServerSettings
from transparency.server.site import first, on_a_socket, runner_of, stop_signal
from transparency.witness.app import SERVICE, create_app
from transparency.witness.folder import WitnessFolder
from transparency.witness.keeper import Clock, Keeper
from transparency.witness.logs import LogList
from transparency.witness.state import WitnessState


async def serve(
    folder: WitnessFolder, state: WitnessState, settings: ServerSettings, on_ready: Callable[[str], None]
) -> None:
    """Run until SIGTERM or SIGINT, or until the state cannot be written: then StoreError is raised."""
    with stop_signal() as told:
        async with listening(folder, state, settings) as (keeper, url):
            on_ready(url)
            await first(told, keeper.failed)
        if keeper.failure is not None:
            raise keeper.failure


@asynccontextmanager
async def listening(
    folder: WitnessFolder, state: WitnessState, settings: ServerSettings, clock: Clock = time.time
) -> AsyncIterator[tuple[Keeper, str]]:
    """A witness on a socket, for the time of the block. Leaving it waits for the requests in flight."""
    keys = folder.load_keys()
    state.check_keys([key.text for key in keys.vkeys])
    keeper = Keeper(state, LogList(folder.logs), keys, clock, time.monotonic)
    async with answering(create_app(keeper, settings), keeper, settings) as url:
        yield keeper, url


@asynccontextmanager
async def answering(app: web.Application, keeper: Keeper, settings: ServerSettings) -> AsyncIterator[str]:
    """The application of a keeper on a socket, a witness' or a mirror's; its URL."""
    service = app[SERVICE]

    def stopping() -> None:
        service.stopping = True

    await keeper.start()
    try:
        with access_log(settings.access_log) as lines:
            runner = runner_of(app, settings, lines)
            await runner.setup()
            async with on_a_socket(runner, settings, service.bodies, stopping) as url:
                yield url
    finally:
        await keeper.stop()
