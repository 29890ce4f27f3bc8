"""design.md §12: a restored old state is detected whenever the mark has seen a newer one, and refused, never forked.

Each refusal says why, and what to do.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.on_postgres import copy_folder, store_wanted
from transparency.errors import FolderOwnedError, LogUnusableError, StoreError
from transparency.log.backup import backup, restore
from transparency.log.mark import Mark, MarkValue
from transparency.log.schema import PAGE_SIZE
from transparency.testing import Fault, FaultyFile, MadeLog, make_log, running

CopyOf = Callable[[MadeLog, str], MadeLog]
# What each refusal offers.
TO_DO = "Put the newest copy back, or start a new log with `transparency log restore --new-origin`"


@pytest.mark.sqlite_file
async def test_an_old_database_is_refused(made: MadeLog, tmp_path: Path) -> None:
    await _register(made, range(5))
    shutil.copy(made.data / "log.sqlite", tmp_path / "old.sqlite")
    await _register(made, range(5, 8))
    shutil.copy(tmp_path / "old.sqlite", made.data / "log.sqlite")

    _refused(made, "has 7 entries, but had 10 when it last ran: an older copy was put back", TO_DO)


async def test_a_whole_old_folder_is_refused(made: MadeLog, tmp_path: Path) -> None:
    await _register(made, range(300))
    copy_folder(made.data, tmp_path / "old")
    await _register(made, [300])
    shutil.rmtree(made.data)
    shutil.copytree(tmp_path / "old", made.data)

    _refused(made, "has 302 entries, but had 303 when it last ran", TO_DO)


@pytest.mark.sqlite_file
@pytest.mark.parametrize("more", [3, 300], ids=["just larger", "larger across a tile"])
async def test_a_divergent_database_is_refused_however_large_it_is(made: MadeLog, copy_of: CopyOf, more: int) -> None:
    await _register(made, range(5))
    twin = copy_of(made, "twin")
    await _register(made, range(5, 8))
    await _register(twin, range(1000, 1003 + more))
    assert twin.fsck().clean, "the twin is a whole log of its own"
    shutil.copy(twin.data / "log.sqlite", made.data / "log.sqlite")

    _refused(made, "differs from the one that last ran: at size 10 its root is another", TO_DO)


@pytest.mark.sqlite_file
async def test_a_divergent_database_of_the_same_size_is_refused(made: MadeLog, copy_of: CopyOf) -> None:
    twin = copy_of(made, "twin")
    await _register(made, [1])
    await _register(twin, [2])
    shutil.copy(twin.data / "log.sqlite", made.data / "log.sqlite")

    _refused(made, "at size 3 its root is another")


async def test_a_copy_of_the_folder_cannot_run_beside_the_original(made: MadeLog, tmp_path: Path) -> None:
    """Both would pass every check against the one mark, and give two histories under one name."""
    await _register(made, range(3))
    copy_folder(made.data, tmp_path / "copy")
    beside = MadeLog(tmp_path / "copy", made.watermark, made.issuer, made.clock)
    async with running(made) as log:
        with pytest.raises(FolderOwnedError, match="mark"):
            beside.open()
        await log.register(made.issuer.sign(b"goes on"))

    _refused(beside, "has 5 entries, but had 6 when it last ran")


@pytest.mark.sqlite_file
async def test_a_backup_is_not_restored_while_the_log_runs(made: MadeLog, tmp_path: Path) -> None:
    async with running(made) as log:
        await log.register(made.issuer.sign(b"x"))
        await asyncio.to_thread(backup, made.data, tmp_path / "backup", with_keys=True)
        with pytest.raises(FolderOwnedError):
            restore(tmp_path / "backup", tmp_path / "again", clock=made.clock, watermark=made.watermark)
        assert not (tmp_path / "again").exists()


async def test_a_log_that_is_open_is_not_opened_again(made: MadeLog) -> None:
    async with running(made):
        with pytest.raises(FolderOwnedError, match="in use by another process"):
            made.open()


# -- the mark --------------------------------------------------------------------------------------------------------


async def test_a_missing_mark_is_refused_once_anything_was_registered(made: MadeLog) -> None:
    await _register(made, [1])
    made.watermark.unlink()

    way_out = "--accept-missing-mark" if store_wanted() == "sqlite" else "--accept-failover"
    _refused(made, "is missing", "--watermark", way_out)
    assert not made.watermark.exists(), "a start does not make a mark that was lost"


async def test_a_missing_mark_is_made_again_while_only_init_has_run(made: MadeLog) -> None:
    """A crash between the folder and its mark; nothing was acknowledged to anybody."""
    made.watermark.unlink()
    await _register(made, [1])

    assert _mark(made).size == 3


@pytest.mark.parametrize("offset", [0, 4096], ids=["first slot", "second slot"])
async def test_one_damaged_slot_is_survived_and_written_over(made: MadeLog, offset: int) -> None:
    await _register(made, range(4))
    _damage(made.watermark, offset)
    await _register(made, range(4, 6))

    assert _mark(made).size == 8
    assert made.fsck().clean


async def test_two_damaged_slots_are_refused(made: MadeLog) -> None:
    await _register(made, [1])
    _damage(made.watermark, 0)
    _damage(made.watermark, 4096)

    _refused(made, "is damaged in both its slots", "restore it from a backup")


@pytest.mark.parametrize("content", [b"", b"\0" * 8192, b"TLMARK01"], ids=["empty", "zeros", "cut short"])
async def test_a_mark_that_is_none_is_refused(made: MadeLog, content: bytes) -> None:
    await _register(made, [1])
    made.watermark.write_bytes(content)

    _refused(made, "is damaged in both its slots")


async def test_the_mark_of_another_log_is_refused(made: MadeLog, tmp_path: Path) -> None:
    other = make_log(tmp_path / "other", origin="other.example/log")
    shutil.copy(other.watermark, made.watermark)

    _refused(made, "belongs to another log", "--watermark")


def test_a_mark_ahead_of_the_log_is_refused(made: MadeLog) -> None:
    mark = Mark.open(made.watermark, made.origin)
    mark.write(MarkValue(99, bytes(32)))
    mark.close()

    _refused(made, "but had 99 when it last ran")


async def test_a_crash_between_commit_and_mark_opens_and_brings_the_mark_up(made: MadeLog) -> None:
    """Step 3 of the appender's safety argument: the mark is behind, and the tree at its size has its root."""
    files: list[FaultyFile] = []

    def remembered(path: Path) -> FaultyFile:
        files.append(FaultyFile(path))
        return files[-1]

    log = made.open(open_mark_file=remembered)
    await log.start()
    files[-1].fail(Fault.FAILS)
    with pytest.raises(StoreError):
        await log.register(made.issuer.sign(b"x"))
    await log.stop()
    assert _mark(made).size == 2

    again = made.open()
    assert again.newest_head().size == 3
    again._opened.close()
    assert _mark(made).size == 3


