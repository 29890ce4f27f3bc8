"""The load generator: keep-alive connections that send prepared requests, in one loop over epoll.

It must not be the bottleneck: requests are bytes made before the clock starts, answers are only looked at for their
status and length. ``Load.cpu`` is what it spent itself, so that whoever reads a figure can see that it was little.

It shares the machine with the log, as clients do not: so the kernel is told not to let it take a processor from whoever
is answering with every answer that arrives (``SCHED_BATCH``, :func:`polite`). It took one a thousand times a second,
for 37 µs each (``perf sched``), and whoever it took it from found its caches used.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_END = b"\r\n\r\n"
_CREATED = b"HTTP/1.1 201"
_LENGTH = b"Content-Length: "
_READ = 16 * 1024


@dataclass(slots=True)
class Load:
    seconds: float = 0.0
    cpu: float = 0.0
    latencies: list[float] = field(default_factory=list)
    # For each request its answer's body, None where it was not 201.
    answers: list[bytes | None] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    # Requests whose connection ended without an answer.
    lost: int = 0

    @property
    def rate(self) -> float:
        return self.statuses.get(201, 0) / self.seconds


class _Connection:
    __slots__ = ("began", "got", "number", "sock")

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The beginning of an answer that did not come in one piece.
        self.got = b""
        self.number = -1
        self.began = 0.0


def post(body: bytes, path: str = "/entries", kind: str = "application/cose") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextlib.contextmanager
def polite() -> Iterator[None]:
    """Nobody gives way to this process when it wakes; it has its share of the processors all the same."""
    if not hasattr(os, "SCHED_BATCH"):  # not Linux
        yield
        return
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, before, os.sched_param(0))


def run_load(  # noqa: C901 - one loop, to be lean
    port: int | Sequence[int], requests: Sequence[bytes], clients: int, deadline: float | None = None
) -> Load:
    """Send *requests* over *clients* connections, each one after the other's answer; stop sending after *deadline*.

    With several ports the connections are shared out among them.
    """
    ports = [port] if isinstance(port, int) else port
    load = Load(answers=[None] * len(requests))
    epoll = select.epoll()
    connections = {}
    for number in range(min(clients, len(requests))):
        connection = _Connection(ports[number % len(ports)])
        connections[connection.sock.fileno()] = connection
        epoll.register(connection.sock, select.EPOLLIN)
    clock = time.perf_counter
    cpu, began = time.process_time(), clock()
    following = 0

    def send(connection: _Connection) -> bool:
        nonlocal following
        if following >= len(requests) or (deadline is not None and clock() - began > deadline):
            return False
        connection.number = following
        following += 1
        connection.began = clock()
        connection.sock.sendall(requests[connection.number])
        return True

    open_ones = set(connections)
    for number, connection in connections.items():
        if not send(connection):
            open_ones.discard(number)
    while open_ones:
        for number, _ in epoll.poll():
            if number not in open_ones:
                continue
            connection = connections[number]
            try:
                data = connection.sock.recv(_READ)
            except OSError:
                data = b""
            if not data:
                load.lost += 1
                open_ones.discard(number)
                epoll.unregister(number)
                continue
            if connection.got:
                data = connection.got + data
            if not _answered(load, connection, data, clock()):
                connection.got = data
                continue
            connection.got = b""
            if not _again(send, connection, load):
                open_ones.discard(number)
    load.seconds = clock() - began
    load.cpu = time.process_time() - cpu
    for connection in connections.values():
        connection.sock.close()
    epoll.close()
    return load


def _again(send: object, connection: _Connection, load: Load) -> bool:
    try:
        return bool(send(connection))  # type: ignore[operator]
    except OSError:
        load.lost += 1
        return False


def _answered(load: Load, connection: _Connection, got: bytes, now: float) -> bool:
    """Whether *got* is a whole answer."""
    end = got.find(_END)
    if end < 0:
        return False
    at = got.find(_LENGTH, 0, end)
    length = int(got[at + len(_LENGTH) : got.find(b"\r", at)]) if at >= 0 else 0
    if len(got) < end + len(_END) + length:
        return False
    load.latencies.append(now - connection.began)
    status = int(got[9:12])
    load.statuses[status] = load.statuses.get(status, 0) + 1
    if got.startswith(_CREATED):
        load.answers[connection.number] = got[end + len(_END) :]
    return True


def cpu_of(pid: int) -> float:
    """Seconds that a process has used so far, of both kinds."""
    with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - a file of the kernel's
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def children_of(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as children:  # noqa: PTH123 - a file of the kernel's
        return [int(child) for child in children.read().split()]
