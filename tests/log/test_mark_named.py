"""A log's database names the mark that vouches for it: no node leads with another, be it whole and not behind."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast
from uuid import UUID

import psycopg
import pytest

from tests.log.test_mark_moving import World, make_world, node
from transparency.errors import LogUnusableError
from transparency.log.cluster_lead import Accepted
from transparency.log.cluster_open import ServedNode, open_node
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.log.mark_named import NamedMark, known, remember
from transparency.log.migrate import migrate
from transparency.log.postgres import PostgresStore
from transparency.testing.postgres import PostgresServer, shared_server

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
async def world(tmp_path: Path, elsewhere: PostgresServer) -> AsyncIterator[World]:
    servers = (shared_server(), elsewhere, elsewhere)
    urls = [server.new_database() for server in servers]
    yield await make_world(tmp_path, urls)
    for server, url in zip(servers, urls, strict=True):
        server.drop_database(url)


def another_machine(world: World) -> Path:
    """Its folder, copied before the log has a shared mark, and a mark of its own beside it, which is whole."""
    data = world.moved.parent / "machine" / "log"
    shutil.copytree(world.moved, data)
    file = data.parent / "mark"
    shutil.copy(world.made.watermark, file)
    replace(Config.read(Folder(data).config), watermark=file).write(Folder(data).config)
    return data


async def test_a_node_that_was_not_told_of_the_shared_mark_does_not_lead_with_its_file(world: World) -> None:
    machine = another_machine(world)
    await world.extend(watermark=world.mark)

    mark = re.escape(world.mark)
    said = f"is in {mark}, for all its nodes.*--watermark {mark}"
    for opening in (open_node, Log.open):
        with pytest.raises(LogUnusableError, match=said) as caught:
            opening(machine)
        assert "\n" not in str(caught.value)
    with pytest.raises(LogUnusableError, match=said):
        migrate(machine, machine.parent / "file", None)
    # It may hand over; and lead as soon as it was told.
    cast("ServedNode", open_node(machine, candidate=False)).leave()
    async with node(machine, watermark=world.mark) as log:
        assert log.newest_head().size == 4
    assert Config.read(Folder(machine).config).watermark_db == world.mark


async def test_a_node_that_ran_before_the_mark_was_shared_does_not_take_over_with_its_file(world: World) -> None:
    old = open_node(another_machine(world))
    try:
        async with node(world.moved, watermark=world.mark):
            await old.start()
        async with asyncio.timeout(30):
            while old._failure is None:  # noqa: ASYNC110 - it has nobody to tell
                await asyncio.sleep(0.05)
    finally:
        await old.stop()

    assert f"is in {world.mark}, for all its nodes" in str(old._failure)
    assert await world.extend() == 3


async def test_a_shared_mark_that_was_left_while_it_was_away_does_not_vouch_any_more(world: World) -> None:
    """By the operator's word: nobody could close it. It is whole, and the tree is not behind it."""
    await world.extend(watermark=world.mark)
    knows_the_old = world.config
    away = replace(knows_the_old, watermark_db="postgresql://postgres@127.0.0.1:1/away")
    away.write(Folder(world.moved).config)
    head = world.head()
    await world.extend(watermark=world.other_mark, accepted=Accepted(head.size, head.root))

    knows_the_old.write(Folder(world.moved).config)
    for opening in (open_node, Log.open):
        with pytest.raises(LogUnusableError, match=f"another than the one.*in {re.escape(world.other_mark)}"):
            opening(world.moved)
    async with node(world.moved, watermark=world.other_mark):
        pass


