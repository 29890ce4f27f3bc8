"""A whole log in PostgreSQL: made, run, checked, damaged; and what its folder says of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from transparency.errors import LogUnusableError, NotLeadingError, StoreError
from transparency.log import stores
from transparency.log.admin import open_admin
from transparency.log.audit_sources import FolderSource
from transparency.log.backup import backup, restore
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.lease_table import FailoverError
from transparency.log.migrate import migrate
from transparency.log.opening import open_log
from transparency.testing import MadeLog, make_log, running
from transparency.testing.postgres import PostgresServer, shared_server


@pytest.fixture
def made(tmp_path: Path, postgres_url: str) -> MadeLog:
    return make_log(tmp_path / "log", db=postgres_url)


async def _grow(made: MadeLog, count: int) -> None:
    async with running(made) as log:
        await asyncio.gather(*(log.register(made.issuer.sign(b"%d" % n)) for n in range(count)))


async def test_a_log_in_postgresql_runs_is_opened_again_and_is_clean(made: MadeLog) -> None:
    await _grow(made, 300)
    async with running(made) as log:
        again = await log.register(made.issuer.sign(b"7"))
        assert not again.new
        assert (await log.register(made.issuer.sign(b"new"))).index == 302

    report = made.fsck()
    assert report.findings == []
    assert report.size == 303
    with FolderSource(made.data) as source:
        assert source.size() == 303


def test_the_folder_names_the_database_without_a_password_and_has_no_tree(tmp_path: Path, postgres_url: str) -> None:
    made = make_log(tmp_path / "log", db=f"{postgres_url}&password=hush-hush")

    assert Config.read(Folder(made.data).config).db == postgres_url
    assert not Folder(made.data).database.exists()
    assert not [path for path in made.data.rglob("*") if path.is_file() and b"hush-hush" in path.read_bytes()]


def test_a_database_that_moved_is_named_once(made: MadeLog) -> None:
    """As a mark is: who moved it says so, and the folder remembers when it has opened."""
    folder = Folder(made.data)
    config = Config.read(folder.config)
    here = config.db
    replace(config, db="postgresql://user@127.0.0.1:1/gone").write(folder.config)
    with pytest.raises(LogUnusableError, match="cannot be reached"):
        made.open()

    open_log(made.data, clock=made.clock, db=here).close()

    assert Config.read(folder.config).db == here


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("DELETE FROM entries WHERE idx = 9", "entry 9: is missing"),
        ("DELETE FROM statements WHERE idx = 9", "entry 9 has no statement"),
        ("UPDATE statements SET statement = '' WHERE idx = 9", "entry 9: its statement is gone"),
        ("UPDATE statements SET statement = 'x' WHERE idx = 9", "entry 9: the stored statement does not hash"),
        ("UPDATE tiles SET hashes = substr(hashes, 1, 32) WHERE level = 0 AND idx = 0", "tile 0/0: "),
        ("UPDATE heads SET signature = root WHERE size = 2", "head 2: its signature does not verify"),
        ("UPDATE entries SET tbs = '' WHERE idx = 5", "entry 5: "),
        ("UPDATE tip SET root = '\\x00'", "tip: its root does not follow"),
    ],
)
async def test_damage_is_named(made: MadeLog, postgres_url: str, damage: str, told: str) -> None:
    await _grow(made, 30)
    with psycopg.connect(postgres_url) as session:
        session.execute(damage)

    findings = [f"{finding.where}: {finding.what}" for finding in fsck(made.data, without_mark=True).findings]
    assert [finding for finding in findings if told in finding], findings


def test_a_database_put_back_to_an_older_state_is_refused(made: MadeLog, postgres_url: str) -> None:
    asyncio.run(_grow(made, 3))
    with psycopg.connect(postgres_url) as session:
        session.execute("DELETE FROM heads WHERE size > 2")
        session.execute("DELETE FROM entries WHERE idx > 1")
        session.execute("UPDATE tip SET size = 2, root = (SELECT root FROM heads WHERE size = 2)")

    with pytest.raises(LogUnusableError, match="an older copy was put back"):
        made.open()


@pytest.mark.parametrize("command", ["open", "migrate"])
def test_a_database_that_failed_over_is_refused_to_commands_too(
    made: MadeLog, tmp_path: Path, postgres_url: str, command: str
) -> None:
    """It may be a standby that lagged, and the mark in this machine's file older still."""
    with psycopg.connect(postgres_url) as session:
        session.execute("UPDATE lease SET timeline = timeline + 1")  # somebody led it on the primary that is gone

    with pytest.raises(FailoverError, match="--accept-failover 2:"):
        made.open() if command == "open" else migrate(made.data, tmp_path / "file", None)


