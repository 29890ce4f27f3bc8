"""add-entries over HTTP: every answer of C2SP tlog-mirror, from a real mirror on a socket (M-1, M-2)."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.mirror.mirrored import OCTETS, Client, Uploading, info, make_mirror, served
from tests.notes.world import ORIGIN
from tests.witness.served import cosignatures
from transparency.mirror.folder import MirrorFolder
from transparency.mirror.mirror import MOST_EXCESS
from transparency.mirror.trees import KEPT_PENDING
from transparency.mirror.uploads import MOST_PACKAGES
from transparency.notes.checkpoint import origin_hash
from transparency.notes.upload import UploadHead
from transparency.notes.vkey import COSIGNATURE, MLDSA
from transparency.testing import FakeClock

TREE = f"/{origin_hash(ORIGIN)}"


@pytest.fixture
def folder(tmp_path: Path) -> MirrorFolder:
    return make_mirror(tmp_path / "mirror")


async def test_a_checkpoint_is_cosigned_when_its_entries_are_here_and_not_before(folder: MirrorFolder) -> None:
    """M-1, M-2: add-checkpoint answers without a signature; add-entries with those of both keys."""
    clock, log = FakeClock(), Uploading(700)
    async with served(folder, clock) as client:
        pointed = await client.point(log, 0)
        before = await client.send("GET", f"{TREE}/checkpoint")
        reply = await client.upload(log.upload(0, 700))
        after = await client.send("GET", f"{TREE}/checkpoint")

    assert (pointed.status, pointed.body) == (200, b"")
    assert before.status == 404
    assert (reply.status, reply.content_type) == (200, "text/plain; charset=utf-8")
    found = cosignatures(reply.body, log.tree.checkpoint().text, folder.load_keys().vkeys)
    assert [(one.kind, one.time) for one in found] == [(COSIGNATURE, clock()), (MLDSA, clock())]
    assert after.body == log.note() + reply.body


@pytest.mark.parametrize("sizes", [(1, 2, 3), (255, 256, 257), (300, 511, 512, 513), (256, 700, 701, 1300)])
async def test_a_log_that_grows_is_mirrored_at_every_step_also_after_a_restart(
    folder: MirrorFolder, sizes: tuple[int, ...]
) -> None:
    """M-1: packages are aligned at multiples of 256, wherever the upload begins."""
    log, old = Uploading(max(sizes)), 0
    for size in sizes:
        async with served(folder) as client:
            await client.mirror(log, old, size)
            assert await _entries(client, size) == log.entries[:size]
        old = size


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
async def test_a_body_may_be_compressed(folder: MirrorFolder, coding: str) -> None:
    """M-1: "Mirrors MUST support receiving Content-Encoding: gzip", in one member or several."""
    log = Uploading(900)
    body = log.upload(0, 900)
    async with served(folder) as client:
        await client.point(log, 0)
        members = gzip.compress(body[:5000]) + gzip.compress(b"") + gzip.compress(body[5000:])
        reply = await client.upload(members, {"Content-Encoding": coding})
        unknown = await client.upload(body, {"Content-Encoding": "br"})

    assert (reply.status, reply.headers["accept-encoding"]) == (200, "gzip")
    assert (unknown.status, unknown.headers["accept-encoding"]) == (415, "gzip")


async def test_a_prefix_is_kept_and_the_answer_says_where_to_go_on(folder: MirrorFolder) -> None:
    """M-2: 202, the size, the next entry, and a ticket; also where the last package is cut off."""
    log = Uploading(1000)
    async with served(folder) as client:
        await client.point(log, 0)
        first = await client.upload(log.upload(0, 1000, most=2))
        cut = await client.upload(log.upload(512, 1000, ticket=info(first).ticket)[:-1])
        last = await client.upload(log.upload(768, 1000, ticket=info(cut).ticket))

    assert (first.status, info(first).size, info(first).next_entry) == (202, 1000, 512)
    assert (cut.status, info(cut).size, info(cut).next_entry) == (202, 1000, 768)
    assert last.status == 200


async def test_more_packages_than_one_request_may_bring_are_left_unread(folder: MirrorFolder) -> None:
    """M-2: memory and time of one request are bounded; the rest is asked for by 202."""
    size = (MOST_PACKAGES + 3) * 256
    log = Uploading(size)
    async with served(folder) as client:
        await client.point(log, 0)
        first = await client.upload(log.upload(0, size))
        rest = await client.upload(log.upload(info(first).next_entry, size))

    assert (first.status, rest.status) == (202, 200)
    assert 0 < info(first).next_entry < size


async def test_what_cannot_be_begun_is_refused_by_its_head_alone(folder: MirrorFolder) -> None:
    """M-2: 404 for a log that is not known, 422 before its first checkpoint, 400 for what is no head."""
    log, other = Uploading(300), Uploading(300, "other.example/log")
    async with served(folder) as client:
        strange = await client.upload(other.upload(0, 300))
        not_text = await client.upload(UploadHead(b"\xff\xfe", 0, 300).to_bytes())
        early = await client.upload(log.upload(0, 300))
        await client.point(log, 0)
        heads = [b"", b"\x00", log.upload(0, 300)[:20], log.upload(0, 300, most=0), log.upload(0, 300)[:200]]
        cut = [await client.upload(body) for body in heads]
        backwards = bytearray(UploadHead(ORIGIN.encode(), 0, 300).to_bytes())
        backwards[2 + len(ORIGIN) : 10 + len(ORIGIN)] = (301).to_bytes(8, "big")
        cut.append(await client.upload(bytes(backwards)))

    assert [strange.status, not_text.status, early.status] == [404, 404, 422]
    assert "not known" in strange.problem
    assert [reply.status for reply in cut] == [400] * len(cut)
    assert all(reply.problem for reply in cut)


async def test_an_end_that_is_no_checkpoint_and_a_start_beyond_the_next_entry_are_conflicts(
    folder: MirrorFolder,
) -> None:
    """M-2: 409 with the pending size and the next entry, byte by byte."""
    log = Uploading(900)
    async with served(folder) as client:
        await client.point(log, 0, 600)
        unknown = await client.upload(log.upload(0, 599))
        largest = await client.upload(UploadHead(ORIGIN.encode(), 0, 2**64 - 1).to_bytes())
        ahead = await client.upload(log.upload(1, 600))
        assert (await client.upload(log.upload(0, 600))).status == 200
        await client.point(log, 600, 900)
        behind = await client.upload(UploadHead(ORIGIN.encode(), 600, 600).to_bytes())
        assert (await client.upload(log.upload(600, 900))).status == 200
        gone = await client.upload(log.upload(0, 600))

    for reply in (unknown, largest, ahead):
        assert (reply.status, reply.body.split(b"\n")[:2]) == (409, [b"600", b"0"])
    assert behind.status == 200
    assert (gone.status, info(gone).size, info(gone).next_entry) == (409, 900, 900)


async def test_entries_that_are_here_are_verified_and_skipped_and_too_many_of_them_refused(
    folder: MirrorFolder,
) -> None:
    """M-2: two clients at once send the same; "If excess_entries is too large" it is 409."""
    size = MOST_EXCESS + 512
    log = Uploading(size)
    async with served(folder) as client:
        await client.point(log, 0, 300)
        await client.upload(log.upload(0, 300))
        await client.point(log, 300)
        again = await client.upload(log.upload(100, size, most=2))
        at = info(again).next_entry
        while at < size:
            at = info(reply).next_entry if (reply := await client.upload(log.upload(at, size))).status == 202 else size
        same = await client.upload(log.upload(size - 256, size))
        too_many = await client.upload(log.upload(0, size))
        assert await _entries(client, size) == log.entries

    assert (again.status, info(again).next_entry) == (202, 512)
    assert same.status == 200
    assert (too_many.status, info(too_many).size, info(too_many).next_entry) == (409, size, size)


async def test_a_package_that_is_not_of_the_tree_is_refused_and_those_before_it_stay(folder: MirrorFolder) -> None:
    """M-2: 422, and the next entry is after the last one that was proven."""
    log, other = Uploading(800), Uploading(800, word=b"other")
    async with served(folder) as client:
        await client.point(log, 0)
        forged = await client.upload(other.upload(0, 800))
        good = log.upload(0, 800, most=1)
        mixed = await client.upload(good + other.upload(256, 800)[len(log.upload(0, 0)) :])
        probe = await client.upload(log.upload(300, 800))
        assert (await client.upload(log.upload(256, 800))).status == 200

    assert (forged.status, mixed.status) == (422, 422)
    assert "not of the tree" in forged.problem
    assert (probe.status, info(probe).next_entry) == (409, 256)


async def test_a_proof_of_more_hashes_than_there_can_be_is_malformed(folder: MirrorFolder) -> None:
    """M-1: num_hashes "MUST be at most 63"."""
    log = Uploading(300)
    head = log.upload(0, 300, most=0)
    entries = b"".join(len(entry).to_bytes(2, "big") + entry for entry in log.entries[:256])
    async with served(folder) as client:
        await client.point(log, 0)
        reply = await client.upload(head + entries + bytes([64]) + bytes(64 * 32))
        long = await client.upload(head + entries + bytes([63]) + bytes(63 * 32))

    assert (reply.status, long.status) == (400, 422)


async def test_a_body_that_is_not_octets_or_not_gzip_is_said_to_be(folder: MirrorFolder) -> None:
    log = Uploading(300)
    body = log.upload(0, 300)
    async with served(folder) as client:
        await client.point(log, 0)
        text = await client.send("POST", "/add-entries", body, {"Content-Type": "text/plain"})
        plain = await client.upload(body, {"Content-Encoding": "gzip"})
        packed = bytearray(gzip.compress(body, mtime=0))
        cut = await client.upload(bytes(packed[:200]), {"Content-Encoding": "gzip"})
        none = await client.send("POST", "/add-entries", b"", {**OCTETS, "Content-Encoding": "gzip"})

    assert [text.status, plain.status, cut.status, none.status] == [415, 400, 400, 400]


async def test_an_upload_to_an_older_pending_checkpoint_is_finished(folder: MirrorFolder) -> None:
    """M-2: "any of the last several pending checkpoint values as upload_end"; and with a ticket any at all."""
    log = Uploading(500 + KEPT_PENDING + 2)
    async with served(folder) as client:
        await client.point(log, 0, 500)
        begun = await client.upload(log.upload(0, 500, most=1))
        for size in range(501, 502 + KEPT_PENDING):
            assert (await client.point(log, size - 1, size)).status == 200
        without = await client.upload(log.upload(256, 500))
        forged = bytearray(info(begun).ticket)
        forged[-1] ^= 1
        refused = await client.upload(log.upload(256, 500, ticket=bytes(forged)))
        recent = await client.upload(log.upload(256, 510, most=0))
        done = await client.upload(log.upload(256, 500, ticket=info(begun).ticket))
        newest = await client.send("GET", f"{TREE}/checkpoint")

    assert (begun.status, info(begun).size) == (202, 500)
    for reply in (without, refused):
        assert (reply.status, info(reply).size, info(reply).next_entry) == (409, 501 + KEPT_PENDING, 256)
    assert recent.status == 400
    assert done.status == 200
    assert newest.body == log.note(500) + done.body


async def test_a_ticket_is_for_its_log_and_its_size(tmp_path: Path) -> None:
    """M-2: the mirror "MUST authenticate any information it derives from a ticket", whoever has it."""
    folder = make_mirror(tmp_path / "two", ORIGIN, "two.example/log")
    one, two = Uploading(600), Uploading(600, "two.example/log")
    async with served(folder) as client:
        for log in (one, two):
            await client.point(log, 0, 500)
        ticket = info(await client.upload(one.upload(0, 500, most=1))).ticket
        for log in (one, two):
            for size in range(501, 502 + KEPT_PENDING):
                await client.point(log, size - 1, size)
        other_log = await client.upload(two.upload(0, 500, ticket=ticket))
        other_size = await client.upload(one.upload(256, 499, ticket=ticket))

    assert (other_log.status, other_size.status) == (409, 409)
    async with served(folder) as client:
        assert (await client.upload(one.upload(256, 500, ticket=ticket))).status == 409, "of another process"


async def _entries(client: Client, size: int) -> list[bytes]:
    """What is served, without a proof: tests/interop has a client that checks all of it."""
    found: list[bytes] = []
    for index in range(-(-size // 256)):
        width = min(256, size - index * 256)
        path = f"{TREE}/tile/entries/{index:03}" + (f".p/{width}" if width < 256 else "")
        body = (await client.send("GET", path)).body
        while body:
            end = 2 + int.from_bytes(body[:2], "big")
            found.append(body[2:end])
            body = body[end:]
    return found
