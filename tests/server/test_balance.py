"""Connections are shared out evenly among processes that listen on the same socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from transparency.server.acceptor import Acceptor
from transparency.server.balance import Balance, Share


class Taken(asyncio.Protocol):
    """A connection, as far as an acceptor is concerned."""

    def __init__(self) -> None:
        self.admission: asyncio.Task[None] | None = None
        self.begun = b""
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.over.set()

    def gone(self) -> None: ...


class Listener:
    """What a worker is here: an acceptor, and the connections that it took."""

    def __init__(self, balance: Balance, place: int) -> None:
        self.share = Share(balance.descriptor, place)
        self.share.put(0)
        self.taken: list[Taken] = []
        self.acceptor = Acceptor(self._admit, at_once=8, others_first=lambda: self.share.ahead)

    def _admit(self, _client: str) -> Taken:
        self.taken.append(Taken())
        self.share.put(len(self.taken))
        return self.taken[-1]

    async def close(self) -> None:
        self.acceptor.stop()
        for one in self.taken:
            assert one.admission is not None
            await one.admission
            one.transport.close()
            await one.over.wait()


def ahead(share: Share) -> bool:
    return share.ahead


@pytest.fixture
def balance() -> Iterator[Balance]:
    with contextlib.closing(Balance(3)) as made:
        yield made


def listening() -> socket.socket:
    made = socket.create_server(("127.0.0.1", 0))
    made.setblocking(False)
    return made


async def until(listeners: list[Listener], count: int) -> None:
    async with asyncio.timeout(20):
        while sum(len(one.taken) for one in listeners) < count:  # noqa: ASYNC110 - what is waited for is not ours
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("together", [True, False], ids=["all at once", "one after the other"])
async def test_each_of_three_gets_its_part(balance: Balance, together: bool) -> None:
    listeners = [Listener(balance, balance.enter()) for _ in range(3)]
    server = listening()
    clients = [socket.create_connection(server.getsockname()) for _ in range(9)] if together else []
    for one in listeners:
        one.acceptor.start([server.dup()])
    while len(clients) < 9:
        clients.append(socket.create_connection(server.getsockname()))
        await until(listeners, len(clients))
    await until(listeners, 9)

    # Whoever was first would have nearly all of them. On a busy machine one may come for its turn too late.
    assert sorted(len(one.taken) for one in listeners) in ([3, 3, 3], [2, 3, 4])
    for one in listeners:
        await one.close()
    for closing in (*clients, server):
        closing.close()


async def test_who_should_be_first_and_does_not_come_keeps_nobody_waiting(balance: Balance) -> None:
    """A worker that hangs has few connections, and looks as if it wanted more."""
    busy = Listener(balance, balance.enter())
    Share(balance.descriptor, balance.enter()).put(0)
    server = listening()
    busy.acceptor.start([server.dup()])
    clients = [socket.create_connection(server.getsockname()) for _ in range(30)]
    await until([busy], 30)

    await busy.close()
    for closing in (*clients, server):
        closing.close()


def test_one_that_is_not_there_is_not_waited_for(balance: Balance) -> None:
    first, second = balance.enter(), balance.enter()
    one, other = Share(balance.descriptor, first), Share(balance.descriptor, second)
    one.put(1)
    assert not ahead(one)
    other.put(0)
    assert ahead(one)
    assert not ahead(other)
    other.put(1)
    assert not ahead(one)
    other.put(0)
    balance.leave(second)
    assert not ahead(one)
    assert balance.enter() == second


def test_a_share_is_seen_through_an_inherited_descriptor(balance: Balance) -> None:
    place = balance.enter()
    mine = Share(balance.descriptor, place)
    mine.put(2)
    other = balance.enter()
    program = "import sys; from transparency.server.balance import Share; Share(*map(int, sys.argv[1:])).put(1)"
    words = [sys.executable, "-c", program, str(balance.descriptor), str(other)]
    subprocess.run(words, pass_fds=[balance.descriptor], check=True, timeout=60)

    assert ahead(mine)
