"""The high-water mark goes to another place: what is left behind lets nobody go on, whenever it is cut short."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from transparency.errors import LogUnusableError, StoreError
from transparency.log.cluster_lead import Accepted
from transparency.log.cluster_open import open_node
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.log.mark_postgres import PostgresMark
from transparency.log.migrate import migrate
from transparency.log.postgres import PostgresStore
from transparency.statements.receipt import SignedHead
from transparency.testing import MadeLog, make_log, running
from transparency.testing.postgres import PostgresServer, shared_server

pytestmark = pytest.mark.sqlite_file


@dataclass(frozen=True, slots=True)
class World:
    """A log with three entries, in the folder *made* with a file; *moved* has it in PostgreSQL, with the same mark."""

    made: MadeLog
    moved: Path
    db: str
    mark: str
    other_mark: str

    async def extend(self, **flags: object) -> int:
        """One more entry for *moved*, opened as ``serve`` does."""
        async with node(self.moved, **flags) as log:
            return (await log.register(self.made.issuer.sign(secrets.token_bytes(8)))).index

    def head(self) -> SignedHead:
        with closing(PostgresStore.for_reading(self.db)) as store:
            head = store.newest_head()
        assert head is not None
        return head

    @property
    def config(self) -> Config:
        return Config.read(Folder(self.moved).config)


@asynccontextmanager
async def node(data: Path, **flags: object) -> AsyncIterator[Log]:
    log = open_node(data, **flags)  # type: ignore[arg-type]
    try:
        await log.start()
        yield log
    finally:
        await log.stop()


@pytest.fixture
def urls(elsewhere: PostgresServer) -> Iterator[list[str]]:
    servers = (shared_server(), elsewhere, elsewhere)
    made = [server.new_database() for server in servers]
    yield made
    for server, url in zip(servers, made, strict=True):
        server.drop_database(url)


async def make_world(path: Path, urls: list[str]) -> World:
    made = make_log(path / "log")
    async with running(made) as log:
        await log.register(made.issuer.sign(b"before"))
    migrate(made.data, path / "moved", urls[0])
    return World(made, path / "moved", *urls)


def refused(made: MadeLog, *words: str) -> None:
    with pytest.raises(LogUnusableError) as caught:
        made.open()
    for word in words:
        assert word in str(caught.value)


async def test_a_mark_that_went_to_a_database_lets_the_old_folder_not_go_on(tmp_path: Path, urls: list[str]) -> None:
    world = await make_world(tmp_path, urls)
    assert await world.extend(watermark=world.mark) == 3

    refused(world.made, "has moved", world.mark)
    assert world.config.watermark_db == world.mark
    findings = fsck(world.made.data).findings
    assert [finding.where for finding in findings] == ["mark"]
    assert "has moved" in findings[0].what
    # Named in config.toml now, it is found again.
    async with node(world.moved) as log:
        assert log.newest_head().size == 4


async def test_a_move_that_is_cut_short_is_finished_and_meanwhile_nobody_goes_on(
    tmp_path: Path, urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await make_world(tmp_path, urls)

    def crash(*_: object) -> None:
        raise LogUnusableError("the power is gone")

    with monkeypatch.context() as cut:
        cut.setattr(PostgresMark, "begin", crash)
        with pytest.raises(LogUnusableError, match="power"):
            await world.extend(watermark=world.mark)

    refused(world.made, "cut short", f"--watermark {world.mark}")
    assert world.config.watermark_db is None, "nothing was opened with it"
    with pytest.raises(LogUnusableError, match="cut short"):
        await world.extend()
    with pytest.raises(LogUnusableError, match="cut short"):
        await world.extend(watermark=world.other_mark)
    assert await world.extend(watermark=world.mark) == 3
    refused(world.made, "has moved", world.mark)


async def test_one_that_arrived_does_not_begin_again_where_it_was_lost(tmp_path: Path, urls: list[str]) -> None:
    world = await make_world(tmp_path, urls)
    async with node(world.moved, watermark=world.mark):
        pass
    with psycopg.connect(world.mark, autocommit=True) as session:
        session.execute("DELETE FROM transparency_mark")

    head = world.head()
    said = f"--accept-failover {head.size}:{head.root.hex()}"
    with pytest.raises(LogUnusableError, match=said):
        await world.extend()
    assert await world.extend(accepted=Accepted(head.size, head.root)) == head.size


async def test_from_one_database_to_another_and_back(
    tmp_path: Path, urls: list[str], elsewhere: PostgresServer
) -> None:
    world = await make_world(tmp_path, urls)
    await world.extend(watermark=world.mark)
    left = world.config

    async with node(world.moved, watermark=world.other_mark):
        pass
    assert world.config.watermark_db == world.other_mark

    # Another machine, whose folder names the old place.
    left.write(Folder(world.moved).config)
    with pytest.raises(LogUnusableError, match="has moved"):
        async with node(world.moved):
            pass
    async with node(world.moved, watermark=world.other_mark):
        pass
    async with node(world.moved, watermark=world.mark):
        pass
    # The same database by another name is no other place.
    same = elsewhere.tcp_url(str(psycopg.conninfo.conninfo_to_dict(world.mark)["dbname"]))
    async with node(world.moved, watermark=same):
        pass
    async with node(world.moved) as log:
        assert log.newest_head().size >= 4


async def test_a_file_takes_no_place_of_a_mark_that_nodes_share(tmp_path: Path, urls: list[str]) -> None:
    world = await make_world(tmp_path, urls)
    await world.extend(watermark=world.mark)

    for file in (world.made.watermark, tmp_path / "new"):
        with pytest.raises(LogUnusableError, match="a file does not take its place"):
            open_node(world.moved, watermark=file)


async def test_a_mark_that_was_copied_to_another_file_is_closed_where_it_was(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    shutil.copytree(made.data, tmp_path / "copy")
    shutil.copy(made.watermark, tmp_path / "new.mark")

    Log.open(made.data, watermark=tmp_path / "new.mark")._opened.close()

    for data in (tmp_path / "copy", made.data):
        with pytest.raises(LogUnusableError, match=r"has moved from .* to .*new\.mark"):
            Log.open(data, watermark=made.watermark)._opened.close()
    Log.open(made.data)._opened.close()


@pytest.mark.parametrize("place", [0, 4096])
async def test_one_slot_that_says_so_is_enough(tmp_path: Path, place: int) -> None:
    """Power that goes while a mark is closed spoils the other."""
    made = make_log(tmp_path / "log")
    shutil.copy(made.watermark, tmp_path / "new.mark")
    Log.open(made.data, watermark=tmp_path / "new.mark")._opened.close()
    with made.watermark.open("r+b") as file:
        file.seek(place + 50)
        file.write(b"torn")

    with pytest.raises(LogUnusableError, match="has moved"):
        Log.open(made.data, watermark=made.watermark)


async def test_a_missing_file_is_made_by_nobody_but_the_operator(tmp_path: Path, urls: list[str]) -> None:
    """A database that is an older copy of itself would be taken for the newest."""
    world = await make_world(tmp_path, urls)
    await world.extend()
    world.made.watermark.unlink()

    head = world.head()
    for opening in (open_node, Log.open):
        with pytest.raises(LogUnusableError, match=f"is missing.*--accept-failover {head.size}:{head.root.hex()}"):
            opening(world.moved)
    assert not world.made.watermark.exists()
    with pytest.raises(LogUnusableError, match="its root is another"):
        open_node(world.moved, accepted=Accepted(head.size, bytes(32)))
    assert await world.extend(accepted=Accepted(head.size, head.root)) == head.size


async def test_what_is_refused_is_not_written_into_the_configuration(tmp_path: Path, urls: list[str]) -> None:
    world = await make_world(tmp_path, urls)
    before = world.config
    old = shared_server().new_database(world.db)
    await world.extend()

    for flags in (
        {"db": old},
        {"watermark": "postgresql://postgres@127.0.0.1:1/nothing"},
        {"watermark": world.db},
        {"watermark": world.moved.parent / "none"},
    ):
        with pytest.raises((LogUnusableError, StoreError)):
            await world.extend(**flags)
        assert world.config == before
    shared_server().drop_database(old)
