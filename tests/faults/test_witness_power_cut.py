"""What a witness has cosigned survives power loss at any moment (W-3), by the model in power_cut.py.

The workload runs once on the real state, mark and keeper; then the disk is rebuilt for the moment before each sync,
opened with every check of a start, and both the true log and a fork of it are offered to what is there.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.power_cut import CosignerRun, Disk, Journal, Model, Recorder, every_model, rebuild_all, strict
from tests.witness.served import make_witness
from tests.witness.trees import Tree, request, tree_of
from transparency.errors import TransparencyError
from transparency.notes.checkpoint import Checkpoint
from transparency.testing import FakeClock
from transparency.witness.decide import Submission, decide, read_submission
from transparency.witness.folder import WitnessConfig, WitnessFolder
from transparency.witness.keeper import Keeper
from transparency.witness.logs import LogList
from transparency.witness.record import Ground, Record
from transparency.witness.state import open_state

ORIGINS = ("one.example/log", "two.example/log", "three.example/log")
STATE, WAL = "state.sqlite", "state.sqlite-wal"
ROUNDS = 30
LONGEST = 200
# One history each, and another that leaves it after the first leaf.
TREES = {origin: tree_of(LONGEST, origin.encode()) for origin in ORIGINS}
FORKS = {
    origin: tree.cut(1).grow(*(b"fork %d" % number for number in range(LONGEST - 1))) for origin, tree in TREES.items()
}


@dataclass(frozen=True, slots=True)
class _Cosigned:
    origin: str
    size: int
    time: int


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CosignerRun:
    """The workload with the settings we ship, recorded once."""
    return asyncio.run(_workload(tmp_path_factory.mktemp("recorded") / "witness"))


@every_model
def test_whatever_was_cosigned_survives_a_power_cut_at_every_sync(
    run: CosignerRun, in_memory: Path, model: Model
) -> None:
    assert run.journal.count("sync", STATE) > 3, "no checkpoint was in it"
    assert run.journal.count("acknowledge") > 50

    points = _rebuild_all(run, in_memory, model)

    print(f"{points} sync points, {run.journal.count('acknowledge')} cosignatures")  # noqa: T201 - for the report
    assert points > 70, "too few sync points to show anything"


def test_wal_and_then_mark_are_synced_before_each_cosignature_leaves(run: CosignerRun) -> None:
    """W-3: persisted before answering. Nothing of either file is left in the air when a client hears."""
    disk = Disk({name: bytearray(content) for name, content in run.base.items()})
    answers = 0
    for operation in run.journal.operations:
        if operation.kind == "acknowledge":
            answers += 1
            assert not disk.unsynced.get(WAL), "an answer left before the WAL was synced"
            assert not disk.unsynced.get(run.mark), "an answer left before the mark was synced"
        else:
            if (operation.name, operation.kind) == (run.mark, "write"):
                assert not disk.unsynced.get(WAL), "the mark moved over a WAL that was not synced"
            disk.apply(operation)
    assert answers > 50


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
async def test_without_full_sync_the_same_test_fails(tmp_path: Path, in_memory: Path, synchronous: str) -> None:
    """The model is able to see a loss."""
    run = await _workload(tmp_path / "witness", synchronous=synchronous, rounds=8)

    with pytest.raises((AssertionError, TransparencyError)):
        _rebuild_all(run, in_memory, lambda _: strict)


async def test_without_sync_of_the_mark_the_same_test_fails(tmp_path: Path, in_memory: Path) -> None:
    run = await _workload(tmp_path / "witness", rounds=8)
    run.journal.operations = [one for one in run.journal.operations if (one.name, one.kind) != (run.mark, "sync")]

    with pytest.raises((AssertionError, TransparencyError)):
        _rebuild_all(run, in_memory, lambda _: strict)


# -- the workload --------------------------------------------------------------------------------------------------


async def _workload(path: Path, *, synchronous: str = "FULL", rounds: int = ROUNDS) -> CosignerRun:
    """Logs that grow by turns and at once, beside forks of them, with checkpoints of the WAL in between."""
    folder = make_witness(path, *ORIGINS)
    mark = WitnessConfig.read(folder.config).watermark
    base = {file.name: file.read_bytes() for file in (folder.state, mark)}
    recorder = Recorder()
    clock = FakeClock()
    with open_state(
        folder, connect=recorder.connect, synchronous=synchronous, open_mark_file=recorder.open_mark_file
    ) as state:
        # Small, so that SQLite checkpoints by itself in the middle of commits.
        state._connection.execute("PRAGMA wal_autocheckpoint = 20")
        keeper = Keeper(state, LogList(folder.logs), folder.load_keys(), clock, clock)
        await keeper.start()
        for number in range(rounds):
            await _round(keeper, recorder.journal, number)
            clock.advance(number % 2)
        await keeper.stop()
    recorder.close()
    return CosignerRun(folder, base, recorder.journal)


async def _round(keeper: Keeper, journal: Journal, number: int) -> None:
    async def send(origin: str, tree: Tree, size: int) -> None:
        known = keeper.records.get(origin)
        old = 0 if known is None else known.size
        answer = await keeper.add(request(tree, old, max(size, old), origin=origin))
        if answer.record is not None:
            assert tree is TREES[origin]
            journal.acknowledge(_Cosigned(origin, answer.record.size, answer.record.time))

    sizes = [(origin, 2 + 5 * number + place) for place, origin in enumerate(ORIGINS[: 1 + number % 3])]
    await asyncio.gather(*(send(origin, TREES[origin], size) for origin, size in sizes))
    await asyncio.gather(*(send(origin, FORKS[origin], size + 2) for origin, size in sizes))


# -- the disk as it would be, and a start on it --------------------------------------------------------------------


def _rebuild_all(run: CosignerRun, folder: Path, model: Model) -> int:
    return rebuild_all(
        run.base, run.journal, model, lambda files, got, name: _check_start(run, files, got, folder / name)
    )


def _check_start(run: CosignerRun, files: dict[str, bytes], acknowledged: list[object], folder: Path) -> None:
    again = WitnessFolder(run.put_back(files, folder))
    with open_state(again, watermark=folder / run.mark) as state:
        records = state.records()
        for got in acknowledged:
            assert isinstance(got, _Cosigned)
            record = records.get(got.origin)
            assert record is not None, "what was cosigned is gone"
            assert record.size >= got.size, "the witness has gone back behind what it cosigned"
            assert record.time >= got.time
        for origin, record in records.items():
            assert record.root == TREES[origin].root(record.size)
            _offer_a_fork(again, origin, record)
        assert all(each.ground in set(Ground) for each in state.evidence())
        # And it goes on from there.
        state.commit([])
    shutil.rmtree(folder)


def _offer_a_fork(folder: WitnessFolder, origin: str, record: Record) -> None:
    keys = LogList(folder.logs)
    size = min(record.size + 3, LONGEST)
    for old in {record.size, 0, max(record.size - 1, 1)}:
        submission = read_submission(request(FORKS[origin], old, size, origin=origin), keys.keys_of)
        assert isinstance(submission, Submission)
        answer = decide(submission, record, record.time, _never)
        assert answer.status in (409, 422)


def _never(checkpoint: Checkpoint, time: int) -> tuple[()]:
    raise AssertionError("a fork would be cosigned")
