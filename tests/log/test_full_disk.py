"""A disk without space: what a start, and a log that was running, say of it."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

from transparency.errors import LogUnusableError, StoreError
from transparency.log.durable import DurableFile
from transparency.log.store import Commit, Tip
from transparency.testing import FaultyStore, MadeLog, make_log

FULL = "the store could not commit: database or disk is full"


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


def sqlite_error(words: str, name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorname = name
    return error


class _Failing(FaultyStore):
    name = "SQLITE_FULL"

    def take_over(self) -> Tip:
        raise StoreError(FULL) from sqlite_error("database or disk is full", self.name)


class _Broken(_Failing):
    name = "SQLITE_IOERR"


class _Filling(FaultyStore):
    def commit(self, batch: Commit) -> None:
        raise StoreError(FULL)


class _FullFile(DurableFile):
    def write_at(self, offset: int, data: bytes) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")


def test_a_start_without_space_names_the_database_and_is_no_verdict_on_the_log(made: MadeLog) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught:
        made.open(wrap_store=_Failing)

    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(made.data / "log.sqlite"))
    made.open().opened.close()


@pytest.mark.parametrize(("free", "is_full"), [(4096, True), (1 << 30, False)])
def test_a_start_without_space_beside_the_database(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch, *, free: int, is_full: bool
) -> None:
    monkeypatch.setattr(_Failing, "name", "SQLITE_IOERR_SHMSIZE")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=free))

    with pytest.raises(OSError if is_full else LogUnusableError):
        made.open(wrap_store=_Failing)


def test_another_failure_of_the_store_stays_what_it_was(made: MadeLog) -> None:
    with pytest.raises(LogUnusableError, match="check its disk, then start again"):
        made.open(wrap_store=_Broken)


@pytest.mark.sqlite_file  # only such a log keeps a journal, which the next start puts away
async def test_a_start_without_space_for_the_mark_names_the_mark(made: MadeLog) -> None:
    log = made.open()
    await log.start()
    await log.register(made.issuer.sign(b"kept in the journal"))
    log.opened.mark.close()
    log.opened.store.close()
    log.opened.ownership.release()

    with pytest.raises(OSError, match="No space left on device") as caught:
        made.open(open_mark_file=_FullFile)

    assert caught.value.filename == str(made.watermark)


async def test_who_waits_is_told_why_the_log_has_stopped(made: MadeLog) -> None:
    log = made.open(wrap_store=_Filling)
    await log.start()
    told: list[BaseException] = []
    log.on_failure = told.append

    for _ in range(2):
        with pytest.raises(StoreError, match=f"its storage failed: {FULL}"):
            await log.register(made.issuer.sign(b"x"))
    assert [str(error) for error in told] == [FULL]
    await log.stop()


async def test_of_an_error_that_is_not_the_stores_own_nothing_is_said(made: MadeLog) -> None:
    log = made.open()
    await log.start()
    log.sequencer.fail(ValueError("a payload, perhaps"))

    with pytest.raises(StoreError, match=r"its storage failed$"):
        await log.register(made.issuer.sign(b"x"))
    await log.stop()