def test_a_command_is_held_against_the_mark_that_all_nodes_share(
    made: MadeLog, postgres_url: str, server: PostgresServer
) -> None:
    """What another node released is there, and not in this machine's file."""
    mark_url = server.new_database()
    config = Config.read(Folder(made.data).config)
    replace(config, watermark_db=mark_url).write(Folder(made.data).config)
    asyncio.run(_grow(made, 3))
    with psycopg.connect(mark_url) as session:
        row = session.execute("UPDATE transparency_mark SET size = size + 1 RETURNING size").fetchone()
    assert row is not None
    assert row[0] > 3

    with pytest.raises(LogUnusableError, match="an older copy was put back"):
        made.open()
    with psycopg.connect(postgres_url) as session:
        session.execute("UPDATE lease SET timeline = timeline + 1")
        session.commit()
    with psycopg.connect(mark_url) as session:
        session.execute("UPDATE transparency_mark SET size = size - 1")
        session.commit()
    made.open()._opened.close()  # the mark vouches for it


def test_a_log_whose_nodes_share_a_mark_does_not_go_into_a_file(made: MadeLog, tmp_path: Path) -> None:
    config = Config.read(Folder(made.data).config)
    replace(config, watermark_db="postgresql://elsewhere/mark").write(Folder(made.data).config)

    with pytest.raises(LogUnusableError, match="could both go on"):
        migrate(made.data, tmp_path / "file", None)


def test_copies_of_a_database_are_its_own_tools_matter(made: MadeLog, tmp_path: Path) -> None:
    with pytest.raises(LogUnusableError, match="pg_basebackup"):
        backup(made.data, tmp_path / "copy")
    with pytest.raises(LogUnusableError, match="pg_basebackup"):
        restore(made.data, tmp_path / "new", clock=made.clock)


def test_who_leads_elsewhere_is_not_stopped_by_a_command(made: MadeLog, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as session:
        session.execute("UPDATE lease SET holder = 'node-3', expires = now() + interval '1 hour'")

    with pytest.raises(NotLeadingError, match="node-3 leads this log"):
        made.open()
    with open_admin(made.data, reading=True) as admin:
        assert admin.call("status")["size"] == 2


def test_an_init_that_fails_leaves_no_tables(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("transparency.log.create.publish_folder", _no_space)
        with pytest.raises(OSError, match="no space"):
            make_log(tmp_path / "log", db=postgres_url)

    make_log(tmp_path / "log", db=postgres_url)


def _no_space(*_: object) -> None:
    raise OSError(28, "no space")


def test_a_log_in_a_file_is_not_taken_for_one_in_a_database(tmp_path: Path, postgres_url: str) -> None:
    folder = Folder(tmp_path)
    folder.database.touch()

    with pytest.raises(LogUnusableError, match="transparency log migrate"):
        stores.open_store(folder, postgres_url)


async def test_a_server_that_dies_stops_the_log_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    server = PostgresServer.start()
    try:
        made = make_log(tmp_path / "log", db=server.new_database())
        log = made.open()
        await log.start()
        places = [(await log.register(made.issuer.sign(b"%d" % n))).index for n in range(20)]
        server.kill()
        with pytest.raises(StoreError):
            await log.register(made.issuer.sign(b"lost"))
        await log.stop()
        server.resume()

        async with running(made) as again:
            known = [(await again.register(made.issuer.sign(b"%d" % n))) for n in range(20)]
        assert [each.index for each in known] == places
        assert not any(each.new for each in known)
        assert made.fsck().findings == []
    finally:
        server.remove()


def test_without_its_driver_the_extra_is_named(made: MadeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transparency.log.postgres", None)

    with pytest.raises(LogUnusableError, match=r"agent-transparency\[postgres\]"):
        made.open()


def test_the_server_of_the_tests_keeps_what_it_acknowledges() -> None:
    with shared_server().connect() as session:
        row = session.execute("SELECT current_setting('fsync'), current_setting('full_page_writes')").fetchone()
    assert row == ("on", "on")
