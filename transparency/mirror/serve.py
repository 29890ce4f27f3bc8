"""Running a mirror: own its folder, listen, follow, and stop so that nothing that was answered is in doubt."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transparency.log.durable import DurableFile
from transparency.mirror.app import create_app
from transparency.mirror.condition import Conditions
from transparency.mirror.folder import MirrorFolder
from transparency.mirror.mirror import Clock, Mirror
from transparency.mirror.pull import Puller, PullSettings
from transparency.mirror.reached import Reached
from transparency.mirror.scrub import Scrub
from transparency.mirror.shelf import Shelf
from transparency.mirror.statements import StatementStore
from transparency.mirror.trees import Trees
from transparency.server.settings import ServerSettings
from transparency.server.site import first, stop_signal
from transparency.witness.keeper import Keeper
from transparency.witness.logs import LogList
from transparency.witness.serve import answering
from transparency.witness.state import connect, open_state


@contextmanager
def open_mirror(
    folder: MirrorFolder,
    *,
    watermark: Path | None = None,
    clock: Clock = time.time,
    connect: Callable[[Path], Any] = connect,
    synchronous: str = "FULL",
    open_mark_file: Callable[[Path], DurableFile] = DurableFile,
) -> Iterator[Mirror]:
    """The mirror, owned for the time of the block and held against its mark and its trees."""
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(
            open_state(
                folder, watermark=watermark, connect=connect, synchronous=synchronous, open_mark_file=open_mark_file
            )
        )
        trees = stack.enter_context(contextlib.closing(Trees(folder.trees, connect=connect, synchronous=synchronous)))
        keys = folder.load_keys()
        state.check_keys([key.text for key in keys.vkeys])
        followed = [log.origin for log in LogList.read(folder.logs).values() if log.url is not None]
        mirror = Mirror(state, trees, keys, clock, Reached(folder.scrub), followed)
        try:
            yield mirror
        finally:
            mirror.close()


@dataclass(slots=True)
class Running:
    """A mirror on a socket. ``failed`` is set when it must stop."""

    url: str
    mirror: Mirror
    keeper: Keeper
    puller: Puller
    scrub: Scrub
    conditions: Conditions
    failed: asyncio.Event


async def serve(
    folder: MirrorFolder,
    mirror: Mirror,
    settings: ServerSettings,
    pull: PullSettings,
    on_ready: Callable[[str], None],
) -> None:
    """Run until SIGTERM or SIGINT, or until something cannot be written: then StoreError is raised."""
    with stop_signal() as told:
        async with listening(folder, mirror, settings, pull) as running:
            on_ready(running.url)
            beside = [asyncio.create_task(each.run()) for each in (running.puller, running.scrub)]
            for task in beside:
                task.add_done_callback(lambda _: running.failed.set())
            try:
                await first(told, running.keeper.failed, running.failed)
            finally:
                for task in beside:
                    task.cancel()
                ended = await asyncio.gather(*beside, return_exceptions=True)
        for failure in (mirror.failure, running.keeper.failure, *ended):
            if isinstance(failure, Exception):
                raise failure


@asynccontextmanager
async def listening(
    folder: MirrorFolder,
    mirror: Mirror,
    settings: ServerSettings,
    pull: PullSettings | None = None,
    clock: Clock = time.time,
) -> AsyncIterator[Running]:
    """A mirror on a socket, for the time of the block. Leaving it waits for the requests in flight."""
    # It signs nothing at add-checkpoint: "The mirror cosigner MUST NOT sign the checkpoint in this process."
    keeper = Keeper(mirror, LogList(folder.logs), mirror.keys, clock, time.monotonic, cosign=lambda *_: ())
    conditions, failed = Conditions(lambda: mirror.damaged), asyncio.Event()
    loop = asyncio.get_running_loop()
    mirror.on_failure = lambda: loop.call_soon_threadsafe(failed.set)
    with contextlib.closing(Shelf(mirror, folder.trees)) as shelf, StatementStore(folder.statements) as statements:
        app = create_app(mirror, keeper, shelf, conditions, settings)
        puller = Puller(mirror, keeper, conditions, pull or PullSettings(), shelf, statements)
        try:
            async with answering(app, keeper, settings) as url:
                yield Running(url, mirror, keeper, puller, Scrub(mirror, folder.trees), conditions, failed)
        finally:
            mirror.on_failure = lambda: None
