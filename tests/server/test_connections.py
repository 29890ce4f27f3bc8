"""Connections: how many, for how long, how large; and who goes when there are too many (API-8, API-10)."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.server.served import Served, parse_raw, served, to_the_end
from transparency.log.log import Registered
from transparency.server.connections import Connections
from transparency.server.protocol import Connection
from transparency.statements.statement import Statement

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nHost:"
POST = b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\n"


@dataclass
class Held:
    """Connections that a test keeps open."""

    site: Served
    pairs: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def open(self, data: bytes = b"", address: str = "127.0.0.1") -> asyncio.StreamReader:
        pair = await asyncio.open_connection("127.0.0.1", self.site.port, local_addr=(address, 0))
        self.pairs.append(pair)
        pair[1].write(data)
        await pair[1].drain()
        await asyncio.sleep(0.02)  # until the server has seen it
        return pair[0]


@asynccontextmanager
async def holding(site: Served) -> AsyncIterator[Held]:
    held = Held(site)
    yield held
    for _, writer in held.pairs:
        writer.transport.abort()


async def ended(reader: asyncio.StreamReader) -> bool:
    return await to_the_end(reader) == b""


async def refused(reader: asyncio.StreamReader) -> bool:
    return (await to_the_end(reader)).startswith(b"HTTP/1.1 503")


async def answered(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)


async def test_a_new_connection_takes_the_place_of_the_oldest_that_says_nothing(tmp_path: Path) -> None:
    """API-10: whoever collects connections loses them to those who come to do something."""
    async with served(tmp_path, max_connections=3, connection_grace=0.0) as site, holding(site) as held:
        first = await held.open(HALF)
        second = await held.open()
        third = await held.open(POST + b"Content-Length: 9\r\n\r\nx")
        fourth = await held.open(HEALTH)
        fifth = await held.open(HEALTH)

        assert (await answered(fourth)).startswith(b"HTTP/1.1 200")
        assert (await answered(fifth)).startswith(b"HTTP/1.1 200")
        assert await ended(first)
        assert await ended(second)
        assert not third.at_eof()


async def test_room_is_made_at_the_address_that_has_the_most(tmp_path: Path) -> None:
    """API-10: a crowd is turned away while it has the most; who comes alone takes the place of its oldest."""
    async with served(tmp_path, max_connections=6) as site, holding(site) as held:
        honest = await held.open(HEALTH)
        assert (await answered(honest)).startswith(b"HTTP/1.1 200")
        hostile = [await held.open(HALF, "127.0.0.2") for _ in range(8)]
        late = await held.open(HEALTH, "127.0.0.3")

        assert all([await refused(reader) for reader in hostile[5:]])
        assert (await answered(late)).startswith(b"HTTP/1.1 200")
        assert await ended(hostile[0])
        await asyncio.wait_for(honest.readuntil(b"}"), PATIENCE)
        held.pairs[0][1].write(HEALTH)
        assert (await answered(honest)).startswith(b"HTTP/1.1 200")


async def test_an_address_has_its_own_limit(tmp_path: Path) -> None:
    async with served(tmp_path, max_connections_per_address=2, connection_grace=0.0) as site, holding(site) as held:
        mine = [await held.open(HALF) for _ in range(3)]
        other = await held.open(HEALTH, "127.0.0.3")

        assert await ended(mine[0])
        assert not mine[2].at_eof()
        assert (await answered(other)).startswith(b"HTTP/1.1 200")


async def test_where_every_connection_is_worked_for_the_next_is_503(tmp_path: Path) -> None:
    """API-8: told why, and when to come back; those at work are not touched."""
    async with served(tmp_path, max_connections=2) as site, holding(site) as held:
        real, go_on, begun = site.log.register, asyncio.Event(), asyncio.Semaphore(0)

        async def slow(data: bytes | Statement) -> Registered:
            begun.release()
            await go_on.wait()
            return await real(data)

        site.log.register = slow  # type: ignore[method-assign]
        statements = [site.statement(b"%d" % number) for number in range(2)]
        busy = [await held.open(POST + b"Content-Length: %d\r\n\r\n" % len(one) + one) for one in statements]
        for _ in busy:
            await asyncio.wait_for(begun.acquire(), PATIENCE)
        told = parse_raw(await site.raw(HEALTH))
        go_on.set()

        assert (told.status, told.title) == (503, "Service Unavailable")
        assert int(told.headers["Retry-After"]) >= 1
        assert [(await answered(reader))[:12] for reader in busy] == [b"HTTP/1.1 201"] * 2


async def test_a_head_has_a_time_to_arrive_in_however_it_trickles(tmp_path: Path) -> None:
    """API-8, API-10: 408 for half a head, nothing for none; also for the second request of a connection."""
    async with served(tmp_path, header_timeout=0.4) as site, holding(site) as held:
        late = parse_raw(await site.raw(HALF))
        silent = await site.raw(b"")
        again = await held.open(HEALTH + HALF)
        await answered(again)
        reading = asyncio.create_task(to_the_end(again))
        for letter in b"xyz":
            held.pairs[0][1].write(bytes([letter]))
            await asyncio.sleep(0.05)
        second = await reading

        assert (late.status, late.title) == (408, "Request Timeout")
        assert silent == b""
        assert b"HTTP/1.1 408" in second


@pytest.mark.parametrize("ends", [b"", b"\r\n"])
async def test_a_head_has_a_size_in_all(tmp_path: Path, ends: bytes) -> None:
    """API-8: 431, whether it would have ended or not; each of its lines alone is small enough."""
    async with served(tmp_path, max_header_bytes=8_000) as site:
        lines = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 400) for number in range(30))
        reply = parse_raw(await site.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + lines + ends))

        assert (reply.status, reply.title) == (431, "Request Header Fields Too Large")
        fits = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 400) for number in range(10))
        small = await site.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fits + b"\r\n")
        assert small.startswith(b"HTTP/1.1 200")


async def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-10: a client that asks and does not read cannot keep a connection, nor what was to be sent on it."""
    monkeypatch.setattr("transparency.server.protocol.LEAST_BYTES_PER_SECOND", 1e9)
    lost, end = asyncio.Event(), Connection.connection_lost

    def connection_lost(self: Connection, exc: BaseException | None) -> None:
        end(self, exc)
        lost.set()

    async with served(tmp_path, send_timeout=0.2, body_timeout=60.0) as site, holding(site) as held:
        body = bytes(16 << 20)
        path = f"/artifacts/{hashlib.sha256(body).hexdigest()}"
        await site.ask("PUT", path, data=io.BytesIO(body), headers={"Content-Type": "application/octet-stream"})
        monkeypatch.setattr(Connection, "connection_lost", connection_lost)
        quiet = await held.open()
        held.pairs[0][1].transport.pause_reading()  # type: ignore[attr-defined] # a socket's transport has it
        held.pairs[0][1].write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await asyncio.wait_for(lost.wait(), PATIENCE)

        assert not quiet.at_eof()


