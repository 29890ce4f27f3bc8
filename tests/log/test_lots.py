"""Statements that were judged alike are sequenced as one, until something tells one of them from the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.log.test_unique import signatures
from tests.patience import PATIENCE
from transparency.errors import (
    JudgementStaleError,
    NotFoundError,
    OverloadedError,
    RefusedError,
    StoreError,
    TransparencyError,
)
from transparency.log import queue, sequencer
from transparency.log.candidate import Batch, Candidate, Lot, Place, Sequenced, Standing, Told
from transparency.log.log import Log
from transparency.log.store import Commit, Kind, NewEntry, Store
from transparency.policy.judge import FOREVER, Judgement
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement
from transparency.testing import MadeLog, make_log, running


@pytest.fixture
def made(tmp_path: Path) -> MadeLog:
    return make_log(tmp_path / "log")


def statements(made: MadeLog, count: int, what: bytes = b"of a lot") -> list[Statement]:
    return [Statement.from_bytes(made.issuer.sign(b"%s %d" % (what, number))) for number in range(count)]


def row(log: Log, statement: Statement) -> NewEntry:
    generation = log.policy.generation
    return NewEntry(statement.entry, Kind.STATEMENT, generation, statement.tbs_digest, statement.normalised)


def judged(log: Log, *, not_after: int = FOREVER, unique: bool = False) -> Judgement:
    return Judgement(log.policy.generation, 0, not_after, unique=unique)


class Listener:
    """Who is told of a lot: what came of each, by its number, and how often they were told together."""

    def __init__(self, count: int) -> None:
        self.outcomes: dict[int, Place | TransparencyError] = {}
        self.batches: list[Batch] = []
        self._count = count
        self._all = asyncio.Event()

    def together(self, index: int, batch: Batch) -> None:
        self.batches.append(batch)
        for number in range(self._count):
            self._tell(number, Sequenced(index + number, batch))

    def apart(self, number: int) -> Told:
        return lambda outcome: self._tell(number, outcome)

    def _tell(self, number: int, outcome: Place | TransparencyError) -> None:
        assert number not in self.outcomes, "told twice"
        self.outcomes[number] = outcome
        if len(self.outcomes) == self._count:
            self._all.set()

    async def all(self) -> list[Place | TransparencyError]:
        await asyncio.wait_for(self._all.wait(), PATIENCE)
        return [self.outcomes[number] for number in range(self._count)]


def enqueue(log: Log, rows: Sequence[Statement], judgement: Judgement, *, patient: bool = False) -> Listener:
    told = Listener(len(rows))
    lot = Lot([row(log, each) for each in rows], judgement, told.together, told.apart, patient=patient)
    log.sequencer.enqueue_lot(lot)
    return told


def places(outcomes: Sequence[Place | TransparencyError]) -> list[int]:
    assert all(isinstance(outcome, Sequenced) for outcome in outcomes), outcomes
    return [outcome.index for outcome in outcomes if isinstance(outcome, Sequenced)]


async def test_a_lot_stands_side_by_side_under_one_head_and_each_receipt_verifies(made: MadeLog) -> None:
    async with running(made) as log:
        size = log.newest_head().size
        some = statements(made, 5)
        told = enqueue(log, some, judged(log))

        assert places(await told.all()) == list(range(size, size + 5))
        (batch,) = told.batches
        receipts = log.receipts_of(batch, size + 1, 3)
        assert receipts == [log.receipt(index) for index in range(size + 1, size + 4)]
        for statement, receipt in zip(some[1:4], receipts, strict=True):
            assert Receipt.from_bytes(receipt).root_for(statement.entry) == log.newest_head().root
    assert made.fsck().clean


async def test_one_that_is_known_already_takes_its_lot_apart(made: MadeLog) -> None:
    async with running(made) as log:
        some = statements(made, 4)
        known = await log.register(some[2].normalised)
        told = enqueue(log, some, judged(log))

        first, second, third, fourth = await told.all()
        assert isinstance(third, Standing)
        assert third.index == known.index
        assert places([first, second, fourth]) == [known.index + 1, known.index + 2, known.index + 3]
        assert not told.batches


async def test_who_sends_one_of_a_lot_that_waits_is_told_with_it(made: MadeLog) -> None:
    async with running(made) as log:
        some = statements(made, 3)
        told = enqueue(log, some, judged(log), patient=True)
        alone = await log.sequencer.submit(Candidate.of(some[1], judged(log)))

        assert isinstance(alone, Sequenced)
        assert places(await told.all())[1] == alone.index
        assert len(told.batches) == 1


async def test_a_lot_with_an_entry_that_is_in_flight_shares_its_place(made: MadeLog) -> None:
    async with running(made) as log:
        some = statements(made, 3)
        first = enqueue(log, some[1:2], judged(log), patient=True)
        told = enqueue(log, some, judged(log))

        assert places(await told.all())[1] == places(await first.all())[0]
        assert log.newest_head().size == min(places(await told.all())) + 3


async def test_the_same_statement_twice_in_a_lot_is_one_entry(made: MadeLog) -> None:
    async with running(made) as log:
        size = log.newest_head().size
        one, other = statements(made, 2)
        told = enqueue(log, [one, other, one], judged(log))

        first, second, third = places(await told.all())
        assert (first, third) == (size, size)
        assert second == size + 1
        assert log.newest_head().size == size + 2


@pytest.mark.parametrize("why", ["generation", "time"])
async def test_a_judgement_that_holds_no_more_is_said_to_each(made: MadeLog, why: str) -> None:
    """REG-21: none of them was sequenced."""
    async with running(made) as log:
        size = log.newest_head().size
        stale = judged(log, not_after=0) if why == "time" else judged(log)._replace(generation=7)
        told = enqueue(log, statements(made, 3), stale)

        assert [type(outcome) for outcome in await told.all()] == 3 * [JudgementStaleError]
        assert log.newest_head().size == size


async def test_in_a_lot_too_a_second_signature_over_the_same_bytes_is_refused_where_they_must_be_unique(
    made: MadeLog,
) -> None:
    """LEAF-7, and what waits already is decided one by one from then on."""
    async with running(made) as log:
        signed, (other,) = signatures(), statements(made, 1)
        before = enqueue(log, [other, signed.first], judged(log), patient=True)
        told = enqueue(log, [signed.second, signed.twin], judged(log, unique=True))

        assert len(places(await before.all())) == 2
        assert not before.batches
        second, twin = await told.all()
        assert isinstance(second, RefusedError)
        assert len(places([twin])) == 1


async def test_who_joined_a_lot_shares_the_place_of_its_own_when_the_lot_is_taken_apart(made: MadeLog) -> None:
    async with running(made) as log:
        some = statements(made, 3)
        known = await log.register(some[0].normalised)
        told = enqueue(log, some, judged(log), patient=True)
        joined = [log.sequencer.submit(Candidate.of(each, judged(log), patient=True)) for each in (some[2], some[0])]
        last, first = await asyncio.gather(*joined)

        assert isinstance(first, Standing)
        assert first.index == known.index
        assert last.index == places((await told.all())[1:])[1]


async def test_a_lot_behind_a_policy_is_judged_again_and_one_before_it_is_not(made: MadeLog) -> None:
    """REG-21, REG-22: the policy ends its batch."""
    async with running(made) as log:
        size = log.newest_head().size
        following = made.next_policy(log, lambda policy, entry: replace(policy, generation=2, previous=entry))
        before = enqueue(log, statements(made, 2, b"before"), judged(log), patient=True)
        updating = asyncio.ensure_future(log.update_policy(following))
        await asyncio.sleep(0)
        assert log.sequencer.waiting == 3
        behind = enqueue(log, statements(made, 2, b"behind"), judged(log))

        assert places(await before.all()) == [size, size + 1]
        assert (await updating).index == size + 2
        assert [type(outcome) for outcome in await behind.all()] == 2 * [JudgementStaleError]


async def test_of_a_lot_for_which_there_is_not_room_enough_some_are_accepted(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "MAX_WAITING", 4)
    async with running(made) as log:
        told = enqueue(log, statements(made, 6), judged(log))
        outcomes = await told.all()

        assert len(places(outcomes[:4])) == 4
        assert [type(outcome) for outcome in outcomes[4:]] == 2 * [OverloadedError]
        assert log.sequencer.waiting == 0


async def test_when_the_store_fails_each_of_a_lot_is_told_once_and_who_joined_it(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log.open(made.data, clock=made.clock)
    await log.start()
    store: Store = log.opened.store

    def fails(_batch: Commit) -> None:
        raise StoreError("no disk")

    monkeypatch.setattr(store, "commit", fails)
    some = statements(made, 3)
    told = enqueue(log, some, judged(log), patient=True)
    joined = asyncio.ensure_future(log.sequencer.submit(Candidate.of(some[0], judged(log))))

    assert [type(outcome) for outcome in await told.all()] == 3 * [StoreError]
    with pytest.raises(StoreError):
        await joined
    assert log.sequencer.failed is not None
    await log.stop()


async def test_a_lot_that_is_more_than_a_batch_may_hold_is_taken_apart(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch goes over its bytes by one statement at most, never by a lot: it may be committed on the event loop."""
    some = statements(made, 6)
    monkeypatch.setattr(sequencer, "MAX_BATCH_BYTES", 2 * len(some[0].normalised))
    async with running(made) as log:
        size = log.newest_head().size
        outcomes = await enqueue(log, some, judged(log)).all()

        assert places(outcomes) == list(range(size, size + 6))
        assert [log.receipt_head(place).size - size for place in places(outcomes)] == [2, 2, 4, 4, 6, 6]


