"""How many statements a second a log on PostgreSQL registers, with one front end and with more of them.

A real PostgreSQL (fsync on; a second server keeps the mark) and real ``transparency serve`` processes on one machine,
so front ends add work here and no cores: what the table shows is what a further one costs, and where the leader's own
share ends, not what more machines would give. Each level is held against bare verifications measured just before it.

At the end every process is killed, PostgreSQL too, and every acknowledged receipt must verify against what is there.

    python benchmarks/cluster.py [--count 3000] [--clients 64] [--nodes 1,2,3] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._common import ES256, ISS, make_statements, percentile, verify_limit
from benchmarks._load import Load, children_of, cpu_of, post, run_load
from benchmarks._reopened import check_reopened
from benchmarks.registration import TRANSPARENCY, Server
from transparency.cose.keys import PrivateKey
from transparency.testing.postgres import PostgresServer


def make_log(folder: Path, db: str) -> PrivateKey:
    key = PrivateKey.generate(ES256)
    (folder / "issuer.pub.pem").write_bytes(key.public.to_pem())
    for words in (
        ("init", "--data", "log", "--db", db, "--origin", "log.example/bench"),
        ("issuer", "add", "--data", "log", "--iss", ISS, "--key", "issuer.pub.pem"),
    ):
        subprocess.run([*TRANSPARENCY, *words], check=True, cwd=folder, capture_output=True)
    return key


def start_nodes(folder: Path, count: int, db: str, mark: str, run: int) -> list[Server]:
    nodes = []
    for number in range(count):
        home = folder / f"{run}-{number}"
        home.mkdir()
        shutil.copytree(folder / "log", home / "log", ignore=shutil.ignore_patterns("lock", "admin.sock"))
        nodes.append(Server(home, ["--db", db, "--watermark", mark, "--workers", "1"]))
    until = time.monotonic() + 60
    while not all(_ready(node.port) for node in nodes):
        if time.monotonic() > until:
            raise SystemExit("the nodes do not become ready")
        time.sleep(0.1)
    return nodes


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def measure(nodes: list[Server], database: PostgresServer, statements: list[bytes], clients: int) -> tuple[Load, float]:
    """The load, and PostgreSQL's CPU seconds."""
    assert database.process is not None
    before = _cpu_of_all(database.process.pid)
    load = run_load([node.port for node in nodes], [post(statement) for statement in statements], clients)
    if load.statuses != {201: len(statements)}:
        raise SystemExit(f"of {len(statements)} statements the log answered {load.statuses}, {load.lost} were lost")
    return load, _cpu_of_all(database.process.pid) - before


def _cpu_of_all(pid: int) -> float:
    return cpu_of(pid) + sum(cpu_of(child) for child in children_of(pid))


def run(folder: Path, arguments: argparse.Namespace, database: PostgresServer, mark: PostgresServer) -> None:
    db = database.tcp_url("bench")
    for server in (database, mark):
        with server.connect() as connection:
            connection.autocommit = True
            connection.execute("CREATE DATABASE bench")
    key = make_log(folder, db)
    levels = [int(item) for item in arguments.nodes.split(",")]
    statements = make_statements(arguments.count * len(levels) * arguments.rounds, arguments.size, key)
    acknowledged: dict[bytes, bytes | None] = {}
    print(f"limit: bare ES256 verifications/s on {os.cpu_count()} cores, before each level")
    print("  nodes   limit    reg/s  of limit   p50 ms   p99 ms   PostgreSQL's CPU µs a registration")
    for count in levels:
        nodes = start_nodes(folder, count, db, mark.tcp_url("bench"), count)
        rates, shares, times, cpus, limits = [], [], [], [], []
        try:
            for _ in range(arguments.rounds):
                some = [statements.pop() for _ in range(arguments.count)]
                limits.append(verify_limit(key, some))
                load, cpu = measure(nodes, database, some, arguments.clients)
                acknowledged.update(zip(some, load.answers, strict=True))
                rates.append(load.rate)
                shares.append(load.rate / limits[-1])
                times += load.latencies
                cpus.append(cpu / len(some) * 1e6)
        finally:
            for node in nodes:
                node.kill()
        print(
            f"{count:>7} {statistics.median(limits):>7,.0f} {statistics.median(rates):>8,.0f} "
            f"{statistics.median(shares):>9.2f} {percentile(times, 0.5) * 1e3:>8.1f} "
            f"{percentile(times, 0.99) * 1e3:>8.1f} {statistics.median(cpus):>8.0f}",
            flush=True,
        )
    database.kill()
    database.resume()
    time.sleep(4)  # until the lease of the last leader, who was killed, has run out
    # A node's folder, which knows the mark that all of them share.
    checked = check_reopened(folder / f"{levels[-1]}-0" / "log", acknowledged)
    print(f"all killed, opened again: {checked} acknowledged receipts of {len(acknowledged)} verify")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=3000, help="statements per round")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--nodes", default="1,2,3")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=3000)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        servers = []
        for _ in range(2):
            servers.append(PostgresServer.start())
            stack.callback(servers[-1].remove)
        run(folder, arguments, *servers)


if __name__ == "__main__":
    main()