# -- the database itself ---------------------------------------------------------------------------------------------


@pytest.mark.sqlite_file
async def test_a_database_damaged_in_the_middle_is_refused_and_not_guessed_at(made: MadeLog) -> None:
    await _register(made, range(600))
    database = made.data / "log.sqlite"
    content = bytearray(database.read_bytes())
    content[PAGE_SIZE:] = bytes(len(content) - PAGE_SIZE)
    database.write_bytes(content)

    with pytest.raises(LogUnusableError):
        made.open()


@pytest.mark.sqlite_file
async def test_a_database_cut_short_is_refused(made: MadeLog) -> None:
    await _register(made, range(600))
    database = made.data / "log.sqlite"
    database.write_bytes(database.read_bytes()[: PAGE_SIZE * 4])

    with pytest.raises(LogUnusableError):
        made.open()


async def test_a_refused_folder_can_be_put_right_and_opened(made: MadeLog, tmp_path: Path) -> None:
    """A refusal holds no lock and changes nothing that the newest copy would miss."""
    await _register(made, range(3))
    copy_folder(made.data, tmp_path / "old")
    await _register(made, [3])
    shutil.move(made.data, tmp_path / "newest")
    shutil.copytree(tmp_path / "old", made.data)
    _refused(made, "an older copy was put back")

    shutil.rmtree(made.data)
    shutil.move(tmp_path / "newest", made.data)
    await _register(made, [4])
    assert made.fsck().clean


async def _register(made: MadeLog, numbers: Iterable[int]) -> None:
    async with running(made) as log:
        await asyncio.gather(*(log.register(made.issuer.sign(b"%d" % n)) for n in numbers))


def _refused(made: MadeLog, *says: str) -> None:
    with pytest.raises(LogUnusableError) as refusal:
        made.open()
    for text in says:
        assert text in str(refusal.value)


def _mark(made: MadeLog) -> MarkValue:
    mark = Mark.open(made.watermark, made.origin)
    mark.close()
    return mark.value


def _damage(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset + 50] ^= 1
    path.write_bytes(content)
