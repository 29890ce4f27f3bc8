"""Backups are taken from a running log; they go back only at or past the mark."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from pathlib import Path

import pytest

from transparency.errors import LogUnusableError, MalformedError
from transparency.log.artifacts import ArtifactStore
from transparency.log.backup import backup, restore, restore_as_new
from transparency.log.folder import Config, Folder
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.testing import FakeClock, make_log, running

pytestmark = pytest.mark.sqlite_file

CLOCK = FakeClock()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_backup_of_a_running_log_is_whole_and_can_go_on(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        first = await log.register(made.issuer.sign(b"1"))
        size = await asyncio.to_thread(backup, made.data, tmp_path / "copy", with_keys=True)

    assert size == 3
    assert restore(tmp_path / "copy", tmp_path / "again", clock=CLOCK) == 3
    log = Log.open(tmp_path / "again", clock=CLOCK)
    await log.start()
    try:
        assert log.receipt(first.index) == first.receipt
        assert (await log.register(made.issuer.sign(b"2"))).index == 3
    finally:
        await log.stop()
    assert fsck(tmp_path / "again").clean


def test_a_copy_is_not_put_into_what_it_is_a_copy_of(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")

    with pytest.raises(LogUnusableError, match="lies in the folder that it would be a copy of"):
        backup(made.data, made.data / "copy")

    assert "copy" not in names_in(made.data)


async def test_private_keys_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    backup(made.data, tmp_path / "without")
    backup(made.data, tmp_path / "with", with_keys=True)

    assert not list((tmp_path / "without").rglob("*.pem"))
    kept = list((tmp_path / "with").rglob("*.pem"))
    assert len(kept) == 5
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    for folder in ("log", "with"):
        assert stat.S_IMODE((tmp_path / folder / "log.sqlite").stat().st_mode) == 0o600
    with pytest.raises(LogUnusableError, match="receipts key is missing"):
        restore(tmp_path / "without", tmp_path / "again", clock=CLOCK)
    assert not (tmp_path / "again").exists()


async def test_a_backup_behind_the_mark_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    backup(made.data, tmp_path / "copy", with_keys=True)
    async with running(made) as log:
        await log.register(made.issuer.sign(b"acknowledged since"))

    with pytest.raises(LogUnusableError, match="an older copy was put back"):
        restore(tmp_path / "copy", tmp_path / "again", clock=CLOCK)
    assert not (tmp_path / "again").exists()
    assert names_in(tmp_path) == {"log", made.watermark.name, "copy"}


async def test_a_lost_mark_needs_an_explicit_word(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        await log.register(made.issuer.sign(b"1"))
    backup(made.data, tmp_path / "copy", with_keys=True)
    made.watermark.unlink()

    with pytest.raises(LogUnusableError, match=r"mark .* is missing"):
        restore(tmp_path / "copy", tmp_path / "again", clock=CLOCK)
    assert restore(tmp_path / "copy", tmp_path / "again", clock=CLOCK, accept_missing_mark=True) == 3
    assert made.watermark.exists()


async def test_a_refused_restore_leaves_no_new_mark(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    async with running(made) as log:
        await log.register(made.issuer.sign(b"1"))
    backup(made.data, tmp_path / "without-keys")
    made.watermark.unlink()

    with pytest.raises(LogUnusableError, match="key is missing"):
        restore(tmp_path / "without-keys", tmp_path / "again", clock=CLOCK, accept_missing_mark=True)
    assert not made.watermark.exists()


async def test_a_new_origin_is_a_new_log_with_the_same_issuers(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    backup(made.data, tmp_path / "copy")
    old = Config.read(Folder(made.data).config)

    created = restore_as_new(tmp_path / "copy", tmp_path / "new", clock=CLOCK)

    assert created.origin != old.origin
    assert created.policy_thumbprint != old.policy_key
    log = Log.open(tmp_path / "new", clock=CLOCK)
    await log.start()
    try:
        assert log.newest_head().size == 2
        assert (await log.register(made.issuer.sign(b"1"))).index == 2
    finally:
        await log.stop()
    with pytest.raises(LogUnusableError, match="another origin"):
        restore_as_new(tmp_path / "copy", tmp_path / "third", clock=CLOCK, origin=old.origin)


def test_what_is_there_is_never_written_over(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()

    with pytest.raises(FileExistsError):
        backup(made.data, tmp_path / "taken")
    backup(made.data, tmp_path / "copy", with_keys=True)
    with pytest.raises(FileExistsError):
        restore(tmp_path / "copy", tmp_path / "taken", clock=CLOCK)
    for missing in (backup, lambda a, b: restore(a, b, clock=CLOCK), lambda a, b: restore_as_new(a, b, clock=CLOCK)):
        with pytest.raises(LogUnusableError):
            missing(tmp_path / "nowhere", tmp_path / "out")


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41b", "a b&mode=memory"])
async def test_a_folder_of_any_name_is_backed_up(tmp_path: Path, name: str) -> None:
    made = make_log(tmp_path / name)

    assert backup(made.data, tmp_path / "copy") == 2


def keep(store: ArtifactStore, record: bytes) -> str:
    digest = hashlib.sha256(record).hexdigest()
    with store.receive(digest) as incoming:
        incoming.write(record)
        incoming.finish()
    return digest


def test_artifacts_go_with_the_backup_and_come_back(tmp_path: Path) -> None:
    """A record that was uploaded is evidence too: a backup without it would lose it."""
    made = make_log(tmp_path / "log")
    digest = keep(ArtifactStore(made.data / "artifacts", reserve=0), b"a large record")

    backup(made.data, tmp_path / "copy", with_keys=True)
    restore(tmp_path / "copy", tmp_path / "again", clock=CLOCK)

    with ArtifactStore(tmp_path / "again" / "artifacts").open(digest) as file:
        assert file.read() == b"a large record"
    assert not (tmp_path / "again" / "artifacts" / "incoming").exists()
    report = fsck(tmp_path / "again")
    assert (report.clean, report.artifacts) == (True, 1)


def test_a_damaged_artifact_is_found_and_not_copied(tmp_path: Path) -> None:
    made = make_log(tmp_path / "log")
    store = ArtifactStore(made.data / "artifacts", reserve=0)
    digest = keep(store, b"a large record")
    (store.folder / digest[:2] / digest[2:]).write_bytes(b"another one")

    assert [finding.where for finding in made.fsck().findings] == [f"artifact {digest}"]
    with pytest.raises(MalformedError):
        backup(made.data, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
