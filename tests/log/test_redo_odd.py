"""Starts, restores and journals out of order: whatever comes first, what was kept can still be brought back."""

from __future__ import annotations

import contextlib
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log import erasing
from tests.log.test_redo import check_all_there, crashed
from transparency.errors import LogUnusableError
from transparency.log import create, redo
from transparency.log.backup import backup, restore
from transparency.log.durable import DurableFile
from transparency.log.journal import BEGIN, CAPACITY, Journal
from transparency.log.log import Log
from transparency.log.mark import Mark
from transparency.log.migrate import migrate
from transparency.log.opening import open_log
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Tip
from transparency.testing import FakeClock, MadeLog, SampleIssuer, make_log, running

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


async def test_a_head_with_a_long_signature_does_not_write_beyond_the_journal(tmp_path: Path) -> None:
    """One that was acknowledged and cannot be read again would be lost to a power cut, and nobody would know."""
    clock, issuer = FakeClock(), SampleIssuer()
    created = create.create_log(
        tmp_path / "log", clock=clock, issuers=(issuer.as_policy_issuer(),), receipt_alg="ML-DSA-65"
    )
    made = MadeLog(tmp_path / "log", created.watermark, issuer, clock)
    log = made.open()
    await log.start()
    for number in range(300):
        # Of two and three blocks, so that the journal comes to its end in every way.
        await log.register(issuer.sign(bytes(5500 if number % 7 else 2000) + b"%d" % number))
        mark = Mark.open(made.watermark, made.origin)
        mark.close()
        assert mark.value.size == log.newest_head().size, "what was acknowledged is in the journal, and can be read"
    await log.stop()
    assert made.watermark.stat().st_size == BEGIN + CAPACITY


async def test_a_start_that_misses_the_mark_does_not_spoil_the_next_one(made: MadeLog, tmp_path: Path) -> None:
    """After a power cut the disk of the mark may come up later than the log."""
    crash = await crashed(made, tmp_path, before=[b"zero"])
    crash.lose_what_came_since()
    away = made.watermark.rename(tmp_path / "away")
    with pytest.raises(LogUnusableError, match="is missing"):
        made.open()
    away.rename(made.watermark)

    check_all_there(made, crash.registered)


async def test_a_migration_that_misses_the_mark_does_not_spoil_the_next_start(made: MadeLog, tmp_path: Path) -> None:
    crash = await crashed(made, tmp_path, before=[b"zero"])
    crash.lose_what_came_since()
    away = made.watermark.rename(tmp_path / "away")
    with pytest.raises(LogUnusableError):
        migrate(made.data, tmp_path / "new", None)
    away.rename(made.watermark)

    check_all_there(made, crash.registered)


async def test_a_start_with_an_older_mark_asks_the_one_that_it_leaves(made: MadeLog, tmp_path: Path) -> None:
    other = Path(shutil.copy(made.watermark, tmp_path / "older-mark"))
    crash = await crashed(made, tmp_path, before=[b"zero"])
    crash.lose_what_came_since()

    open_log(made.data, clock=made.clock, watermark=other).close()

    check_all_there(MadeLog(made.data, other, made.issuer, made.clock), crash.registered)


async def test_a_log_that_lost_everything_since_init_is_not_begun_again_without_its_mark(
    made: MadeLog, tmp_path: Path
) -> None:
    crash = await crashed(made, tmp_path)
    crash.lose_what_came_since()
    away = made.watermark.rename(tmp_path / "away")
    with pytest.raises(LogUnusableError, match="is missing"):
        made.open()
    away.rename(made.watermark)

    check_all_there(made, crash.registered)


