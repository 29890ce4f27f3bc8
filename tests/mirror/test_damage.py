"""What a mirror has lost or has changed: found at a start, when it is read, by the scrub; and never cosigned over."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.mirror.mirrored import Client, Uploading, make_mirror, served
from transparency.errors import LogUnusableError
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.mirror import check
from transparency.mirror.folder import MirrorFolder
from transparency.mirror.scrub import Pace, Scrub
from transparency.mirror.serve import open_mirror
from transparency.mirror.trees import DamagedError, Trees
from transparency.notes.checkpoint import origin_hash
from transparency.notes.requests import SignSubtree
from transparency.notes.upload import spans
from transparency.witness.record import Record

OTHER = "other.example/log"
DEEP = 3
"""A bundle that a start does not read, once NEWEST is 2."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small log is to a start what a large one is: it reads the newest bundles of it, not all."""
    monkeypatch.setattr(check, "NEWEST", 2)


@pytest.fixture
def log() -> Uploading:
    return Uploading(2_100)


@pytest.fixture
async def folder(tmp_path: Path, log: Uploading) -> MirrorFolder:
    folder = make_mirror(tmp_path / "mirror", log.origin, OTHER)
    async with served(folder) as client:
        await client.mirror(log, 0, 1_000)
        await client.mirror(log, 1_000, 2_100)
    return folder


def spoil(folder: MirrorFolder, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(folder.trees)) as connection, connection:
        changed = connection.execute(sql, values).rowcount
    assert changed > 0, sql


def flip(folder: MirrorFolder, table: str, where: str, at: int = -1) -> None:
    """One bit of what is stored there."""
    with closing(sqlite3.connect(folder.trees)) as connection:
        (data,) = connection.execute(f"SELECT data FROM {table} WHERE {where}").fetchone()  # noqa: S608 - our own
    changed = bytearray(data)
    changed[at] ^= 1
    spoil(folder, f"UPDATE {table} SET data = ? WHERE {where}", bytes(changed))  # noqa: S608 - our own


def scrub(client: Client) -> Scrub:
    """One that nobody has to wait for."""
    return Scrub(client.running.mirror, client.running.scrub.path, Pace(bundles=1e9, bytes=1e12))


GAPS = (
    "DELETE FROM pieces WHERE start > 1024",
    "DELETE FROM pieces WHERE start = 256",
    "DELETE FROM pieces WHERE start = 0",
    "UPDATE pieces SET count = count - 1 WHERE start = 256",
    "UPDATE pieces SET data = x'00' WHERE start = 256",
    "UPDATE pieces SET start = 2100 WHERE start = 256",
    "INSERT INTO pieces SELECT log, 300, 1, data FROM pieces WHERE start = 256",
    "DELETE FROM tiles WHERE level = 0 AND number = 3",
    "UPDATE tiles SET data = substr(data, 33) WHERE level = 0 AND number = 3",
    "UPDATE tiles SET level = 2 WHERE level = 0 AND number = 3",
    "INSERT INTO tiles SELECT log, 2, 0, data FROM tiles WHERE level = 1",
    "DELETE FROM pending",
)
NEW = (
    ("pieces", "start = 2048"),
    ("pieces", "start = 1280"),
    ("tiles", "level = 0 AND number = 7"),
    ("tiles", "level = 0 AND number = 8"),
    ("tiles", "level = 1"),
)


@pytest.mark.usefixtures("few")
async def test_a_start_refuses_trees_with_a_gap_wherever_it_is(folder: MirrorFolder) -> None:
    """By keys and lengths of everything."""
    whole = folder.trees.read_bytes()
    for sql in GAPS:
        folder.trees.write_bytes(whole)
        spoil(folder, sql)
        with pytest.raises(LogUnusableError, match=r"the entries of .* are not all here: .*start a new mirror"):
            open_mirror(folder).__enter__()


async def test_a_start_reads_the_newest_entries(folder: MirrorFolder) -> None:
    whole = folder.trees.read_bytes()
    for table, where in NEW:
        folder.trees.write_bytes(whole)
        flip(folder, table, where)
        with pytest.raises(LogUnusableError, match="are not all here"):
            open_mirror(folder).__enter__()


