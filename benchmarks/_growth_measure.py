"""What benchmarks/growth.py measures of one log, each in a process of its own: its memory is then its own.

    python benchmarks/_growth_measure.py WHAT DATA      prints a line of JSON

CPU is that of the process, its threads and the kernel's on its behalf. *warm* is from tiles in the cache; *cold* with a
leaf tile that is not in it, while those above are, as a server has them that has made some hundred proofs; *first* with
nothing in our caches, each time anew; *disk* with the file taken out of the machine's memory, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import resource
import signal
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks._growth_log import BATCH, issuer_of
from transparency.log.folder import Folder
from transparency.log.fsck import fsck
from transparency.log.log import Log
from transparency.log.receipts import Receipts
from transparency.log.sqlite import SqliteStore
from transparency.merkle.proofs import consistency_path, inclusion_path
from transparency.merkle.tiles import TileHashes
from transparency.statements.statement import Entry

SAMPLE = 200
ROUNDS = 15
DISK_SAMPLE = 40
LOOKUPS = 50 * 128
REGISTRATIONS = 20_000
AT_ONCE = 1_000
FIRST = 10_000
# As many as can be waiting for the index at most: a round's worth that grows, and one that is being indexed.
APPENDED = 2 * 65_536
INDEX_SLICE = 1_024
FRESH = 10**12
MICRO = 1e6

BARE = 4_000
NODE = bytes(65)
_BARES: list[float] = []

Figures = dict[str, float]


def rss() -> float:
    """MiB in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def bare() -> float:
    """Seconds of CPU for some thousand hashes: what the machine is worth at this moment."""
    began = time.process_time()
    for _ in range(BARE):
        hashlib.sha256(NODE).digest()
    return time.process_time() - began


def each(run: Callable[[], object], count: int, rounds: int = ROUNDS) -> float:
    """Microseconds of CPU for each of *count*, as if nobody else were on the machine.

    Others slow a processor down by half, by its caches and its other thread. So each round is held against the bare
    hashes before and after it; the median of that is given in microseconds by the quickest hashes of all.
    """
    ratios = []
    for _ in range(rounds):
        before = bare()
        began = time.process_time()
        run()
        spent = time.process_time() - began
        after = bare()
        ratios.append(spent / (before + after) * 2)
        _BARES.extend((before, after))
    return statistics.median(ratios) * min(_BARES) / count * MICRO


def forget_file(path: Path) -> None:
    """Take a file out of the machine's memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def proofs(data: Path) -> Figures:
    log = Log.open(data)
    await log.start()
    store, database = log.opened.store, Folder(data).database
    size = log.newest_head().size
    chance = random.Random(size)
    indices = chance.sample(range(size), SAMPLE)
    receipts = Receipts(store, lambda: size)

    def receipt(index: int, hashes: TileHashes) -> bytes:
        receipts._hashes = hashes  # noqa: SLF001 - it makes its own
        return receipts.inclusion(index, receipts.head_for(index, log.service_keys))

    def fresh() -> TileHashes:
        return TileHashes(store.tile, cache_size=4 * SAMPLE)

    def above(made: TileHashes) -> TileHashes:
        """One with the upper tiles of *made* alone."""
        some = fresh()
        some._cache.update((key, tile) for key, tile in made._cache.items() if key[0] > 0)  # noqa: SLF001
        return some

    def proved(name: str, prove: Callable[[int, TileHashes], object]) -> Figures:
        """Each of the sample by *prove*: with nothing, with the tiles above, with all that it takes."""
        hashes = fresh()
        for place in range(1, size, 256 * 256):
            prove(place, hashes)
        firsts = [[fresh() for _ in indices] for _ in range(ROUNDS)]
        colds = [[above(hashes) for _ in indices] for _ in range(ROUNDS)]

        def run(made: list[TileHashes]) -> None:
            for index, read in zip(indices, made, strict=True):
                prove(index, read)

        return {
            f"{name}, first": each(lambda: run(firsts.pop()), SAMPLE),
            f"{name}, cold": each(lambda: run(colds.pop()), SAMPLE),
            f"{name}, warm": each(lambda: run([hashes] * SAMPLE), SAMPLE),
        }

    def disk(prove: Callable[[int, int, TileHashes], object]) -> float:
        """Milliseconds: mostly the disk's."""
        times = []
        for index in indices[:DISK_SAMPLE]:
            forget_file(database)
            other = SqliteStore.for_reading(database)
            began = time.perf_counter()
            prove(max(index, 1), size, TileHashes(other.tile))
            times.append(time.perf_counter() - began)
            other.close()
        return statistics.median(times) * 1000

    def find(entries: Sequence[Entry]) -> float:
        parts = [entries[start : start + 128] for start in range(0, len(entries), 128)]
        return each(lambda: [log.sequencer.find_some(part) for part in parts], len(entries))

    absent = [Entry(hashlib.sha256(b"absent %d" % n).digest()) for n in range(LOOKUPS)]
    places = [chance.randrange(size) for _ in range(LOOKUPS)]
    present = [store.digests(place, place + 1)[0] for place in places]
    figures = {
        **proved("receipt", receipt),
        **proved("inclusion proof", lambda index, hashes: inclusion_path(index, size, hashes)),
        **proved("consistency proof", lambda index, hashes: consistency_path(max(index, 1), size, hashes)),
        "look-up, there": find(present),
        "look-up, not there": find(absent),
        "inclusion proof, disk": disk(inclusion_path),
        "consistency proof, disk": disk(consistency_path),
    }
    figures["a hash"] = min(_BARES) / BARE * MICRO
    await log.stop()
    return figures


