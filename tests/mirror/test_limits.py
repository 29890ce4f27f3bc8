"""What a mirror lets nobody do: hold it up, fill it, or make it say what it does not have."""

from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.mirror.mirrored import Uploading, info, make_mirror, served
from tests.notes.world import ORIGIN
from tests.witness.served import cosignatures
from transparency.errors import LogUnusableError, StoreError
from transparency.mirror.check import Checked, check
from transparency.mirror.folder import MirrorFolder
from transparency.mirror.serve import open_mirror
from transparency.mirror.trees import Trees
from transparency.mirror.uploads import MOST_OF_ONE_CLIENT
from transparency.notes.checkpoint import origin_hash
from transparency.notes.requests import SignSubtree
from transparency.notes.upload import spans
from transparency.server.settings import ServerSettings
from transparency.testing import FakeClock
from transparency.witness.state import WitnessState


@pytest.fixture
def folder(tmp_path: Path) -> MirrorFolder:
    return make_mirror(tmp_path / "mirror")


async def test_uploads_at_once_are_few_and_one_that_stands_still_holds_up_nobody_else(folder: MirrorFolder) -> None:
    """M-2: "A mirror SHOULD permit multiple clients to concurrently send requests"."""
    log = Uploading(600)
    async with served(folder) as client:
        await client.point(log, 0)
        body = log.upload(0, 600)
        head = b"POST /add-entries HTTP/1.1\r\nHost: m\r\nContent-Type: application/octet-stream\r\n"
        head += b"Content-Length: %d\r\n\r\n"
        port = int(client.url.rpartition(":")[2])
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_OF_ONE_CLIENT - 1)]
        for _, writer in slow:
            writer.write(head % len(body) + body[:100])
            await writer.drain()
        done = await client.upload(body)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        slow.append((reader, writer))
        writer.write(head % len(body) + body[:100])
        await writer.drain()
        while (refused := await client.upload(log.upload(600, 600))).status != 503:
            assert refused.status == 200
        for _, each in slow:
            each.close()
        while (later := await client.upload(log.upload(600, 600))).status == 503:
            pass

    assert done.status == 200
    assert int(refused.headers["retry-after"]) >= 1
    assert later.status == 200


async def test_a_slow_upload_that_brought_something_is_told_how_far_it_came(folder: MirrorFolder) -> None:
    """M-2: 202 for "an interrupted request that the mirror committed partially"."""
    log = Uploading(600)
    settings = ServerSettings(port=0, rate_limit=None, body_timeout=0.3)
    async with served(folder, settings=settings) as client:
        await client.point(log, 0)
        whole, part = log.upload(0, 600), log.upload(0, 600, most=1)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
        writer.write(
            b"POST /add-entries HTTP/1.1\r\nHost: m\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Length: %d\r\n\r\n" % len(whole) + part + b"\x00"
        )
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n") + await reader.readline() + await reader.readline()
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(client.url.rpartition(":")[2]))
        writer.write(
            b"POST /add-entries HTTP/1.1\r\nHost: m\r\nContent-Type: application/octet-stream\r\n"
            b"Content-Length: %d\r\n\r\n" % len(whole) + whole[:100]
        )
        nothing = await reader.readline()
        writer.close()

    assert nothing.startswith(b"HTTP/1.1 408 ")
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert answer.endswith(b"\r\n\r\n600\n256\n")


async def test_a_small_body_that_unpacks_to_a_large_one_is_stopped_at_its_first_package(folder: MirrorFolder) -> None:
    log = Uploading(300)
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(log.upload(0, 300, most=0))
    bomb += b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    async with served(folder) as client:
        await client.point(log, 0)
        reply = await client.upload(bomb, {"Content-Encoding": "gzip"})

    assert len(bomb) < 100_000
    assert reply.status == 422


async def test_a_coding_that_is_not_taken_is_told_the_one_that_is(folder: MirrorFolder) -> None:
    """M-1: "must accept gzip"."""
    async with served(folder) as client:
        reply = await client.upload(b"anything", {"Content-Encoding": "br"})

    assert reply.status == 415
    assert b"taken is gzip" in reply.body
    assert reply.headers["accept-encoding"] == "gzip"


async def test_a_body_of_padding_is_not_read_for_ever(folder: MirrorFolder) -> None:
    """A gzip header may have a name of any length, and no content ever comes."""
    name = b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * (2 << 20)
    async with served(folder) as client:
        reply = await client.upload(name, {"Content-Encoding": "gzip"})

    assert reply.status == 400
    assert b"next to nothing in it" in reply.body


