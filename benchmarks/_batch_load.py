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
        self.got = bytearray()
        self.results: list[bytes] = []


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
    left = len(statements)
    while left:
        for number, event in poll.poll():
            one = by_number[number]
            if event & select.EPOLLOUT and one.left:
                sent = one.sock.send(one.left[:_PIECE])
                one.left = one.left[sent:]
                if not one.left:
                    poll.modify(number, select.EPOLLIN)
            if event & select.EPOLLIN:
                left -= _receive(one, one.sock.recv(_PIECE), load, began)
    load.seconds = time.perf_counter() - began
    load.cpu = time.process_time() - cpu
    for one in sending:
        one.sock.close()
        for number, result in zip(one.numbers, one.results, strict=True):
            status = 201 if result[0] == _TAG_18 else 400
            load.statuses[status] = load.statuses.get(status, 0) + 1
            load.answers[number] = result if status == 201 else None
    return load


def _receive(one: _Sending, data: bytes, load: Load, began: float) -> int:
    if not data:
        raise SystemExit("the log ended a batch before all results had come")
    if one.body is None:
        one.head += data
        end = one.head.find(_END)
        if end < 0:
            return 0
        if not one.head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the log answered {bytes(one.head[:60])!r}")
        one.body = Body(None)
        data = bytes(one.head[end + len(_END) :])
    one.got += one.body.feed(data)[0]
    at, before = 0, len(one.results)
    while at < len(one.got):
        stop = item_end(one.got, at, _MOST)
        if stop is None:
            break
        one.results.append(bytes(one.got[at:stop]))
        load.latencies.append(time.perf_counter() - began)
        at = stop
    del one.got[:at]
    return len(one.results) - before
