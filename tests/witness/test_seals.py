"""Whoever edits what a witness has recorded is noticed at the next start, which says of which log (W-3)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.notes.world import ORIGIN
from tests.witness.served import make_witness, served
from tests.witness.test_state import TREE, commit, record
from tests.witness.trees import request
from transparency.cose.algorithms import ED25519
from transparency.cose.keys import PrivateKey
from transparency.errors import LogUnusableError
from transparency.log.mark import Mark
from transparency.testing.faults import Fault, FaultyFile
from transparency.witness.folder import WitnessConfig, WitnessFolder
from transparency.witness.record import Move, Record
from transparency.witness.seals import Seal, all_forgotten, digest_of
from transparency.witness.state import WitnessState, open_state, renew_mark

OTHER = "other.example/log"


@pytest.fixture
def folder(tmp_path: Path) -> WitnessFolder:
    made = make_witness(tmp_path / "witness", ORIGIN, OTHER)
    commit(made, 3, 5, 8)
    commit(made, 4, origin=OTHER)
    return made


def edit(folder: WitnessFolder, sql: str, values: Sequence[object] = ()) -> None:
    connection = sqlite3.connect(folder.state)
    connection.execute(sql, values)
    connection.commit()
    connection.close()


def put(folder: WitnessFolder, table: str, values: Sequence[object]) -> None:
    edit(folder, f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608 - ours


def row(origin: str, record: Record) -> tuple[object, ...]:
    return origin, record.size, record.root, record.time, record.signed, record.lines


def seal_row(origin: str, record: Record) -> tuple[object, ...]:
    seal = Seal.of(record)
    return origin, seal.size, seal.time, seal.rest


def refused(folder: WitnessFolder, words: str) -> None:
    with pytest.raises(LogUnusableError, match=words), open_state(folder):
        pytest.fail("it started")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DELETE FROM logs", f"the record of {ORIGIN} is gone"),
        ("DELETE FROM logs WHERE origin = 'other.example/log'", f"the record of {OTHER} is gone"),
        ("UPDATE logs SET size = 0, root = zeroblob(32) WHERE origin = 'other.example/log'", f"{OTHER} was changed"),
        ("UPDATE logs SET size = -1 WHERE origin = 'other.example/log'", "damaged"),
        ("UPDATE logs SET time = time - 1 WHERE origin = 'log.example/tlog'", f"{ORIGIN} was changed"),
        ("UPDATE logs SET origin = 'x' WHERE origin = 'other.example/log'", f"{OTHER} is gone"),
        (
            "INSERT INTO logs SELECT 'new', size, root, time, signed, lines FROM logs LIMIT 1",
            "new was",
        ),
        ("DELETE FROM seals", f"the record of {ORIGIN} was changed"),
        ("UPDATE seals SET rest = x'00'", "damaged"),
        ("UPDATE tip SET digest = zeroblob(32)", "was changed by somebody else"),
        ("UPDATE tip SET sequence = sequence + 1", "was changed by somebody else"),
        ("DELETE FROM identity WHERE rowid = 1", "was changed by somebody else"),
        ("INSERT INTO forgotten VALUES (1, 'x', 1, x'00', 1, x'00', 1)", "was changed by somebody else"),
    ],
)
def test_rows_that_were_edited_are_refused_and_named(folder: WitnessFolder, sql: str, words: str) -> None:
    edit(folder, sql)

    refused(folder, words)


@pytest.mark.parametrize("column", ["signed", "lines"])
def test_a_bit_flipped_in_a_recorded_checkpoint_is_noticed(folder: WitnessFolder, column: str) -> None:
    good = record(folder, 8)
    note = bytearray(good.signed if column == "signed" else good.lines)
    note[len(note) // 2] ^= 1
    edit(folder, f"UPDATE logs SET {column} = ? WHERE origin = ?", (bytes(note), ORIGIN))  # noqa: S608 - ours

    refused(folder, f"the record of {ORIGIN} was changed")


def test_that_a_log_was_forgotten_cannot_be_taken_off_the_record(folder: WitnessFolder) -> None:
    with open_state(folder) as state:
        state.forget(OTHER, 9)
    edit(folder, "DELETE FROM forgotten")

    refused(folder, "was changed by somebody else")


def forge(folder: WitnessFolder, seals: dict[str, Seal]) -> None:
    """Make the state consistent in itself again, one change after the mark: all that can be done without the mark."""
    with sqlite3.connect(folder.state) as connection:
        (sequence,) = connection.execute("SELECT sequence FROM tip").fetchone()
        vkeys = [vkey for (vkey,) in connection.execute("SELECT vkey FROM identity")]
        digest = digest_of(sequence + 1, vkeys, seals, all_forgotten(()))
        connection.execute("UPDATE tip SET sequence = sequence + 1, digest = ?", (digest,))
        connection.execute("DELETE FROM undo")
    connection.close()


def test_a_rewound_record_passes_for_no_change_that_the_mark_has_not_seen_yet(folder: WitnessFolder) -> None:
    """The editor has a checkpoint that was really cosigned, and makes tip, seals and undo fit it."""
    now, before = record(folder, 8), record(folder, 5)
    other = record(folder, 4, origin=OTHER)
    put(folder, "logs", row(ORIGIN, before))
    put(folder, "seals", seal_row(ORIGIN, before))
    forge(folder, {ORIGIN: Seal.of(before), OTHER: Seal.of(other)})
    refused(folder, "another history")

    put(folder, "undo", seal_row(ORIGIN, now))

    refused(folder, "another history")


def test_a_record_taken_away_with_its_seal_passes_for_no_change_either(folder: WitnessFolder) -> None:
    edit(folder, "DELETE FROM logs WHERE origin = ?", (ORIGIN,))
    edit(folder, "DELETE FROM seals WHERE origin = ?", (ORIGIN,))
    forge(folder, {OTHER: Seal.of(record(folder, 4, origin=OTHER))})
    put(folder, "undo", seal_row(ORIGIN, record(folder, 8)))

    refused(folder, "another history")


def test_a_larger_tree_that_was_never_cosigned_passes_for_no_change(folder: WitnessFolder, tmp_path: Path) -> None:
    stranger = make_witness(tmp_path / "stranger")
    forged = record(stranger, 9, 8)
    put(folder, "logs", row(ORIGIN, forged))
    put(folder, "seals", seal_row(ORIGIN, forged))
    forge(folder, {ORIGIN: Seal.of(forged), OTHER: Seal.of(record(folder, 4, origin=OTHER))})
    put(folder, "undo", seal_row(ORIGIN, record(folder, 8)))

    refused(folder, f"what is recorded for {ORIGIN} was not cosigned here")


def test_forgetting_that_ended_before_the_mark_was_written_is_taken_up(folder: WitnessFolder) -> None:
    files: list[FaultyFile] = []

    def faulty(path: Path) -> FaultyFile:
        files.append(FaultyFile(path))
        return files[-1]

    with open_state(folder, open_mark_file=faulty) as state:
        files[0].fail(Fault.FAILS)
        with pytest.raises(Exception, match="could not be written"):
            state.forget(OTHER, 9)

    commit(folder, 9)
    with open_state(folder) as state:
        assert list(state.records()) == [ORIGIN]


def test_a_mark_is_not_made_anew_for_a_state_that_was_edited(folder: WitnessFolder) -> None:
    WitnessConfig.read(folder.config).watermark.unlink()
    edit(folder, "DELETE FROM logs")

    with pytest.raises(LogUnusableError, match="is gone"):
        renew_mark(folder)


async def test_a_witness_with_another_key_than_it_was_made_with_does_not_start(folder: WitnessFolder) -> None:
    path = folder.keys / "ed25519.pem"
    kept = path.read_bytes()
    path.write_bytes(PrivateKey.generate(ED25519.id).to_pem())
    with pytest.raises(LogUnusableError, match="not those that it was made with"):
        async with served(folder):
            pytest.fail("it started")

    path.write_bytes(kept)
    async with served(folder) as client:
        assert (await client.add(request(TREE, 8, 9))).status == 200


def test_many_logs_in_one_change_are_sealed_together(folder: WitnessFolder) -> None:
    names = [f"log{n}.example" for n in range(20)]
    with open_state(folder) as state:
        state.commit([Move(name, None, record(folder, 2, origin=name)) for name in names])

    with open_state(folder) as state:
        assert len(state.records()) == 22
    reading = WitnessState.for_reading(folder)
    mark = Mark.open(WitnessConfig.read(folder.config).watermark, WitnessConfig.read(folder.config).name)
    assert reading.check_mark(mark.value) is False
    mark.close()
    reading.close()
