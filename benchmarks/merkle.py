"""What the tree costs: appending, proving and checking, at sizes up to a million, tiles in memory.

    python benchmarks/merkle.py [greatest size]

Append includes a copy of the edge, a root a batch, and keeping the tiles. *cold* proves from tiles never
seen, each expanded anew; *warm* from tiles in the cache; *edge* the newest leaves, as receipts for a batch just
committed are made. Best of three: other programs on the machine only ever add.
"""

from __future__ import annotations

import random
import sys
import time
from typing import TYPE_CHECKING

from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import (
    consistency_path,
    inclusion_path,
    root_from_consistency,
    root_from_inclusion,
)
from transparency.merkle.tiles import RightEdge, TileHashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SIZES = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 10_000_000)
SAMPLE = 300
BATCH = 100


def best(run: Callable[[], object], per: int, rounds: int = 3) -> float:
    """Microseconds for each of ``per``."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) / per * 1e6


def leaves(indices: Iterable[int]) -> list[bytes]:
    """The leaf hashes at ``indices``."""
    return [leaf_hash(b"%d" % index) for index in indices]


def grow(edge: RightEdge, tiles: dict[tuple[int, int], bytes], size: int, batch: int) -> float:
    """Append up to ``size`` as the sequencer does, a copy and a root each batch; the seconds it took."""
    spent = 0.0
    while edge.size < size:
        more = leaves(range(edge.size, min(size, edge.size + 10_000)))
        start = time.perf_counter()
        for begin in range(0, len(more), batch):
            edge.copy()
            tiles.update(edge.append(more[begin : begin + batch]))
            edge.root()
        spent += time.perf_counter() - start
    return spent


def measure(edge: RightEdge, tiles: dict[tuple[int, int], bytes]) -> dict[str, float]:
    """Microseconds for one of each thing done with a tree of this size."""
    size, root = edge.size, edge.root()

    def read_tile(level: int, index: int) -> bytes | None:
        return tiles.get((level, index))

    scattered = random.Random(size).sample(range(size), SAMPLE)
    newest = range(size - SAMPLE, size)
    olds = random.Random(-size).sample(range(1, size), SAMPLE)

    def prove(read: TileHashes, indices: list[int] | range) -> list[list[bytes]]:
        return [inclusion_path(index, size, read) for index in indices]

    def prove_cold() -> None:
        for index in scattered[:100]:
            inclusion_path(index, size, TileHashes(read_tile))

    warm = TileHashes(read_tile, cache_size=4 * SAMPLE)
    paths = prove(warm, scattered)
    proofs = [consistency_path(old, size, warm) for old in olds]
    old_roots = [RightEdge.load(old, read_tile).root() for old in olds]
    checks = list(zip(leaves(scattered), scattered, paths, strict=True))
    for leaf, index, path in checks:
        assert root_from_inclusion(leaf, index, size, path) == root
    for old, old_root, proof in zip(olds, old_roots, proofs, strict=True):
        assert root_from_consistency(old, size, old_root, proof) == root
    return {
        "cold": best(prove_cold, 100),
        "warm": best(lambda: prove(warm, scattered), SAMPLE),
        "edge": best(lambda: prove(warm, newest), SAMPLE),
        "consistency": best(lambda: [consistency_path(old, size, warm) for old in olds], SAMPLE),
        "check": best(lambda: [root_from_inclusion(leaf, at, size, path) for leaf, at, path in checks], SAMPLE),
        "load": best(lambda: RightEdge.load(size, read_tile), 1),
        "copy": best(lambda: [edge.copy() for _ in range(100)], 100),
    }


def main() -> None:
    """Print both tables."""
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for batch in (1, 10, 100, 1000):
        seconds = min(grow(RightEdge(), {}, 50_000, batch) for _ in range(3))
        print(f"append to 50,000 in batches of {batch:>4}: {seconds / 50_000 * 1e6:6.2f} µs a leaf")
    print()
    names = ("append", "cold", "warm", "edge", "consistency", "check", "load", "copy")
    print("µs".rjust(12), *(name.rjust(11) for name in names), "bytes/leaf".rjust(11))
    edge, tiles = RightEdge(), dict[tuple[int, int], bytes]()
    for size in (size for size in SIZES if size <= limit):
        before = edge.size
        append = grow(edge, tiles, size, BATCH) / (size - before) * 1e6
        figures = {"append": append, **measure(edge, tiles)}
        stored = sum(map(len, tiles.values())) / size
        print(f"{size:>12,}", *(f"{figures[name]:11.2f}" for name in names), f"{stored:11.2f}")


if __name__ == "__main__":
    main()
