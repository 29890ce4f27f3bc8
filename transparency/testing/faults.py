"""Stores and files that fail on demand: before doing what they were asked, or after having done it.

The second kind is the treacherous one. A commit whose answer is lost looks like a failure and is none; software that
retries it, or carries on beside it, forks the log. So the writer above must treat both alike: stop, reopen, read.

>>> from transparency.testing import Fault, FaultyStore, MemoryStore
>>> store = FaultyStore(MemoryStore())
>>> store.fail("take_over", Fault.FAILS_BUT_PERSISTS)
>>> store.take_over()
Traceback (most recent call last):
transparency.testing.faults.InjectedFaultError: take_over was made to fail after it was done
>>> store.tip().epoch
1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TypeVar

from transparency.errors import StoreError
from transparency.log.durable import DurableFile
from transparency.log.store import Admitted, Commit, IntakeRow, Kind, Store, StoredEntry, Tip
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry

_T = TypeVar("_T")


class Fault(Enum):
    FAILS = "fails before it was done"
    FAILS_BUT_PERSISTS = "fails after it was done"


class InjectedFaultError(StoreError):
    """The fault that a test asked for; a store's own failure is the base class."""


class FaultyStore:
    """Any store, passed through, until a fault set with :meth:`fail` is due."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due: dict[tuple[str, int], Fault] = {}
        self.calls: Counter[str] = Counter()
        self.struck: list[str] = []

    def fail(self, method: str, fault: Fault, nth: int = 1) -> None:
        """Let the *nth* call of *method* from now on fail. Several faults may be due."""
        if not callable(getattr(self._store, method, None)) or nth < 1:
            raise ValueError(f"there is no {nth}. call of {method!r} to fail")
        self._due[method, self.calls[method] + nth] = fault

    def _call(self, method: str, do: Callable[[], _T]) -> _T:
        self.calls[method] += 1
        fault = self._due.pop((method, self.calls[method]), None)
        if fault is None:
            return do()
        self.struck.append(method)
        if fault is Fault.FAILS_BUT_PERSISTS:
            do()
            raise InjectedFaultError(f"{method} was made to fail after it was done")
        raise InjectedFaultError(f"{method} was made to fail before it was done")

    # -- writes --------------------------------------------------------------------------------------------------

    def take_over(self) -> Tip:
        return self._call("take_over", self._store.take_over)

    def commit(self, batch: Commit) -> None:
        self._call("commit", lambda: self._store.commit(batch))

    def settle(self) -> None:
        self._call("settle", self._store.settle)

    def check_owned(self, epoch: int) -> None:
        self._call("check_owned", lambda: self._store.check_owned(epoch))

    def extend_index(self, upto: int) -> None:
        self._call("extend_index", lambda: self._store.extend_index(upto))

    def index_some(
        self, digests: Sequence[tuple[bytes, int]], siblings: Sequence[tuple[bytes, int]], upto: int | None
    ) -> None:
        self._call("index_some", lambda: self._store.index_some(digests, siblings, upto))

    def intake_add(self, rows: Sequence[IntakeRow]) -> None:
        self._call("intake_add", lambda: self._store.intake_add(rows))

    def intake_fail(self, failures: Sequence[tuple[Entry, str]], time: int) -> None:
        self._call("intake_fail", lambda: self._store.intake_fail(failures, time))

    def intake_remove(self, entries: Sequence[Entry]) -> None:
        self._call("intake_remove", lambda: self._store.intake_remove(entries))

    def intake_forget(self, failed_before: int) -> None:
        self._call("intake_forget", lambda: self._store.intake_forget(failed_before))

    def erase(self, indexes: Sequence[int]) -> None:
        self._call("erase", lambda: self._store.erase(indexes))

    def scrub(self) -> str:
        return self._call("scrub", self._store.scrub)

    def note_erased(self, upto: int) -> None:
        self._call("note_erased", lambda: self._store.note_erased(upto))

    def put_checkpoint(self, size: int, note: bytes, *, witnessed: bool) -> None:
        self._call("put_checkpoint", lambda: self._store.put_checkpoint(size, note, witnessed=witnessed))

    # -- reads ---------------------------------------------------------------------------------------------------

    def erased_upto(self) -> int:
        return self._call("erased_upto", self._store.erased_upto)

    def tip(self) -> Tip:
        return self._call("tip", self._store.tip)

    def entry(self, index: int) -> StoredEntry | None:
        return self._call("entry", lambda: self._store.entry(index))

    def entries(self, start: int, stop: int) -> Iterator[StoredEntry]:
        return self._call("entries", lambda: self._store.entries(start, stop))

    def digests(self, start: int, stop: int) -> list[Entry]:
        return self._call("digests", lambda: self._store.digests(start, stop))

    def admitted(self, start: int, stop: int) -> list[Admitted]:
        return self._call("admitted", lambda: self._store.admitted(start, stop))

    def documents(self, kind: Kind) -> list[StoredEntry]:
        return self._call("documents", lambda: self._store.documents(kind))

    def newest_documents(self, kind: Kind, before: int, most: int) -> list[StoredEntry]:
        return self._call("newest_documents", lambda: self._store.newest_documents(kind, before, most))

    def tile(self, level: int, index: int) -> bytes | None:
        return self._call("tile", lambda: self._store.tile(level, index))

    def head(self, size: int) -> SignedHead | None:
        return self._call("head", lambda: self._store.head(size))

    def head_covering(self, index: int) -> SignedHead | None:
        return self._call("head_covering", lambda: self._store.head_covering(index))

    def newest_head(self) -> SignedHead | None:
        return self._call("newest_head", self._store.newest_head)

    def heads(self, after: int = 0) -> Iterator[SignedHead]:
        return self._call("heads", lambda: self._store.heads(after))

    def heads_made(self) -> int:
        return self._call("heads_made", self._store.heads_made)

    def find(self, entry: Entry) -> int | None:
        return self._call("find", lambda: self._store.find(entry))

    def find_some(self, entries: Sequence[Entry], *, writing: bool = False) -> dict[Entry, int]:
        return self._call("find_some", lambda: self._store.find_some(entries, writing=writing))

    def siblings(self, tbs_digest: bytes, most: int) -> list[tuple[int, Entry]]:
        return self._call("siblings", lambda: self._store.siblings(tbs_digest, most))

    def indexed_size(self) -> int:
        return self._call("indexed_size", self._store.indexed_size)

    def intake_get(self, entry: Entry) -> IntakeRow | None:
        return self._call("intake_get", lambda: self._store.intake_get(entry))

    def intake_pending(self, most_bytes: int, besides: Collection[Entry] = ()) -> list[IntakeRow]:
        return self._call("intake_pending", lambda: self._store.intake_pending(most_bytes, besides))

    def intake_sizes(self) -> dict[Entry, int]:
        return self._call("intake_sizes", self._store.intake_sizes)

    def newest_checkpoint(self) -> bytes | None:
        return self._call("newest_checkpoint", self._store.newest_checkpoint)

    def checkpoint_covering(self, index: int) -> bytes | None:
        return self._call("checkpoint_covering", lambda: self._store.checkpoint_covering(index))

    def checkpoints(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        return self._call("checkpoints", lambda: self._store.checkpoints(after))

    def close(self) -> None:
        self._store.close()


class FaultyFile(DurableFile):
    """A :class:`DurableFile` (the mark's) whose *nth* write from :meth:`fail` on fails, or fails once it is durable."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._left = 0
        self._fault: Fault | None = None
        self.writes = 0
        self.struck = False

    def fail(self, fault: Fault, nth: int = 1) -> None:
        self._fault, self._left = fault, nth

    def write_at(self, offset: int, data: bytes) -> None:
        self.writes += 1
        self._left -= 1
        if self._left == 0 and self._fault is Fault.FAILS:
            self.struck = True
            raise OSError(5, "made to fail before it was done")
        super().write_at(offset, data)

    def sync(self) -> None:
        super().sync()
        if self._left == 0 and self._fault is Fault.FAILS_BUT_PERSISTS:
            self.struck = True
            raise OSError(5, "made to fail after it was done")
