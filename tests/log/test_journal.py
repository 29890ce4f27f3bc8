"""The journal in the mark's file: what it gives back is a run of whole batches, from the first on, whatever was cut."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.errors import LogUnusableError, StoreError
from transparency.log.durable import DurableFile
from transparency.log.journal import BEGIN, CAPACITY, Journal, Kept, Tree
from transparency.log.mark import Mark, MarkValue
from transparency.testing import Fault, FaultyFile

ORIGIN = "log.example/journal"


class _File(DurableFile):
    """A file in memory, which keeps what was written since the last sync apart."""

    def __init__(self) -> None:
        self.content = bytearray(BEGIN)
        self.writes: list[tuple[int, bytes]] = []
        self.syncs = 0

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self.content[offset : offset + length])

    def write_at(self, offset: int, data: bytes) -> None:
        self.content.extend(bytes(max(0, offset + len(data) - len(self.content))))
        self.content[offset : offset + len(data)] = data
        self.writes.append((offset, data))

    def sync(self) -> None:
        self.syncs += 1


def tree(size: int) -> Tree:
    return size, hashlib.sha256(b"%d" % size).digest()


def batch(before: int, after: int, content: bytes = b"what it takes", epoch: int = 1) -> Kept:
    return Kept(epoch, tree(before), tree(after), content)


def made(file: _File | None = None) -> tuple[Journal, _File]:
    file = file or _File()
    journal = Journal(file, ORIGIN)
    journal.make()
    return journal, file


def read_again(file: _File, origin: str = ORIGIN, newest: int = 0) -> Journal:
    journal = Journal(file, origin)
    journal.read(newest)
    return journal


def test_what_was_kept_is_read_again_in_order() -> None:
    journal, file = made()
    batches = [batch(2, 3), batch(3, 9, b"x" * 5_000), batch(9, 10, b"")]
    for each in batches:
        journal.append(each)

    again = read_again(file)

    assert again.kept == batches
    assert again.last == tree(10)


def test_one_write_and_one_sync_keep_a_batch_and_touch_no_other() -> None:
    journal, file = made()
    journal.append(batch(2, 3))
    file.writes.clear()
    syncs = file.syncs

    journal.append(batch(3, 4))

    ((offset, data),) = file.writes
    assert offset == BEGIN + 4096
    assert offset % 4096 == 0
    assert len(data) < 4096
    assert file.syncs == syncs + 1


def test_a_batch_that_does_not_continue_the_one_before_it_is_of_an_earlier_run() -> None:
    """The journal began anew, and was not filled as far as the last time."""
    journal, file = made()
    for size in range(2, 8):
        journal.append(batch(size, size + 1))
    journal.begin_anew()
    journal.append(batch(20, 21))

    assert read_again(file).kept == [batch(20, 21)]


def test_what_the_slots_vouch_for_already_is_done_with() -> None:
    journal, file = made()
    journal.append(batch(2, 3))
    journal.append(batch(3, 4))

    assert read_again(file, newest=4).kept == []
    assert read_again(file, newest=4).last is None
    assert len(read_again(file, newest=3).kept) == 2


def test_another_log_s_batches_are_not_read() -> None:
    journal, file = made()
    journal.append(batch(2, 3))

    assert read_again(file, "log.example/other").kept == []


def test_it_is_full_when_a_batch_does_not_fit_and_empty_when_it_begins_anew() -> None:
    journal, _ = made()
    kept = 0
    while journal.has_room(60_000):
        journal.append(batch(kept, kept + 1, bytes(60_000)))
        kept += 1

    assert kept == CAPACITY // 61_440
    assert journal.has_room(1_000)
    journal.begin_anew()
    assert journal.has_room(60_000)
    assert not journal.has_room(CAPACITY)


def test_nothing_of_it_is_left_after_it_was_wiped() -> None:
    journal, file = made()
    journal.append(batch(2, 3, b"a secret"))

    journal.wipe()

    assert b"a secret" not in file.content
    assert read_again(file).kept == []
    assert journal.has_room(100)


@given(
    lengths=st.lists(st.integers(0, 9_000), min_size=1, max_size=6),
    spoilt=st.integers(0, 5),
    where=st.integers(0, 200),
)
def test_those_before_a_spoilt_batch_stay_and_one_behind_it_says_that_it_is_damage(
    lengths: list[int], spoilt: int, where: int
) -> None:
    """The last may have been cut short, and was not acknowledged then. One behind it was written when it was synced."""
    journal, file = made()
    batches = [batch(n, n + 1, bytes([n]) * length) for n, length in enumerate(lengths)]
    places = []
    for each in batches:
        journal.append(each)
        places.append(file.writes[-1])
    spoilt %= len(batches)
    offset, data = places[spoilt]
    file.content[offset + where % len(data)] ^= 1

    again = Journal(file, ORIGIN)
    damage = again.read(0)

    assert again.kept == batches[:spoilt]
    assert bool(damage) is (spoilt < len(batches) - 1)


def test_what_is_left_behind_a_gap_from_before_the_journal_began_anew_is_no_damage() -> None:
    journal, file = made()
    for size in range(2, 8):
        journal.append(batch(size, size + 1))
    journal.begin_anew()
    journal.append(batch(8, 9))
    file.content[BEGIN + 4096 + 20] ^= 1

    assert Journal(file, ORIGIN).read(8) == ""


@pytest.mark.parametrize("cut", [0, 100, 4096, 500_000])
def test_a_journal_in_use_that_is_cut_short_or_empty_is_damaged(cut: int) -> None:
    _, file = made()
    assert Journal(file, ORIGIN).read(2, expected=True) == ""

    whole = bytes(file.content)
    del file.content[BEGIN + cut :]
    assert Journal(file, ORIGIN).read(2, expected=True) == "its file is cut short"
    assert Journal(file, ORIGIN).read(2) == ""
    file.content[:] = whole[:BEGIN] + bytes(CAPACITY)
    assert Journal(file, ORIGIN).read(2, expected=True) == "it is empty"


@given(st.binary(max_size=300))
def test_whatever_stands_there_is_read_or_passed_over(begins: bytes) -> None:
    _, file = made()
    file.content[BEGIN : BEGIN + len(begins)] = begins

    assert read_again(file).kept == []


def test_a_length_beyond_the_end_is_no_batch() -> None:
    journal, file = made()
    journal.append(batch(2, 3))
    file.content[BEGIN + 8 + 32 + 8 + 80 : BEGIN + 8 + 32 + 8 + 84] = b"\xff" * 4

    assert read_again(file).kept == []


# -- as part of a mark ---------------------------------------------------------------------------------------------


def failing(path: Path) -> FaultyFile:
    file = FaultyFile(path)
    file.fail(Fault.FAILS)
    return file


def mark_at(path: Path, size: int) -> Mark:
    mark = Mark.create(path, ORIGIN, MarkValue(*tree(size)))
    mark.make_journal()
    return mark


def test_a_mark_moves_on_with_what_it_keeps(tmp_path: Path) -> None:
    mark = mark_at(tmp_path / "mark", 2)
    mark.keep(batch(2, 5))
    mark.close()

    again = Mark.open(tmp_path / "mark", ORIGIN)
    again.close()

    assert again.value == MarkValue(*tree(5))
    assert again.kept == [batch(2, 5)]
    assert again.keeps


def test_a_mark_that_is_written_needs_its_journal_no_more(tmp_path: Path) -> None:
    mark = mark_at(tmp_path / "mark", 2)
    mark.keep(batch(2, 5))
    mark.write(MarkValue(*tree(6)))
    mark.close()

    again = Mark.open(tmp_path / "mark", ORIGIN)
    again.close()

    assert again.value == MarkValue(*tree(6))
    assert again.kept == []


@pytest.mark.parametrize("harm", ["cut", "emptied", "a gap"])
def test_a_mark_with_a_damaged_journal_is_refused_while_it_is_in_use_and_not_after_an_end_in_order(
    tmp_path: Path, harm: str
) -> None:
    path = tmp_path / "mark"
    mark = mark_at(path, 2)
    mark.keep(batch(2, 3))
    mark.keep(batch(3, 4))
    in_use = path.read_bytes()
    mark.finish(MarkValue(*tree(4)))
    mark.close()

    def harmed(content: bytes) -> bytes:
        blocks = {"cut": content[:BEGIN], "emptied": content[:BEGIN] + bytes(CAPACITY)}
        return blocks.get(harm, content[:BEGIN] + bytes(4096) + content[BEGIN + 4096 :])

    path.write_bytes(harmed(path.read_bytes()))
    mark = Mark.open(path, ORIGIN)
    mark.close()
    assert mark.value == MarkValue(*tree(4))

    path.write_bytes(harmed(in_use))
    with pytest.raises(LogUnusableError, match=r"journal in the high-water mark .* is damaged"):
        Mark.open(path, ORIGIN)


def test_a_mark_of_before_there_were_journals_is_read_and_gets_one(tmp_path: Path) -> None:
    Mark.create(tmp_path / "mark", ORIGIN, MarkValue(*tree(2))).close()
    mark = Mark.open(tmp_path / "mark", ORIGIN)
    assert not mark.can_keep(10)

    mark.make_journal()

    assert mark.can_keep(10)
    assert mark.value == MarkValue(*tree(2))
    assert (tmp_path / "mark").stat().st_size == BEGIN + CAPACITY
    mark.close()


def test_without_room_on_the_disk_there_is_no_journal_and_a_word_about_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Mark.create(tmp_path / "mark", ORIGIN, MarkValue(*tree(2))).close()
    mark = Mark.open(tmp_path / "mark", ORIGIN, failing)

    with caplog.at_level(logging.WARNING, "transparency.log"):
        mark.make_journal()

    assert not mark.can_keep(10)
    assert "has no journal, and a registration takes two flushes" in caplog.text
    mark.close()


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    mark_at(tmp_path / "mark", 2).close()
    mark = Mark.open(tmp_path / "mark", ORIGIN, failing)

    with pytest.raises(StoreError, match="could not be written"):
        mark.keep(batch(2, 3))
    mark.close()
