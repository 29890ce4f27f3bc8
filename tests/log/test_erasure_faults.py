"""An erasure that was registered is carried out, whatever fails or ends in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.log import erasing
from tests.log.erasing import MARKER, Erasing, files_with
from tests.patience import PATIENCE
from transparency.errors import OverloadedError, StoreError
from transparency.log import carrying_out
from transparency.log.artifacts import ArtifactStore
from transparency.log.backup import backup, restore
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.log.search import SearchIndex
from transparency.log.store import Store
from transparency.testing import Fault, FaultyStore, running

FAULTS = list(Fault)


async def filled(tmp_path: Path) -> tuple[Erasing, list[int]]:
    """A log with a record beside it and one in it, both indexed, and an audit of both."""
    made = erasing.make(tmp_path)
    data = erasing.record()
    erasing.upload(made, data)
    async with running(made.made) as log:
        beside = await log.register(erasing.envelope(made.issuer, data))
        inside = await log.register(made.issuer.sign(erasing.record(300)))
        await erasing.state_audit(made, log)
    made.index()
    check_all_there(made)
    return made, [beside.index, inside.index]


def check_all_there(made: Erasing) -> None:
    """In the record's file, in the index and in the store, where that is a file of the folder."""
    held = 3 if made.folder.database.exists() else 2
    assert len(files_with(MARKER, [made.made.data])) == held


async def opened(made: Erasing, arm: Callable[[FaultyStore], None] = lambda _: None) -> Log:
    def wrap(store: Store) -> Store:
        faulty = FaultyStore(store)
        arm(faulty)
        return faulty

    log = made.made.open(wrap_store=wrap)
    await log.start()
    return log


async def check_finished(made: Erasing, indexes: list[int]) -> None:
    """After a start that nothing disturbs: all of it is gone."""
    async with running(made.made) as log:
        assert log.stored(indexes[1]).erased
    made.index()
    assert files_with(MARKER, [made.made.data]) == []
    assert list(made.artifacts.digests()) == []
    assert made.made.fsck().findings == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", ["erase", "scrub", "note_erased"])
async def test_a_store_that_fails_in_the_middle_stops_the_log_and_the_next_start_goes_on(
    tmp_path: Path, step: str, fault: Fault
) -> None:
    made, indexes = await filled(tmp_path)
    log = await opened(made, lambda store: store.fail(step, fault))

    with pytest.raises(StoreError):
        await erasing.by_order(log, *indexes)
    await log.stop()

    await check_finished(made, indexes)


async def test_while_the_database_is_written_anew_reads_are_answered_and_registrations_wait(tmp_path: Path) -> None:
    """docs/retention.md says so: nobody is refused for it, and nothing is lost."""
    made, indexes = await filled(tmp_path)
    begun, go_on = threading.Event(), threading.Event()

    class Copying(FaultyStore):
        def scrub(self) -> str:
            begun.set()
            assert go_on.wait(PATIENCE)
            return super().scrub()

    log = made.made.open(wrap_store=Copying)
    await log.start()
    erasing_it = asyncio.create_task(erasing.by_order(log, indexes[1]))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    registering = asyncio.create_task(log.register(made.issuer.sign(b"meanwhile")))
    await asyncio.sleep(0)

    assert log.statement(indexes[0])
    assert log.receipt(indexes[1])
    assert not registering.done()

    go_on.set()
    assert (await registering).new
    assert (await erasing_it).unfinished == ""
    await log.stop()


async def test_a_registration_that_fails_erases_nothing_and_one_that_only_looks_so_is_carried_out(
    tmp_path: Path,
) -> None:
    for fault in FAULTS:
        made, indexes = await filled(tmp_path / fault.name)
        log = await opened(made, lambda store, fault=fault: store.fail("commit", fault))  # type: ignore[misc]
        with pytest.raises(StoreError):
            await erasing.by_order(log, *indexes)
        await log.stop()
        if fault is Fault.FAILS:
            async with running(made.made) as log:
                assert not log.stored(indexes[1]).erased
            check_all_there(made)
        else:
            await check_finished(made, indexes)


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (ArtifactStore, "erase", OSError(5, "Input/output error")),
        (SearchIndex, "erase", OverloadedError("the search index is being read")),
        (carrying_out, "_forget", OSError(28, "No space left on device")),
    ],
)
async def test_what_is_beside_the_store_may_fail_and_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: object, name: str, error: Exception
) -> None:
    made, indexes = await filled(tmp_path)
    log = await opened(made)

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, name, fail)
        outcome = await erasing.by_order(log, *indexes)
    await log.stop()

    assert outcome.registered is not None
    assert outcome.unfinished
    assert files_with(MARKER, [made.made.data])
    await check_finished(made, indexes)


async def test_a_process_that_ends_right_after_the_registration_leaves_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, indexes = await filled(tmp_path)
    log = await opened(made)
    with monkeypatch.context() as patch:
        patch.setattr("transparency.log.erasure.carry_out", lambda *_: "the process ended")
        await erasing.by_order(log, *indexes)
    await log.stop()
    check_all_there(made)

    await check_finished(made, indexes)


@pytest.mark.sqlite_file
async def test_a_copy_with_what_was_erased_is_erased_again_when_it_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's own statements say what; the copy was made between the registration and the act."""
    made, indexes = await filled(tmp_path)
    log = await opened(made)
    with monkeypatch.context() as patch:
        patch.setattr("transparency.log.erasure.carry_out", lambda *_: "later")
        await erasing.by_order(log, *indexes)
    await log.stop()
    backup(made.made.data, tmp_path / "copy", with_keys=True)
    assert files_with(MARKER, [tmp_path / "copy"])

    restore(tmp_path / "copy", tmp_path / "again", clock=made.clock, watermark=made.made.watermark)

    assert files_with(MARKER, [tmp_path / "again"]) == []
    assert fsck(tmp_path / "again", watermark=made.made.watermark).findings == []


@pytest.mark.sqlite_file
async def test_artifacts_that_are_older_than_their_log_are_erased_again(tmp_path: Path) -> None:
    """Somebody put an old folder of artifacts beside a newer log: restoring it takes away what was erased."""
    made, indexes = await filled(tmp_path)
    backup(made.made.data, tmp_path / "old")
    async with running(made.made) as log:
        await erasing.by_order(log, *indexes)
    backup(made.made.data, tmp_path / "new", with_keys=True)
    for path in (tmp_path / "old" / "artifacts").rglob("*"):
        if path.is_file():
            (tmp_path / "new" / path.relative_to(tmp_path / "old")).write_bytes(path.read_bytes())

    restore(tmp_path / "new", tmp_path / "again", clock=made.clock, watermark=made.made.watermark)

    assert files_with(MARKER, [tmp_path / "again"]) == []
