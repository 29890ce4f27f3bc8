"""The stores that the contract is held against, and batches to hold it with.

A further store is added by one line in ``STORES``: a function that gives, for an empty folder, an opener of stores
over one and the same empty data (size 0, epoch 0). PostgreSQL's is a database of its own in the process's server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from transparency.log import postgres_schema, schema
from transparency.log.postgres import PostgresStore
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Commit, IntakeRow, Kind, NewEntry, Store, Tip
from transparency.merkle.hashing import EMPTY_ROOT, leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.policy.judge import Judgement
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry
from transparency.testing import FaultyStore, MemoryStore
from transparency.testing.postgres import shared_server

Opener = Callable[[], Store]


def _memory(_: Path) -> Opener:
    store = MemoryStore()
    return lambda: store


def _wrapped(_: Path) -> Opener:
    store = FaultyStore(MemoryStore())
    return lambda: store


def _sqlite(folder: Path) -> Opener:
    path = folder / "log.sqlite"
    schema.create(path, EMPTY_ROOT)
    return lambda: SqliteStore(path)


def _postgres(_: Path) -> Opener:
    url = shared_server().new_database()
    postgres_schema.create(url, EMPTY_ROOT)
    return lambda: PostgresStore(url)


STORES: dict[str, Callable[[Path], Opener]] = {
    "memory": _memory,
    "faulty": _wrapped,
    "sqlite": _sqlite,
    "postgres": _postgres,
}

# Stores whose digest index is written after the commit, not in it.
LAGGING = [name for name in STORES if name != "postgres"]


def entry_of(n: int) -> Entry:
    return Entry(hashlib.sha256(b"entry %d" % n).digest())


def intake_row(n: int) -> IntakeRow:
    judgement = Judgement(1, 10, 2**53, collateral=collateral_of(n), unique=n % 2 == 1)
    return IntakeRow(entry_of(n), b"statement %d" % n, judgement, accepted=1000 + n)


def collateral_of(n: int) -> bytes:
    """What every third statement was judged with: one of two chains, which many share."""
    return b"chain %d" % (n % 2) if n % 3 == 0 else b""


def batch_of(
    expected: Tip, count: int, *, before: int = 0, edge: RightEdge | None = None, intake_done: Sequence[Entry] = ()
) -> Commit:
    entries = [
        NewEntry(
            entry_of(n),
            Kind.STATEMENT,
            n % 5,
            hashlib.sha256(b"tbs %d" % n).digest(),
            b"statement %d" % n,
            collateral_of(n),
        )
        for n in range(before, before + count)
    ]
    if edge is None:
        edge = RightEdge()
        edge.append([leaf_hash(entry_of(n)) for n in range(before)])
    tiles = edge.append([leaf_hash(new.entry) for new in entries])
    head = SignedHead(expected.size + count, edge.root(), 1000, b"kid", b"protected", b"signature")
    return Commit(expected, entries, tiles, head, intake_done)
