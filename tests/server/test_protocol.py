"""A connection on which something else was asked goes to those that register, when statements come over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.server.served import Served, served
from tests.server.test_own_desk import BATCH, REGISTER, Line, Watched, request
from tests.server.test_worker_processes import end_all_workers
from transparency.server.lean import MAX_BODY

HEALTH = "GET /healthz HTTP/1.1"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    async with asyncio.timeout(PATIENCE), served(tmp_path, workers=1) as made:
        yield made


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


async def batched(line: Line, *statements: bytes) -> bytes:
    line.send(request(BATCH, b"".join(statements)))
    return await line.until(b"0\r\n\r\n")


async def test_a_batch_behind_another_request_is_a_worker_s(watched: Watched, site: Served) -> None:
    """Who has it shows when the worker is killed: its connections end."""
    line = await Line.to(site)
    assert (await line.ask(HEALTH)).status == 200

    answer = await batched(line, site.statement(b"one"), site.statement(b"two"))

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert watched.taken == 1
    await end_all_workers()
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await line.ask(HEALTH)
    line.close()


async def test_from_the_second_statement_on_it_is_with_those_that_register(watched: Watched, site: Served) -> None:
    line = await Line.to(site)
    await line.ask(HEALTH)

    first = await line.register(site.statement(b"first"))
    taken = watched.taken
    second = await line.register(site.statement(b"second"))

    assert (first.status, taken) == (201, 0)
    assert (second.status, watched.taken) == (201, 1)
    line.close()


async def test_a_client_that_asks_in_between_stays_where_it_is(watched: Watched, site: Served) -> None:
    line = await Line.to(site)
    for number in range(3):
        assert (await line.ask(HEALTH)).status == 200
        assert (await line.register(site.statement(b"%d" % number))).status == 201

    assert watched.taken == 0
    line.close()


async def test_it_goes_there_and_back_as_often_as_is_asked(watched: Watched, site: Served) -> None:
    line = await Line.to(site)
    for number in range(3):
        assert (await line.ask(HEALTH)).status == 200
        assert (await batched(line, site.statement(b"%d" % number))).startswith(b"HTTP/1.1 200 ")

    assert watched.taken == 3
    line.close()


@pytest.mark.parametrize(
    "head",
    [
        f"{REGISTER}\r\nPrefer: respond-async",
        f"{REGISTER}\r\nConnection: close",
        REGISTER.replace("application/cose", "text/plain"),
        REGISTER.replace("/entries", "/entries?x=1"),
    ],
)
async def test_what_only_the_application_answers_stays(watched: Watched, site: Served, head: str) -> None:
    line = await Line.to(site)
    await line.ask(HEALTH)
    await line.register(site.statement(b"first"))

    reply = await line.ask(head, site.statement(b"second"))

    assert reply.status in (201, 202, 415)
    assert watched.taken == 0
    line.close()


async def test_a_statement_too_large_for_them_stays(watched: Watched, site: Served) -> None:
    line = await Line.to(site)
    await line.ask(HEALTH)
    await line.register(site.statement(b"first"))

    reply = await line.register(site.statement(bytes(MAX_BODY)))

    assert reply.status == 201
    assert watched.taken == 0
    line.close()


async def test_a_head_that_comes_in_pieces_is_read_where_it_began(watched: Watched, site: Served) -> None:
    line = await Line.to(site)
    await line.ask(HEALTH)
    whole = request(BATCH, site.statement(b"in pieces"))

    line.send(whole[:40])
    await asyncio.sleep(0.05)
    line.send(whole[40:])

    assert (await line.until(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert watched.taken == 0
    line.close()
