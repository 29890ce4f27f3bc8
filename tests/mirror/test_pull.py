"""A mirror that follows: what each thing that a log may do wrong comes to, and that it comes to nothing worse."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.interop.tlog_client import ED25519
from tests.interop.tlog_writer import Signer, Writer
from tests.mirror.mirrored import Client, served
from transparency.mirror.condition import Code
from transparency.mirror.folder import MirrorFolder, create_mirror
from transparency.mirror.source import SourceTree
from transparency.notes.checkpoint import origin_hash
from transparency.notes.vkey import VerifierKey
from transparency.testing import FakeClock
from transparency.witness.logs import KnownLog, changing

LOG = "foreign.example/log"
TIME = 1_790_000_000


class Followed:
    """A mirror, and the log that it follows: whatever is put into ``writer.files`` is what it sees."""

    def __init__(self, client: Client, writer: Writer, folder: MirrorFolder) -> None:
        self.client = client
        self.writer = writer
        self.folder = folder

    def publish(self, count: int) -> None:
        first = len(self.writer.entries)
        self.writer.publish([b"entry %d" % at for at in range(first, first + count)], TIME + first)

    async def round(self) -> str:
        await self.client.running.puller.round()
        found = self.client.running.conditions.of(LOG)
        return "" if found is None else str(found.code)

    @property
    def cosigned(self) -> int:
        record = self.client.running.mirror.cosigned(LOG)
        return 0 if record is None else record.size


@asynccontextmanager
async def following(path: Path, clock: FakeClock | None = None) -> AsyncIterator[Followed]:
    writer = Writer(LOG, [Signer(LOG, ED25519)])

    async def file(request: web.Request) -> web.Response:
        body = writer.files.get(request.match_info["path"])
        return web.Response(status=404) if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", file)
    folder = create_mirror(path / "mirror", "mirror.example/m1")
    async with TestServer(app) as server, served(folder, clock) as client:
        with changing(folder.logs) as logs:
            key = VerifierKey.parse(writer.signers[0].vkey)
            logs[LOG] = KnownLog((key,), str(server.make_url("/")), None)
        yield Followed(client, writer, folder)


async def test_a_log_is_followed_from_nothing_and_when_it_grows(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        assert await followed.round() == "unreachable"
        for count in (1, 300, 700):
            followed.publish(count)
            assert await followed.round() == "current"
            assert followed.cosigned == len(followed.writer.entries)


async def test_a_checkpoint_that_was_signed_anew_is_cosigned_anew(tmp_path: Path) -> None:
    """Whoever watches the mirror sees by the time that it still looks."""
    clock = FakeClock()
    async with following(tmp_path, clock) as followed:
        followed.publish(10)
        await followed.round()
        first = await followed.client.send("GET", f"/{origin_hash(LOG)}/checkpoint")
        clock.advance(60)
        await followed.round()
        second = await followed.client.send("GET", f"/{origin_hash(LOG)}/checkpoint")

    assert first.body != second.body
    assert first.body.split(b"\n\n")[0] == second.body.split(b"\n\n")[0]


async def test_a_smaller_tree_is_a_rollback_and_changes_nothing(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.publish(10)
        await followed.round()
        older = dict(followed.writer.files)
        followed.publish(10)
        await followed.round()
        followed.writer.files |= older

        assert await followed.round() == "rollback"
        assert followed.cosigned == 20


@pytest.mark.parametrize("more", [0, 5])
async def test_another_tree_is_a_split_view_kept_as_evidence_and_said_aloud(
    tmp_path: Path, more: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(tmp_path) as followed:
        followed.publish(11)
        await followed.round()
        followed.writer.entries[:] = [b"another"] * 11
        followed.publish(more)
        with caplog.at_level(logging.INFO, "transparency.mirror"):
            assert await followed.round() == "split-view"
            assert await followed.round() == "split-view"
        metrics = (await followed.client.send("GET", "/metrics")).body
        assert followed.cosigned == 11
        assert followed.client.running.keeper.evidence_count == 1

    said = [record for record in caplog.records if record.name == "transparency.mirror"]
    assert [record.levelname for record in said] == ["CRITICAL"]
    assert b'transparency_mirror_condition{code="split-view",origin="foreign.example/log"} 1.0' in metrics
    assert b"transparency_mirror_evidence 1.0" in metrics


async def test_a_checkpoint_of_another_key_or_no_checkpoint_is_said_to_be_bad(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.publish(10)
        await followed.round()
        stranger = Writer(LOG, [Signer(LOG, ED25519)])
        stranger.publish([b"x"] * 20, TIME)
        for body in (stranger.files["checkpoint"], b"<html>", b""):
            followed.writer.files["checkpoint"] = body
            assert await followed.round() == "bad-checkpoint"
        assert followed.cosigned == 10


async def test_entries_that_are_missing_are_waited_for(tmp_path: Path) -> None:
    """What was proven before them stays; nothing is cosigned until all are here."""
    async with following(tmp_path) as followed:
        followed.publish(700)
        missing = followed.writer.files.pop("tile/entries/002.p/188")
        assert await followed.round() == "unreachable"
        assert followed.cosigned == 0
        followed.writer.files["tile/entries/002.p/188"] = missing
        assert await followed.round() == "current"
        assert followed.cosigned == 700


async def test_a_log_off_the_list_is_not_followed_and_still_served(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.publish(10)
        await followed.round()
        with changing(followed.folder.logs) as logs:
            logs.clear()
        followed.publish(10)

        assert await followed.round() == ""
        assert followed.cosigned == 10
        assert (await followed.client.send("GET", f"/{origin_hash(LOG)}/checkpoint")).status == 200


async def test_a_log_in_a_bucket_that_cannot_be_opened_is_that_logs_trouble_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No credentials, or no obstore: the mirror goes on with the others."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    async with following(tmp_path) as followed:
        key = VerifierKey.parse(Signer("bucket.example/log", ED25519).vkey)
        with changing(followed.folder.logs) as logs:
            logs[key.name] = KnownLog((key,), "s3://bucket/log", None)
        followed.publish(10)
        await followed.round()
        known = followed.client.running.conditions.of(key.name)
        monkeypatch.delitem(sys.modules, "transparency.client.objects", raising=False)
        monkeypatch.setitem(sys.modules, "obstore", None)
        monkeypatch.setitem(sys.modules, "obstore.store", None)
        await followed.round()
        without = followed.client.running.conditions.of(key.name)

        assert known is not None
        assert (known.code, "no credentials" in known.detail) == (Code.UNREACHABLE, True)
        assert without is not None
        assert (without.code, "the extra `export`" in without.detail) == (Code.UNREACHABLE, True)
        assert followed.cosigned == 10


async def test_a_fault_of_ours_about_one_log_leaves_the_others_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path) as followed:
        followed.publish(10)
        with monkeypatch.context() as patched:
            patched.setattr(SourceTree, "check_root", lambda _: 1 // 0)
            assert await followed.round() == "unreachable"

        assert await followed.round() == "current"
        assert followed.cosigned == 10


async def test_an_empty_log_is_cosigned_as_one(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.publish(0)

        assert await followed.round() == "current"
        assert (await followed.client.send("GET", f"/{origin_hash(LOG)}/checkpoint")).status == 200
        followed.publish(3)
        assert await followed.round() == "current"
        assert followed.cosigned == 3


async def test_a_log_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    app = web.Application()
    app.router.add_get("/{path:.*}", hang)
    async with following(tmp_path) as followed, TestServer(app, shutdown_timeout=0.1) as server:
        slow = VerifierKey.parse(Signer("slow.example/log", ED25519).vkey)
        with changing(followed.folder.logs) as logs:
            logs[slow.name] = KnownLog((slow,), str(server.make_url("/")), None)
        followed.publish(300)
        running = asyncio.create_task(followed.client.running.puller.run())
        await asyncio.wait_for(asked.wait(), 30)
        async with asyncio.timeout(30):
            while followed.cosigned != 300:  # noqa: ASYNC110 - it has nobody to tell
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        assert followed.client.running.conditions.of("slow.example/log") is None