async def test_a_move_that_is_cut_short_before_the_database_names_the_new_mark_is_finished(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.extend(watermark=world.mark)

    def crash(*_: object) -> None:
        raise LogUnusableError("the power is gone")

    with monkeypatch.context() as cut:
        cut.setattr(PostgresStore, "name_mark", crash)
        with pytest.raises(LogUnusableError, match="power"):
            await world.extend(watermark=world.other_mark)

    with pytest.raises(LogUnusableError, match="has moved"):
        await world.extend()
    assert await world.extend(watermark=world.other_mark) == 4


async def test_a_file_does_not_take_a_shared_mark_to_a_third_place(world: World) -> None:
    machine = another_machine(world)
    await world.extend(watermark=world.mark)

    with pytest.raises(LogUnusableError, match=f"another than the one.*in {re.escape(world.mark)}"):
        async with node(machine, watermark=world.other_mark):
            pass
    async with node(world.moved) as log:
        assert log.newest_head().size == 4


@pytest.mark.parametrize("config", ["names the shared mark", "names the wrong one"])
async def test_a_node_with_another_mark_than_the_one_in_force_is_refused_at_start(world: World, config: str) -> None:
    """An empty database. It was taken as a front end, its configuration written over, and failed at a takeover."""
    machine = another_machine(world)
    async with node(world.moved, watermark=world.mark):
        wrong = world.mark if config == "names the shared mark" else world.other_mark
        replace(Config.read(Folder(machine).config), watermark_db=wrong).write(Folder(machine).config)
        before = Folder(machine).config.read_bytes()

        said = f"high-water mark of this log is in {re.escape(world.mark)}, for all its nodes"
        with pytest.raises(LogUnusableError, match=said):
            open_node(machine, watermark=world.other_mark)

        assert Folder(machine).config.read_bytes() == before


async def test_a_database_of_before_this_learns_which_mark_vouches_for_it(world: World) -> None:
    machine = another_machine(world)
    await world.extend(watermark=world.mark)
    with psycopg.connect(world.db, autocommit=True) as session:
        session.execute("DROP TABLE mark")
        session.execute("UPDATE transparency_schema SET version = 1")
    with psycopg.connect(world.mark, autocommit=True) as session:
        session.execute("ALTER TABLE transparency_mark DROP COLUMN id")
    Folder(world.moved).shared_mark.unlink()

    assert await world.extend() == 4
    with pytest.raises(LogUnusableError, match="for all its nodes"):
        open_node(machine)
    assert await world.extend() == 5


# -- a database that was put back to before it named the mark ---------------------------------------------------------
#
# On the same server and timeline, as a dump is put back there, or a snapshot of its disk: nothing of the server itself
# says that it is an older state.


@pytest.fixture
async def restored(world: World) -> AsyncIterator[str]:
    """A copy of the log's database from before the mark was shared."""
    copy = shared_server().new_database(world.db)
    yield copy
    shared_server().drop_database(copy)


async def test_a_state_of_before_the_mark_was_named_is_behind_that_mark(world: World, restored: str) -> None:
    await world.extend(watermark=world.mark)

    for opening in (open_node, Log.open):
        with pytest.raises(LogUnusableError, match="older copy was put back"):
            opening(world.moved, db=restored)
    # Nor does the folder that the log came from go on.
    with pytest.raises(LogUnusableError, match="has moved"):
        world.made.open()


async def test_a_state_of_before_the_mark_was_named_that_lacks_nothing_goes_on_and_names_it_again(
    world: World, restored: str
) -> None:
    async with node(world.moved, watermark=world.mark):
        pass

    async with node(world.moved, db=restored) as log:
        assert log.newest_head().size == 3

    with closing(PostgresStore.for_reading(restored)) as store:
        named = store.named_mark()
    assert named is not None
    assert named.place == world.mark


@pytest.mark.parametrize("how", ["was refused", "only handed over"])
async def test_a_machine_that_has_once_seen_the_name_does_not_lead_with_its_file(
    world: World, restored: str, how: str
) -> None:
    machine = another_machine(world)
    await world.extend(watermark=world.mark)
    if how == "was refused":
        with pytest.raises(LogUnusableError, match="for all its nodes"):
            open_node(machine)
    else:
        cast("ServedNode", open_node(machine, candidate=False)).leave()

    for opening in (open_node, Log.open):
        with pytest.raises(LogUnusableError, match=f"is in {re.escape(world.mark)}, for all its nodes"):
            opening(machine, db=restored)
    with pytest.raises(LogUnusableError, match="older copy was put back"):
        open_node(machine, db=restored, watermark=world.mark)


async def test_a_node_that_hands_over_learns_the_name_while_it_runs(world: World) -> None:
    machine = another_machine(world)
    front_end = open_node(machine, candidate=False)
    try:
        async with node(world.moved, watermark=world.mark), asyncio.timeout(30):
            await front_end.start()
            while not Folder(machine).shared_mark.exists():  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.05)
    finally:
        await front_end.stop()

    with closing(PostgresStore.for_reading(world.db)) as store:
        assert known(Folder(machine), None) == store.named_mark()


