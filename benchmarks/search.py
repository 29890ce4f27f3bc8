"""What search costs: a store of a million entries, each query a few hundred times, the index made anew.

    python benchmarks/search.py [entries] [folder]
    python benchmarks/search.py --rebuild [entries]

The store is filled straight through ``Store.commit`` with statements that look signed and are not (nobody checks them
here), each with a small Claude Code session in it; a tenth are hash envelopes whose record is not there. Indexing runs
as the worker does it: read, parse, walk, write. Queries go through ``search``, as the server's thread runs them, on a
connection of their own each; HTTP and JSON come on top. Values are taken at random among those that are there.

With ``--rebuild`` nothing is timed: the index grows with the log, batch by batch; every kind of query is answered, page
by page up to 2,000 hits; the index's files are deleted, it is made anew in one go, and every answer must be the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from transparency.cose import labels
from transparency.cose.cbor import encode
from transparency.cose.sign1 import sig_structure
from transparency.log import schema
from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.search import SearchIndex
from transparency.log.search_entry import Kind as TermKind
from transparency.log.search_entry import Term
from transparency.log.search_query import Query, search
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Commit, Kind, NewEntry, Tip
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.records.facts import facts
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import entry_of, normalise

ENTRIES = 1_000_000
BATCH = 5_000
START = 1_700_000_000
ISSUERS, MODELS, TOOLS, FILES, AGENTS = 200, 12, 40, 5_000, 30
RUNS = 300
MS = 1000.0
REBUILD_ENTRIES, REBUILD_RUNS, REBUILD_HITS = 20_000, 20, 2_000


def session(number: int) -> bytes:
    """A session of three lines: the shape of a short one."""
    chance = random.Random(number)
    lines = []
    for turn in range(3):
        tool = {
            "type": "tool_use",
            "id": f"toolu_{turn}",
            "name": f"tool-{chance.randrange(TOOLS)}",
            "input": {"file_path": f"/home/dev/shop/{path(chance.randrange(FILES))}"},
        }
        lines.append({
            "type": "assistant", "sessionId": f"session-{number // 2}", "cwd": "/home/dev/shop",
            "version": f"2.1.{chance.randrange(AGENTS)}", "timestamp": f"2026-03-02T10:00:0{turn}.000Z",
            "message": {"role": "assistant", "model": f"model-{number % MODELS}", "content": [tool]},
        })  # fmt: skip
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def path(number: int) -> str:
    return f"src/part-{number % 50}/module-{number % 500}/file-{number}.py"


def statement(number: int) -> NewEntry:
    """Something that parses as a statement."""
    record = session(number)
    protected = {
        labels.ALG: -7,
        labels.KID: b"k" * 32,
        labels.CWT_CLAIMS: {labels.CLAIM_ISS: issuer(number), labels.CLAIM_SUB: f"urn:bench:{number}"},
    }
    if number % 10 == 0:
        protected[labels.PAYLOAD_HASH_ALG] = labels.HASH_SHA256
        record = hashlib.sha256(record).digest()
    else:
        protected[labels.CONTENT_TYPE] = "application/jsonl"
    header = encode(protected)
    data = normalise(header, record, hashlib.sha512(b"%d" % number).digest())
    return NewEntry(entry_of(data), Kind.STATEMENT, 1, hashlib.sha256(sig_structure(header, record)).digest(), data)


def issuer(number: int) -> str:
    return f"https://issuer-{number % ISSUERS}.example"


def fill(folder: Folder, count: int, grown: Callable[[SqliteStore], object] = lambda _: None) -> None:
    schema.create(folder.database, EMPTY_ROOT)
    store = SqliteStore(folder.database, synchronous="OFF")
    tip = store.take_over()
    for start in range(0, count, BATCH):
        entries = [statement(number) for number in range(start, min(start + BATCH, count))]
        root = hashlib.sha256(b"%d" % start).digest()
        head = SignedHead(start + len(entries), root, START + start // 10, b"kid", b"protected", b"signature")
        store.commit(Commit(tip, entries, {}, head))
        tip = Tip(head.size, root, tip.epoch)
        grown(store)
    store.close()


def queries(count: int) -> dict[str, Callable[[random.Random], Query]]:
    """Each kind of query, with a value at random."""

    def terms(*made: tuple[TermKind, str]) -> Query:
        return Query(tuple(Term(kind, value) for kind, value in made))

    def tool(chance: random.Random) -> tuple[TermKind, str]:
        return TermKind.TOOL, f"tool-{chance.randrange(TOOLS)}"

    def span(chance: random.Random) -> Query:
        since = START + chance.randrange(count // 10)
        return Query(since=since, until=since + 3600)

    def attached(chance: random.Random) -> int:
        return chance.randrange(count // 10) * 10 + 1

    return {
        "newest": lambda _: Query(),
        "issuer": lambda chance: terms((TermKind.ISSUER, issuer(chance.randrange(count)))),
        "subject": lambda chance: terms((TermKind.SUBJECT, f"urn:bench:{chance.randrange(count)}")),
        "session": lambda chance: terms((TermKind.SESSION, f"session-{chance.randrange(count // 2)}")),
        "agent": lambda _: terms((TermKind.AGENT, "claude-code")),
        "agent/version": lambda chance: terms((TermKind.AGENT, f"claude-code/2.1.{chance.randrange(AGENTS)}")),
        "model": lambda chance: terms((TermKind.MODEL, f"model-{chance.randrange(MODELS)}")),
        "tool": lambda chance: terms(tool(chance)),
        "path": lambda chance: terms((TermKind.PATH, path(chance.randrange(FILES)))),
        "path in a folder": lambda chance: terms((TermKind.FOLDER, f"src/part-{chance.randrange(50)}/")),
        "time": span,
        "content": lambda chance: terms((
            TermKind.CONTENT, hashlib.sha256(session(attached(chance))).hexdigest())),
        "siblings": lambda chance: terms((TermKind.SIGNED, statement(attached(chance)).tbs_digest.hex())),
        "issuer and tool": lambda chance: terms((TermKind.ISSUER, issuer(chance.randrange(count))), tool(chance)),
        "model, tool, folder": lambda chance: terms(
            (TermKind.MODEL, f"model-{chance.randrange(MODELS)}"), tool(chance),
            (TermKind.FOLDER, f"src/part-{chance.randrange(50)}/")),
        "two models (none has both)": lambda _: terms((TermKind.MODEL, "model-1"), (TermKind.MODEL, "model-2")),
    }  # fmt: skip


def measure(index: SearchIndex, count: int) -> None:
    print(f"{'query':<28} {'hits':>6} {'p50 ms':>8} {'p99 ms':>8}")
    for name, make in queries(count).items():
        chance = random.Random(name)
        prepared = [make(chance) for _ in range(RUNS)]
        times, hits = [], 0
        for query in prepared:
            began = time.perf_counter()
            page = search(index, query)
            times.append((time.perf_counter() - began) * MS)
            hits += len(page.hits)
        cuts = statistics.quantiles(times, n=100)
        print(f"{name:<28} {hits / RUNS:>6.1f} {cuts[49]:>8.2f} {cuts[98]:>8.2f}")


def rebuild(index: SearchIndex, store: SqliteStore, artifacts: ArtifactStore, count: int) -> None:
    began, worked = time.perf_counter(), time.process_time()
    index.clear()
    index.catch_up(store, artifacts)
    index.checkpoint()
    took, worked = time.perf_counter() - began, time.process_time() - worked
    size = index.path.stat().st_size
    print(
        f"index made in {took:.0f} s, of which {worked:.0f} s of work ({worked / count * 1e6:.0f} µs an entry), "
        f"{size / count:.0f} bytes an entry"
    )


def answers(index: SearchIndex, count: int) -> dict[tuple[str, int], tuple[int, bytes]]:
    """Of each query how many entries it found and the digest of all that is said of them; both orders, every page."""
    found = {}
    for name, make in queries(count).items():
        chance = random.Random(name)
        for number in range(REBUILD_RUNS):
            asked = replace(make(chance), newest_first=number % 2 == 0, size=count)
            hits, digest, after = 0, hashlib.sha256(), None
            while True:
                page = search(index, replace(asked, after=after))
                for hit in page.hits:
                    digest.update(repr(hit).encode())
                hits += len(page.hits)
                after = page.after
                if after is None or hits >= REBUILD_HITS:
                    break
            found[name, number] = (hits, digest.digest())
    return found


def compare_rebuilt(count: int) -> None:
    """Answers of an index that grew with the log, and of one made anew after its files were deleted."""
    with tempfile.TemporaryDirectory(prefix="search-") as name:
        folder = Folder(Path(name))
        artifacts = ArtifactStore(folder.artifacts)
        with SearchIndex(folder.search) as index:
            fill(folder, count, lambda store: index.catch_up(store, artifacts))
            before = answers(index, count)
        for file in folder.path.glob(f"{folder.search.name}*"):
            file.unlink()
        store = SqliteStore.for_reading(folder.database)
        with SearchIndex(folder.search) as index:
            index.catch_up(store, artifacts)
            after = answers(index, count)
        store.close()
    for kind in queries(count):
        hits = sum(before[kind, number][0] for number in range(REBUILD_RUNS))
        same = all(before[kind, number] == after[kind, number] for number in range(REBUILD_RUNS))
        print(f"{kind:<28} {hits:>8} hits  {'the same' if same else 'DIFFERENT'}")
    different = sum(before[key] != after[key] for key in before)
    print(f"{count} entries, {len(before)} queries, {different} answered differently after the index was made anew")
    if different:
        raise SystemExit(1)


def cost_of_facts() -> None:
    records = [session(number) for number in range(2_000)]
    began = time.process_time()
    for record in records:
        facts(record)
    took = (time.process_time() - began) / len(records) * 1e6
    print(f"facts of a record of {sum(map(len, records)) // len(records)} bytes: {took:.0f} µs")


async def _late(seconds: float) -> list[float]:
    """How long an event loop takes for a turn with two system calls that take no time, again and again."""
    late = []
    reading, writing = os.pipe()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        os.write(writing, b"x")  # gives the interpreter's lock up, as every call of a system does
        os.read(reading, 1)
        await asyncio.sleep(0)
        late.append((time.perf_counter() - began) * MS)
    os.close(reading)
    os.close(writing)
    return late


def beside(begin: Callable[[], Callable[[], None]]) -> tuple[float, float]:
    """Turns a second, and the longest wait in milliseconds but for one in a thousand."""
    end = begin()
    late = asyncio.run(_late(3.0))
    end()
    return len(late) / 3, statistics.quantiles(late, n=1000)[-1]


def disturbance(data: Path) -> None:
    """An event loop alone, beside a thread that indexes, beside a process that does: why it is a process."""
    folder = Folder(data)

    def thread() -> Callable[[], None]:
        stop = threading.Event()

        def run() -> None:
            number = 0
            while not stop.is_set():
                facts(session(number))
                number += 1

        running = threading.Thread(target=run)
        running.start()
        return lambda: (stop.set(), running.join())[0]  # type: ignore[func-returns-value]

    def process() -> Callable[[], None]:
        SearchIndex(folder.search).clear()
        words = [sys.executable, "-m", "transparency.log.search_worker", str(data)]
        running = subprocess.Popen(words, stdin=subprocess.PIPE)
        time.sleep(2.0)  # it has begun

        def end() -> None:
            running.kill()
            running.wait()

        return end

    print("an event loop, turn by turn:")
    ways = {"alone": lambda: lambda: None, "beside a thread": thread, "beside the worker": process}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(3):  # the best of three: other programs on the machine only ever add
        for name, begin in ways.items():
            found[name].append(beside(begin))
    for name, results in found.items():
        turns, late = max(results)
        print(f"  {name:<20} {turns:>8.0f} turns/s, 99.9 % within {late:.2f} ms")


def main() -> None:
    if sys.argv[1:2] == ["--rebuild"]:
        compare_rebuilt(int(sys.argv[2]) if len(sys.argv) > 2 else REBUILD_ENTRIES)
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    data = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(prefix="search-"))
    folder = Folder(data)
    cost_of_facts()
    if not folder.database.exists():
        began = time.perf_counter()
        fill(folder, count)
        print(f"{count} entries stored in {time.perf_counter() - began:.0f} s, in {data}")
    disturbance(data)
    store = SqliteStore.for_reading(folder.database)
    with SearchIndex(folder.search) as index:
        rebuild(index, store, ArtifactStore(folder.artifacts), count)
        measure(index, count)
    store.close()


if __name__ == "__main__":
    main()