async def test_entries_are_compressed_beside_the_event_loop(
    folder: MirrorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle of sixteen megabytes takes a second, in which nobody else would be answered."""
    threads, compress = [], gzip.compress

    def noted(*values: Any, **options: Any) -> bytes:
        threads.append(threading.current_thread())
        return compress(*values, **options)

    log = Uploading(256)
    async with served(folder) as client:
        await client.mirror(log)
        monkeypatch.setattr(gzip, "compress", noted)
        await client.send("GET", f"/{origin_hash(log.origin)}/tile/entries/000", headers={"Accept-Encoding": "gzip"})

    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


async def test_new_checkpoints_and_requests_are_limited_as_a_witness_limits_them(tmp_path: Path) -> None:
    log = Uploading(20)
    folder = make_mirror(tmp_path / "slow", per_minute=2)
    async with served(folder) as client:
        statuses = [(await client.point(log, old, old + 1)).status for old in range(3)]
    assert statuses == [200, 200, 429]
    async with served(folder, settings=ServerSettings(port=0, rate_limit=2)) as client:
        replies = [await client.upload(log.upload(0, 2)) for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert replies[2].problem.startswith("Too Many Requests")


async def test_clients_at_once_end_in_one_tree(folder: MirrorFolder) -> None:
    """M-2: "Mirrors MUST correctly handle this case": two copies of the entries are one."""
    log = Uploading(2_000)
    async with served(folder) as client:
        await client.point(log, 0, 1_000)
        await client.point(log, 1_000, 2_000)
        bodies = [log.upload(0, 1_000), log.upload(0, 2_000), log.upload(0, 2_000), log.upload(0, 2_000, most=3)]
        replies = await asyncio.gather(*map(client.upload, bodies))
        last = await client.upload(log.upload(2_000, 2_000))
        entries = (await client.send("GET", f"/{origin_hash(ORIGIN)}/tile/entries/007.p/208")).body

    assert {reply.status for reply in replies} <= {200, 202, 409}
    assert last.status == 200
    assert entries == b"".join(len(entry).to_bytes(2, "big") + entry for entry in log.entries[1792:])


async def test_a_subtree_is_signed_only_under_a_checkpoint_that_this_mirror_cosigned(folder: MirrorFolder) -> None:
    """M-1: sign-subtree, which is optional: never for one that only a witness signed."""
    log = Uploading(300)
    async with served(folder) as client:
        await client.point(log, 0)
        lines = (await client.upload(log.upload(0, 300))).body
        path = log.package(next(spans(0, 300)), 300).path
        request = SignSubtree(0, 256, log.tree.root(256), path, log.note() + lines)
        signed = await client.send("POST", "/sign-subtree", request.to_bytes())
        bare = SignSubtree(0, 256, log.tree.root(256), path, log.note())
        refused = await client.send("POST", "/sign-subtree", bare.to_bytes())

    assert (signed.status, refused.status) == (200, 403)


@pytest.mark.parametrize("failing", ["append", "tile"])
async def test_a_disk_that_fails_ends_it_and_nothing_is_in_doubt(
    folder: MirrorFolder, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """What cannot be kept is not cosigned; after a new start it goes on from what is here."""
    log = Uploading(600)

    def fails(*_: object) -> None:
        raise StoreError("the disk is full")

    async with served(folder) as client:
        await client.point(log, 0)
        await client.upload(log.upload(0, 600, most=1))
        with monkeypatch.context() as patched:
            patched.setattr(Trees, failing, fails)
            failed = await client.upload(log.upload(200, 600))
        await asyncio.wait_for(client.running.failed.wait(), 10)
        after = await client.upload(log.upload(256, 600))
    async with served(folder) as client:
        probe = await client.upload(log.upload(300, 600))
        done = await client.upload(log.upload(256, 600))

    assert (failed.status, after.status) == (503, 503)
    assert (probe.status, info(probe).next_entry) == (409, 256)
    assert done.status == 200


@pytest.mark.parametrize(("full", "kept"), [("_trees", 256), ("_state", 600)])
async def test_a_disk_that_is_full_ends_it_and_it_goes_on_when_there_is_room(
    tmp_path: Path, full: str, kept: int
) -> None:
    """M-2: full for the entries, or for the record of the cosignature when all entries are here. SQLite says so."""
    log, other = Uploading(600), Uploading(5, "other.example/log")
    folder = make_mirror(tmp_path / "mirror", log.origin, other.origin)
    async with served(folder) as client:
        await client.mirror(other)
        await client.point(log, 0)
        await client.upload(log.upload(0, 600, most=1))
        getattr(client.running.mirror, full)._connection.execute("PRAGMA max_page_count = 1")
        failed = await client.upload(log.upload(256, 600))
        await asyncio.wait_for(client.running.failed.wait(), 10)
        shown = await client.send("GET", f"/{origin_hash(log.origin)}/checkpoint")
        failure = client.running.mirror.failure
    async with served(folder) as client:
        following = client.running.mirror.next_entry(log.origin)
        done = await client.upload(log.upload(following, 600))
    with closing(WitnessState.for_reading(folder)) as state, closing(Trees.for_reading(folder.trees)) as trees:
        checked = list(check(trees, state.records()))

    assert "full" in str(failure)
    assert (failed.status, shown.status) == (503, 404)
    assert (following, done.status) == (kept, 200)
    assert checked == [Checked(log.origin, 600, 600), Checked(other.origin, 5, 5)]


async def test_a_time_never_goes_back_and_the_same_question_causes_no_write(folder: MirrorFolder) -> None:
    clock, log = FakeClock(), Uploading(10)
    keys = folder.load_keys().vkeys
    async with served(folder, clock) as client:
        first = await client.mirror(log)
        same = await client.upload(log.upload(10, 10))
        clock.advance(-100)
        back = await client.upload(log.upload(10, 10))
        clock.advance(200)
        later = await client.upload(log.upload(10, 10))

    assert same.body == first.body == back.body
    times = [cosignatures(reply.body, log.tree.checkpoint().text, keys)[0].time for reply in (first, later)]
    assert times[1] - times[0] == 100


async def test_trees_that_lack_what_was_cosigned_are_refused(folder: MirrorFolder) -> None:
    log = Uploading(600)
    old = folder.trees.read_bytes()
    async with served(folder) as client:
        await client.mirror(log)
    for name in ("tree.sqlite-wal", "tree.sqlite-shm"):
        (folder.path / name).unlink(missing_ok=True)
    folder.trees.write_bytes(old)

    with pytest.raises(LogUnusableError, match="are not all here"), open_mirror(folder):
        pass
