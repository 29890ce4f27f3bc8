"""The owner of a log with workers serves a lone connection itself, and answers exactly what a worker would."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import cbor2
import pytest

from tests.patience import PATIENCE
from tests.server.served import Reply, Served, SlowDisk, parse_raw, served, until_found
from tests.server.test_worker_processes import end_all_workers, registered
from transparency.server import registrar
from transparency.server.balance import OwnBatches
from transparency.server.lean import MAX_AHEAD
from transparency.server.own_desk import OwnDesk
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement


class Watched:
    """The owner's own desk, and how many connections came to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        take = OwnDesk.take

        def counted(desk: OwnDesk, *arguments: object) -> None:
            self.desk = desk
            self.taken += 1
            take(desk, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(OwnDesk, "take", counted)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.fixture
async def site(tmp_path: Path, watched: Watched) -> AsyncIterator[Served]:
    del watched
    async with asyncio.timeout(PATIENCE), served(tmp_path, workers=1) as made:
        yield made


REGISTER = "POST /entries HTTP/1.1\r\nContent-Type: application/cose"
BATCH = "POST /entries/batch HTTP/1.1\r\nContent-Type: application/cbor-seq"
MALFORMED = b"\xd2\x80"


def request(head: str, body: bytes) -> bytes:
    return f"{head}\r\nHost: log.example\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Line:
    """One connection, held open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, site: Served) -> Line:
        return cls(*await asyncio.open_connection("127.0.0.1", site.port))

    @classmethod
    async def passed_on(cls, desk: OwnDesk, begun: bytes) -> Line:
        """As if a worker had accepted it and read *begun* of it."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            line = cls(*await asyncio.open_connection(*listening.getsockname()))
            desk.take(listening.accept()[0], begun)
        return line

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, head: str, body: bytes = b"") -> Reply:
        self.send(request(head, body))
        return await self.reply()

    async def reply(self) -> Reply:
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return parse_raw(answer + await self._reader.readexactly(int(length.partition(b":")[2])))

    async def until(self, end: bytes) -> bytes:
        return await self._reader.readuntil(end)

    @property
    def unsent(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    async def register(self, statement: bytes) -> Reply:
        return await self.ask(REGISTER, statement)

    def close(self) -> None:
        self._writer.close()


async def test_a_lone_connection_is_served_by_the_owner(site: Served, watched: Watched) -> None:
    lone = await Line.to(site)
    statement = site.statement(b"alone")
    reply = await lone.register(statement)
    await end_all_workers()
    again = await lone.register(site.statement(b"nobody but the owner is there"))

    assert [reply.status, again.status] == [201, 201]
    assert watched.taken == 1
    entry = Statement.from_bytes(statement).entry
    assert reply.headers["Location"] == f"http://log.example/entries/{Statement.from_bytes(statement).entry_id}"
    found = site.log.lookup(entry)
    assert Receipt.from_bytes(reply.body).inclusion[0].index == found.index  # type: ignore[union-attr]
    lone.close()


async def test_it_goes_to_a_worker_when_another_has_come(site: Served, watched: Watched) -> None:
    """Who has it shows when the worker is killed: its connections end."""
    lone, other = await Line.to(site), await Line.to(site)
    statuses = [
        (await line.register(site.statement(b"%d" % number))).status
        for number, line in enumerate([lone, other, lone, lone, other])
    ]
    await end_all_workers()

    assert statuses == 5 * [201]
    assert watched.taken == 1
    for line in (lone, other):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await line.register(site.statement(b"to a worker that is gone"))
        line.close()


async def test_what_is_refused_is_answered_with_a_problem_and_counted(site: Served, watched: Watched) -> None:
    lone = await Line.to(site)
    await lone.register(site.statement(b"first"))
    malformed = await lone.register(b"\xd2\x80")
    await site.remove_issuer()
    refused = await lone.register(site.statement(b"by a stranger"))
    known = await lone.register(site.statement(b"first"))

    assert [malformed.status, refused.status, known.status] == [400, 400, 201]
    assert cbor2.loads(refused.body)
    assert watched.taken == 1
    answers = site.service.metrics.tally.answers
    assert answers["/entries", "POST", 400] == 2
    assert answers["/entries", "POST", 201] == 2
    lone.close()


async def test_anything_else_on_its_connection_is_answered_by_the_application(site: Served) -> None:
    lone = await Line.to(site)
    assert (await lone.register(site.statement(b"first"))).status == 201

    assert (await lone.ask("GET /healthz HTTP/1.1")).status == 200
    assert (await lone.register(site.statement(b"second"))).status == 201
    lone.close()


async def test_a_batch_on_its_connection_goes_to_a_worker(site: Served, watched: Watched) -> None:
    lone = await Line.to(site)
    assert (await lone.register(site.statement(b"first"))).status == 201
    await end_all_workers()
    later = await registered(site, site.statement(b"when there is a worker again"))
    assert later.status == 201
    assert (await lone.register(site.statement(b"the connection is still there"))).status == 201

    body = site.statement(b"one") + site.statement(b"two")
    lone.send(request(BATCH, body))
    answer = await lone.until(b"0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200")
    assert watched.taken == 1
    assert site.service.metrics.tally.answers.get(("/entries/batch", "POST", 200)) is None, "a worker counts it later"
    lone.close()


async def test_a_stop_answers_what_the_owner_has_taken(tmp_path: Path, watched: Watched) -> None:
    async with asyncio.timeout(PATIENCE):
        async with served(tmp_path, workers=1) as site:
            lone = await Line.to(site)
            await lone.register(site.statement(b"first"))
            asking = asyncio.ensure_future(lone.register(site.statement(b"last")))
            await asyncio.sleep(0.005)
        reply = await asking

    assert reply.status in (201, 503)
    assert watched.taken == 1
    lone.close()


async def test_of_two_that_came_at_once_none_stays_with_the_owner(site: Served, watched: Watched) -> None:
    """Two workers take one each, both see that nobody has any, and pass theirs on."""
    first = await Line.to(site)
    assert (await first.register(site.statement(b"first"))).status == 201
    second = await Line.passed_on(watched.desk, request(REGISTER, site.statement(b"second")))
    assert (await second.reply()).status == 201

    for line in (first, second):
        assert (await line.register(site.statement(b"again"))).status == 201
    await end_all_workers()

    for line in (first, second):
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await line.register(site.statement(b"to a worker that is gone"))
        line.close()


async def test_requests_that_were_refused_count_at_once_for_all(tmp_path: Path, watched: Watched) -> None:
    """API-9: who has spent its minute here finds nothing left with a worker."""
    async with asyncio.timeout(PATIENCE), served(tmp_path, workers=1, rate_limit=3, rate_period=3600.0) as site:
        lone = await Line.to(site)
        statuses = [(await lone.register(MALFORMED)).status for _ in range(4)]
        elsewhere = await site.post(site.statement(), Connection="close")

    assert statuses == [400, 400, 400, 429]
    assert elsewhere.status == 429
    assert watched.taken == 1
    lone.close()


async def test_the_owner_judges_by_what_it_has_read_already(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy of thousands of issuers takes a second to read, and everybody waits meanwhile."""

    def never(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(registrar, "Judge", never)
    monkeypatch.setattr(registrar, "ServiceKeys", never)
    async with asyncio.timeout(PATIENCE), served(tmp_path, workers=1) as site:
        lone = await Line.to(site)
        before = await lone.register(site.statement(b"before"))
        await site.remove_issuer()
        after = await lone.register(site.statement(b"after"))

    assert [before.status, after.status] == [201, 400]
    assert watched.taken == 1
    lone.close()


async def test_who_waits_is_answered_whatever_goes_wrong(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-8. A worker would end, and its connections with it; the owner goes on."""
    lone = await Line.to(site)
    assert (await lone.register(site.statement(b"first"))).status == 201
    await site.remove_issuer()

    def broken(_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as while_broken:
        while_broken.setattr(site.log.sequencer, "find", broken)
        async with asyncio.timeout(5):
            reply = await lone.register(site.statement(b"by a stranger"))

    assert reply.status == 500
    assert (await lone.register(site.statement(b"first"))).status == 201
    lone.close()


async def test_a_stop_ends_what_does_not_end_by_itself(tmp_path: Path, watched: Watched) -> None:
    async with asyncio.timeout(PATIENCE):
        async with served(tmp_path, workers=1, drain_timeout=0.5, rate_limit=None) as site:
            lone = await Line.to(site)
            await lone.register(site.statement(b"first"))
            # It reads none of its answers, until the server reads none of its requests.
            while lone.unsent < 8 * 1024 * 1024:
                lone.send(1000 * request(REGISTER, MALFORMED))
                await asyncio.sleep(0)

    assert watched.taken == 1
    assert watched.desk._desk.connections.total == 0
    lone.close()


async def test_a_batch_goes_to_a_worker_also_with_much_that_was_sent_ahead(site: Served, watched: Watched) -> None:
    first = await Line.to(site)
    assert (await first.register(site.statement(b"first"))).status == 201
    first.close()
    batch = request(BATCH, b"".join(site.statement(b"%d" % number + bytes(4000)) for number in range(70)))
    lone = await Line.passed_on(watched.desk, request(REGISTER, site.statement(b"second")) + batch)
    assert (await lone.reply()).status == 201
    answer = await lone.until(b"0\r\n\r\n")

    assert len(batch) > MAX_AHEAD
    assert answer.startswith(b"HTTP/1.1 200")
    assert site.service.metrics.tally.answers.get(("/entries/batch", "POST", 200)) is None, "a worker counts it later"
    lone.close()


async def test_behind_a_slow_disk_the_answer_is_202_and_the_entry_arrives(tmp_path: Path, watched: Watched) -> None:
    """REG-23."""
    async with asyncio.timeout(PATIENCE), served(tmp_path, workers=1, slow_after=0.1) as site:
        lone = await Line.to(site)
        assert (await lone.register(site.statement(b"first"))).status == 201
        disk = SlowDisk(site.log)
        # Not for a worker, so that the lone one stays alone.
        before = asyncio.create_task(site.post(site.statement(b"before"), X_Unknown="here"))
        await disk.until_waiting(1)
        asking = asyncio.create_task(lone.register(site.statement(b"slow")))
        await disk.until_waiting(2)
        disk.let_one_pass()
        slow = await asking
        disk.let_one_pass()
        assert (await before).status in (201, 202)
        found = await until_found(site, slow.headers["Location"].removeprefix("http://log.example"))

    assert [slow.status, found.status] == [202, 200]
    assert watched.taken == 1
    lone.close()


async def test_a_batch_where_no_worker_is_waits_for_its_receipts_however_slow_the_disk(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results are receipts and problems: none of it is answered 202."""
    async with asyncio.timeout(PATIENCE), served(tmp_path, workers=1, slow_after=0.05) as site:
        lone = await Line.to(site)
        assert (await lone.register(site.statement(b"first"))).status in (201, 202)
        monkeypatch.setattr(OwnBatches, "pass_on", lambda _: None)
        disk = SlowDisk(site.log)
        before = asyncio.create_task(site.post(site.statement(b"before"), X_Unknown="here"))
        await disk.until_waiting(1)
        lone.send(request(BATCH, site.statement(b"slow")))
        await asyncio.sleep(0.3)
        disk.let_one_pass()
        disk.let_one_pass()
        async with asyncio.timeout(10):
            answer = await lone.until(b"0\r\n\r\n")
        await before

    assert answer.startswith(b"HTTP/1.1 200")
    assert watched.taken == 1
    lone.close()
