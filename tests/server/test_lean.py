"""A worker's connection by itself: where it is served, when another worker has fewer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from transparency.server.access import Client
from transparency.server.balance import Balance, Share
from transparency.server.connections import Connections
from transparency.server.desk import Desk
from transparency.server.lean import LeanConnection
from transparency.server.limits import RateLimiter
from transparency.server.outcome import Answered, Receipted
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.statements.statement import Entry

REQUEST = b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Type: application/cose\r\nContent-Length: 3\r\n\r\nabc"


class Registrar:
    """Registers whatever comes, at once."""

    body_limit = 1000

    def submit(self, data: bytes, client: Client, answered: Answered, *, patient: bool) -> None:
        del data, client, patient
        answered(Receipted(Entry(bytes(32)), b"receipt", erased=False))

    def no_more(self) -> None:
        """Nobody waits."""


class Crew:
    """A worker that has a connection, and one that has none."""

    def __init__(self, share: Share, tokens: TokenStore) -> None:
        self.room = True
        self.passed: list[bytes] = []
        settings = ServerSettings(open=True)
        limiter = RateLimiter(None, 60.0, max_clients=10, clock=time.monotonic)
        connections = Connections(most=10, most_per_address=None, most_unsent=1000, grace=1.0, every=1.0)
        self.desk = Desk(Registrar(), settings, tokens, limiter, connections, self._hand_over, share)
        share.connections.begin()

    def _hand_over(self, descriptor: int, begun: bytes, to: int) -> bool:
        del to
        os.close(descriptor)
        self.passed += [begun] * self.room
        return self.room

    async def answer(self, begun: bytes = b"") -> tuple[LeanConnection, bytes]:
        """To a request that comes now, or that another worker has read: as far as it is given here."""
        mine, client = socket.socketpair()
        connection = LeanConnection(self.desk, "10.0.0.1")
        self.desk.connections.add(connection)
        connection.begun = begun
        mine.setblocking(False)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(lambda: connection, mine)
        with client:
            async with asyncio.timeout(PATIENCE):
                if not begun:
                    await loop.sock_sendall(client, REQUEST)
                answer = await loop.sock_recv(client, 10_000)
        transport.abort()
        await asyncio.sleep(0)
        return connection, answer


@pytest.fixture
async def crew(tmp_path: Path) -> AsyncIterator[Crew]:
    with contextlib.closing(Balance(2)) as balance, contextlib.closing(TokenStore(tmp_path / "access")) as tokens:
        share, other = (Share(balance.descriptor, balance.enter()) for _ in range(2))
        share.enter()
        other.enter()
        yield Crew(share, tokens)


async def test_a_connection_goes_with_its_first_request_to_a_worker_that_has_fewer(crew: Crew) -> None:
    _, answer = await crew.answer()

    assert (crew.passed, answer) == ([REQUEST], b"")


async def test_a_connection_for_which_there_is_no_way_to_the_other_is_served_here(crew: Crew) -> None:
    """To share it out is worth something, but not a refusal."""
    crew.room = False
    _, answer = await crew.answer()

    assert answer.startswith(b"HTTP/1.1 201")


async def test_a_connection_is_served_here_when_no_file_is_free(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    def dup(_: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "dup", dup)
    _, answer = await crew.answer()

    assert answer.startswith(b"HTTP/1.1 201")


async def test_nothing_is_passed_on_when_the_service_stops(crew: Crew) -> None:
    """The other stops as well: it may have gone before the connection arrives."""
    crew.desk.stopping = True
    _, answer = await crew.answer()

    assert crew.passed == []
    assert answer.startswith(b"HTTP/1.1 201")


async def test_what_was_passed_on_stays_and_what_was_read_of_it_is_not_kept(crew: Crew) -> None:
    """For as long as the connection lives that would be memory which nobody counts."""
    connection, answer = await crew.answer(begun=REQUEST)

    assert crew.passed == []
    assert answer.startswith(b"HTTP/1.1 201")
    assert connection.begun == b""
