"""How many checkpoints a second a witness cosigns over HTTP, as a ratio to bare verifying and signing.

A real ``transparency witness serve`` in its own process; the load generator in this one, so both share the machine's
cores. Each client is one log, whose tree grows by a leaf a checkpoint: verify an Ed25519 line and a consistency proof,
sign with Ed25519 and ML-DSA-44, flush the state and the mark. The limit is that verification and those two signatures
in a bare loop over ``cryptography``, on as many processes as there are cores, measured just before each level. Medians
of rounds.

    python benchmarks/witness.py [--count 1000] [--logs 1,16,64] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cryptography.hazmat.primitives.asymmetric import ed25519, mldsa

from benchmarks._common import print_rates
from benchmarks.registration import TRANSPARENCY, flush_time
from transparency.cose.algorithms import ED25519
from transparency.cose.keys import PrivateKey
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import consistency_path
from transparency.merkle.tiles import RightEdge, TileHashes
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.note import Note
from transparency.notes.requests import AddCheckpoint
from transparency.notes.signer import NoteSigner
from transparency.witness.folder import WitnessFolder, create_witness
from transparency.witness.logs import KnownLog, changing

Step = tuple[bytes, tuple[bytes, ...]]


def grow(count: int) -> list[Step]:
    """Root and proof from the size before, for each size up to *count*; all logs have the same leaves."""
    edge, tiles = RightEdge(), dict[tuple[int, int], bytes]()
    steps: list[Step] = []
    for size in range(1, count + 1):
        tiles.update(edge.append([leaf_hash(b"%d" % size)]))
        read = TileHashes(lambda level, index: tiles.get((level, index)))
        steps.append((edge.root(), tuple(consistency_path(size - 1, size, read)) if size > 1 else ()))
    return steps


def requests_of(signer: NoteSigner, steps: list[Step]) -> list[bytes]:
    made = []
    for old, (root, path) in enumerate(steps):
        note = Note(Checkpoint(signer.vkey.name, old + 1, root).text)
        body = AddCheckpoint(old, path, note.with_signature(signer.sign(note.text)).to_bytes()).to_bytes()
        head = f"POST /add-checkpoint HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        made.append(head.encode() + body)
    return made


async def one_log(port: int, work: list[bytes], latencies: list[float]) -> None:
    """One keep-alive connection; a lean client, to leave cores to the witness."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for message in work:
            began = time.perf_counter()
            writer.write(message)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"the witness answered {answer.splitlines()[0]!r}")
            lines = (line for line in answer.splitlines() if line.lower().startswith(b"content-length"))
            await reader.readexactly(int(next(lines).split(b":")[1]))
            latencies.append(time.perf_counter() - began)
    finally:
        writer.close()


async def load(port: int, work: list[list[bytes]]) -> tuple[float, list[float]]:
    latencies: list[float] = []
    began = time.perf_counter()
    await asyncio.gather(*(one_log(port, each, latencies) for each in work))
    return len(latencies) / (time.perf_counter() - began), latencies


def cpu_seconds(pid: int) -> float:
    """What a process has used of the cores (Linux); 0 where that cannot be read."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _bare(count: int, start: object, seconds: object) -> None:
    log, own, subtree = (
        ed25519.Ed25519PrivateKey.generate(),
        ed25519.Ed25519PrivateKey.generate(),
        mldsa.MLDSA44PrivateKey.generate(),
    )
    public, texts = log.public_key(), [b"%0160d" % number for number in range(count)]
    signed = [(log.sign(text), text) for text in texts]
    start.wait()  # type: ignore[attr-defined]
    began, used = time.perf_counter(), time.process_time()
    for signature, text in signed:
        public.verify(signature, text)
        own.sign(text)
        subtree.sign(text)
    seconds.put((time.perf_counter() - began, time.process_time() - used))  # type: ignore[attr-defined]


def bare_limit(count: int) -> tuple[float, float]:
    """Verify, sign and sign again: so many a second, all cores together, and the CPU seconds of one."""
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("fork")
    start, seconds = context.Event(), context.Queue()
    workers = [context.Process(target=_bare, args=(count, start, seconds)) for _ in range(cores)]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    start.set()
    measured: list[tuple[float, float]] = [seconds.get() for _ in workers]
    for worker in workers:
        worker.join()
    return cores * count / max(wall for wall, _ in measured), sum(cpu for _, cpu in measured) / (cores * count)


def add_logs(folder: WitnessFolder, count: int, name: str) -> list[NoteSigner]:
    signers = [NoteSigner(f"{name}-{number}.example", PrivateKey.generate(ED25519.id)) for number in range(count)]
    with changing(folder.logs) as logs:
        logs.update({signer.vkey.name: KnownLog((signer.vkey,), per_minute=None) for signer in signers})
    return signers


def run(path: Path, arguments: argparse.Namespace) -> None:
    folder = create_witness(path / "witness", "bench.example/witness")
    flush = flush_time(path)
    levels = [int(item) for item in arguments.logs.split(",")]
    steps = grow(arguments.count // min(levels))
    command = [*TRANSPARENCY, "witness", "serve", "--dir", str(folder.path), "--port", "0", "--rate-limit", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
        report(port, server.pid, folder, levels, steps, arguments, flush)
    finally:
        server.terminate()
        server.wait(30)


def report(
    port: int,
    pid: int,
    folder: WitnessFolder,
    levels: list[int],
    steps: list[Step],
    arguments: argparse.Namespace,
    flush: float,
) -> None:
    limits: dict[int, list[float]] = {level: [] for level in levels}
    rates: dict[int, list[float]] = {level: [] for level in levels}
    costs: dict[int, list[float]] = {level: [] for level in levels}
    times: dict[int, list[float]] = {level: [] for level in levels}
    for number in range(arguments.rounds):
        for level in levels:
            limit, bare = bare_limit(arguments.count // 2)
            limits[level].append(limit)
            signers = add_logs(folder, level, f"round-{number}-{level}")
            work = [requests_of(signer, steps[: arguments.count // level]) for signer in signers]
            used = cpu_seconds(pid)
            rate, latencies = asyncio.run(load(port, work))
            costs[level].append((cpu_seconds(pid) - used) / len(latencies) / bare)
            rates[level].append(rate)
            times[level] += latencies
    middle = statistics.median(each for measured in limits.values() for each in measured)
    print(f"limit: {middle:,.0f} bare verify + 2 signs/s on {os.cpu_count()} cores; one flush {flush * 1000:.2f} ms")
    print_rates(("logs", "add/s"), rates, times, limits, flush)
    shown = ", ".join(f"{statistics.median(each):.2f} with {level} logs" for level, each in costs.items())
    print(f"CPU time of the witness for one, in bare ones: {shown}; load average {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="checkpoints per level and round")
    parser.add_argument("--logs", default="1,16,64")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments)


if __name__ == "__main__":
    main()