async def test_a_machine_that_has_never_seen_the_name_goes_on_from_where_its_file_is(
    world: World, restored: str
) -> None:
    """What is not noticed: nothing that it can ask knows better. It is, as soon as it is told of the mark."""
    machine = another_machine(world)
    await world.extend(watermark=world.mark)

    async with node(machine, db=restored) as log:
        await log.register(world.made.issuer.sign(b"another history"))

    with pytest.raises(LogUnusableError, match="at size 4 its root is another"):
        open_node(machine, watermark=world.mark)


async def test_a_note_of_the_shared_mark_that_is_damaged_is_told(world: World, restored: str) -> None:
    machine = another_machine(world)
    for damaged in (b"", b"\xff\n", b"no number\nplace\n", b"12345678123456781234567812345678\nplace\n"):
        Folder(machine).shared_mark.write_bytes(damaged)
        with pytest.raises(LogUnusableError, match="shared-mark cannot be read"):
            open_node(machine, db=restored)


def test_two_threads_of_a_node_may_note_the_shared_mark_at_once(tmp_path: Path) -> None:
    """One that follows has just read the name, and the node gets to lead."""
    folder = Folder(tmp_path)
    marks = [NamedMark(UUID(int=number), "postgresql://mark@elsewhere/mark") for number in range(64)]

    with ThreadPoolExecutor(max_workers=4) as threads:
        noted = list(threads.map(partial(remember, folder), marks * 4))

    assert noted == marks * 4
    assert known(folder, None) in marks


# -- fsck --------------------------------------------------------------------------------------------------------------


async def test_fsck_with_a_file_says_where_the_mark_is_that_all_share(world: World) -> None:
    machine = another_machine(world)
    assert fsck(machine).clean
    await world.extend(watermark=world.mark)

    (finding,) = fsck(machine).findings
    assert finding.where == "mark"
    assert f"share the one in {world.mark}" in finding.what
    assert f"--watermark {world.mark}" in finding.what
    assert not Folder(machine).shared_mark.exists()  # who looks only leaves nothing
    assert fsck(machine, watermark=world.mark).clean
    assert fsck(world.moved).clean
    assert fsck(machine, without_mark=True).clean


async def test_fsck_with_another_database_says_which_mark_vouches_for_the_log(world: World, restored: str) -> None:
    machine = another_machine(world)
    await world.extend(watermark=world.mark)
    async with node(machine, db=restored, watermark=world.other_mark):
        pass

    (finding,) = fsck(world.moved, watermark=world.other_mark).findings

    assert finding.where == "mark"
    assert f"another than the one that vouches for this log, which is in {world.mark}" in finding.what


async def test_a_log_that_goes_to_another_database_takes_along_which_mark_vouches_for_it(world: World) -> None:
    machine = another_machine(world)
    await world.extend(watermark=world.mark)
    new = shared_server().new_database()
    migrate(world.moved, world.moved.parent / "again", new)

    with pytest.raises(LogUnusableError, match="for all its nodes"):
        open_node(machine, db=new)
    shared_server().drop_database(new)
