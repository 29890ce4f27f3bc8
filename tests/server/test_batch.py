"""The batch by itself: results in the order of the statements, however both come, in bounded memory."""

from __future__ import annotations

import asyncio
import itertools
import random
import tracemalloc
from typing import Any

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transparency.cose.sequence import item_end
from transparency.errors import OverloadedError, RefusedError
from transparency.server import batch as module
from transparency.server.access import Client
from transparency.server.batch import AT_ONCE, MAX_BYTES_UNDER_WAY, MAX_UNDER_WAY, Batch
from transparency.server.outcome import Answered, Receipted
from transparency.server.problems import ProblemError
from transparency.statements.statement import Entry

CLIENT = Client("10.0.0.1", None)
LIMIT = 10_000


class Desk:
    """Registers when the test says so; a receipt is the statement's content with a word before it."""

    def __init__(self, *, at_once: bool = False, body_limit: int = LIMIT) -> None:
        self.body_limit = body_limit
        self.at_once = at_once
        self.waiting: list[tuple[bytes, Answered]] = []
        self.seen = 0
        self.most = 0
        self.ended = 0

    def submit(self, data: bytes, client: Client, answered: Answered, *, patient: bool) -> None:
        assert client is CLIENT
        assert patient
        self.seen += 1
        self.waiting.append((data, answered))
        self.most = max(self.most, len(self.waiting))
        if self.at_once:
            self.decide(0)

    def no_more(self) -> None:
        self.ended += 1

    def decide(self, which: int, error: Exception | None = None, *, erased: bool = False) -> None:
        data, answered = self.waiting.pop(which)
        if error is not None:
            answered(error)
        else:
            answered(Receipted(Entry(bytes(32)), b"\xd2\x82\x47receipt" + data[1:], erased))


def statement(number: int, size: int = 0) -> bytes:
    return cbor2.dumps(cbor2.CBORTag(18, [number, bytes(size)]))


def of(desk: Desk, refused: list[ProblemError] | None = None) -> Batch:
    told = [] if refused is None else refused
    return Batch(desk, CLIENT, lambda: None, lambda: None, told.append)


def items(sequence: bytes) -> list[Any]:
    found, at = [], 0
    while at < len(sequence):
        end = item_end(sequence, at, 10**6)
        assert end is not None
        found.append(cbor2.loads(sequence[at:end]))
        at = end
    return found


def number_of(item: Any) -> int:
    number: int = item.value[1][0]
    return number


