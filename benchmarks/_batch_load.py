"""Batches as load: each connection sends its share of the statements as one CBOR sequence, and reads results."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence

from benchmarks._load import Load
from transparency.cose.sequence import item_end
from transparency.server.chunked import Body

_END = b"\r\n\r\n"
_PIECE = 128 * 1024
_MOST = 1024 * 1024
_TAG_18 = 0xD2


class _Sending:
    def __init__(self, port: int, numbers: list[int], statements: Sequence[bytes]) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setblocking(False)
        self.numbers = numbers
        body = b"".join(statements[number] for number in numbers)
        head = (
            "POST /entries/batch HTTP/1.1\r\nHost: bench\r\nContent-Type: application/cbor-seq\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.left = memoryview(head.encode() + body)
        self.head = bytearray()
        self.body: Body | None = None
        # The results, and when how many bytes of them were there: they are taken apart when the clock has stopped.
        self.got = bytearray()
        self.came: list[tuple[float, int]] = []

    def results(self) -> list[tuple[float, bytes]]:
        """Each with the time it came at."""
        found, at = [], 0
        for when, size in self.came:
            while at < size and (stop := item_end(self.got, at, _MOST)) is not None and stop <= size:
                found.append((when, bytes(self.got[at:stop])))
                at = stop
        return found


def run_batches(port: int, statements: Sequence[bytes], connections: int) -> Load:
    load = Load(answers=[None] * len(statements))
    sending = [
        _Sending(port, list(range(number, len(statements), connections)), statements) for number in range(connections)
    ]
    poll = select.epoll()
    by_number = {one.sock.fileno(): one for one in sending}
    for number in by_number:
        poll.register(number, select.EPOLLIN | select.EPOLLOUT)
    cpu, began = time.process_time(), time.perf_counter()
    left = connections
    while left:
        for number, event in poll.poll():
            one = by_number[number]
            if event & select.EPOLLOUT and one.left:
                sent = one.sock.send(one.left[:_PIECE])
                one.left = one.left[sent:]
                if not one.left:
                    poll.modify(number, select.EPOLLIN)
            if event & select.EPOLLIN:
                left -= _receive(one, one.sock.recv(_PIECE), began)
    load.seconds = time.perf_counter() - began
    load.cpu = time.process_time() - cpu
    for one in sending:
        one.sock.close()
        for number, (when, result) in zip(one.numbers, one.results(), strict=True):
            load.latencies.append(when)
            status = 201 if result[0] == _TAG_18 else 400
            load.statuses[status] = load.statuses.get(status, 0) + 1
            load.answers[number] = result if status == 201 else None
    return load


def _receive(one: _Sending, data: bytes, began: float) -> bool:
    """Take in some of an answer; whether that was all of it."""
    if not data:
        raise SystemExit("the log ended a batch before all results had come")
    if one.body is None:
        one.head += data
        end = one.head.find(_END)
        if end < 0:
            return False
        if not one.head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the log answered {bytes(one.head[:60])!r}")
        one.body = Body(None)
        data = bytes(one.head[end + len(_END) :])
    one.got += one.body.feed(data)[0]
    one.came.append((time.perf_counter() - began, len(one.got)))
    return one.body.complete
