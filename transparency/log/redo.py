"""What a journal keeps of a batch, and how the store gets back what it lost (journal.py, decision 0019).

Only statements are kept, of those that came by no intake: what rules the log, what it states about itself and what was
acknowledged before has more to it than rows of the tree, and is synced in the store.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import cbor2

from transparency.cose.cbor import decode
from transparency.errors import LogUnusableError, MalformedError
from transparency.log.durable import DurableFile
from transparency.log.journal import Kept
from transparency.log.mark import Check, Mark
from transparency.log.store import Commit, Kind, NewEntry, Store, Tip
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry

# A larger batch pays for syncs of its own, which it shares among many; and would fill the journal after a few.
LONGEST: Final = 256 * 1024
# About what stands around the bytes of an entry.
_AROUND_ENTRY: Final = 128
_HEAD_TYPES: Final[list[type]] = [int, bytes, bytes, bytes]
_ROW_TYPES: Final[list[type]] = [bytes, int, bytes, bytes, bytes]
_logger = logging.getLogger("transparency.log")


def is_small(entries: Sequence[NewEntry]) -> bool:
    """Whether *entries* are statements, and few or short enough to be kept."""
    size = 0
    for new in entries:
        if new.kind is not Kind.STATEMENT:
            return False
        size += _AROUND_ENTRY + len(new.statement) + len(new.collateral)
    return size <= LONGEST


def batch(tip: Tip, entries: Sequence[NewEntry], head: SignedHead) -> Kept:
    """What is kept of *entries*, which *head* has in the tree that was at *tip*."""
    rows = [[new.entry, new.generation, new.tbs_digest, new.statement, new.collateral] for new in entries]
    content = cbor2.dumps([head.time, head.kid, head.protected, head.signature, rows])
    return Kept(tip.epoch, (tip.size, tip.root), (head.size, head.root), content)


def read_batch(kept: Kept) -> tuple[list[NewEntry], SignedHead]:
    size, root = kept.after
    try:
        time, kid, protected, signature, rows = decode(kept.content)
        _check_types([[time, kid, protected, signature]], _HEAD_TYPES)
        _check_types(rows, _ROW_TYPES)
        head = SignedHead(size, root, time, kid, protected, signature)
        return [
            NewEntry(Entry(entry), Kind.STATEMENT, generation, tbs, statement, collateral)
            for entry, generation, tbs, statement, collateral in rows
        ], head
    except (MalformedError, TypeError, ValueError) as error:
        raise LogUnusableError(f"the journal's batch up to size {size} cannot be read: {error}") from error


def _check_types(rows: list[list[object]], types: list[type]) -> None:
    if any([type(value) for value in row] != types for row in rows):
        raise TypeError("a value is of another kind")


def lost(tip: Tip, journal: Sequence[Kept]) -> Sequence[Kept]:
    """The batches that a store at *tip* has lost. None if it has all, or is no state that the journal leads on from."""
    for place, kept in enumerate(journal):
        if (kept.epoch, kept.before) == (tip.epoch, (tip.size, tip.root)):
            return journal[place:]
    return ()


Admit = Callable[[Sequence[NewEntry], SignedHead], None]
"""Refuses a batch that this log cannot have committed, with LogUnusableError."""


def bring_back(store: Store, journal: Sequence[Kept], admit: Admit) -> None:
    """*store*, not taken over yet, gets back what it has lost: under the epoch it had, so that it can be repeated.

    All of it is checked before any of it is written. Its checksums say that it is whole, not who wrote it.
    """
    tip = store.tip()
    missing = lost(tip, journal)
    if not missing:
        _check_not_taken_over(tip, journal)
        return
    first = tip.size
    edge = RightEdge.load(tip.size, store.tile)
    batches = []
    for kept in missing:
        entries, head = read_batch(kept)
        tiles = edge.append([leaf_hash(new.entry) for new in entries])
        if (edge.size, edge.root()) != kept.after:
            raise LogUnusableError(f"the journal's batch up to size {head.size} does not give the root that was signed")
        admit(entries, head)
        batches.append((entries, tiles, head))
    for number, (entries, tiles, head) in enumerate(batches, 1):
        # All with the last: until that one is there the journal has them, and the start is tried again.
        store.commit(Commit(tip, entries, tiles, head, kept=number < len(batches)))
        tip = Tip(head.size, head.root, tip.epoch)
    if batches:
        _logger.warning(
            "brought back from the journal: entries %d to %d, which the store did not have", first, tip.size - 1
        )


def _check_not_taken_over(tip: Tip, journal: Sequence[Kept]) -> None:
    """Refuse a store that somebody has taken over before it had what the journal keeps (decision 0020, two writers)."""
    for kept in journal:
        if kept.before == (tip.size, tip.root) and kept.epoch < tip.epoch:
            raise LogUnusableError(
                f"entries {tip.size} to {journal[-1].after[0] - 1} are in the journal, of epoch {kept.epoch}, and the "
                f"store was taken over, in epoch {tip.epoch}, before it had them: two processes ran this log at once, "
                "and no lock kept the second out. Start none, keep folder and mark as they are, and see 'epoch' in "
                "docs/operate.md"
            )


def recover(
    store: Store,
    path: Path,
    origin: str,
    check: Check,
    admit: Admit,
    open_file: Callable[[Path], DurableFile] = DurableFile,
    *,
    bound_for: str | None = None,
) -> None:
    """Before *store* is taken over: what it has lost of what the mark at *path* keeps is brought back.

    And what *check* then refuses, or whose mark is away or another's, is not taken over: that would raise the epoch of
    an old copy, and make it look like the store that the journal is of; or the epoch of the right one, and the journal
    would not fit it any more. One that has gone to where it was *bound for* has nothing to say.
    """
    with contextlib.closing(Mark.open(path, origin, open_file, bound_for=bound_for)) as mark:
        if mark.moved is not None:
            return
        mark.own()
        bring_back(store, mark.kept, admit)
        check(mark.value)