async def register(data: Path) -> Figures:
    """Statements through Log.register, many at once. They are too few for a round of the index: see :func:`index`."""
    made = issuer_of(data)
    log = Log.open(data)
    await log.start()
    figures = {"memory, after start": rss()}
    cpu = wall = 0.0
    for start in range(0, REGISTRATIONS, AT_ONCE):
        statements = [made.sign(FRESH + start + n) for n in range(AT_ONCE)]
        began, worked = time.perf_counter(), time.process_time()
        await asyncio.gather(*(log.register(statement) for statement in statements))
        cpu, wall = cpu + time.process_time() - worked, wall + time.perf_counter() - began
        if start + AT_ONCE == FIRST:
            figures["memory, after 10,000 registrations"] = rss()
    figures["registration, CPU"] = cpu / REGISTRATIONS * MICRO
    figures["registration, wall"] = wall / REGISTRATIONS * MICRO
    await log.stop()
    return figures


def append(data: Path) -> Figures:
    """Batches through the appender; then the process is killed, with nothing of it in the index."""
    made = issuer_of(data)
    log = Log.open(data)
    appender = log.opened.appender
    cpu = wall = 0.0
    for start in range(0, APPENDED, BATCH):
        entries = [made.entry(2 * FRESH + start + n) for n in range(BATCH)]
        began, worked = time.perf_counter(), time.process_time()
        appender.append(entries, appender.decision_time())
        cpu, wall = cpu + time.process_time() - worked, wall + time.perf_counter() - began
    return {"append in batches, CPU": cpu / APPENDED * MICRO, "append in batches, wall": wall / APPENDED * MICRO}


def index(data: Path) -> Figures:
    """Rows of digests that nobody has, put into the index as rounds do it, until a fold has gone through.

    A row goes in with a round, and once more with a fold, which many share.
    """
    store = SqliteStore(Folder(data).database)
    watch = sqlite3.connect(Folder(data).database)

    def young() -> int:
        return int(watch.execute("SELECT young FROM indexed").fetchone()[0])

    rounds, folds = _Spent(), _Spent()
    number = before = 0
    while True:
        numbers = range(number, number + 64 * INDEX_SLICE)
        rows = sorted((hashlib.sha256(b"row %d" % n).digest(), 3 * FRESH + n) for n in numbers)
        number = numbers.stop
        for start in range(0, len(rows), INDEX_SLICE):
            some = rows[start : start + INDEX_SLICE]
            before = young()
            spent = _Spent.by(lambda some=some: store.index_some(some, some, None), len(some))  # type: ignore[misc]
            if store._rounds.folding or young() < before:  # noqa: SLF001 - what nobody else need know
                folds.add(spent)
            else:
                rounds.add(spent)
            if young() < before:
                break
        else:
            continue
        break
    folded = before + INDEX_SLICE - young()
    watch.close()
    store.close()
    shares = [
        spent / rounds.rows + max(more - spent / rounds.rows * folds.rows, 0) / folded
        for spent, more in ((rounds.cpu, folds.cpu), (rounds.wall, folds.wall))
    ]
    return {"index, CPU": shares[0] * MICRO, "index, wall": shares[1] * MICRO, "rows a fold": float(folded)}


class _Spent:
    def __init__(self, rows: int = 0, cpu: float = 0.0, wall: float = 0.0) -> None:
        self.rows, self.cpu, self.wall = rows, cpu, wall

    @classmethod
    def by(cls, run: Callable[[], object], rows: int) -> _Spent:
        began, worked = time.perf_counter(), time.process_time()
        run()
        return cls(rows, time.process_time() - worked, time.perf_counter() - began)

    def add(self, other: _Spent) -> None:
        self.rows, self.cpu, self.wall = self.rows + other.rows, self.cpu + other.cpu, self.wall + other.wall


def check(data: Path) -> Figures:
    began, worked = time.perf_counter(), time.process_time()
    report = fsck(data)
    if not report.clean:
        raise SystemExit(f"fsck: {report.findings[:3]}")
    cpu, wall = time.process_time() - worked, time.perf_counter() - began
    return {"fsck, wall": wall / report.size * MICRO, "fsck, CPU": cpu / report.size * MICRO}


def sizes(data: Path) -> Figures:
    database = sqlite3.connect(Folder(data).database)

    def pages(*names: str) -> float:
        marks = ",".join("?" * len(names))
        sql = f"SELECT sum(pgsize) FROM dbstat WHERE name IN ({marks})"  # noqa: S608 - marks only
        return float(database.execute(sql, names).fetchone()[0] or 0)

    size = database.execute("SELECT size FROM tip").fetchone()[0]
    figures = {
        "bytes of tree": pages("tiles") / size,
        "bytes of index": pages("digest_index", "digest_young", "sibling_index", "sibling_young") / size,
        "bytes in all": Folder(data).database.stat().st_size / size,
    }
    database.close()
    return figures


def main() -> None:
    what, data = sys.argv[1], Path(sys.argv[2])
    figures = {
        "proofs": lambda: asyncio.run(proofs(data)),
        "register": lambda: asyncio.run(register(data)),
        "append": lambda: append(data),
        "index": lambda: index(data),
        "fsck": lambda: check(data),
        "sizes": lambda: sizes(data),
    }[what]()
    print(json.dumps(figures), flush=True)
    if what == "append":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
