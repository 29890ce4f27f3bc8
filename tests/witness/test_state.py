"""The state of a witness never goes back: an older copy, another history, a second owner are all refused (W-3)."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.notes.world import ORIGIN
from tests.witness.served import NAME, make_witness, served
from tests.witness.trees import note_of, request, signer_of, tree_of
from transparency.errors import (
    FolderOwnedError,
    LogUnusableError,
    NotFoundError,
    RunningElsewhereError,
    StoreError,
    TipMovedError,
)
from transparency.log.mark import default_path
from transparency.notes.note import write_signatures
from transparency.testing import FakeClock
from transparency.testing.faults import Fault, FaultyFile
from transparency.witness.convict import evidence_file
from transparency.witness.folder import WitnessConfig, WitnessFolder, create_witness
from transparency.witness.keys import load_keys
from transparency.witness.record import Evidence, Ground, Move, Record
from transparency.witness.state import MAX_EVIDENCE, open_state, renew_mark

TREE = tree_of(100)


@pytest.fixture
def folder(tmp_path: Path) -> WitnessFolder:
    return make_witness(tmp_path / "witness")


def record(folder: WitnessFolder, size: int, time: int = 7, origin: str = ORIGIN) -> Record:
    """What the witness in this folder records; the same each time, although signatures are not."""
    return _record(str(folder.keys), size, time, origin)


@cache
def _record(keys: str, size: int, time: int, origin: str) -> Record:
    checkpoint = TREE.checkpoint(size, origin)
    lines = load_keys(Path(keys), NAME).cosign(checkpoint, time)
    return Record(size, checkpoint.root, time, note_of(checkpoint), write_signatures(lines))


def commit(folder: WitnessFolder, *sizes: int, origin: str = ORIGIN) -> None:
    with open_state(folder) as state:
        for size in sizes:
            state.commit([Move(origin, state.records().get(origin), record(folder, size, origin=origin))])


def test_what_was_committed_is_there_after_the_next_start(folder: WitnessFolder) -> None:
    commit(folder, 3, 5)

    with open_state(folder) as state:
        assert state.records() == {ORIGIN: record(folder, 5)}
        assert state.sequence == 2


def test_an_older_copy_of_the_folder_is_refused(folder: WitnessFolder, tmp_path: Path) -> None:
    commit(folder, 3)
    shutil.copytree(folder.path, tmp_path / "old")
    commit(folder, 5, 8)
    shutil.rmtree(folder.path)
    shutil.copytree(tmp_path / "old", folder.path)

    with (
        pytest.raises(LogUnusableError, match="2 changes behind the high-water mark: an older copy"),
        open_state(folder),
    ):
        pass


def test_a_copy_that_went_another_way_is_refused(folder: WitnessFolder, tmp_path: Path) -> None:
    """As many changes, or one more, but not those that the mark saw."""
    commit(folder, 3)
    other = WitnessFolder(tmp_path / "other")
    shutil.copytree(folder.path, other.path)
    mark = WitnessConfig.read(folder.config).watermark
    shutil.copy(mark, tmp_path / "kept")
    commit(folder, 5)
    shutil.copy(mark, tmp_path / "seen")
    for sizes in ((6,), (7,)):
        shutil.copy(tmp_path / "kept", mark)
        commit(other, *sizes)
        shutil.copy(mark, tmp_path / "kept")
        shutil.copy(tmp_path / "seen", mark)

        with pytest.raises(LogUnusableError, match="another history"), open_state(other):
            pass


def test_a_process_that_ended_between_commit_and_mark_goes_on(folder: WitnessFolder) -> None:
    """Nobody had been told of that change; it is the one after the mark, and the mark follows."""
    files: list[FaultyFile] = []

    def faulty(path: Path) -> FaultyFile:
        files.append(FaultyFile(path))
        return files[-1]

    commit(folder, 3)
    with open_state(folder, open_mark_file=faulty) as state:
        files[0].fail(Fault.FAILS)
        with pytest.raises(StoreError):
            state.commit([Move(ORIGIN, record(folder, 3), record(folder, 5))])

    for _ in range(2):
        with open_state(folder) as state:
            assert state.records()[ORIGIN].size == 5
    commit(folder, 6, 7)


def test_a_folder_is_owned_once_and_a_copy_beside_a_running_witness_is_refused(
    folder: WitnessFolder, tmp_path: Path
) -> None:
    with open_state(folder):
        with pytest.raises(FolderOwnedError, match="in use"), open_state(folder):
            pass
        shutil.copytree(folder.path, tmp_path / "copy")
        copy = WitnessFolder(tmp_path / "copy")
        with pytest.raises(RunningElsewhereError, match="which runs from another folder"), open_state(copy):
            pass


def test_the_compare_and_swap_takes_only_the_record_it_was_decided_on(folder: WitnessFolder) -> None:
    commit(folder, 5)
    for move in (
        Move(ORIGIN, None, record(folder, 6)),
        Move(ORIGIN, record(folder, 4), record(folder, 6)),
        Move(ORIGIN, replace(record(folder, 5), root=TREE.root(4)), record(folder, 6)),
        Move(ORIGIN, record(folder, 5), record(folder, 4)),
        Move(ORIGIN, record(folder, 5), record(folder, 6, time=6)),
        Move("other.example", record(folder, 5), record(folder, 6)),
    ):
        with open_state(folder) as state:
            with pytest.raises(TipMovedError):
                state.commit([Move("fine.example", None, record(folder, 1, origin="fine.example")), move])
            assert state.records() == {ORIGIN: record(folder, 5)}


def test_a_change_past_the_lock_fences_the_earlier_owner(folder: WitnessFolder) -> None:
    commit(folder, 5)
    with open_state(folder) as state:
        connection = sqlite3.connect(folder.state)
        connection.execute("UPDATE tip SET sequence = sequence + 1")
        connection.commit()
        connection.close()
        with pytest.raises(TipMovedError):
            state.commit([Move(ORIGIN, record(folder, 5), record(folder, 6))])


def test_a_folder_without_its_mark_is_refused_until_somebody_vouches_for_it(folder: WitnessFolder) -> None:
    commit(folder, 5)
    with pytest.raises(LogUnusableError, match="only a mark that is lost"):
        renew_mark(folder)
    mark = WitnessConfig.read(folder.config).watermark
    mark.unlink()
    with pytest.raises(LogUnusableError, match="cannot be opened"), open_state(folder):
        pass

    renew_mark(folder)
    commit(folder, 6)


def test_a_witness_is_not_made_where_the_mark_of_one_lies(tmp_path: Path) -> None:
    folder = create_witness(tmp_path / "w", NAME)
    shutil.rmtree(folder.path)

    with pytest.raises(LogUnusableError, match="a cosigner of this name was here"):
        create_witness(tmp_path / "w", NAME)
    assert list(tmp_path.iterdir()) == [default_path(tmp_path / "w", NAME)]
    with pytest.raises(LogUnusableError, match="outside the data folder"):
        create_witness(tmp_path / "x", NAME, tmp_path / "x" / "mark")


def test_private_keys_are_their_owner_s_alone_and_refused_otherwise(folder: WitnessFolder) -> None:
    paths = list(folder.keys.iterdir())
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o600]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    paths[0].chmod(0o640)

    with pytest.raises(LogUnusableError, match="can be read by others"):
        folder.load_keys()


def test_damaged_or_missing_files_are_named(folder: WitnessFolder) -> None:
    key = folder.keys / "ed25519.pem"
    key.write_bytes(b"no key")
    with pytest.raises(LogUnusableError, match=r"ed25519.pem cannot be used"):
        folder.load_keys()
    key.unlink()
    with pytest.raises(LogUnusableError, match=r"ed25519.pem cannot be read"):
        folder.load_keys()
    folder.state.write_bytes(b"no database" * 1000)
    with pytest.raises(LogUnusableError, match="cannot be opened as the state of a cosigner"), open_state(folder):
        pass
    folder.state.unlink()
    with pytest.raises(LogUnusableError, match="there is no state"), open_state(folder):
        pass


def test_forgetting_a_log_is_kept_on_record_for_ever(folder: WitnessFolder) -> None:
    commit(folder, 5)
    with open_state(folder) as state:
        with pytest.raises(NotFoundError):
            state.forget("other.example", 9)
        state.forget(ORIGIN, 9)
        assert state.records() == {}

    commit(folder, 2)
    with open_state(folder) as state:
        (gone,) = state.forgotten()
        assert (gone.origin, gone.size, gone.forgotten_at, gone.note) == (ORIGIN, 5, 9, record(folder, 5).note)


def test_evidence_is_bounded_forks_by_the_first_and_leads_by_the_newest(folder: WitnessFolder) -> None:
    def found(ground: Ground, size: int) -> Evidence:
        return Evidence(ORIGIN, ground, size, TREE.root(size), 7, b"recorded", b"request")

    with open_state(folder) as state:
        for size in range(1, MAX_EVIDENCE + 10):
            state.commit([], [found(Ground.FORK, size), found(Ground.UNPROVEN, size), found(Ground.UNPROVEN, size)])
        kept = state.evidence()
        assert [one.size for one in kept if one.ground is Ground.FORK] == list(range(1, MAX_EVIDENCE + 1))
        assert [one.size for one in kept if one.ground is Ground.UNPROVEN] == list(range(10, MAX_EVIDENCE + 10))
        # Shown to be of the one history after all: no lead any more. A fork stays one.
        state.commit([Move(ORIGIN, None, record(folder, 20))])
        assert [one.ground for one in state.evidence() if one.size == 20] == [Ground.FORK]
        assert state.evidence_count() == 2 * MAX_EVIDENCE - 1


async def test_two_roots_for_one_size_are_kept_whatever_the_old_size_says(folder: WitnessFolder) -> None:
    fork = tree_of(9, b"fork")
    async with served(folder, FakeClock()) as client:
        assert (await client.add(request(TREE, 0, 5))).status == 200
        assert (await client.add(request(fork, 5, 5))).status == 422
        assert (await client.add(request(fork, 0, 5))).status == 409
        assert (await client.add(request(fork, 5, 9))).status == 422
        assert (await client.add(request(TREE, 0, 9))).status == 409
        kept = client.state.evidence()

    assert [(one.ground, one.size, one.root) for one in kept] == [
        (Ground.FORK, 5, fork.root(5)),
        (Ground.FORK, 9, fork.root(9)),
    ]
    for one in kept:
        convicting = evidence_file(one)
        assert convicting is not None
        assert convicting.judge([signer_of().vkey]).convicts
    assert kept[0].request == request(fork, 5, 5)
    assert TREE.checkpoint(5).text in kept[0].recorded


async def test_a_fault_of_the_witness_itself_stops_it_and_leaves_nobody_waiting(
    folder: WitnessFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(folder) as client:
        assert (await client.add(request(TREE, 0, 5))).status == 200

        def broken(*_: object) -> None:
            raise RuntimeError("for this test")

        monkeypatch.setattr(client.state, "commit", broken)
        assert (await client.add(request(TREE, 5, 6))).status == 503
        assert client.keeper.failed.is_set()
        assert (await client.add(request(TREE, 5, 6))).status == 503


async def test_a_witness_that_cannot_write_answers_503_and_stops(folder: WitnessFolder) -> None:
    async with served(folder) as client:
        assert (await client.add(request(TREE, 0, 5))).status == 200
        state = client.state
        state._connection.execute("UPDATE tip SET sequence = 99")
        reply = await client.add(request(TREE, 5, 6))
        assert reply.status == 503
        assert "cannot be stored" in reply.problem
        assert client.keeper.failed.is_set()
        assert (await client.add(request(TREE, 5, 5))).status == 503
        assert (await client.send("GET", "/readyz")).status == 503
