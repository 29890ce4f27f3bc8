"""What honest clients get while others abuse the log, and what the server's memory does meanwhile.

A real ``transparency serve`` in its own process with its default limits; attackers in others, each from several
addresses (127.0.0.x). An honest client registers one distinct statement after another, on a kept connection and with a
new connection each time; its latencies and successes are measured in each phase.

    python benchmarks/abuse.py [--connections 10000] [--bodies 64] [--heads 2000] [--pause 10] [--seconds 15]

Phases: quiet; half-open and silent connections, opened again as often as they are cut off; bodies of 1 GB by
Content-Length and chunked; heads that are many, large, or slow; quiet again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._common import ES256, ISS, make_statements, percentile
from benchmarks._load import children_of
from transparency.cose.keys import PrivateKey

TRANSPARENCY = [sys.executable, "-m", "transparency"]
POST = b"POST /entries HTTP/1.1\r\nHost: bench\r\nContent-Type: application/cose\r\n"
HALF = b"POST /entries HTTP/1.1\r\nHost:"
GIGABYTE = 1_000_000_000
PIECE = bytes(65_536)
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 66)]
WAIT = 10.0


@dataclass
class Honest:
    """What the honest client met."""

    latencies: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def line(self, name: str, rss: tuple[float, float]) -> str:
        count = self.answers.total()
        good = self.answers["201"]
        others = ", ".join(f"{many} times {what}" for what, many in self.answers.items() if what != "201") or "none"
        times = self.latencies or [float("nan")]
        return (
            f"{name:<34} {good:>5}/{count:<5} p50 {percentile(times, 0.5) * 1000:7.1f} ms  "
            f"p99 {percentile(times, 0.99) * 1000:7.1f} ms  rss {rss[0]:6.1f} MB, at most {rss[1]:6.1f}  "
            f"not 201: {others}"
        )


class Registrar:
    """One honest client: every second request on a connection of its own, the others on one that is kept."""

    def __init__(self, port: int, statements: list[bytes]) -> None:
        self._port = port
        self._statements = statements
        self._kept: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, seconds: float) -> Honest:
        seen = Honest()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and self._statements:
            statement = self._statements.pop()
            began = time.perf_counter()
            try:
                async with asyncio.timeout(WAIT):
                    status = await self._post(statement, keep=len(self._statements) % 2 == 0)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                status = type(error).__name__
                self._drop()
            seen.answers[status] += 1
            if status == "201":
                seen.latencies.append(time.perf_counter() - began)
            await asyncio.sleep(0.01)
        return seen

    async def _post(self, body: bytes, *, keep: bool) -> str:
        if not keep:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        else:
            self._kept = self._kept or await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._kept
        writer.write(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
        if not keep:
            writer.close()
        return head.split(b" ")[1].decode()

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept[1].transport.abort()
        self._kept = None


# -- attackers, each a coroutine that goes on until it is cancelled ----------------------------------------------------


async def _connect(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    source = ADDRESSES[number % len(ADDRESSES)]
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))


async def half_open(port: int, number: int) -> None:
    """A connection that is silent, or sends half a head and then a letter now and then."""
    reader, writer = await _connect(port, number)
    try:
        if number % 3:
            writer.write(HALF if number % 3 == 1 else POST + b"Content-Length: 100000\r\n\r\nx")
        while not reader.at_eof():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(4096), 5)
            if number % 3 and not writer.transport.is_closing():
                writer.write(b"x")
    finally:
        writer.transport.abort()


async def gigabyte(port: int, number: int) -> None:
    _, writer = await _connect(port, number)
    try:
        chunked = number % 2
        framing = b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"Content-Length: %d\r\n\r\n" % GIGABYTE
        writer.write(POST + framing)
        for _ in range(GIGABYTE // len(PIECE)):
            writer.write(b"10000\r\n" + PIECE + b"\r\n" if chunked else PIECE)
            await writer.drain()
    finally:
        writer.transport.abort()


async def heads(port: int, number: int) -> None:
    """Heads of many lines, of long lines, or of lines that come slowly and never end."""
    _, writer = await _connect(port, number)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: bench\r\n")
        line = b"X: %s\r\n" % (b"a" * (8_000 if number % 2 else 20))
        while not writer.transport.is_closing():
            writer.write(line * (1 if number % 3 else 40))
            await writer.drain()
            await asyncio.sleep(0.2 if number % 3 else 0)
    finally:
        writer.transport.abort()


Attacker = Callable[[int, int], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Signals:
    """What attackers in a process of their own share with this one."""

    ready: Event
    stop: Event
    begun: Synchronized[int]


def _attack(attacker: Attacker, port: int, numbers: range, pause: float, signals: Signals) -> None:
    """Keep *count* attackers going: one that was cut off begins again after a *pause*."""
    raise_file_limit()

    async def again(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                signals.begun.value += 1
                await attacker(port, number)
            await asyncio.sleep(pause)

    async def run() -> None:
        tasks = []
        for number in numbers:
            tasks.append(asyncio.create_task(again(number)))
            if number % 50 == 0:
                await asyncio.sleep(0.02)  # some thousand connections a second
        signals.ready.set()
        await asyncio.to_thread(signals.stop.wait)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def rss(pid: int) -> float:
    """Resident megabytes of the server and its workers."""
    return sum(_resident(each) for each in (pid, *children_of(pid)))


def _resident(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1000


def connections(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def phase(name: str, server: subprocess.Popen[bytes], registrar: Registrar, seconds: float) -> None:
    peak = now = 0.0
    files = 0

    async def watch() -> None:
        nonlocal peak, now, files
        while True:
            now = rss(server.pid)
            peak, files = max(peak, now), max(files, connections(server.pid))
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    seen = await registrar.run(seconds)
    watching.cancel()
    print(f"{seen.line(name, (now, peak))}; open files at most {files}", flush=True)


def under(attacker: Attacker, port: int, count: int, pause: float, then: Callable[[], None]) -> int:
    """Do *then* while *count* attackers are at work in two processes; how many connections they began."""
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    signals = [Signals(context.Event(), stop, context.Value("q", 0)) for _ in range(2)]
    workers = [
        context.Process(target=_attack, args=(attacker, port, range(half, count, 2), pause, signals[half]))
        for half in range(2)
    ]
    for worker in workers:
        worker.start()
    for each in signals:
        each.ready.wait(60)
    try:
        then()
    finally:
        stop.set()
        for worker in workers:
            worker.join(30)
            if worker.is_alive():
                worker.kill()
    return sum(each.begun.value for each in signals)


def run(folder: Path, arguments: argparse.Namespace) -> None:
    key = PrivateKey.generate(ES256)
    (folder / "issuer.pub.pem").write_bytes(key.public.to_pem())
    data = folder / "log"
    for command in (
        ("init", "--data", data),
        ("issuer", "add", "--data", data, "--iss", ISS, "--key", folder / "issuer.pub.pem"),
    ):
        subprocess.run([*TRANSPARENCY, *map(str, command)], check=True, capture_output=True)
    serve = [*TRANSPARENCY, "serve", "--data", str(data), "--port", "0", "--open"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=(folder / "stderr").open("wb")) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline().decode().strip().rpartition(":")[2])
            registrar = Registrar(port, make_statements(20_000, 1_000, key))

            def measure(name: str) -> Callable[[], None]:
                return lambda: asyncio.run(once(name))

            async def once(name: str) -> None:
                registrar._kept = None  # noqa: SLF001 - a new loop, a new connection
                await phase(name, server, registrar, arguments.seconds)

            measure("quiet")()
            for name, attacker, count in (
                (f"{arguments.connections} half-open connections", half_open, arguments.connections),
                (f"{arguments.bodies} bodies of 1 GB", gigabyte, arguments.bodies),
                (f"{arguments.heads} floods of headers", heads, arguments.heads),
            ):
                began = under(attacker, port, count, arguments.pause, measure(name))
                print(f"{'':<34} the attackers began {began} connections", flush=True)
            time.sleep(3)
            measure("quiet again")()
        finally:
            server.terminate()
    told = Counter((folder / "stderr").read_text().strip().splitlines())
    for line, many in told.most_common(5):
        print(f"the server said {many} times: {line[:200]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--bodies", type=int, default=64)
    parser.add_argument("--heads", type=int, default=2_000)
    parser.add_argument(
        "--pause", type=float, default=10.0, help="seconds after which one that was cut off comes again"
    )
    parser.add_argument("--seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="abuse-") as folder:
        run(Path(folder), arguments)


if __name__ == "__main__":
    main()