async def test_a_body_that_is_refused_is_not_read_to_its_end(site: Served) -> None:
    """API-8: 413 at once; a little more is read so that the client sees it, and then no more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    heading = asyncio.create_task(answered(reader))
    writer.write(POST + b"Content-Length: 1000000000\r\n\r\n")
    sent = 0
    try:
        while sent < 64 << 20:
            writer.write(bytes(1 << 20))
            await asyncio.wait_for(writer.drain(), 1.0)
            sent += 1 << 20
    except (TimeoutError, ConnectionError):
        pass
    head = await heading
    writer.transport.abort()

    assert head.startswith(b"HTTP/1.1 413")
    assert sent < 64 << 20


async def test_small_statements_pass_while_large_bodies_hold_the_memory(tmp_path: Path) -> None:
    """API-10: what a crowd of large bodies takes, it takes from its own kind."""
    async with served(tmp_path, max_body_bytes=200_000) as site, holding(site) as held:
        large = POST + b"Content-Length: 1000000\r\n\r\n" + bytes(250_000)
        await held.open(large)
        while site.service.bodies.held < 150_000:  # noqa: ASYNC110 - a count, not an event
            await asyncio.sleep(0.01)
        shed = await site.post(site.statement(bytes(200_000)))
        small = await site.post(site.statement(bytes(30_000)))

        assert (shed.status, shed.title) == (503, "Service Unavailable")
        assert small.status == 201


class _Guest:
    def __init__(self, address: str, registry: Connections) -> None:
        self.address, self.served, self.gone = address, False, False
        self.owing_since: float | None = 0.0
        registry.add(self)

    def cut(self) -> None:
        self.gone = True

    def look(self, now: float) -> None:
        pass


async def test_unread_answers_share_a_bounded_amount_of_memory() -> None:
    """API-10: who makes us wait longest goes; who has read is not counted any more."""
    registry = Connections(most=10, most_per_address=None, most_unsent=100, grace=0.0, every=60.0)
    first, second, third = (_Guest(f"192.0.2.{number}", registry) for number in range(3))
    registry.holds(first, 40)
    registry.holds(second, 40)
    registry.sent(first)
    registry.holds(third, 50)
    assert [guest.gone for guest in (first, second, third)] == [False, False, False]
    registry.holds(first, 40)
    registry.close()

    assert [guest.gone for guest in (first, second, third)] == [False, True, False]
    assert (registry.unsent, registry.total, registry.cut_off) == (90, 2, 1)


async def test_those_served_before_go_last_and_those_at_work_never() -> None:
    registry = Connections(most=3, most_per_address=None, most_unsent=1, grace=0.0, every=60.0)
    working, known, new = (_Guest("192.0.2.1", registry) for _ in range(3))
    working.owing_since, known.served = None, True

    assert registry.admit("192.0.2.9")
    assert new.gone
    _Guest("192.0.2.1", registry).owing_since = None
    assert registry.admit("192.0.2.9")
    assert known.gone
    _Guest("192.0.2.1", registry).owing_since = None
    assert not registry.admit("192.0.2.9")
    registry.close()


async def test_a_crowd_gets_room_where_one_of_it_had_its_time_and_others_at_once() -> None:
    registry = Connections(most=4, most_per_address=None, most_unsent=1, grace=3600.0, every=60.0)
    now = asyncio.get_running_loop().time()
    crowd = [_Guest("192.0.2.1", registry) for _ in range(4)]
    for guest in crowd:
        guest.owing_since = now - 1800

    assert not registry.admit("192.0.2.1")
    assert registry.admit("192.0.2.2")
    assert crowd[0].gone
    _Guest("192.0.2.2", registry).owing_since = now
    assert not registry.admit("192.0.2.3")
    crowd[2].owing_since = now - 3601
    assert registry.admit("192.0.2.1")
    assert [guest.gone for guest in crowd] == [True, False, True, False]
    registry.close()
