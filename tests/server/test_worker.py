"""A worker by itself; as a process, with an owner, it is in test_workers.py and test_worker_processes.py."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from transparency.server.balance import TO_OWNER, Balance, Share
from transparency.server.registrar import PAUSE_EVERY
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore
from transparency.server.worker import Worker


async def test_in_the_pauses_of_a_long_turn_it_sees_to_its_door(tmp_path: Path) -> None:
    """A thousand connections have it busy for most of a second, and a crowd outside would wait for many of those."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        contextlib.closing(Balance(1)) as balance,
        contextlib.closing(TokenStore(tmp_path / "access.sqlite")) as tokens,
        ours,
        theirs,
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as client,
    ):
        door.setblocking(False)
        settings = ServerSettings(open=True, workers=1, max_connections_per_address=0)
        worker = Worker(settings, tokens, ours, Share(balance.descriptor, balance.enter()))
        worker.acceptor.start([door])
        registrar = worker.desk.registrar
        for _ in range(PAUSE_EVERY + 1):
            registrar.submit(b"no statement", worker.desk.identify(None, "127.0.0.1"), lambda _: None, patient=False)
        registrar._work()  # type: ignore[attr-defined]
        client.settimeout(5.0)

        assert client.recv(4096).startswith(b"HTTP/1.1 503 ")  # and the loop had no turn meanwhile
        worker.close()


async def test_when_the_owner_is_gone_connections_for_it_end_without_a_word_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker says once that it stops, and why. Hundreds may be on their way to the owner then."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with (
        contextlib.closing(Balance(1)) as balance,
        contextlib.closing(TokenStore(tmp_path / "access.sqlite")) as tokens,
        ours,
    ):
        worker = Worker(ServerSettings(open=True), tokens, ours, Share(balance.descriptor, balance.enter()))
        theirs.close()
        ends = [socket.socketpair() for _ in range(3)]
        for mine, _ in ends:
            assert worker.desk.hand_over(mine.detach(), b"GET / HTTP/1.1", TO_OWNER)

        for _, client in ends:
            client.settimeout(5.0)
            assert client.recv(1) == b""
            client.close()
    assert caplog.records == []
