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
from transparency.log.create import create_log
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.opening import open_log
from transparency.testing import FakeClock, MadeLog, SampleIssuer, running
from transparency.testing.postgres import PostgresServer, shared_server


def _make(path: Path, url: str) -> MadeLog:
    clock, issuer = FakeClock(), SampleIssuer()
    created = create_log(path, clock=clock, issuers=(issuer.as_policy_issuer(),), db=url)
    return MadeLog(path, created.watermark, issuer, clock)


@pytest.fixture
def made(tmp_path: Path, postgres_url: str) -> MadeLog:
    return _make(tmp_path / "log", postgres_url)


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
    made = _make(tmp_path / "log", f"{postgres_url}&password=hush-hush")

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


def test_copies_of_a_database_are_its_own_tools_matter(made: MadeLog, tmp_path: Path) -> None:
    with pytest.raises(LogUnusableError, match="pg_basebackup"):
        backup(made.data, tmp_path / "copy")
    with pytest.raises(LogUnusableError, match="pg_basebackup"):
        restore(made.data, tmp_path / "new", clock=made.clock)


def test_who_leads_elsewhere_is_not_stopped_by_a_command(made: MadeLog, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as session:
        session.execute("INSERT INTO lease VALUES (1, 'node-3', 1, now() + interval '1 hour', 0, 0, 2)")

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
            _make(tmp_path / "log", postgres_url)

    _make(tmp_path / "log", postgres_url)


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
        made = _make(tmp_path / "log", server.new_database())
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
