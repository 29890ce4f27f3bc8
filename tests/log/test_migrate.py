"""A log goes from one store to the other and is the same log; only one of the two folders can go on."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.log.stores import intake_row
from transparency.errors import FolderOwnedError, LogUnusableError
from transparency.log.checkpoints import CheckpointPublisher, PublishSettings
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.migrate import migrate
from transparency.log.store import Store
from transparency.log.stores import open_for_reading
from transparency.testing import FakeClock, MadeLog, make_log, running

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log", clock=FakeClock())


async def _fill(made: MadeLog, count: int = 300) -> None:
    """Batches of several sizes, an emptied entry, a published checkpoint, a statement that waits."""
    async with running(made) as log:
        for start, stop in ((0, 1), (1, 40), (40, count)):
            await asyncio.gather(*(log.register(made.issuer.sign(b"%d" % n)) for n in range(start, stop)))
        publisher = CheckpointPublisher(log, PublishSettings(), made.clock)
        await publisher.start()
        await publisher.stop()
    log = made.open()
    log._store.erase([5])
    log._store.note_erased(3)
    log._store.intake_add([intake_row(1), intake_row(2)])
    await log.stop()


def _everything(folder: Path) -> dict[str, object]:
    store = open_for_reading(Folder(folder))
    try:
        tip = store.tip()
        return {
            "tip": (tip.size, tip.root),
            "entries": list(store.entries(0, tip.size)),
            "heads": list(store.heads()),
            "checkpoints": list(store.checkpoints()),
            "covering": store.checkpoint_covering(0),
            "waiting": store.intake_pending(2**30),
            "erased": store.erased_upto(),
            "tiles": [store.tile(0, 0), store.tile(0, 1), store.tile(1, 0)],
            "siblings": [store.siblings(row.tbs_digest, 9) for row in store.entries(0, 9)],
        }
    finally:
        store.close()


async def test_a_log_goes_to_postgresql_and_back_and_nothing_is_lost_on_the_way(
    made: MadeLog, tmp_path: Path, postgres_url: str
) -> None:
    await _fill(made)
    before = _everything(made.data)
    seen: list[tuple[int, int]] = []

    assert migrate(made.data, tmp_path / "there", postgres_url, lambda *at: seen.append(at)) == 302
    assert migrate(tmp_path / "there", tmp_path / "back", None) == 302

    assert _everything(tmp_path / "there") == before
    assert _everything(tmp_path / "back") == before
    assert seen[-1] == (603, 604)
    assert Config.read(Folder(tmp_path / "there").config).db == postgres_url
    assert not Folder(tmp_path / "there").database.exists()
    assert Config.read(Folder(tmp_path / "back").config) == Config.read(Folder(made.data).config)


async def test_a_migrated_log_goes_on_and_the_old_one_is_then_behind_the_mark(
    made: MadeLog, tmp_path: Path, postgres_url: str
) -> None:
    """Two stores of one log that both went on would be two histories under one name."""
    async with running(made) as log:
        await log.register(made.issuer.sign(b"before"))
    migrate(made.data, tmp_path / "there", postgres_url)

    async with running(replace(made, data=tmp_path / "there")) as log:
        assert (await log.register(made.issuer.sign(b"after"))).index == 3
    assert fsck(tmp_path / "there").findings == []
    with pytest.raises(LogUnusableError, match="an older copy"):
        made.open()


async def test_a_log_that_is_running_is_not_migrated(made: MadeLog, tmp_path: Path, postgres_url: str) -> None:
    async with running(made):
        with pytest.raises(FolderOwnedError):
            migrate(made.data, tmp_path / "there", postgres_url)
    assert not (tmp_path / "there").exists()


def test_a_database_that_holds_a_log_is_left_alone(made: MadeLog, tmp_path: Path, postgres_url: str) -> None:
    migrate(made.data, tmp_path / "there", postgres_url)
    before = _everything(tmp_path / "there")

    with pytest.raises(LogUnusableError, match="a log in this database already"):
        migrate(made.data, tmp_path / "again", postgres_url)
    assert _everything(tmp_path / "there") == before
    assert not (tmp_path / "again").exists()


def test_a_folder_that_holds_something_is_left_alone(made: MadeLog, tmp_path: Path, postgres_url: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()

    with pytest.raises(FileExistsError):
        migrate(made.data, tmp_path / "there", postgres_url)
    assert _tables(postgres_url) == []


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM entries WHERE idx = 9", "entry 9 is missing"),
        ("UPDATE entries SET statement = x'00' WHERE idx = 9", "does not hash to it"),
        ("UPDATE heads SET root = zeroblob(32) WHERE size = 2", "do not give the root of head 2"),
    ],
    ids=["missing", "another", "root"],
)
async def test_a_damaged_log_is_refused_and_nothing_is_left(
    made: MadeLog, tmp_path: Path, postgres_url: str, damage: str, told: str
) -> None:
    await _fill(made, 60)
    with sqlite3.connect(Folder(made.data).database) as database:
        database.execute(damage)
    database.close()

    with pytest.raises(LogUnusableError, match=told):
        migrate(made.data, tmp_path / "there", postgres_url)
    assert _tables(postgres_url) == []
    assert not (tmp_path / "there").exists()


def test_what_the_new_store_does_not_keep_is_noticed(
    made: MadeLog, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transparency.errors import StoreError
    from transparency.log import migrate as module

    def fill(source: Store, target: Store, *rest: object) -> None:
        original(source, target, *rest)  # type: ignore[arg-type]
        target.erase([1])
        with psycopg.connect(postgres_url) as session:
            session.execute("UPDATE statements SET statement = 'x' WHERE idx = 1")

    original = module.fill
    monkeypatch.setattr(module, "fill", fill)

    with pytest.raises(StoreError, match="entry 1 is not in the new store"):
        migrate(made.data, tmp_path / "there", postgres_url)
    assert _tables(postgres_url) == []


def _tables(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as session:
        return session.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace").fetchall()
