"""What a mirror has lost or has changed is fetched again from the log that it follows, if it is what was cosigned."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.interop.tlog_client import ED25519
from tests.interop.tlog_writer import Signer, Writer
from tests.mirror.mirrored import Client, served
from tests.mirror.test_damage import flip, scrub, spoil
from tests.mirror.test_pull import LOG, TIME
from transparency.client.tiles import TileClient
from transparency.errors import LogUnusableError, ProofError, StoreError
from transparency.mirror import check, pull, source
from transparency.mirror.app import refuse_damaged
from transparency.mirror.folder import MirrorFolder, create_mirror
from transparency.mirror.mending import Wanted, fetch
from transparency.mirror.mirror import Mirror
from transparency.mirror.scrub import Pace, Scrub
from transparency.mirror.serve import open_mirror
from transparency.mirror.trees import Trees
from transparency.notes.bundle import read_bundle
from transparency.notes.checkpoint import SignedCheckpoint, origin_hash
from transparency.notes.vkey import VerifierKey
from transparency.server.problems import ProblemError
from transparency.witness.logs import KnownLog, LogList, changing
from transparency.witness.record import Record
from transparency.witness.state import WitnessState

DEEP = 3
"""A bundle that a start does not read, once NEWEST is 2."""
BUNDLE = f"tile/entries/{DEEP:03}"
PATH = f"/{origin_hash(LOG)}"


@dataclass(frozen=True, slots=True)
class Followed:
    """The folder of a mirror, and the log that it follows: whatever is in ``writer.files`` is what it sees."""

    folder: MirrorFolder
    writer: Writer

    def publish(self, count: int) -> None:
        first = len(self.writer.entries)
        self.writer.publish([b"entry %d" % at for at in range(first, first + count)], TIME + first)

    def fault(self) -> str:
        """What `mirror check` finds."""
        with (
            closing(WitnessState.for_reading(self.folder)) as state,
            closing(Trees.for_reading(self.folder.trees)) as trees,
        ):
            (found,) = check.check(trees, state.records())
        return found.fault


async def look(client: Client) -> tuple[str, int]:
    """One round: the condition that the log is in, and up to where it is cosigned."""
    await client.running.puller.round()
    found, record = client.running.conditions.of(LOG), client.running.mirror.cosigned(LOG)
    assert found is not None
    return str(found.code), 0 if record is None else record.size


@asynccontextmanager
async def following(path: Path, count: int) -> AsyncIterator[Followed]:
    writer = Writer(LOG, [Signer(LOG, ED25519)])

    async def file(request: web.Request) -> web.Response:
        body = writer.files.get(request.match_info["path"])
        return web.Response(status=404) if body is None else web.Response(body=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", file)
    async with TestServer(app) as server:
        folder = create_mirror(path / "mirror", "mirror.example/m1")
        with changing(folder.logs) as logs:
            key = VerifierKey.parse(writer.signers[0].vkey)
            logs[LOG] = KnownLog((key,), str(server.make_url("/")), None)
        followed = Followed(folder, writer)
        followed.publish(count)
        async with served(folder) as client:
            assert await look(client) == ("current", count)
        yield followed


@pytest.fixture
async def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Followed]:
    """2,100 entries, of which a start reads the newest two bundles."""
    monkeypatch.setattr(check, "NEWEST", 2)
    async with following(tmp_path, 2_100) as found:
        yield found


DAMAGES: tuple[Callable[[MirrorFolder], None], ...] = (
    lambda folder: flip(folder, "pieces", "start = 768"),
    lambda folder: flip(folder, "pieces", "start = 2048"),
    lambda folder: flip(folder, "tiles", "level = 0 AND number = 3"),
    lambda folder: flip(folder, "tiles", "level = 0 AND number = 8"),
    lambda folder: flip(folder, "tiles", "level = 1"),
    lambda folder: spoil(folder, "DELETE FROM pieces WHERE start = 0"),
    lambda folder: spoil(folder, "DELETE FROM pieces WHERE start = 768"),
    lambda folder: spoil(folder, "DELETE FROM pieces WHERE start >= 512"),
    lambda folder: spoil(folder, "UPDATE pieces SET count = count - 1 WHERE start = 768"),
    lambda folder: spoil(folder, "UPDATE pieces SET data = x'00' WHERE start = 768"),
    lambda folder: spoil(folder, "INSERT INTO pieces SELECT log, 800, 1, data FROM pieces WHERE start = 768"),
    lambda folder: spoil(folder, "DELETE FROM tiles WHERE level = 0 AND number = 3"),
    lambda folder: spoil(folder, "DELETE FROM tiles WHERE level = 1"),
    lambda folder: spoil(folder, "UPDATE tiles SET data = substr(data, 33) WHERE level = 0 AND number = 3"),
)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_the_scrub_finds_is_fetched_again_and_the_log_is_cosigned_further(
    followed: Followed, damage: Callable[[MirrorFolder], None]
) -> None:
    """M-2: a cosignature says that every entry under it is here, and after this they are."""
    async with served(followed.folder) as client:
        damage(followed.folder)
        await scrub(client).round()
        found = dict(client.running.mirror.damaged)
        followed.publish(10)
        mended = await look(client)
        await scrub(client).round()

        assert list(found) == [LOG]
        assert mended == ("current", 2_110)
        assert not client.running.mirror.damaged
    assert followed.fault() == ""


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_a_start_finds_is_fetched_again_before_anything_is_cosigned(
    followed: Followed, damage: Callable[[MirrorFolder], None]
) -> None:
    damage(followed.folder)
    followed.folder.scrub.write_text(json.dumps({LOG: DEEP}))
    followed.publish(10)
    async with served(followed.folder) as client:
        assert list(client.running.mirror.damaged) == [LOG]
        assert client.running.mirror.next_entry(LOG) == 2_100
        assert await look(client) == ("current", 2_110)
    assert followed.fault() == ""


async def test_what_a_reader_finds_is_served_again_and_one_line_says_so(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    flip(followed.folder, "pieces", f"start = {DEEP * 256}")
    async with served(followed.folder) as client:
        damaged = await client.send("GET", f"{PATH}/{BUNDLE}")
        caplog.clear()
        await look(client)
        whole = await client.send("GET", f"{PATH}/{BUNDLE}")

    assert [damaged.status, whole.status] == [503, 200]
    assert read_bundle(whole.body, 256) == followed.writer.entries[768:1024]
    said = [record for record in caplog.records if record.name == "transparency.mirror"]
    assert [(record.levelno, "mended" in record.getMessage()) for record in said] == [(logging.WARNING, True)]


async def test_bytes_of_the_log_that_are_not_those_that_were_cosigned_mend_nothing(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    flip(followed.folder, "pieces", f"start = {DEEP * 256}")
    followed.publish(10)
    right = followed.writer.files[BUNDLE]
    followed.writer.files[BUNDLE] = right.replace(b"entry", b"other")
    async with served(followed.folder) as client:
        await client.send("GET", f"{PATH}/{BUNDLE}")
        caplog.clear()
        for _ in range(2):
            assert await look(client) == ("damaged", 2_100)
        read = await client.send("GET", f"{PATH}/{BUNDLE}")
        (row,) = json.loads((await client.send("GET", "/status")).body)["logs"]
        followed.writer.files[BUNDLE] = right
        assert await look(client) == ("current", 2_110)

    assert read.status == 503
    assert "not what was cosigned" in row["detail"]
    said = [record for record in caplog.records if "not what was cosigned" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.ERROR]


async def test_a_log_that_shows_another_tree_mends_nothing(followed: Followed) -> None:
    """Also if its tiles fit each other, and its entries them."""
    flip(followed.folder, "pieces", f"start = {DEEP * 256}")
    followed.writer.entries[800] = b"another"
    followed.publish(0)
    async with served(followed.folder) as client:
        await client.send("GET", f"{PATH}/{BUNDLE}")
        assert await look(client) == ("damaged", 2_100)
        assert "not what was cosigned" in client.running.mirror.damaged[LOG]


async def test_a_tree_that_does_not_extend_the_cosigned_one_mends_nothing(followed: Followed) -> None:
    """Whatever stands beside the cosigned checkpoint in the folder."""
    with closing(WitnessState.for_reading(followed.folder)) as state:
        cosigned = state.records()[LOG]
    followed.writer.entries[800] = b"another"
    followed.publish(10)
    other = SignedCheckpoint.from_bytes(followed.writer.files["checkpoint"]).checkpoint
    covering = Record(other.size, other.root, 1, b"", b"")

    async with TileClient(str(LogList.read(followed.folder.logs)[LOG].url), retries=0) as client:
        with pytest.raises(ProofError, match="does not extend the one of 2100"):
            await fetch(client, Wanted(LOG, DEEP, covering, cosigned))


async def test_a_log_that_does_not_answer_is_asked_again(followed: Followed) -> None:
    flip(followed.folder, "pieces", f"start = {DEEP * 256}")
    bundle = followed.writer.files.pop(BUNDLE)
    async with served(followed.folder) as client:
        await client.send("GET", f"{PATH}/{BUNDLE}")
        assert await look(client) == ("damaged", 2_100)
        assert "could not be fetched again" in client.running.mirror.damaged[LOG]
        followed.writer.files[BUNDLE] = bundle
        assert await look(client) == ("current", 2_100)


async def test_entries_beyond_what_was_cosigned_are_mended_by_what_they_were_proven_against(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "AT_ONCE", 1)
    monkeypatch.setattr(pull, "BATCH_PACKAGES", 1)
    followed.publish(500)
    late = followed.writer.files.pop("tile/entries/010.p/40")
    async with served(followed.folder) as client:
        assert await look(client) == ("unreachable", 2_100)
        assert client.running.mirror.next_entry(LOG) == 2_560
        flip(followed.folder, "pieces", "start = 2100")
        await scrub(client).round()
        assert list(client.running.mirror.damaged) == [LOG]
        assert await look(client) == ("unreachable", 2_100)
        assert not client.running.mirror.damaged
        followed.writer.files["tile/entries/010.p/40"] = late
        assert await look(client) == ("current", 2_600)
    assert followed.fault() == ""


async def test_an_older_copy_is_refused_whatever_the_log_still_has(followed: Followed) -> None:
    old = followed.folder.trees.read_bytes()
    followed.publish(10)
    async with served(followed.folder) as client:
        await look(client)
    for name in ("tree.sqlite-wal", "tree.sqlite-shm"):
        (followed.folder.path / name).unlink(missing_ok=True)
    followed.folder.trees.write_bytes(old)

    with pytest.raises(LogUnusableError, match="2110 entries were cosigned, and 2100 are here"):
        open_mirror(followed.folder).__enter__()


async def test_what_cannot_be_written_back_stops_the_mirror(followed: Followed) -> None:
    """Nothing is in doubt: the next start finds the same damage, and mends it."""
    flip(followed.folder, "pieces", f"start = {DEEP * 256}")
    async with served(followed.folder) as client:
        await client.send("GET", f"{PATH}/{BUNDLE}")
        client.running.mirror._trees._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError):
            await look(client)
        assert client.running.mirror.failure is not None
    async with served(followed.folder) as client:
        assert list(client.running.mirror.damaged) == [LOG]
        assert await look(client) == ("current", 2_100)


async def test_a_tile_of_many_tiles_is_mended(tmp_path: Path) -> None:
    """65,536 entries: a full tile of level 1, which has its hash in level 2."""
    async with following(tmp_path, 65_600) as followed:
        async with served(followed.folder) as client:
            flip(followed.folder, "tiles", "level = 1 AND number = 0", 32 * 100)
            await scrub(client).round()
            assert list(client.running.mirror.damaged) == [LOG]
            assert await look(client) == ("current", 65_600)
        assert followed.fault() == ""


async def test_the_scrub_goes_on_as_soon_as_what_it_found_is_mended(followed: Followed) -> None:
    """Damage seldom comes alone: what lies behind it is not left until the next pass."""
    slept: list[float] = []

    class Stopped(Exception):  # noqa: N818 - no error
        pass

    async with served(followed.folder) as client:

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if seconds >= 1:  # it rests
                if len(slept) > 100:
                    raise Stopped
                await look(client)

        for start in (512, 1024):
            flip(followed.folder, "pieces", f"start = {start}")
        with pytest.raises(Stopped):
            await Scrub(client.running.mirror, followed.folder.trees, Pace(bundles=10), sleep).run()
        assert not client.running.mirror.damaged
    assert [seconds for seconds in slept if seconds >= 1][:3] == [10, 10, 3600]


def test_who_asks_while_a_log_is_being_mended_is_told_one_thing_or_the_other() -> None:
    """It is mended by a thread: what was damaged at the one look is not at the next."""

    class Mended:
        looks = 0

        @property
        def damaged(self) -> dict[str, str]:
            self.looks += 1
            return {LOG: "entries are missing"} if self.looks == 1 else {}

    mirror = cast("Mirror", Mended())
    with pytest.raises(ProblemError, match="entries are missing"):
        refuse_damaged(mirror, LOG)
    refuse_damaged(mirror, LOG)