@given(st.integers(0, 40), st.lists(st.integers(0, 2**16), max_size=20), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_results_are_in_the_order_of_the_statements_however_both_come(
    count: int, cuts: list[int], chance: random.Random
) -> None:
    async def run() -> None:
        desk = Desk()
        batch = of(desk)
        body = b"".join(statement(number, chance.randrange(300)) for number in range(count))
        places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
        got = b""
        for start, end in itertools.pairwise(places):
            batch.feed(body[start:end])
            while batch.advance():
                pass
            while desk.waiting and chance.random() < 0.5:
                desk.decide(chance.randrange(len(desk.waiting)))
            got += batch.results()
        batch.end()
        while desk.waiting:
            desk.decide(chance.randrange(len(desk.waiting)))
        got += batch.results()

        assert batch.done
        assert [number_of(item) for item in items(got)] == list(range(count))

    asyncio.run(run())


async def test_a_result_waits_for_those_before_it() -> None:
    desk = Desk()
    batch = of(desk)
    batch.feed(statement(0) + statement(1))
    batch.advance()

    desk.decide(1)
    early = batch.results()
    desk.decide(0)

    assert early == b""
    assert [number_of(item) for item in items(batch.results())] == [0, 1]


async def test_on_result_is_told_when_the_next_one_has_come_and_not_for_others() -> None:
    told = []
    desk = Desk()
    batch = Batch(desk, CLIENT, lambda: None, lambda: told.append(1), lambda _: None)
    batch.feed(statement(0) + statement(1))
    batch.advance()

    desk.decide(1)
    await asyncio.sleep(0)
    assert told == []
    desk.decide(0)
    await asyncio.sleep(0)
    assert told == [1]


@pytest.mark.parametrize("rest", [b"", b"\xd2", b"\xff"], ids=["whole", "cut short", "not CBOR"])
async def test_where_a_batch_ends_nobody_waits_for_more(rest: bytes) -> None:
    """Its last statements would wait for others in vain (log/gathering.py)."""
    desk = Desk()
    batch = of(desk)
    batch.feed(statement(0) + rest)
    before = desk.ended
    batch.advance()
    batch.end()
    batch.end()

    assert (before, desk.ended) == (0, 1)


async def test_a_body_that_breaks_off_between_two_statements_is_not_taken_for_whole() -> None:
    """The client meant to send more, and would take so many receipts for all."""
    refused: list[ProblemError] = []
    desk = Desk(at_once=True)
    batch = of(desk, refused)
    batch.feed(statement(0))
    batch.advance()
    batch.end(whole=False)
    receipt, problem = items(batch.results())

    assert number_of(receipt) == 0
    assert problem[-2] == "the body breaks off before its end"
    assert [one.status for one in refused] == [400]
    assert batch.done


async def test_a_batch_that_was_answered_as_it_came_has_nobody_waiting() -> None:
    desk = Desk(at_once=True)
    batch = of(desk)
    batch.feed(statement(0))
    batch.advance()
    batch.results()
    batch.end()

    assert desk.ended == 0


async def test_no_more_are_under_way_than_the_window_has() -> None:
    desk = Desk()
    batch = of(desk)
    batch.feed(b"".join(statement(number) for number in range(MAX_UNDER_WAY + 50)))
    while batch.advance():
        pass

    assert batch.full
    assert desk.seen == MAX_UNDER_WAY
    desk.decide(0)
    assert batch.full  # its result was not taken yet
    taken = items(batch.results())
    batch.advance()
    assert len(taken) == 1
    assert desk.seen == MAX_UNDER_WAY + 1


async def test_large_statements_fill_the_window_by_their_bytes() -> None:
    size = MAX_BYTES_UNDER_WAY // 4
    desk = Desk(body_limit=2 * size)
    batch = of(desk)
    for number in range(8):
        batch.feed(statement(number, size))
    while batch.advance():
        pass

    assert batch.full
    assert desk.seen == 4


async def test_one_turn_takes_only_so_many() -> None:
    desk = Desk()
    batch = of(desk)
    batch.feed(b"".join(statement(number) for number in range(3 * AT_ONCE)))

    assert batch.advance()
    assert desk.seen == AT_ONCE


async def test_a_refusal_is_a_problem_with_its_status_in_its_place() -> None:
    refused: list[ProblemError] = []
    desk = Desk()
    batch = of(desk, refused)
    batch.feed(b"".join(statement(number) for number in range(4)))
    batch.advance()
    batch.end()

    desk.decide(0)
    desk.decide(0, RefusedError("no such issuer"))
    desk.decide(0, OverloadedError("full"))
    desk.decide(0, erased=True)
    first, second, third, last = items(batch.results())

    assert number_of(first) == 0
    assert (second[-1], second[-4]) == ("Rejected", 400)
    assert "no such issuer" in second[-2]
    assert (third[-1], third[-4]) == ("Service Unavailable", 503)
    assert number_of(last[0]) == 3
    assert [problem.status for problem in refused] == [400, 503]
    assert batch.done


async def test_a_fault_of_ours_is_a_500_that_says_nothing_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(at_once=True)
    plain = desk.submit
    monkeypatch.setattr(desk, "submit", lambda data, *a, **k: plain(data, *a, **k) if b"secret" not in data else 1 / 0)
    batch = of(desk)
    batch.feed(statement(0) + cbor2.dumps("secret") + statement(2))
    batch.advance()
    first, second, third = items(batch.results())

    assert (number_of(first), number_of(third)) == (0, 2)
    assert (second[-1], second[-4]) == ("Internal Server Error", 500)
    assert "ZeroDivisionError" in caplog.text


async def test_a_limit_is_asked_for_every_statement() -> None:
    left = [2]

    def admit() -> None:
        if not left[0]:
            raise ProblemError(429, "Too Many Requests", "Only 2 requests per minute are allowed.")
        left[0] -= 1

    batch = Batch(Desk(at_once=True), CLIENT, admit, lambda: None, lambda _: None)
    batch.feed(statement(0) + statement(1) + statement(2))
    batch.advance()

    assert [getattr(item, "tag", 0) or item[-4] for item in items(batch.results())] == [18, 18, 429]


@pytest.mark.parametrize("bad", [b"\xff", b"\x9f", b"\x1c", b"\x5a\xff\xff\xff\xff", b"\x81" * 40])
async def test_behind_what_is_no_item_nothing_is_looked_at(bad: bytes) -> None:
    desk = Desk(at_once=True)
    batch = of(desk)
    batch.feed(statement(0) + bad + statement(1))

    assert not batch.advance()
    batch.feed(statement(2))
    batch.advance()
    batch.end()
    first, second = items(batch.results())

    assert number_of(first) == 0
    assert second[-4] == 400
    assert "behind it were not looked at" in second[-2]
    assert (batch.broken, batch.done, desk.seen) == (True, True, 1)


async def test_a_sequence_that_ends_inside_a_statement_says_so_once() -> None:
    batch = of(Desk(at_once=True))
    batch.feed(statement(0) + statement(1)[:-1])
    batch.advance()
    batch.end()
    batch.end()
    first, second = items(batch.results())

    assert number_of(first) == 0
    assert second[-4] == 400
    assert "ends inside a statement" in second[-2]
    assert batch.done


async def test_no_statement_at_all_is_no_result() -> None:
    batch = of(Desk())
    batch.end()

    assert batch.done
    assert batch.results() == b""


async def test_who_leaves_is_not_waited_for_and_nothing_complains(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    batch = of(desk)
    batch.feed(statement(0) + statement(1))
    batch.advance()
    batch.abandon()
    desk.decide(0, RefusedError("no"))
    desk.decide(0)
    await asyncio.sleep(0)

    assert batch.done
    assert batch.results() == b""
    assert caplog.records == []


async def test_a_hundred_thousand_statements_need_the_memory_of_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that never waits, results that are taken as they come."""
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 64)
    desk = Desk()
    batch = of(desk)
    count, came, piece = 100_000, 0, b"".join(statement(number, 20) for number in range(50))
    for fed in range(0, count, 50):
        if fed == count - 5_000:
            tracemalloc.start()  # it costs too much for all; what is kept for each would be seen in some
        batch.feed(piece)
        while True:
            more = batch.advance()
            if batch.full:
                while desk.waiting:
                    desk.decide(0)
                came += batch.results().count(b"receipt")
            elif not more:
                break
        await asyncio.sleep(0)
    batch.end()
    while desk.waiting:
        desk.decide(0)
    came += batch.results().count(b"receipt")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert came == desk.seen == count
    assert desk.most <= 64
    assert most < 300_000
    assert batch.done