async def test_who_was_told_that_the_log_has_failed_is_not_told_again_when_its_batch_was_kept(
    made: MadeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another write fails, or the lead is lost, while a batch is being flushed; then the flush succeeds."""
    log = Log.open(made.data, clock=made.clock)
    await log.start()
    store, flushing, go = log.opened.store, threading.Event(), threading.Event()
    commit = store.commit
    released: list[int] = []

    def slow(batch: Commit) -> None:
        flushing.set()
        assert go.wait(PATIENCE)
        commit(batch)

    monkeypatch.setattr(store, "commit", slow)
    log.sequencer.on_published.append(released.append)
    told = enqueue(log, statements(made, 3), judged(log))
    assert await asyncio.to_thread(flushing.wait, PATIENCE)

    log.sequencer.fail(StoreError("another write"))
    go.set()
    await log.stop()

    assert [type(outcome) for outcome in await told.all()] == 3 * [StoreError]
    assert not told.batches
    assert not released


async def test_receipts_are_those_of_the_places_that_were_asked_for_or_none(made: MadeLog) -> None:
    """One too few would give each that is told after it the receipt of another."""
    async with running(made) as log:
        told = enqueue(log, statements(made, 3), judged(log))
        first, *_ = places(await told.all())
        (batch,) = told.batches

        for index, count in ((first - 1, 1), (first + 1, 3), (first + 3, 1)):
            with pytest.raises(NotFoundError):
                log.receipts_of(batch, index, count)