@pytest.mark.usefixtures("few")
async def test_a_damaged_entry_that_is_read_is_not_served_and_nothing_is_cosigned_over_it(
    folder: MirrorFolder, log: Uploading, caplog: pytest.LogCaptureFixture
) -> None:
    """M-3: "every entry under it lies on the mirror's disk and is served". The other logs go on."""
    flip(folder, "pieces", f"start = {DEEP * 256}")
    path, other = f"/{origin_hash(log.origin)}/tile/entries", Uploading(5, OTHER)
    log.grow(1)
    async with served(folder) as client:
        await client.point(log, 2_100)
        read = await client.send("GET", f"{path}/{DEEP:03}")
        late = await client.upload(log.upload(2_100, 2_101))
        whole = await client.send("GET", f"{path}/001")
        shown = await client.send("GET", f"/{origin_hash(log.origin)}/checkpoint")
        package = log.package(next(spans(0, 2_100)), 2_100)
        subtree = SignSubtree(0, 256, log.tree.root(256), package.path, shown.body)
        signed = await client.send("POST", "/sign-subtree", subtree.to_bytes())
        await client.mirror(other)
        rows = json.loads((await client.send("GET", "/status")).body)["logs"]
        metrics = (await client.send("GET", "/metrics")).body
    again = "are not all here: entries from 768 on are not those that the tree has the hashes of"

    assert [read.status, late.status, signed.status, whole.status, shown.status] == [503, 503, 503, 200, 200]
    assert b"entries from 768 on are not those" in read.body
    assert [(row["condition"], row["cosigned-size"]) for row in rows] == [("damaged", 2_100), (None, 5)]
    assert f'transparency_mirror_condition{{code="damaged",origin="{log.origin}"}} 1.0'.encode() in metrics
    assert [each.levelno for each in caplog.records if "damaged" in each.getMessage()] == [logging.CRITICAL]
    # It is remembered where the damage is: the next start looks there.
    with pytest.raises(LogUnusableError, match=again):
        open_mirror(folder).__enter__()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: flip(folder, "pieces", "start = 512"), "entries from 512 on"),
        (lambda folder: flip(folder, "tiles", "level = 0 AND number = 2"), "entries from 512 on"),
        (lambda folder: spoil(folder, "DELETE FROM pieces WHERE start = 512"), "entries from 512 on are missing"),
        (lambda folder: spoil(folder, "DELETE FROM tiles WHERE level = 1"), "do not fit"),
    ],
)
async def test_the_scrub_finds_what_is_damaged_while_it_runs(
    folder: MirrorFolder, log: Uploading, damage: Callable[[MirrorFolder], None], says: str
) -> None:
    """M-2: no cosignature over entries that are not there, also if nobody asks for them."""
    log.grow(1)
    async with served(folder) as client:
        await client.point(log, 2_100)
        await scrub(client).round()
        sound = dict(client.running.mirror.damaged)
        damage(folder)
        await scrub(client).round()
        found = dict(client.running.mirror.damaged)
        late = await client.upload(log.upload(2_100, 2_101))

    assert sound == {}
    assert says in found[log.origin]
    assert late.status == 503
    with pytest.raises(LogUnusableError):
        open_mirror(folder).__enter__()


def test_a_tile_is_held_against_the_one_above_up_to_the_last_level(tmp_path: Path) -> None:
    """65,536 entries: a full tile of level 1, which has its hash in level 2."""
    folder = make_mirror(tmp_path / "mirror")
    entries = [b"%d" % at for at in range(65_536)]
    with closing(Trees(folder.trees)) as trees:
        trees.set_pending({"a": Record(65_536, bytes(32), 1, b"", b"")})
        trees.append("a", 0, entries, RightEdge().append([leaf_hash(entry) for entry in entries]))
        check.check_bundle(trees, "a", 255, 65_536)
        trees.check_keys("a", 65_536)
        flip(folder, "tiles", "level = 2")

        with pytest.raises(DamagedError, match="tile 0 of level 1 and the one above it do not fit"):
            check.check_bundle(trees, "a", 255, 65_536)


@pytest.mark.usefixtures("few")
async def test_the_scrub_keeps_to_its_pace_and_goes_on_where_it_was(folder: MirrorFolder, log: Uploading) -> None:
    pauses: list[float] = []

    class Stopped(Exception):  # noqa: N818 - no error
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise Stopped

    async with served(folder) as client:
        with pytest.raises(Stopped):
            await Scrub(client.running.mirror, folder.trees, Pace(bundles=10, bytes=50_000), sleep).run()
        held = [sum(2 + len(entry) for entry in log.entries[at : at + 256]) for at in range(0, 1024, 256)]
    assert pauses == [max(0.1, each / 50_000) for each in held]
    assert json.loads(folder.scrub.read_bytes()) == {log.origin: 4}

    # Damage behind it waits for the next pass; damage before it is found by this one.
    async with served(folder) as client:
        flip(folder, "pieces", "start = 0")
        await scrub(client).round()
        first = dict(client.running.mirror.damaged)
        await scrub(client).round()
        second = dict(client.running.mirror.damaged)
    assert (first, list(second)) == ({}, [log.origin])


async def test_a_note_of_how_far_the_scrub_came_that_is_broken_is_no_trouble(folder: MirrorFolder) -> None:
    for content in (b"{", b"[1]", b'{"a": -1, "b": true, "c": 10000000000}'):
        folder.scrub.write_bytes(content)
        async with served(folder) as client:
            await scrub(client).round()
            assert not client.running.mirror.damaged
