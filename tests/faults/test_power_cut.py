"""An acknowledged entry survives power loss at any moment (design.md §12), by the model in power_cut.py.

The workload runs once on the real store, mark, appender and sequencer; then the disk is rebuilt for the moment before
each sync, opened with every check of a start, and held against what had been acknowledged.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from tests.faults.conftest import copied
from tests.faults.power_cut import Disk, Journal, Model, Operation, Recorder, every_model, rebuild_all, strict
from transparency.errors import TransparencyError
from transparency.log import journal, upkeep
from transparency.log.durable import DurableFile
from transparency.log.folder import Config, Folder
from transparency.log.log import Accepted, Log, Registered
from transparency.log.mark import Mark
from transparency.log.opening import INIT_SIZE, open_log
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Store
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Entry, Statement
from transparency.testing import FakeClock, MadeLog

pytestmark = pytest.mark.sqlite_file

DATABASE, WAL, MARK = "log.sqlite", "log.sqlite-wal", "mark"
BATCHES = 44
# Where a slot of the mark has its size: after the magic and the origin's hash (transparency/log/mark.py).
_SIZE_IN_SLOT, _SIZE_AT = struct.Struct(">Q"), 40


@dataclass(frozen=True, slots=True)
class _Got201:
    entry: Entry
    statement: bytes
    index: int
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class _Got202:
    entry: Entry
    sent_at: int


@dataclass(slots=True)
class _Run:
    """A workload that ran: the files it began with, what it did to them, and where to rebuild."""

    made: MadeLog
    base: dict[str, bytes]
    journal: Journal


@pytest.fixture(scope="module")
def run(template: MadeLog, tmp_path_factory: pytest.TempPathFactory) -> _Run:
    """The workload with the settings we ship, recorded once."""
    return asyncio.run(_workload(copied(template, tmp_path_factory.mktemp("recorded"))))


class _Only(DurableFile):
    """A journal with nothing in it but what one operation wrote."""

    def __init__(self, operation: Operation) -> None:
        self._data = operation.data

    def read_at(self, offset: int, length: int) -> bytes:
        return self._data.ljust(length, b"\0")


@every_model
def test_whatever_was_acknowledged_survives_a_power_cut_at_every_sync(
    run: _Run, in_memory: Path, model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    assert run.journal.count("sync", DATABASE) > 3, "no checkpoint was in it"
    assert run.journal.count("acknowledge") > 250
    assert run.journal.count("delete", WAL) == 1

    points = _rebuild_all(run, in_memory, model)

    brought_back = caplog.text.count("brought back from the journal")
    print(f"{points} sync points, {run.journal.count('acknowledge')} acknowledgements, {brought_back} brought back")  # noqa: T201 - for the report
    assert points > 150, "too few sync points to show anything"
    assert brought_back > 10, "nothing was lost that the journal had to bring back"


def test_what_is_acknowledged_is_synced_with_the_mark_whole_or_in_the_wal_before_it(run: _Run) -> None:
    """In a slot the mark moves over a WAL that is synced; in the journal it takes along what the WAL may lose."""
    disk = Disk({name: bytearray(content) for name, content in run.base.items()})
    synced_since_slot = False
    written = marked = INIT_SIZE
    slots = kept = 0
    for place, operation in enumerate(run.journal.operations):
        disk.apply(operation)
        match operation.name, operation.kind:
            case (name, "sync") if name == WAL:
                synced_since_slot = True
            case (name, "write") if name == MARK and operation.offset < journal.BEGIN:
                assert synced_since_slot, "the mark moved without a synced commit"
                assert not disk.unsynced.get(WAL), "the mark moved over a WAL that was not synced"
                synced_since_slot = False
                written, slots = _SIZE_IN_SLOT.unpack_from(operation.data, _SIZE_AT)[0], slots + 1
            case (name, "write") if name == MARK and operation.data.startswith(b"TLREDO01"):
                read = journal.Journal(_Only(operation), run.made.origin)
                read.read(0)
                (batch,) = read.kept
                assert batch.before[0] == written, "what is kept does not go on from the mark"
                written, kept = batch.after[0], kept + 1
            case (name, "sync") if name == MARK:
                marked = written
        got = operation.acknowledged
        if isinstance(got, _Got201):
            assert marked >= got.size, "a receipt was released before its mark was synced"
        if isinstance(got, _Got202):
            between = run.journal.operations[got.sent_at : place]
            assert any((one.name, one.kind) == (WAL, "sync") for one in between), "202 before any sync of the WAL"
    assert marked > 256
    assert min(slots, kept) > 10, "one of the two ways was hardly taken"


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
async def test_without_full_sync_the_same_test_fails(made: MadeLog, in_memory: Path, synchronous: str) -> None:
    """The model is able to see a loss: with a weaker setting acknowledged entries are gone, or the start is refused."""
    run = await _workload(made, synchronous=synchronous, batches=12)

    with pytest.raises((AssertionError, TransparencyError)):
        _rebuild_all(run, in_memory, lambda _: strict)


async def test_without_sync_of_the_mark_the_same_test_fails(made: MadeLog, in_memory: Path) -> None:
    run = await _workload(made, batches=6)
    run.journal.operations = [one for one in run.journal.operations if (one.name, one.kind) != (MARK, "sync")]

    with pytest.raises(AssertionError, match="mark"):
        _rebuild_all(run, in_memory, lambda _: strict)


# -- the workload --------------------------------------------------------------------------------------------------


async def _workload(made: MadeLog, *, synchronous: str = "FULL", batches: int = BATCHES) -> _Run:
    """Batches of growing size across 256 entries, every third by 202, with checkpoints in between."""
    recorder = Recorder()
    base: dict[str, bytes] = {}
    stores: list[SqliteStore] = []

    def on_the_shim(plain: Store) -> Store:
        plain.close()
        for path in (made.data / DATABASE, made.data / WAL, made.watermark):
            if path.exists():
                base[path.name] = path.read_bytes()
        path = made.data / DATABASE
        stores.append(SqliteStore(path, connect=recorder.connect, synchronous=synchronous, migrate=False))
        return stores[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "INDEX_EVERY", 64)
        log = made.open(wrap_store=on_the_shim, open_mark_file=recorder.open_mark_file)
        # Small, so that SQLite checkpoints by itself in the middle of commits.
        stores[0]._writer.execute("PRAGMA wal_autocheckpoint = 120")
        await log.start()
        for number in range(batches):
            await _batch(made, log, recorder.journal, number)
            if number % 11 == 10:
                mode = ("RESTART", "TRUNCATE", "FULL")[number // 11 % 3]
                checkpoint = partial(stores[0]._writer.execute, f"PRAGMA wal_checkpoint({mode})")
                await log.sequencer.write(checkpoint)
        await log.stop()
    recorder.close()
    return _Run(made, base, recorder.journal)


async def _batch(made: MadeLog, log: Log, journal: Journal, number: int) -> None:
    statements = [made.issuer.sign(b"%d of batch %d" % (n, number)) for n in range(1 + number % 12)]

    async def send(n: int, data: bytes) -> None:
        later = n % 3 == 2
        sent_at = len(journal.operations)
        result = await (log.accept(data) if later else log.register(data))
        journal.acknowledge(_acknowledged(data, result, sent_at))

    await asyncio.gather(*(send(n, data) for n, data in enumerate(statements)))


def _acknowledged(data: bytes, result: Registered | Accepted, sent_at: int) -> _Got201 | _Got202:
    if isinstance(result, Accepted):
        return _Got202(result.entry, sent_at)
    receipt = Receipt.from_bytes(result.receipt)
    (proof,) = receipt.inclusion
    statement = Statement.from_bytes(data)
    return _Got201(result.entry, statement.normalised, result.index, proof.size, receipt.root_for(result.entry))


# -- the disk as it would be, and a start on it --------------------------------------------------------------------


def _rebuild_all(run: _Run, folder: Path, model: Model) -> int:
    return rebuild_all(
        run.base, run.journal, model, lambda files, got, name: _check_start(run.made, files, got, folder / name)
    )


def _check_start(made: MadeLog, files: dict[str, bytes], acknowledged: list[object], folder: Path) -> None:
    folder.mkdir(parents=True)
    data = folder / "log"
    shutil.copytree(made.data, data, ignore=shutil.ignore_patterns("log.sqlite*", "lock"))
    config = Folder(data).config
    replace(Config.read(config), watermark=folder / MARK).write(config)
    for name, content in files.items():
        (folder / MARK if name == MARK else data / name).write_bytes(content)
    again = MadeLog(data, folder / MARK, made.issuer, FakeClock(made.clock()))
    released = [got for got in acknowledged if isinstance(got, _Got201)]
    mark = Mark.open(again.watermark, again.origin)
    mark.close()
    assert mark.value.size >= max((got.size for got in released), default=0), "the mark is behind what was released"

    opened = open_log(data, clock=again.clock, watermark=again.watermark)
    try:
        store = opened.store
        for got in acknowledged:
            if isinstance(got, _Got201):
                assert store.find(got.entry) == got.index, "an entry acknowledged with 201 is lost"
                row = store.entry(got.index)
                assert row is not None
                assert row.statement == got.statement
                head = store.head(got.size)
                assert head is not None
                assert head.root == got.root
            elif isinstance(got, _Got202):
                pending = store.intake_get(got.entry)
                kept = store.find(got.entry) is not None or (pending is not None and pending.failed is None)
                assert kept, "an entry acknowledged with 202 is lost"
        assert opened.mark.value.size == opened.appender.tip.size
    finally:
        opened.close()
    report = again.fsck()
    assert report.clean, report.findings
    shutil.rmtree(folder)