async def test_a_restore_that_fails_leaves_the_journal_to_the_next(
    made: MadeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = await crashed(made, tmp_path, before=[b"zero"])
    crash.lose_what_came_since()

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("transparency.log.backup.publish_folder", no_space)
        with pytest.raises(OSError, match="No space"):
            restore(made.data, tmp_path / "again", clock=made.clock)

    check_all_there(made, crash.registered)


@pytest.mark.parametrize("what", ["a statement", "a signature", "a generation"])
async def test_a_hostile_journal_changes_nothing(made: MadeLog, tmp_path: Path, what: str) -> None:
    """Who can write the mark can stop the log; what it says must not get into the tree."""
    crash = await crashed(made, tmp_path, before=[b"zero"])
    crash.lose_what_came_since()
    first, second, third = crash.mark().kept[1:]
    (new,), head = redo.read_batch(second)
    match what:
        case "a statement":
            new = new._replace(statement=new.statement.replace(b"two", b"owt"))
        case "a generation":
            new = new._replace(generation=7)
        case _:
            head = replace(head, signature=bytes(len(head.signature)))
    hostile = redo.batch(Tip(*second.before, second.epoch), [new], head)
    file = DurableFile(made.watermark)
    journal = Journal(file, made.origin)
    journal.read(0)
    journal.make()
    journal.begin_anew()
    for each in (first, hostile, third):
        journal.append(each)
    file.close()

    with pytest.raises(LogUnusableError, match="journal's batch up to size 5 is not this log's"):
        made.open()

    with contextlib.closing(SqliteStore(made.data / "log.sqlite")) as store:
        assert store.tip().size == first.before[0], "not even what comes before it in the journal was written"


async def test_a_log_in_postgresql_keeps_nothing_in_a_mark_that_has_a_journal(
    made: MadeLog, tmp_path: Path, postgres_url: str
) -> None:
    """It was a file's before the log moved. What PostgreSQL has is durable there, and stays there."""
    async with running(made) as log:
        await log.register(made.issuer.sign(b"one"))
    migrate(made.data, tmp_path / "moved", postgres_url)
    log = Log.open(tmp_path / "moved", clock=made.clock)
    await log.start()

    await log.register(made.issuer.sign(b"in the database alone"))

    assert b"in the database alone" not in made.watermark.read_bytes()
    await log.stop()


async def test_a_mark_that_has_no_room_for_a_journal_has_nothing_to_forget(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure that could not be carried out because of it would stop the log, at every start again."""
    write_at = DurableFile.write_at

    def full_disk(self: DurableFile, offset: int, data: bytes) -> None:
        if offset + len(data) > BEGIN:
            raise OSError(28, "No space left on device")
        write_at(self, offset, data)

    monkeypatch.setattr(DurableFile, "write_at", full_disk)
    log = made.open()
    await log.start()
    await log.register(made.issuer.sign(b"one"))

    await log.sequencer.write(log.sequencer.forget_kept)

    await log.register(made.issuer.sign(b"two"))
    await log.stop()
    assert made.watermark.stat().st_size <= BEGIN


async def test_a_restored_log_forgets_what_was_erased_and_stands_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The erasure was registered, and the process ended before it overwrote the journal."""
    erased = erasing.make(tmp_path)
    made = erased.made
    with monkeypatch.context() as patch:
        patch.setattr(Mark, "forget", lambda _: None)
        async with running(made) as log:
            registered = await log.register(made.issuer.sign(b"what must not be read"))
            await erasing.state_audit(erased, log)
            await erasing.by_order(log, registered.index)
    assert b"what must not be read" in made.watermark.read_bytes()
    backup(made.data, tmp_path / "copy", with_keys=True)

    restore(tmp_path / "copy", tmp_path / "again", clock=made.clock)
    async with running(MadeLog(tmp_path / "again", made.watermark, made.issuer, made.clock)):
        pass

    assert b"what must not be read" not in made.watermark.read_bytes()


async def test_a_mark_that_others_may_read_keeps_no_statements(made: MadeLog, caplog: pytest.LogCaptureFixture) -> None:
    """One of an earlier version held hashes only, and may have been copied to its place as any file is."""
    made.watermark.chmod(0o644)
    with caplog.at_level(logging.WARNING, "transparency.log"):
        async with running(made) as log:
            await log.register(made.issuer.sign(b"not for everybody"))
            assert b"not for everybody" not in made.watermark.read_bytes()
    assert "others may read it" in caplog.text


async def test_a_mark_that_was_left_holds_no_statements(made: MadeLog, tmp_path: Path) -> None:
    """No erasure would ever come by there."""
    async with running(made) as log:
        await log.register(made.issuer.sign(b"left behind"))
    moved = Path(shutil.copy(made.watermark, tmp_path / "moved"))

    open_log(made.data, clock=made.clock, watermark=moved).close()

    assert b"left behind" not in made.watermark.read_bytes()
    with pytest.raises(LogUnusableError, match="has moved"):
        Mark.open(made.watermark, made.origin)
