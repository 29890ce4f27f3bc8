"""What a running log holds is in its file a moment later, and whoever looks meanwhile is told the truth (0020)."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.log.test_redo import crashed, cut_off
from tests.log.test_sqlite_writing import in_the_file
from tests.patience import PATIENCE, until
from transparency.errors import LogUnusableError, StoreError, TipMovedError
from transparency.log import settled
from transparency.log.admin import open_admin
from transparency.log.backup import backup
from transparency.log.door import reachable
from transparency.log.folder import Folder
from transparency.log.settled import is_behind
from transparency.log.sqlite import SqliteStore
from transparency.log.stores import open_for_reading
from transparency.testing import MadeLog, make_log, running

pytestmark = pytest.mark.sqlite_file


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


async def test_a_moment_later_it_is_in_the_file_though_nobody_asked(made: MadeLog) -> None:
    async with running(made) as log:
        registered = await log.register(made.issuer.sign(b"one"))

        await until(lambda: in_the_file(made.data / "log.sqlite") == registered.index + 1)


async def test_a_log_whose_store_cannot_catch_up_stops(made: MadeLog) -> None:
    log = made.open()
    await log.start()
    await log.register(made.issuer.sign(b"one"))
    with closing(SqliteStore(made.data / "log.sqlite")) as other:
        other.take_over()  # past every lock

    await until(lambda: log.sequencer.failed is not None)

    assert isinstance(log.sequencer.failed, TipMovedError)
    with pytest.raises(StoreError):
        await log.register(made.issuer.sign(b"two"))
    await log.stop()


async def test_who_looks_from_outside_sees_what_was_acknowledged_before(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "UNSERVED_SECONDS", PATIENCE)  # however busy the machine is

    def tip() -> int:
        with closing(open_for_reading(Folder(made.data))) as store:
            return store.tip().size

    async with running(made) as log:
        for payload in (b"one", b"two", b"three"):
            registered = await log.register(made.issuer.sign(payload))
            assert await asyncio.to_thread(tip) == registered.index + 1


async def test_no_backup_is_made_of_a_killed_log_until_it_was_started(made: MadeLog, tmp_path: Path) -> None:
    crash = await crashed(made, tmp_path)

    with pytest.raises(LogUnusableError, match="Start it, which brings them back"):
        backup(made.data, tmp_path / "copy")

    async with running(made):
        pass
    assert backup(made.data, tmp_path / "copy") == 2 + len(crash.registered)


async def test_where_a_server_is_the_wait_is_longer_and_elsewhere_short(
    made: MadeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "SERVED_SECONDS", 0.0)
    monkeypatch.setattr(settled, "UNSERVED_SECONDS", PATIENCE)
    await crashed(made, tmp_path)

    with socket.socket(socket.AF_UNIX) as door, reachable(Folder(made.data).socket) as name:
        door.bind(name)
        door.listen()
        assert not is_behind(Folder(made.data))
        with pytest.raises(LogUnusableError, match="or stands still"):  # at once, which here is for the served
            backup(made.data, tmp_path / "copy")
    Folder(made.data).socket.unlink()
    assert is_behind(Folder(made.data))


async def test_a_directory_in_the_place_of_the_mark_is_no_reason_against_a_backup(
    made: MadeLog, tmp_path: Path
) -> None:
    async with running(made) as log:
        await log.register(made.issuer.sign(b"one"))
    made.watermark.unlink()
    made.watermark.mkdir()

    assert backup(made.data, tmp_path / "copy") == 3


@pytest.mark.parametrize("damage", [b"", b"\0" * 8192])
async def test_a_mark_that_is_damaged_is_no_reason_against_a_backup(
    made: MadeLog, tmp_path: Path, damage: bytes
) -> None:
    async with running(made) as log:
        await log.register(made.issuer.sign(b"one"))
    made.watermark.write_bytes(damage)

    assert backup(made.data, tmp_path / "copy") == 3


async def test_a_look_at_a_killed_log_says_what_it_lacks(
    made: MadeLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await crashed(made, tmp_path)

    with closing(open_for_reading(Folder(made.data))) as store:
        assert store.tip().size == 2

    assert "entries 2 to 4 were acknowledged and are not in" in caplog.text


async def test_who_only_looks_at_a_copy_of_a_killed_log_leaves_the_journal_to_the_original(
    made: MadeLog, tmp_path: Path
) -> None:
    crash = await crashed(made, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(made.data, copy)

    def look() -> tuple[int, list[str]]:
        with open_admin(copy, reading=True) as admin:
            return admin.call("status")["size"], sorted(admin.call("documents"))

    size, documents = await asyncio.to_thread(look)
    assert (size, documents) == (2, ["keys", "keys-entry", "policy", "policy-entry"])
    shutil.rmtree(copy)

    async with running(made) as log:
        for each in crash.registered:
            assert log.receipt(each.index) == each.receipt


async def test_a_mark_that_somebody_cut_short_is_seen_and_filled_again(
    made: MadeLog, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a kill would lose all that it kept since, and the next start be refused."""
    log = made.open()
    await log.start(drain=False)
    await log.register(made.issuer.sign(b"one"))
    whole = made.watermark.stat().st_size
    os.truncate(made.watermark, 0)
    registered = [await log.register(made.issuer.sign(payload)) for payload in (b"two", b"three", b"four")]

    assert caplog.text.count("was cut short by somebody") == 1
    assert made.watermark.stat().st_size == whole
    await cut_off(log)
    async with running(made) as again:
        for each in registered:
            assert again.receipt(each.index) == each.receipt


TAKEN_AWAY: dict[str, Callable[[Path], object]] = {
    "deleted": lambda mark: mark.unlink(),
    "replaced": lambda mark: Path(shutil.copy(mark, mark.with_name("other"))).replace(mark),
    "open to others": lambda mark: mark.chmod(0o644),
}


@pytest.mark.parametrize("how", TAKEN_AWAY)
async def test_a_mark_that_a_start_would_not_find_or_others_may_read_keeps_nothing_more(
    made: MadeLog, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """A kill would lose what is in a deleted file alone."""
    log = made.open()
    await log.start(drain=False)
    await log.register(made.issuer.sign(b"one"))
    TAKEN_AWAY[how](made.watermark)
    for payload in (b"two", b"three"):
        registered = await log.register(made.issuer.sign(payload))
        assert in_the_file(made.data / "log.sqlite") == registered.index + 1

    assert caplog.text.count("nothing is kept in it") == 1
    await cut_off(log)
