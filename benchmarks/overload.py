"""What a log does under ten times what it can: accepted requests stay quick, the rest is turned away, memory is flat.

Capacity is measured first, with 64 connections that wait for their answers. Then requests come whether or not the log
keeps up, each on a free connection or a new one, from many addresses, for a minute. The server has one core and this
process the other, else the load could not be made here. At the end the server is killed and the log opened again: every
receipt that was acknowledged must be in it.

The statements are one and a half times what the log can register in that time, sent round and round: what was turned
away comes again, and so does what is registered, which gets its receipt once more (201). Of what is offered not all
leaves this process: it may have so many sockets only. Both are told.

    python benchmarks/overload.py [--seconds 60] [--times 10] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import random
import select
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._common import make_statements, percentile, write_figures
from benchmarks._load import children_of, post, run_load
from benchmarks._reopened import check_reopened
from benchmarks.registration import Server, make_log

ADDRESSES = 60
# Sockets that this process may have: connections that the log has not turned away yet.
MOST_OPEN = 6_000
_END = b"\r\n\r\n"


class Client:
    __slots__ = ("began", "got", "kept", "number", "sock")

    def __init__(self, port: int, number: int) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.sock.bind((f"127.0.0.{2 + random.randrange(ADDRESSES)}", 0))
        self.sock.connect_ex(("127.0.0.1", port))
        self.number = number
        self.began = 0.0
        self.got = bytearray()
        # Whether it had an answer before.
        self.kept = False


class Flood:
    """Requests at a rate, whatever becomes of them."""

    def __init__(self, port: int, requests: list[bytes], rate: float) -> None:
        self._port = port
        self._requests = requests
        self._rate = rate
        self._poll = select.epoll()
        self._clients: dict[int, Client] = {}
        self._idle: deque[Client] = deque()
        self.outcomes: Counter[str] = Counter()
        # Of those that were registered: over a connection that was there, and from when a new one was asked for.
        self.kept: list[float] = []
        self.new: list[float] = []
        self.answers: dict[int, bytes] = {}
        self.offered = 0
        self.sent = 0

    def run(self, seconds: float) -> None:
        began = time.perf_counter()
        following = 0
        while (now := time.perf_counter() - began) < seconds:
            due = int(now * self._rate)
            while self.offered < due and time.perf_counter() - began < seconds:
                self.offered += 1
                if self._offer(following):
                    following = (following + 1) % len(self._requests)
                if self.offered % 256 == 0:
                    break
            self._take(0)
        deadline = time.perf_counter() + 10
        while len(self._clients) > len(self._idle) and time.perf_counter() < deadline:
            self._take(0.1)
        self.outcomes["unanswered"] += len(self._clients) - len(self._idle)
        for client in self._clients.values():
            client.sock.close()

    def _offer(self, number: int) -> bool:
        while self._idle:
            client = self._idle.popleft()
            if client.sock.fileno() in self._clients:
                client.number = number
                client.began = time.perf_counter()
                client.got.clear()
                return self._send(client)
        if len(self._clients) >= MOST_OPEN:
            self.outcomes["no socket left here"] += 1
            return False
        try:
            client = Client(self._port, number)
        except OSError:
            self.outcomes["no socket left here"] += 1
            return False
        client.began = time.perf_counter()
        self._clients[client.sock.fileno()] = client
        self._poll.register(client.sock, select.EPOLLOUT)
        return True

    def _send(self, client: Client) -> bool:
        try:
            client.sock.send(self._requests[client.number])
        except OSError:
            self._end(client, _unanswered(client))
            return False
        self.sent += 1
        return True

    def _take(self, timeout: float) -> None:
        for number, event in self._poll.poll(timeout):
            client = self._clients[number]
            if event & select.EPOLLOUT:
                self._poll.modify(number, select.EPOLLIN)
                self._send(client)
            elif event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                self._receive(client)

    def _receive(self, client: Client) -> None:
        try:
            data = client.sock.recv(65536)
        except OSError:
            data = b""
        client.got += data
        end = client.got.find(_END)
        if not data or end < 0:
            if not data:
                self._end(client, _unanswered(client) if client.number >= 0 else "")
            return
        head = bytes(client.got[:end])
        at = head.find(b"Content-Length: ")
        length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(client.got) < end + len(_END) + length:
            return
        status = head[9:12].decode()
        self.outcomes[status] += 1
        if status == "201":
            (self.kept if client.kept else self.new).append(time.perf_counter() - client.began)
            self.answers[client.number] = bytes(client.got[end + len(_END) :])
        if status != "201" and b"Retry-After" not in head:
            self.outcomes["turned away without Retry-After"] += 1
        client.number, client.kept = -1, True
        if b"Connection: close" in head:
            self._end(client, "")
        else:
            self._idle.append(client)

    def _end(self, client: Client, outcome: str) -> None:
        if outcome:
            self.outcomes[outcome] += 1
        self._clients.pop(client.sock.fileno(), None)
        client.sock.close()


def _unanswered(client: Client) -> str:
    return f"ended without an answer, {'kept' if client.kept else 'new'} connection"


def _waits(name: str, latencies: list[float]) -> str:
    if not latencies:
        return f"{name}: none"
    p50, p99 = percentile(latencies, 0.5) * 1e3, percentile(latencies, 0.99) * 1e3
    return f"{name}: {len(latencies):,}, p50 {p50:.0f} ms, p99 {p99:.0f} ms, slowest {max(latencies):.1f} s"


def memory(pids: list[int]) -> float:
    """Resident megabytes of all of them."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * 4096 / 1e6


