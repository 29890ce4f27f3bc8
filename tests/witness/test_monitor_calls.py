"""Whom a monitor tells, and what it watches for: real logs, real commands, real webhooks."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.log.searching import indexed
from tests.server.served import ISS, Served, served
from tests.witness.monitored import Watcher, entries, sites
from transparency.errors import MalformedError
from transparency.log.checkpoints import PublishSettings
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.testing import FakeClock
from transparency.witness.monitor_calls import Calls


@asynccontextmanager
async def webhook(*statuses: int) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Answers with these statuses in turn, then with 204."""
    got: list[dict[str, Any]] = []
    left = list(statuses)

    async def answer(request: web.Request) -> web.Response:
        got.append(await request.json())
        return web.Response(status=left.pop(0) if left else 204)

    app = web.Application()
    app.router.add_post("/hook", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", got
    finally:
        await runner.cleanup()


async def test_a_webhook_gets_each_alarm_once_and_again_if_it_refused(tmp_path: Path) -> None:
    async with sites() as (log,), webhook(403) as (url, got):
        watcher = Watcher(tmp_path, (log.url,))
        log.publish(entries("a", 9))
        await watcher.round()
        log.publish(entries("b", 9))

        for _ in range(3):
            watcher.calls = Calls(url)
            await watcher.round()

        assert [event["code"] for event in got] == ["split-view", "split-view"], "refused, told, not told again"
        assert got[0]["evidence"] == got[1]["evidence"], "and kept once"


async def test_a_command_gets_the_event_on_its_standard_input(tmp_path: Path) -> None:
    target = tmp_path / "event with space.json"
    script = tmp_path / "hook.py"
    script.write_text("import sys; open(sys.argv[1], 'wb').write(sys.stdin.buffer.read())")
    async with sites():
        calls = Calls(command=f"{sys.executable} {script} '{target}'")
        watcher = Watcher(tmp_path / "state", ("http://127.0.0.1:9/",), calls=calls)

        await watcher.round()

    assert json.loads(target.read_bytes())["code"] == "unreachable"


@pytest.mark.parametrize("command", ["false", "/nonexistent/command"])
async def test_a_command_that_fails_is_said_and_tried_again(tmp_path: Path, command: str) -> None:
    watcher = Watcher(tmp_path, ("http://127.0.0.1:9/",))
    for _ in range(2):
        watcher.calls = Calls(command=command)
        await watcher.round()

        assert watcher.told == [("alarm", "unreachable"), ("not-told", "")]


@pytest.mark.parametrize(("url", "command"), [("ftp://x/", None), ("junk", None), (None, ""), (None, "'open")])
def test_what_cannot_be_called_is_refused_at_once(url: str | None, command: str | None) -> None:
    with pytest.raises(MalformedError):
        Calls(url, command)


@asynccontextmanager
async def our_log(tmp_path: Path) -> AsyncIterator[tuple[Served, Watcher]]:
    clock = FakeClock(1_800_000_000)
    async with served(tmp_path, publish=PublishSettings(interval=0.01)) as site:
        keys = checkpoint_vkeys(site.log.service_keys)
        watches = (("issuer", ISS), ("subject", "urn:watched"), ("session", "nobody"))
        more = {"keys": keys, "watches": watches}
        yield site, Watcher(tmp_path / "state", (site.url,), clock=clock, more=more)


async def published(site: Served, size: int) -> None:
    """Wait until the log has published that many entries, and index them."""
    for _ in range(500):
        reply = await site.get("/checkpoint")
        if reply.status == 200 and int(reply.body.split(b"\n")[1]) >= size:
            with indexed(site.log.data):
                return
        await site.get("/readyz")
    pytest.fail("not published")


async def test_our_own_log_is_followed_and_searched_for_what_is_watched(tmp_path: Path) -> None:
    async with our_log(tmp_path) as (site, watcher):
        await site.post(site.statement(b"0"))
        await published(site, 3)
        assert (await watcher.round()).alarms == []
        assert watcher.events == [], "what was there before is not new"

        await site.post(site.statement(b"1", sub="urn:watched"))
        await site.post(site.statement(b"2"))
        await published(site, 5)
        found = await watcher.round()

        assert found.alarms == []
        assert [(match.watch, match.index) for match in found.matches] == [("issuer", 3), ("issuer", 4), ("subject", 3)]
        assert [event["event"] for event in watcher.events] == ["match"] * 3
        assert (await watcher.round()).matches == []


async def test_matches_that_could_not_be_told_are_told_again(tmp_path: Path) -> None:
    async with our_log(tmp_path) as (site, watcher), webhook(403) as (url, got):
        await published(site, 2)
        await watcher.round()
        await site.post(site.statement(b"1", sub="urn:watched"))
        await published(site, 3)

        for _ in range(2):
            watcher.calls = Calls(url)
            await watcher.round()

        assert [event["index"] for event in got] == [2, 2, 2, 2]


async def test_a_log_that_cannot_be_searched_is_told_and_nothing_is_missed(tmp_path: Path) -> None:
    """Tiles of other software have no search: an alarm, and the same entries are asked for again."""
    async with sites() as (log,):
        watcher = Watcher(tmp_path, (log.url,), more={"watches": (("issuer", ISS),)})
        log.publish(entries("a", 3))
        await watcher.round()
        log.publish(entries("a", 4))

        assert await watcher.codes() == ["watch-failed"]
        assert await watcher.codes() == ["watch-failed"]
