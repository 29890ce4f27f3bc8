"""How many statements a second get a durable receipt over HTTP, as a ratio to bare signature verification.

A real ``transparency serve`` on SQLite (synchronous=FULL) in its own process; the load generator in this one, so both
share the machine's cores. Statements are distinct, ES256, about 3 KB. Interleaved with the limit; medians of rounds.

    python benchmarks/registration.py [--count 4000] [--clients 1,16,64,256] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._common import ES256, ISS, make_statements, print_rates, verify_limit
from transparency.cose.keys import PrivateKey

TRANSPARENCY = [sys.executable, "-m", "transparency"]


async def one_client(port: int, work: list[bytes], latencies: list[float]) -> None:
    """One keep-alive connection that posts one statement after another; a lean client, to leave cores to the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while work:
            body = work.pop()
            head = (
                f"POST /entries HTTP/1.1\r\nHost: bench\r\nContent-Type: application/cose\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            began = time.perf_counter()
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise SystemExit(f"the log answered {answer.splitlines()[0]!r}")
            length = next(
                int(line.split(b":")[1]) for line in answer.splitlines() if line.lower().startswith(b"content-length")
            )
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - began)
    finally:
        writer.close()


async def load(port: int, statements: list[bytes], clients: int) -> tuple[float, list[float]]:
    work = list(statements)
    latencies: list[float] = []
    began = time.perf_counter()
    await asyncio.gather(*(one_client(port, work, latencies) for _ in range(clients)))
    return len(statements) / (time.perf_counter() - began), latencies


def flush_time(folder: Path) -> float:
    """One write and sync, as the disk under the log does it: the median of 200."""
    path = folder / "flush"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    times = []
    for number in range(200):
        began = time.perf_counter()
        os.pwrite(descriptor, bytes(4096), number * 4096)
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - began)
    os.close(descriptor)
    return statistics.median(times)


def run(folder: Path, arguments: argparse.Namespace) -> None:
    key = PrivateKey.generate(ES256)
    (folder / "issuer.pub.pem").write_bytes(key.public.to_pem())
    data = folder / "log"

    def quietly(*command: str) -> None:
        subprocess.run([*TRANSPARENCY, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    quietly("init", "--data", str(data))
    quietly("issuer", "add", "--data", str(data), "--iss", ISS, "--key", str(folder / "issuer.pub.pem"))
    levels = [int(item) for item in arguments.clients.split(",")]
    total = arguments.count * len(levels) * arguments.rounds
    print(f"signing {total} statements of {arguments.size} bytes …", flush=True)
    statements = make_statements(total, arguments.size, key)
    flush = flush_time(folder)
    server = subprocess.Popen(
        [*TRANSPARENCY, "serve", "--data", str(data), "--host", "127.0.0.1", "--port", "0", "--open",
         *arguments.serve_flag],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
        report(port, statements, levels, arguments, key, flush)
    finally:
        server.terminate()
        server.wait(30)


def report(
    port: int, statements: list[bytes], levels: list[int], arguments: argparse.Namespace, key: PrivateKey, flush: float
) -> None:
    limits: list[float] = []
    rates: dict[int, list[float]] = {level: [] for level in levels}
    times: dict[int, list[float]] = {level: [] for level in levels}
    for _ in range(arguments.rounds):
        limits.append(verify_limit(key, statements[: arguments.count]))
        for level in levels:
            batch = [statements.pop() for _ in range(arguments.count)]
            rate, latencies = asyncio.run(load(port, batch, level))
            rates[level].append(rate)
            times[level] += latencies
    limit = statistics.median(limits)
    print(f"limit: {limit:,.0f} bare ES256 verifications/s on {os.cpu_count()} cores; one flush {flush * 1000:.2f} ms")
    print_rates(("clients", "reg/s"), rates, times, dict.fromkeys(rates, limits), flush)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="statements per level and round")
    parser.add_argument("--clients", default="1,16,64,256")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--serve-flag", action="append", default=[], help="passed on to serve")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments)


if __name__ == "__main__":
    main()