def run(folder: Path, arguments: argparse.Namespace) -> None:
    key, data = make_log(folder)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    server = Server(folder, [])
    os.sched_setaffinity(0, {cores[-1]})
    pids = [server.process.pid, *children_of(server.process.pid)]
    for pid in pids:
        os.sched_setaffinity(pid, {cores[0]})
    try:
        first = make_statements(3000, 3000, key)
        load = run_load(server.port, [post(statement) for statement in first], 64)
        rate = load.rate * arguments.times
        statements = make_statements(int(load.rate * arguments.seconds * 1.5), 2000, key)
        print(f"capacity on one core {load.rate:,.0f}/s; offering {rate:,.0f}/s for {arguments.seconds} s", flush=True)
        flood = Flood(server.port, [post(statement) for statement in statements], rate)
        flooding = _watched(flood, arguments.seconds, pids)
        after = run_load(server.port, [post(statement) for statement in make_statements(500, 2500, key)], 8)
    finally:
        server.kill()
    latencies = flood.kept + flood.new
    accepted, distinct = flood.outcomes["201"], len(flood.answers)
    offered, sent = flood.offered / arguments.seconds, flood.sent / arguments.seconds
    print(f"offered {flood.offered:,} ({offered:,.0f}/s, {offered / load.rate:.1f} times its capacity); "
          f"sent {flood.sent:,} ({sent:,.0f}/s, {sent / load.rate:.1f} times its capacity), "
          f"no socket left here for {flood.outcomes['no socket left here']:,}")  # fmt: skip
    print(f"what became of them: {dict(flood.outcomes)}")
    print(f"201 {accepted:,} times: receipts for {distinct:,} statements, and {accepted - distinct:,} times again for "
          f"one that came again ({len(statements):,} statements go round and round)")  # fmt: skip
    print(_waits(f"accepted {accepted / arguments.seconds:,.0f}/s, all of them", latencies))
    print(_waits("  over a connection that was there", flood.kept))
    print(_waits("  over a new one, from when it was asked for", flood.new))
    print("resident MB of all processes, every few seconds: " + " ".join(f"{value:.0f}" for value in flooding))
    print(f"afterwards, 8 clients: {after.rate:,.0f}/s, p99 {percentile(after.latencies, 0.99) * 1e3:.1f} ms")
    acknowledged = {statements[number]: receipt for number, receipt in flood.answers.items()}
    checked = check_reopened(data, acknowledged)
    print(
        f"killed, opened again: {checked} acknowledged receipts of {len(acknowledged)}, the last one for each "
        "statement, verify against what stands there"
    )
    figures = {"capacity": load.rate, "seconds": arguments.seconds, "offered": flood.offered, "sent": flood.sent,
               "offered_times_capacity": offered / load.rate, "sent_times_capacity": sent / load.rate,
               "outcomes": dict(flood.outcomes), "statements_acknowledged": distinct, "verify": checked,
               "p50_ms": percentile(latencies, 0.5) * 1e3, "p99_ms": percentile(latencies, 0.99) * 1e3,
               "resident_mb": flooding}  # fmt: skip
    write_figures("overload", figures, arguments.json)


def _watched(flood: Flood, seconds: float, pids: list[int]) -> list[float]:
    """Run the flood, and look at the memory meanwhile."""
    seen: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(seconds / 12):
            seen.append(memory(pids))

    looking = threading.Thread(target=look)
    seen.append(memory(pids))
    looking.start()
    flood.run(seconds)
    over.set()
    looking.join()
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--times", type=float, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments)


if __name__ == "__main__":
    main()
