"""A compliance witness in this process, and a real log behind a front that can be made to lie."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.server.served import Served, served
from transparency.cose.keys import PublicKey
from transparency.log.checkpoints import PublishSettings
from transparency.log.export import read_entries, write_entries
from transparency.log.folder import Config, Folder
from transparency.testing import FakeClock
from transparency.witness.follow_alerts import Event
from transparency.witness.follow_folder import FollowerFolder, create_follower
from transparency.witness.follow_serve import Following, FollowSettings, following
from transparency.witness.monitor_calls import Calls
from transparency.witness.state import open_state

NAME = "control.example/c1"
ISS = "https://control.example"


@dataclass
class Front:
    """What the witness reaches. ``spoil`` answers a path with other bytes than the log would.

    Entries from ``withheld`` on are not given.
    """

    site: Served
    data: Path
    url: str = ""
    spoil: dict[str, bytes] = field(default_factory=dict)
    withheld: int | None = None

    async def grow(self, count: int = 1) -> int:
        """So many more entries under a new checkpoint; its size."""
        size = self.site.log.sequencer.size
        for number in range(size, size + count):
            await self.site.log.register(self.site.statement(b'{"n":%d}' % number))
        return await self.publish()

    async def publish(self) -> int:
        await self.site.service.publisher.publish()
        return self.site.log.sequencer.size

    async def admit(self, iss: str, key: PublicKey) -> None:
        """The log's operator lets this key register for *iss*."""
        policy = self.site.log.policy.with_issuer(iss, (key,), previous=self.site.log.policy_entry_id)
        await self.site.log.update_policy(self.site.document(policy))

    async def checkpoint(self) -> bytes:
        return (await self.site.get("/checkpoint")).body

    async def answer(self, request: web.Request) -> web.Response:
        spoilt = self.spoil.get(request.path)
        if spoilt is not None:
            return web.Response(body=spoilt)
        async with aiohttp.ClientSession() as session, session.request(
            request.method, f"{self.site.url}{request.path_qs}", data=await request.read() or None,
            headers={name: value for name, value in request.headers.items() if name != "Host"},
        ) as response:  # fmt: skip
            body = await response.read()
            if self.withheld is not None and request.path == "/export/entries":
                body = write_entries(row for row in read_entries(body) if row.index < self.withheld)
            return web.Response(status=response.status, body=body, content_type=response.content_type)


@asynccontextmanager
async def fronted(home: Path) -> AsyncIterator[Front]:
    """The log publishes when the test says so."""
    async with served(home, publish=PublishSettings(interval=3600)) as site:
        front = Front(site, home / "log")
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", front.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            socket = web.TCPSite(runner, "127.0.0.1", 0)
            await socket.start()
            front.url = socket.name
            yield front
        finally:
            await runner.cleanup()


def make_follower(front: Front, home: Path) -> FollowerFolder:
    return create_follower(home / "compliance", NAME, Config.read(Folder(front.data).config).policy_key, ISS)


@asynccontextmanager
async def follower_of(
    front: Front, folder: FollowerFolder, clock: FakeClock, *, say: Callable[[Event], None] = lambda _: None,
    calls: Calls | None = None,
) -> AsyncIterator[Following]:  # fmt: skip
    settings = FollowSettings(front.url, "a test")
    with open_state(folder) as state:
        async with following(
            folder, state, settings, clock=clock, say=say, told=lambda _, __: None, calls=calls
        ) as witness:
            yield witness
