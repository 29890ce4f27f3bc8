"""A store in memory: the contract of :mod:`transparency.log.store` without a disk, for tests of what stands above it.

The same suite (``tests/log/test_store_contract.py``) holds it and every other store to the contract. The one sentence
it cannot keep is that a commit survives power loss; a test that needs that needs a disk.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from transparency.errors import StoreError, TipMovedError
from transparency.log import checkpoint_keeping as keeping
from transparency.log.store import Admitted, Commit, IntakeRow, Kind, StoredEntry, Tip
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.policy.manifest import collateral_digest
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry


class MemoryStore:
    """Empty when made: size 0, epoch 0. One lock makes every call a transaction, and every read a whole one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tip = Tip(0, EMPTY_ROOT, 0)
        self._entries: list[StoredEntry] = []
        self._tiles: dict[tuple[int, int], bytes] = {}
        self._heads: dict[int, SignedHead] = {}
        self._digests: dict[Entry, int] = {}
        self._siblings: dict[bytes, list[int]] = {}
        self._indexed = 0
        self._intake: dict[Entry, IntakeRow] = {}
        self._failed_at: dict[Entry, int] = {}
        self._erased_upto = 0
        self._checkpoints: dict[int, tuple[bytes, bool]] = {}

    # -- writes --------------------------------------------------------------------------------------------------

    def take_over(self) -> Tip:
        with self._lock:
            self._tip = replace(self._tip, epoch=self._tip.epoch + 1)
            return self._tip

    def commit(self, batch: Commit) -> None:
        with self._lock:
            if self._tip != batch.expected:
                raise TipMovedError("another writer has moved the tip of this log; this process must stop")
            if batch.head.size in self._heads:
                raise StoreError(f"there is a head of size {batch.head.size} already")
            if batch.entries and batch.expected.size < len(self._entries):
                raise StoreError(f"there is an entry {batch.expected.size} already")
            for index, new in enumerate(batch.entries, batch.expected.size):
                row = StoredEntry(
                    index, new.entry, new.kind, new.generation, new.tbs_digest, new.statement, new.collateral
                )
                self._entries.append(row)
            self._tiles.update(batch.tiles)
            self._heads[batch.head.size] = batch.head
            for entry in batch.intake_done:
                self._forget(entry)
            self._tip = Tip(batch.head.size, batch.head.root, self._tip.epoch)

    def settle(self) -> None:
        """Nothing is held."""

    def check_owned(self, epoch: int) -> None:
        with self._lock:
            if self._tip.epoch != epoch:
                raise TipMovedError("another writer has taken this log over; this process must stop")

    def extend_index(self, upto: int) -> None:
        with self._lock:
            for row in self._entries[self._indexed : upto]:
                self._digests.setdefault(row.entry, row.index)
                known = self._siblings.setdefault(row.tbs_digest, []) if row.tbs_digest else None
                if known is not None and row.index not in known:
                    insort(known, row.index)
            self._indexed = max(self._indexed, upto)

    def index_some(
        self, digests: Sequence[tuple[bytes, int]], siblings: Sequence[tuple[bytes, int]], upto: int | None
    ) -> None:
        with self._lock:
            for entry, index in digests:
                self._digests.setdefault(Entry(entry), index)
            for tbs, index in siblings:
                known = self._siblings.setdefault(tbs, [])
                if index not in known:
                    insort(known, index)
            if upto is not None:
                self._indexed = max(self._indexed, upto)

    def intake_add(self, rows: Sequence[IntakeRow]) -> None:
        with self._lock:
            for row in rows:
                self._forget(row.entry)
                self._intake[row.entry] = replace(row, failed=None)

    def intake_fail(self, failures: Sequence[tuple[Entry, str]], time: int) -> None:
        with self._lock:
            for entry, reason in failures:
                row = self._intake.get(entry)
                if row is not None:
                    judgement = row.judgement._replace(collateral=b"")
                    self._intake[entry] = replace(row, statement=b"", judgement=judgement, failed=reason)
                    self._failed_at[entry] = time

    def intake_remove(self, entries: Sequence[Entry]) -> None:
        with self._lock:
            for entry in entries:
                self._forget(entry)

    def intake_forget(self, failed_before: int) -> None:
        with self._lock:
            for entry in [entry for entry, time in self._failed_at.items() if time < failed_before]:
                self._forget(entry)

    def erase(self, indexes: Sequence[int]) -> None:
        with self._lock:
            for index in indexes:
                row = self._entries[index]
                if row.kind is Kind.STATEMENT:
                    if index in self._siblings.get(row.tbs_digest, ()):
                        self._siblings[row.tbs_digest].remove(index)
                    self._entries[index] = replace(row, tbs_digest=b"", statement=b"", collateral=b"")
                    self._forget(row.entry)

    def scrub(self) -> str:
        return ""

    def erased_upto(self) -> int:
        with self._lock:
            return self._erased_upto

    def note_erased(self, upto: int) -> None:
        with self._lock:
            self._erased_upto = upto

    def put_checkpoint(self, size: int, note: bytes, *, witnessed: bool) -> None:
        with self._lock:
            keeping.check_may_follow(max(self._checkpoints, default=None), size)
            if size in self._checkpoints:
                before, was_witnessed = self._checkpoints[size]
                keeping.check_same_text(before, note, size)
                witnessed = witnessed or was_witnessed
            kept = {old: row for old, row in self._checkpoints.items() if row[1]} | {size: (note, witnessed)}
            sizes = sorted(kept, reverse=True)[keeping.RECENT - 1 :]
            if len(sizes) > 1 and keeping.in_one_block(sizes[1], sizes[0]):
                del kept[sizes[1]]
            self._checkpoints = kept

    def _forget(self, entry: Entry) -> None:
        self._intake.pop(entry, None)
        self._failed_at.pop(entry, None)

    # -- reads ---------------------------------------------------------------------------------------------------

    def tip(self) -> Tip:
        with self._lock:
            return self._tip

    def entry(self, index: int) -> StoredEntry | None:
        with self._lock:
            return self._entries[index] if 0 <= index < len(self._entries) else None

    def entries(self, start: int, stop: int) -> Iterator[StoredEntry]:
        with self._lock:
            rows = self._entries[max(start, 0) : max(stop, 0)]
        yield from rows

    def digests(self, start: int, stop: int) -> list[Entry]:
        return [row.entry for row in self.entries(start, stop)]

    def admitted(self, start: int, stop: int) -> list[Admitted]:
        return [
            Admitted(row.index, int(row.kind), row.generation, collateral_digest(row.collateral))
            for row in self.entries(start, stop)
        ]

    def documents(self, kind: Kind) -> list[StoredEntry]:
        with self._lock:
            return [row for row in self._entries if row.kind is kind is not Kind.STATEMENT]

    def newest_documents(self, kind: Kind, before: int, most: int) -> list[StoredEntry]:
        return [row for row in reversed(self.documents(kind)) if row.index < before][:most]

    def tile(self, level: int, index: int) -> bytes | None:
        with self._lock:
            return self._tiles.get((level, index))

    def head(self, size: int) -> SignedHead | None:
        with self._lock:
            return self._heads.get(size)

    def head_covering(self, index: int) -> SignedHead | None:
        with self._lock:
            # Heads are committed in order of size, and dicts keep the order.
            return next((head for size, head in self._heads.items() if size > index), None)

    def newest_head(self) -> SignedHead | None:
        with self._lock:
            return next(reversed(self._heads.values()), None)

    def heads(self, after: int = 0) -> Iterator[SignedHead]:
        with self._lock:
            heads = [head for size, head in self._heads.items() if size > after]
        yield from heads

    def heads_made(self) -> int:
        with self._lock:
            return len(self._heads)

    def find(self, entry: Entry) -> int | None:
        with self._lock:
            return self._digests.get(entry)

    def find_some(self, entries: Sequence[Entry], *, writing: bool = False) -> dict[Entry, int]:  # noqa: ARG002 - sooner is not possible
        with self._lock:
            return {entry: self._digests[entry] for entry in entries if entry in self._digests}

    def siblings(self, tbs_digest: bytes, most: int) -> list[tuple[int, Entry]]:
        with self._lock:
            return [(index, self._entries[index].entry) for index in self._siblings.get(tbs_digest, ())][:most]

    def indexed_size(self) -> int:
        with self._lock:
            return self._indexed

    def intake_get(self, entry: Entry) -> IntakeRow | None:
        with self._lock:
            return self._intake.get(entry)

    def intake_pending(self, most_bytes: int, besides: Collection[Entry] = ()) -> list[IntakeRow]:
        rows: list[IntakeRow] = []
        with self._lock:
            for row in self._intake.values():
                if row.failed is None and row.entry not in besides and sum(taken.size for taken in rows) < most_bytes:
                    rows.append(row)
        return rows

    def intake_sizes(self) -> dict[Entry, int]:
        with self._lock:
            return {row.entry: row.size for row in self._intake.values() if row.failed is None}

    def newest_checkpoint(self) -> bytes | None:
        with self._lock:
            return self._checkpoints[max(self._checkpoints)][0] if self._checkpoints else None

    def checkpoint_covering(self, index: int) -> bytes | None:
        with self._lock:
            sizes = [size for size, (_, witnessed) in self._checkpoints.items() if size > index and witnessed]
            return self._checkpoints[min(sizes)][0] if sizes else None

    def checkpoints(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        with self._lock:
            rows = sorted((size, note) for size, (note, _) in self._checkpoints.items() if size > after)
        yield from rows

    def close(self) -> None:
        """Nothing to release."""
