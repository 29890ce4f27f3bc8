"""How many statements a second get a durable receipt over HTTP, as a ratio to bare signature verification.

A real ``transparency serve`` on SQLite in its own processes, which syncs before it answers: small batches in the mark's
journal, larger ones in the database and the mark (decision 0019). The load generator is in this process, so all share
the machine's cores. Statements are distinct, ES256, about 3 KB. Each level is held against limits measured just
before it, bare verification and a bare flush of the disk: what else the machine does slows both. *Of CPU* is the share
of all CPU time, the generator's too, that the same verification takes by itself: what *of limit* would be with every
core busy and nobody else there. A lone client is held against a floor, too (_floor.py): two signatures, a flush and a
bare answer.

At the end the server is killed (SIGKILL), the log is opened again, and every receipt that was acknowledged must verify
against the entry that stands there.

    python benchmarks/registration.py [--count 4000] [--clients 1,16,64,256] [--rounds 3] [--batches 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._batch_load import run_batches
from benchmarks._common import (
    ES256,
    ISS,
    interpreter,
    make_statements,
    percentile,
    verify_cpu,
    verify_limit,
    write_figures,
)
from benchmarks._floor import FloorServer
from benchmarks._load import children_of, cpu_of, polite, post, run_load
from benchmarks._reopened import check_reopened
from transparency.cose.keys import PrivateKey

TRANSPARENCY = [sys.executable, "-m", "transparency"]


def flush_time(folder: Path) -> float:
    """One write and sync, as the disk under the log does it: the median of 200. At the end of a file that grows."""
    path = folder / "flush"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    times = []
    for number in range(200):
        began = time.perf_counter()
        os.pwrite(descriptor, bytes(4096), number * 4096)
        os.fdatasync(descriptor)
        times.append(time.perf_counter() - began)
    os.close(descriptor)
    path.unlink()
    return statistics.median(times)


def make_log(folder: Path) -> tuple[PrivateKey, Path]:
    """A new log in *folder*, and the key of an issuer that it accepts."""
    key = PrivateKey.generate(ES256)
    (folder / "issuer.pub.pem").write_bytes(key.public.to_pem())
    data = folder / "log"

    def quietly(*command: str) -> None:
        subprocess.run([*TRANSPARENCY, *command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    quietly("init", "--data", str(data))
    quietly("issuer", "add", "--data", str(data), "--iss", ISS, "--key", str(folder / "issuer.pub.pem"))
    return key, data


def floor_time(floor: FloorServer, statements: list[bytes]) -> float:
    """The median wait of a lone client at the floor."""
    with polite():
        load = run_load(floor.port, [post(statement) for statement in statements], 1)
    return percentile(load.latencies, 0.5)


class Server:
    """The log under test, and what its processes have used."""

    def __init__(self, folder: Path, flags: list[str]) -> None:
        self.data = folder / "log"
        self.process = subprocess.Popen(
            [*TRANSPARENCY, "serve", "--data", str(self.data), "--host", "127.0.0.1", "--port", "0", "--open",
             "--rate-limit", "0", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])

    def cpu(self) -> dict[str, float]:
        owner = self.process.pid
        workers = [pid for pid in children_of(owner) if b"server.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return {"owner": cpu_of(owner), "workers": sum(cpu_of(pid) for pid in workers)}

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)


def measure(
    server: Server, floor: FloorServer, key: PrivateKey, statements: list[bytes], clients: int, *, batch: bool
) -> dict[str, Any]:
    limit = verify_limit(key, statements)
    verify = verify_cpu(key, statements[:1000])
    flush = flush_time(server.data.parent)
    lowest = floor_time(floor, statements[:1000]) if clients == 1 and not batch else None
    before = server.cpu()
    with polite():
        if batch:
            load = run_batches(server.port, statements, clients)
        else:
            load = run_load(server.port, [post(statement) for statement in statements], clients)
    after = server.cpu()
    if load.statuses.get(201, 0) != len(statements):
        raise SystemExit(f"of {len(statements)} statements the log answered {load.statuses}")
    each = 1e6 / len(statements)
    cpu = {name: (after[name] - before[name]) * each for name in before} | {
        "generator": load.cpu * each,
        "verify": verify * 1e6,
    }
    return {"limit": limit, "flush": flush, "floor": lowest, "rate": load.rate, "latencies": load.latencies, "cpu": cpu,
            "answers": load.answers}  # fmt: skip


def report(name: str, clients: int, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    rate = statistics.median(one["rate"] for one in rounds)
    share = statistics.median(one["rate"] / one["limit"] for one in rounds)
    times = [latency for one in rounds for latency in one["latencies"]]
    cpu = {part: statistics.median(one["cpu"][part] for one in rounds) for part in rounds[0]["cpu"]}
    p50, p99 = percentile(times, 0.5), percentile(times, 0.99)
    flushes = statistics.median(percentile(one["latencies"], 0.5) / one["flush"] for one in rounds)
    spent = cpu["owner"] + cpu["workers"] + cpu["generator"]
    split = " ".join(f"{part} {value:.0f}" for part, value in cpu.items())
    print(
        f"{name:>7} {clients:>8} {rate:>8,.0f} {share:>9.2f} {p50 * 1000:>8.1f} {p99 * 1000:>8.1f} {flushes:>8.1f}"
        f" {cpu['verify'] / spent:>7.2f}   {split}",
        flush=True,
    )
    figures = {"kind": name, "clients": clients, "rate": rate, "of_limit": share, "p50_ms": p50 * 1e3,
               "p99_ms": p99 * 1e3, "p50_flushes": flushes, "of_cpu": cpu["verify"] / spent, "cpu_us": cpu}  # fmt: skip
    if rounds[0]["floor"] is not None:
        floor = statistics.median(one["floor"] for one in rounds)
        floor_flushes = statistics.median(one["floor"] / one["flush"] for one in rounds)
        floors = statistics.median(percentile(one["latencies"], 0.5) / one["floor"] for one in rounds)
        print(f"         floor of a lone client: p50 {floor * 1000:.2f} ms, {floor_flushes:.1f} flushes; "
              f"the log's p50 is {floors:.1f} of it", flush=True)  # fmt: skip
        figures |= {"floor_ms": floor * 1e3, "floor_flushes": floor_flushes, "p50_floors": floors}
    return figures


def run(folder: Path, arguments: argparse.Namespace) -> None:
    key, data = make_log(folder)
    levels = [(False, int(item)) for item in arguments.clients.split(",")]
    levels += [(True, int(item)) for item in arguments.batches.split(",") if item]
    total = arguments.count * len(levels) * arguments.rounds
    print(f"signing {total} statements of {arguments.size} bytes …", flush=True)
    statements = make_statements(total, arguments.size, key)
    server, floor = Server(folder, arguments.serve_flag), FloorServer(folder)
    acknowledged: dict[bytes, bytes] = {}
    measured: dict[tuple[bool, int], list[dict[str, Any]]] = {level: [] for level in levels}
    try:
        for _ in range(arguments.rounds):
            for batch, clients in levels:
                share = [statements.pop() for _ in range(arguments.count)]
                one = measure(server, floor, key, share, clients, batch=batch)
                acknowledged.update(zip(share, one.pop("answers"), strict=True))
                measured[batch, clients].append(one)
    finally:
        server.kill()
        floor.kill()
    limit = statistics.median(one["limit"] for rounds in measured.values() for one in rounds)
    flush = statistics.median(one["flush"] for rounds in measured.values() for one in rounds)
    print(interpreter())
    print(f"limit: {limit:,.0f} bare ES256 verifications/s on {os.cpu_count()} cores; one flush {flush * 1000:.2f} ms; "
          f"load of the machine {os.getloadavg()[0]:.1f}")  # fmt: skip
    print("           clients    reg/s  of limit   p50 ms   p99 ms  flushes  of CPU   CPU µs a registration")
    rows = [report("batch" if batch else "single", clients, rounds)
            for (batch, clients), rounds in measured.items()]  # fmt: skip
    checked = check_reopened(data, acknowledged)
    print(
        f"killed, opened again: {checked} acknowledged receipts of {len(acknowledged)} verify against what stands there"
    )
    figures = {"limit": limit, "flush_ms": flush * 1e3, "rows": rows, "receipts": len(acknowledged), "verify": checked}
    write_figures("registration", figures, arguments.json)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000, help="statements per level and round")
    parser.add_argument("--clients", default="1,16,64,256")
    parser.add_argument("--batches", default="2", help="connections that send batches; empty for none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve-flag", action="append", default=[], help="passed on to serve")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments)


if __name__ == "__main__":
    main()
