"""Connections that go from one process to another."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from transparency.server.packets import AT_ONCE, receive

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with here, there:
        here.setblocking(False)
        yield here, there


def send(there: socket.socket, begun: bytes) -> socket.socket:
    """The client's end of a connection that was passed on."""
    client, accepted = socket.socketpair()
    with accepted:
        socket.send_fds(there, [begun], [accepted.fileno()])
    return client


def test_what_came_is_there_with_what_was_read_of_it(ends: Pair) -> None:
    here, there = ends
    with send(there, b"one") as first, send(there, b"two") as second:
        found, more = receive(here)

        assert [begun for begun, _ in found] == [b"one", b"two"]
        assert more
        for (begun, accepted), client in zip(found, (first, second), strict=True):
            with accepted:
                accepted.send(begun)
            assert client.recv(10) == begun
    assert receive(here) == ([], True)


def test_a_crowd_is_taken_some_at_a_time(ends: Pair) -> None:
    """Not one: each would wait for a turn of the event loop. Not all: those that are served have theirs in between."""
    here, there = ends
    clients = [send(there, b"%d" % number) for number in range(AT_ONCE + 1)]
    taken = [receive(here)[0] for _ in range(2)]

    assert [len(some) for some in taken] == [AT_ONCE, 1]
    for each in [*clients, *(accepted for some in taken for _, accepted in some)]:
        each.close()


def test_when_the_other_end_goes_what_it_sent_is_taken_first(ends: Pair) -> None:
    here, there = ends
    client = send(there, b"last")
    there.close()
    ((begun, accepted),), more = receive(here)

    assert (begun, more) == (b"last", False)
    client.close()
    accepted.close()
