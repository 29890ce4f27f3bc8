"""Taking a log from one store to another: SQLite to PostgreSQL, or back. It stays the same log, with the same mark.

Every batch is committed again as it was, under its own head; the tree is computed from the entries, and must give each
head's root. Then what the new store holds is read back and compared with the old one, row by row. Only then is the new
folder put in its place.

The old folder stays as it is. Both name the same high-water mark, so only one of them can go on: from the first entry
that either takes, the other is behind the mark and is refused.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from transparency.errors import LogUnusableError, StoreError
from transparency.log import bulk, redo, stores
from transparency.log.backup import copy_beside
from transparency.log.durable import create_durably
from transparency.log.folder import Config, Folder, Ownership, make_folder, publish_folder
from transparency.log.mark import Mark, check_outside
from transparency.log.opening import admit_kept, check_mark, check_published, check_tip
from transparency.log.store import NewEntry, Store, StoredEntry, Tip
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import entry_of

_CHUNK: Final = 8192
_ALL: Final = 2**62
Progress = Callable[[int, int], None]


def migrate(source: Path, target: Path, db: str | None, progress: Progress | None = None) -> int:
    """The log of the folder *source* in a new folder *target*, its tree in *db* or in a file there. Returns its size.

    The log must not be running. Reasons of registrations that failed are not taken along; what was acknowledged is.
    """
    old = Folder(source.absolute())
    target = target.absolute()
    if not old.exists():
        raise LogUnusableError(f"there is no log in {source}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(17, "is not empty", str(target))
    ownership = Ownership(old.lock)
    try:
        config = Config.read(old.config)
        check_outside(config.watermark, target)
        if config.watermark_db is not None and db is None:
            raise LogUnusableError(
                "the nodes of this log share a high-water mark in a database, which a log in a file does not write: "
                "they and it could both go on. Take it to another database, with --db"
            )
        from_store = stores.open_store(old, config.db, vouched=config.watermark_db is not None)
        try:
            if config.db is None:
                redo.recover(from_store, config.watermark, config.origin,
                             lambda value: check_mark(from_store, from_store.tip(), value, config.origin),
                             admit_kept(from_store, config))  # fmt: skip
            tip = from_store.take_over()
            shared = stores.open_mark(old, config, from_store, tip, begins=False)
            mark = shared or Mark.open(config.watermark, config.origin)
            try:
                mark.own()
                check_tip(from_store, tip)
                check_published(from_store, tip)
                check_mark(from_store, tip, mark.value, config.origin)
                _into(old, config, from_store, tip, target, db, progress or _silent)
            finally:
                mark.close()
        finally:
            from_store.close()
    finally:
        ownership.release()
    return tip.size


def _into(
    old: Folder, config: Config, from_store: Store, tip: Tip, target: Path, db: str | None, progress: Progress
) -> None:
    making = make_folder(target.with_name(f".{target.name}.{secrets.token_hex(4)}.new"))
    try:
        db = stores.create_store(making, db)
        try:
            to_store = stores.open_to_fill(making, db)
            try:
                fill(from_store, to_store, tip, progress)
            finally:
                to_store.close()
            to_store = stores.open_store(making, db)
            try:
                # Durable, and with it all that was written before it.
                now = to_store.take_over()
                _compare(from_store, to_store, now, tip, progress)
                if config.db is not None and db is not None:
                    stores.carry_named_mark(from_store, to_store, now)
            finally:
                to_store.close()
            copy_beside(old, making, with_keys=True)
            if old.copies.exists():
                create_durably(making.copies, old.copies.read_bytes())
            replace(config, db=stores.named(db)).write(making.config)
            publish_folder(making, target)
        except BaseException:
            stores.remove_store(db)
            raise
    finally:
        shutil.rmtree(making.path, ignore_errors=True)


def fill(source: Store, target: Store, tip: Tip, progress: Progress) -> None:
    """Everything of *source* up to *tip* into *target*, which is empty."""
    at = bulk.fill(target, _batches(source, tip), lambda done: progress(done, 2 * tip.size))
    if (at.size, at.root) != (tip.size, tip.root):
        raise _damaged("the newest head is not the tip")
    for size, note in source.checkpoints():
        target.put_checkpoint(size, note, witnessed=source.checkpoint_covering(size - 1) == note)
    target.note_erased(source.erased_upto())
    target.intake_add(source.intake_pending(_ALL))


def _batches(source: Store, tip: Tip) -> Iterator[tuple[list[NewEntry], bulk.HeadOf]]:
    """Every batch as it was, with its head, if that is what its entries give."""
    rows, size = source.entries(0, tip.size), 0
    for head in source.heads():

        def as_it_was(_size: int, root: bytes, head: SignedHead = head) -> SignedHead:
            if root != head.root:
                raise _damaged(f"the entries do not give the root of head {head.size}")
            return head

        yield [bulk.as_new(row) for row in _next(rows, head.size - size, size)], as_it_was
        size = head.size


def _next(rows: Iterator[StoredEntry], count: int, first: int) -> Iterator[StoredEntry]:
    for index in range(first, first + count):
        row = next(rows, None)
        if row is None or row.index != index:
            raise _damaged(f"entry {index} is missing")
        if not row.erased and entry_of(row.statement) != row.entry:
            raise _damaged(f"the statement of entry {index} does not hash to it")
        yield row


def _compare(old: Store, new: Store, now: Tip, tip: Tip, progress: Progress) -> None:
    """What was kept is what was there: every row, and the tree that the new one's tiles give."""
    if (now.size, now.root) != (tip.size, tip.root):
        raise StoreError(f"the new store has {now.size} entries, the old one {tip.size}")
    check_tip(new, now)
    edge = RightEdge()
    leaves: list[bytes] = []
    for before, after in zip_longest(old.entries(0, tip.size), new.entries(0, tip.size)):
        if before != after:
            raise StoreError(f"entry {(before or after).index} is not in the new store as it was in the old one")
        leaves.append(leaf_hash(after.entry))
        if len(leaves) == _CHUNK or after.index == tip.size - 1:
            edge.append(leaves)
            leaves = []
            progress(tip.size + after.index, 2 * tip.size)
    if edge.root() != tip.root:
        raise StoreError("the entries of the new store do not give the root of the old one")
    for what, before_all, after_all in (
        ("head", old.heads(), new.heads()),
        ("checkpoint", old.checkpoints(), new.checkpoints()),
        ("waiting statement", iter(old.intake_pending(_ALL)), iter(new.intake_pending(_ALL))),
    ):
        for number, (one, other) in enumerate(zip_longest(before_all, after_all)):
            if one != other:
                raise StoreError(f"{what} number {number} is not in the new store as it was in the old one")
    if new.indexed_size() != tip.size or new.heads_made() != old.heads_made():
        raise StoreError("the new store does not count as the old one does")


def _damaged(what: str) -> LogUnusableError:
    return LogUnusableError(f"{what}; `transparency log fsck` tells what is wrong with this log")


def _silent(_done: int, _total: int) -> None:
    """No progress asked for."""
