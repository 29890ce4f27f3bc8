"""Batches and connections are shared out evenly among workers, whoever of them took the connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.server.served import ISS
from tests.server.test_worker_processes import Service, lost, running, workers_of
from transparency.server.balance import TO_DESK, Balance, Share
from transparency.statements.statement import Statement, sign_statement


@pytest.fixture
def balance() -> Iterator[Balance]:
    with contextlib.closing(Balance(3)) as made:
        yield made


def shares_of(balance: Balance, count: int) -> list[tuple[int, Share]]:
    places = [balance.enter() for _ in range(count)]
    shares = [(place, Share(balance.descriptor, place)) for place in places]
    for _, share in shares:
        share.enter()
    return shares


def test_who_has_a_batch_passes_the_next_on_to_one_that_has_fewer(balance: Balance) -> None:
    (_, first), (second_place, second) = shares_of(balance, 2)
    seen = [first.batches.pass_on()]
    first.batches.begin()
    seen.append(first.batches.pass_on())
    seen.append(second.batches.pass_on())
    second.batches.begin()
    seen.append(first.batches.pass_on())
    second.batches.end()
    seen.append(first.batches.pass_on())
    first.batches.end()
    seen.append(first.batches.pass_on())

    assert seen == [None, second_place, None, None, second_place, None]


def test_the_first_connection_is_the_owners_and_only_while_nobody_has_any(balance: Balance) -> None:
    (_, first), (_, second) = shares_of(balance, 2)
    own = balance.own_share()
    seen = [second.connections.pass_on()]
    own.connections.begin()
    seen.append(first.connections.pass_on())
    first.connections.begin()
    own.connections.end()
    seen.append(second.connections.pass_on())
    first.connections.end()
    seen.append(first.connections.pass_on())

    assert seen == [TO_DESK, None, None, TO_DESK]


def test_the_owner_gives_its_connection_away_when_a_worker_has_one(balance: Balance) -> None:
    (_, first), (second_place, _) = shares_of(balance, 2)
    own = balance.own_share()
    own.connections.begin()

    assert own.connections.pass_on() is None
    first.connections.begin()
    assert own.connections.pass_on() == second_place


def test_of_two_connections_the_owner_gives_one_away(balance: Balance) -> None:
    own = balance.own_share()
    own.connections.begin()
    own.connections.begin()
    nobody_there = own.connections.pass_on()
    [(place, _)] = shares_of(balance, 1)

    assert nobody_there is None
    assert own.connections.pass_on() == place
    own.connections.end()
    assert own.connections.pass_on() is None


def test_the_owner_gives_batches_to_the_worker_with_the_fewest(balance: Balance) -> None:
    (_, first), (second_place, second) = shares_of(balance, 2)
    first.batches.begin()
    own = balance.own_share()

    assert own.batches.pass_on() == second_place
    second.batches.begin()
    second.batches.begin()
    assert own.batches.pass_on() != second_place


def test_where_no_worker_is_the_owner_takes_a_batch_itself(balance: Balance) -> None:
    assert balance.own_share().batches.pass_on() is None


def test_batches_and_connections_are_counted_apart(balance: Balance) -> None:
    (_, first), (second_place, second) = shares_of(balance, 2)
    first.batches.begin()
    second.connections.begin()

    assert first.batches.pass_on() == second_place
    assert first.connections.pass_on() is None
    assert second.batches.pass_on() is None


def test_of_a_crowd_that_comes_at_once_the_others_get_their_part_and_no_more(balance: Balance) -> None:
    """None that is passed on has arrived yet."""
    (first_place, first), *others = shares_of(balance, 3)
    assert first.connections.pass_on() == TO_DESK
    went = []
    for _ in range(30):
        place = first.connections.pass_on()
        if place is None:
            first.connections.begin()
        went.append(first_place if place is None else place)

    assert {went.count(place) for place, _ in [(first_place, first), *others]} == {10}


def test_nothing_is_passed_on_to_one_that_is_not_there(balance: Balance) -> None:
    (_, first), (second_place, _) = shares_of(balance, 2)
    first.batches.begin()
    balance.leave(second_place)

    assert first.batches.pass_on() is None
    assert balance.enter() == second_place


def test_a_share_is_seen_through_an_inherited_descriptor(balance: Balance) -> None:
    ((_, mine),) = shares_of(balance, 1)
    mine.batches.begin()
    other = balance.enter()
    program = "import sys; from transparency.server.balance import Share; Share(*map(int, sys.argv[1:])).enter()"
    words = [sys.executable, "-c", program, str(balance.descriptor), str(other)]
    subprocess.run(words, pass_fds=[balance.descriptor], check=True, timeout=60)

    assert mine.batches.pass_on() == other


class Sending:
    """A batch that goes on for as long as it is wanted: one statement, and its result, after the other."""

    def __init__(self, service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._service = service
        self._reader = reader
        self._writer = writer

    @classmethod
    async def begin(cls, service: Service, name: bytes) -> Sending:
        reader, writer = await asyncio.open_connection(*service.url.removeprefix("http://").split(":"))
        writer.write(
            b"POST /entries/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/cbor-seq\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        batch = cls(service, reader, writer)
        batch._send(name)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await batch._result()
        return batch

    async def goes_on(self, payload: bytes) -> bool:
        try:
            self._send(payload)
            await self._result()
        except (ConnectionError, asyncio.IncompleteReadError):
            return False
        return True

    def close(self) -> None:
        self._writer.close()

    def _send(self, payload: bytes) -> None:
        statement = sign_statement(payload, self._service.issuer, iss=ISS, sub="urn:x", content_type="text/plain")
        self._sent = Statement.from_bytes(statement).entry_id
        self._writer.write(b"%x\r\n%s\r\n" % (len(statement), statement))

    async def _result(self) -> None:
        size = int((await self._reader.readuntil(b"\r\n")).strip(), 16)
        result = await self._reader.readexactly(size + 2)
        assert result[0] == 0xD2, "a receipt"
        self._service.acknowledged.append(self._sent)


async def test_of_four_batches_each_of_two_workers_has_two(tmp_path: Path) -> None:
    """Who has them shows when one is killed: half of them end, and the others do not notice."""
    async with asyncio.timeout(PATIENCE), running(tmp_path) as (service, _, data, mark):
        batches = [await Sending.begin(service, b"batch %d" % number) for number in range(4)]
        os.kill(min(workers_of(service.process.pid)), signal.SIGKILL)
        alive = [await batch.goes_on(b"more of %d" % number) for number, batch in enumerate(batches)]
        for batch in batches:
            batch.close()
        service.process.send_signal(signal.SIGTERM)
        await service.process.wait()

        assert sorted(alive) == [False, False, True, True]
    assert await lost(data, mark, service.acknowledged) == []


async def test_of_twelve_connections_each_of_two_workers_has_about_six(tmp_path: Path) -> None:
    """Those on which statements come one by one: half of them end with a worker, and the others do not notice.

    About, because there are others, which the service's own clients open and close meanwhile.
    """
    async with asyncio.timeout(PATIENCE), running(tmp_path) as (service, _, data, mark):
        streams = [await _connected(service) for _ in range(12)]
        first = [await _registers(service, stream, b"first %d" % number) for number, stream in enumerate(streams)]
        os.kill(min(workers_of(service.process.pid)), signal.SIGKILL)
        alive = [await _registers(service, stream, b"second %d" % number) for number, stream in enumerate(streams)]
        for _, writer in streams:
            writer.close()
        service.process.send_signal(signal.SIGTERM)
        await service.process.wait()

        assert first == [True] * 12
        assert 4 <= sum(alive) <= 8
    assert await lost(data, mark, service.acknowledged) == []


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connected(service: Service) -> Stream:
    return await asyncio.open_connection(*service.url.removeprefix("http://").split(":"))


async def _registers(service: Service, stream: Stream, payload: bytes) -> bool:
    reader, writer = stream
    statement = sign_statement(payload, service.issuer, iss=ISS, sub="urn:x", content_type="text/plain")
    head = f"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\nContent-Length: {len(statement)}"
    try:
        writer.write(head.encode() + b"\r\n\r\n" + statement)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
    except (ConnectionError, asyncio.IncompleteReadError):
        return False
    assert answer.startswith(b"HTTP/1.1 201"), answer
    service.acknowledged.append(Statement.from_bytes(statement).entry_id)
    return True
