"""A log of ours that was forked on purpose: its data folder copied, both copies run with the same keys."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import shell
from tests.on_postgres import copy_folder
from tests.server.served import ISS
from tests.witness.monitored import Watcher
from transparency.client.tiles import TileClient
from transparency.cose.keys import PrivateKey
from transparency.log.checkpoints import PublishSettings
from transparency.log.create import create_log
from transparency.log.log import Log, system_clock
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.document import Issuer
from transparency.server.serve import listening
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.statements.statement import sign_statement

ISSUER = PrivateKey.generate(-7)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[Log, str]]:
    log = Log.open(folder / "log", watermark=folder / "mark")
    tokens = TokenStore(folder / "log" / "access.sqlite")
    try:
        await log.start()
        settings = ServerSettings(port=0, open=True)
        async with listening(log, settings, tokens, publish=PublishSettings(interval=0.01)) as (_, url):
            yield log, url
    finally:
        await log.stop()
        tokens.close()


async def register(log: Log, url: str, *payloads: bytes) -> None:
    """Register these, and wait until the log has published them."""
    for payload in payloads:
        await log.register(sign_statement(payload, ISSUER, iss=ISS, sub="urn:example", content_type="text/plain"))
    async with TileClient(url) as client:
        for _ in range(1000):
            if int((await client.checkpoint()).split(b"\n")[1]) == log.newest_head().size:
                return
    pytest.fail("not published")


def forked(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    create_log(
        one / "log", clock=system_clock, origin="log.example/forked", watermark=one / "mark",
        issuers=(Issuer(ISS, (ISSUER.public,)),),
    )  # fmt: skip
    other.mkdir()
    copy_folder(one / "log", other / "log", other / "mark")
    shutil.copy(one / "mark", other / "mark")
    return one, other


@pytest.mark.parametrize("longer", [0, 1, 3])
async def test_both_faces_seen_at_once_convict_the_log(tmp_path: Path, longer: int) -> None:
    one, other = forked(tmp_path)
    async with AsyncExitStack() as stack:
        log, url = await stack.enter_async_context(running(one))
        twin, twin_url = await stack.enter_async_context(running(other))
        keys = checkpoint_vkeys(log.service_keys)
        watcher = Watcher(tmp_path / "state", (url, twin_url), more={"keys": keys}, clock=system_clock)  # type: ignore[arg-type]
        assert await watcher.codes() == [], "so far they are one"

        await register(log, url, b"for Alice")
        await register(twin, twin_url, b"for Bob", *(b"%d" % n for n in range(longer)))

        assert await watcher.codes() == ["split-view"]
        verdict = watcher.evidence().judge(keys)
        assert (verdict.convicts, verdict.origin) == (True, "log.example/forked")
        evidence = watcher.events[0]["evidence"]
        flags = [word for key in keys for word in ("--log-vkey", key.text)]
        judged = await asyncio.to_thread(shell, "verify", evidence, *flags, cwd=tmp_path)
        assert (judged.returncode, b"Convicted of a fork" in judged.stdout) == (0, True)


async def test_one_face_after_the_other_convicts_the_log(tmp_path: Path) -> None:
    """A copy that is put back and goes on: whoever saw what came after the copy notices."""
    one, other = forked(tmp_path)
    async with running(one) as (log, url):
        keys = checkpoint_vkeys(log.service_keys)
        await register(log, url, b"1", b"2")
        watcher = Watcher(tmp_path / "state", (url,), more={"keys": keys}, clock=system_clock)  # type: ignore[arg-type]
        assert await watcher.codes() == []
    async with running(other) as (twin, url):
        watcher.urls = (url,)
        await register(twin, url, b"3", b"4", b"5")

        assert await watcher.codes() == ["split-view"]
        assert watcher.evidence().judge(keys).crime == "fork"


async def test_the_honest_face_after_a_larger_fork_convicts_the_log(tmp_path: Path) -> None:
    """The fork was followed first and is gone; what is shown then is smaller."""
    one, other = forked(tmp_path)
    async with running(other) as (twin, url):
        keys = checkpoint_vkeys(twin.service_keys)
        await register(twin, url, b"3", b"4", b"5")
        watcher = Watcher(tmp_path / "state", (url,), more={"keys": keys}, clock=system_clock)  # type: ignore[arg-type]
        assert await watcher.codes() == []
    async with running(one) as (log, url):
        watcher.urls = (url,)
        await register(log, url, b"1", b"2")

        assert "split-view" in await watcher.codes()
        place = [event["code"] for event in watcher.events].index("split-view")
        assert watcher.evidence(place).judge(keys).crime == "fork"
