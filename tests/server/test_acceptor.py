"""The acceptor: who is let in, who is turned away, and what those get to read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.patience import PATIENCE
from transparency.server import acceptor as module
from transparency.server.acceptor import Acceptor

REQUEST = b"POST /entries HTTP/1.1\r\nHost: x\r\nContent-Length: 3000\r\n\r\n" + bytes(3000)


class Full:
    """A service without room, and its door."""

    def __init__(self) -> None:
        self.asked = 0
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.setblocking(False)
        self.acceptor = Acceptor(self._admit, at_once=8)

    def _admit(self, client: str) -> None:
        assert client == "127.0.0.1"
        self.asked += 1

    def open(self) -> None:
        self.acceptor.start([self._door])

    def knock(self) -> socket.socket:
        return socket.create_connection(self._door.getsockname(), PATIENCE)


@contextmanager
def crowd(full: Full, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(full.knock()) for _ in range(count)]


def answer(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


async def test_who_does_not_wait_for_the_loop_takes_all_at_the_door() -> None:
    full = Full()
    full.open()
    with crowd(full, 20):
        full.acceptor.look()

        assert full.asked == 20  # and the loop had no turn meanwhile
    full.acceptor.stop()


async def test_one_turned_away_can_read_why_although_nobody_read_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed unread, the connection would be reset: then what was sent to it may be lost with it."""
    monkeypatch.setattr(module, "MAX_REFUSED", 0)  # each is closed when it was told
    full = Full()
    full.open()
    with crowd(full, 10) as clients:
        for client in clients:
            client.sendall(REQUEST)
        full.acceptor.look()
        answers = [answer(client) for client in clients]
        trouble = [client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for client in clients]
    full.acceptor.stop()

    assert trouble == [0] * 10

    assert all(one.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: " in one for one in answers)
    assert all(b"Too many connections; nothing was accepted" in one for one in answers)


async def test_those_turned_away_are_closed_when_they_had_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that came while the first ones had theirs: one timer serves all."""
    monkeypatch.setattr(module, "REFUSED_SECONDS", 0.2)
    full = Full()
    full.open()
    with crowd(full, 3):
        full.acceptor.look()
        await asyncio.sleep(0.05)
        with crowd(full, 3):
            full.acceptor.look()
            held = len(full.acceptor._refused._held)
            async with asyncio.timeout(PATIENCE):
                while full.acceptor._refused._held:  # noqa: ASYNC110 - a count, not an event
                    await asyncio.sleep(0.01)
    full.acceptor.stop()

    assert held >= 3


async def test_a_door_that_is_closed_is_not_looked_at_any_more() -> None:
    full = Full()
    full.open()
    full.acceptor.stop()
    full.acceptor.look()

    assert full.asked == 0


async def test_without_a_free_file_it_asks_again_later_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OUT_OF_FILES_SECONDS", 0.05)
    resumed: list[socket.socket] = []
    resume = Acceptor._resume

    def counted(own: Acceptor, door: socket.socket) -> None:
        resumed.append(door)
        resume(own, door)

    monkeypatch.setattr(Acceptor, "_resume", counted)
    full = Full()
    full.open()
    with crowd(full, 1), monkeypatch.context() as patched:
        patched.setattr(socket.socket, "accept", _no_file)
        full.acceptor.look()
        full.acceptor.look()
        patched.undo()
        assert full.asked == 0
        async with asyncio.timeout(PATIENCE):
            while not full.asked:  # noqa: ASYNC110 - a count, not an event
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
    full.acceptor.stop()

    assert (full.asked, len(resumed)) == (1, 1)


def _no_file(_own: socket.socket) -> tuple[socket.socket, object]:
    raise OSError(24, "Too many open files")
