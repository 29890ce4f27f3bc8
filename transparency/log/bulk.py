"""Filling a new store with very many entries: for migrations, and for tests and benchmarks of large logs.

Tree, heads and rows are those that registration makes, batch by batch; what it does without is a flush of the disk for
each, a look for duplicates, and rounds through the derived indexes: these are made at the end, sorted, in one pass. A
load is whole or not at all. It goes into a store that nobody has opened, and that takes its place when it is durable;
one that was cut short leaves the log as it was, and is begun again.

Nobody judges what comes in here: whoever loads vouches for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from transparency.errors import LogUnusableError, StoreError
from transparency.log import stores
from transparency.log.appender import Clock
from transparency.log.durable import sync_folder
from transparency.log.folder import Folder, make_folder
from transparency.log.mark import MarkValue
from transparency.log.opening import INIT_SIZE, Opened, check_tip, open_log
from transparency.log.signers import ReceiptSigners
from transparency.log.store import DOCUMENTS, Commit, NewEntry, Store, StoredEntry, Tip
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.statements.receipt import SignedHead, sign_head

HeadOf = Callable[[int, bytes], SignedHead]
"""The head of a tree of this size and root: signed, or checked and as it was."""

_CHUNK: Final = 4096
Batches = Iterable[tuple[Sequence[NewEntry], HeadOf]]
Progress = Callable[[int], None]


def fill(target: Store, batches: Batches, progress: Progress | None = None) -> Tip:
    """Everything of *batches* into the empty store *target*, each under a head of its own; then the indexes."""
    at = target.take_over()
    if at.size:
        raise LogUnusableError(f"there are {at.size} entries in the store already; only an empty one is filled")
    edge = RightEdge()
    for entries, head_of in batches:
        tiles = edge.append([leaf_hash(new.entry) for new in entries])
        head = head_of(edge.size, edge.root())
        target.commit(Commit(at, entries, tiles, head))
        at = replace(at, size=head.size, root=head.root)
        if progress is not None:
            progress(at.size)
    target.extend_index(at.size)
    for start in range(0, at.size, _CHUNK):
        digests = target.digests(start, min(start + _CHUNK, at.size))
        places = target.find_some(digests)
        if [places.get(entry) for entry in digests] != list(range(start, start + len(digests))):
            raise StoreError(f"of the entries from {start} on, one is in the log twice, or not in its index")
    return at


def load(data: Path, batches: Iterable[Sequence[NewEntry]], *, clock: Clock, progress: Progress | None = None) -> int:
    """*batches* into the log in *data*, which has been made and never used. Returns its size.

    A head is signed for each batch, at the time that *clock* says when it has been read. Where the tree is in
    PostgreSQL, load a log in a folder and take it there: ``transparency log migrate``.
    """
    opened = open_log(data, clock=clock)
    try:
        if opened.config.db is not None:
            raise LogUnusableError(f"the tree of {data} is in PostgreSQL; load a log in a folder, and migrate that")
        if opened.appender.tip.size != INIT_SIZE:
            raise LogUnusableError(
                f"{data} has {opened.appender.tip.size} entries; only a log that nobody has used is loaded"
            )
        tip = _load_beside(opened, batches, clock, progress)
        opened.store.close()
        _put_in_place(opened.folder)
        # Cut short before this the mark is behind, which the next start accepts: it is of the same tree.
        opened.mark.write(MarkValue(tip.size, tip.root))
    finally:
        opened.close()
        shutil.rmtree(_beside(opened.folder).path, ignore_errors=True)
    return tip.size


def as_new(row: StoredEntry) -> NewEntry:
    """An entry of another store, as it is."""
    return NewEntry(row.entry, row.kind, row.generation, row.tbs_digest, row.statement, row.collateral)


def _beside(folder: Folder) -> Folder:
    return Folder(folder.path / "loading")


def _load_beside(opened: Opened, batches: Iterable[Sequence[NewEntry]], clock: Clock, progress: Progress | None) -> Tip:
    making = _beside(opened.folder)
    shutil.rmtree(making.path, ignore_errors=True)  # what an earlier load left that was cut short
    stores.create_store(make_folder(making.path), None)
    store = stores.open_to_fill(making, None)
    try:
        fill(store, _signed(opened, batches, clock), progress)
    finally:
        store.close()
    store = stores.open_store(making, None)
    try:
        tip = store.take_over()  # durable, and with it all that was written before it
        check_tip(store, tip)
    finally:
        store.close()
    return tip


def _signed(
    opened: Opened, batches: Iterable[Sequence[NewEntry]], clock: Clock
) -> Iterator[tuple[Sequence[NewEntry], HeadOf]]:
    first = opened.store.newest_head()
    if first is None:
        raise LogUnusableError("the log holds no signed head")
    yield [as_new(row) for row in opened.store.entries(0, INIT_SIZE)], lambda _size, _root: first
    keys = opened.in_force.keys.keys
    signers = ReceiptSigners.open(keys, opened.folder.load_key, first.time)
    time = first.time
    for entries in batches:
        if any(new.kind in DOCUMENTS for new in entries):
            raise LogUnusableError("policies and key sets are registered, not loaded: what follows is judged by them")
        time = max(time, clock())

        def sign(size: int, root: bytes, time: int = time) -> SignedHead:
            return sign_head(signers.at(time), iss=keys.iss, origin=keys.log, size=size, root=root, time=time)

        yield entries, sign


def _put_in_place(folder: Folder) -> None:
    made = _beside(folder).database
    for path in (folder.database, made):
        if path.with_name(f"{path.name}-wal").exists():
            raise StoreError(f"{path} is being read; end whatever reads it, and load again")
    made.replace(folder.database)
    sync_folder(folder.path)
