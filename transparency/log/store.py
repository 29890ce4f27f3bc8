"""The store: what the log keeps, and the consistency contract that every implementation signs.

Contract
--------
1. ``commit`` is one transaction. Its first act is the compare-and-swap on the one-row tip: size, root *and* epoch must
   be those expected, else :class:`TipMovedError` and nothing changed. Entry index and head size are unique.
2. When ``commit``, ``intake_add`` or ``put_checkpoint`` returns, what it wrote survives power loss, and so does all
   that was written before it. When it raises, nobody knows: the caller stops and the log is reopened, which reads the
   truth. A batch that is *kept*, elsewhere and by who commits it, may be lost, to power loss or with the process, and
   with it those that follow up to the first write that is not kept: what is left is then a state that once was. It may
   be held in memory, and its compare-and-swap be made, when something else is written, or read, or by ``settle``.
3. ``take_over`` raises the epoch. From then on every commit under an older epoch fails: two writers cannot both win.
   A batch that is kept elsewhere may not be in the store yet: who keeps it asks ``check_owned`` afterwards, and
   releases it only then. That raises :class:`TipMovedError` when the epoch is another.
4. The digest and sibling indexes are *derived* from the entries. They may lag behind the tip by what
   ``indexed_size`` says; ``extend_index`` catches up and is safe to repeat: when it returns, everything below *upto*
   survives power loss, kept or not. ``index_some`` puts rows of entries into
   them, which may be there already, and, given *upto*, says that from now on everything below it is there.
   Where the indexes are part of each commit they never lag, and a digest that is there already is :class:`StoreError`.
5. Reads see every commit that returned before the read began. Reads never see half a commit.
6. ``intake_pending`` gives the oldest rows that have not failed and are not among *besides*, at least one if there is
   any, and stops when their sizes reach *most_bytes*; ``intake_sizes`` gives every such row's size, whatever their
   number.
7. ``newest_documents`` gives the last *most* of a kind below index *before*, the newest first; ``heads`` those that
   are larger than *after*.
8. ``erase`` takes the statement, the digest of what it signs, its intake row and the collateral that nothing else needs
   away from entries of kind STATEMENT, in one transaction; index, entry and generation stay. It may be repeated. When
   ``scrub`` has returned "", nothing that was erased is in the store's tables any more, nor in files of which the store
   is the master (a server's write-ahead log is the server's); else it says why not, and what was there is still whole.
   ``erased_upto`` is what ``note_erased`` noted last, 0 at first: every erasure registered below that index has been
   carried out.
9. ``put_checkpoint`` keeps the note of a published checkpoint under its size. A second one of that size takes its place
   if its text is the same, with more or newer signatures, and stays witnessed if it was; another text, or a size below
   the newest, is :class:`StoreError`. Older ones go by the rule of checkpoint_keeping.py. ``checkpoint_covering`` gives
   the smallest *witnessed* one that is larger than an index, ``checkpoints`` those larger than *after*.
10. Writes are asked for by one thread at a time (the sequencer's). Reads may come from another thread meanwhile, and
   may write what is held. Who could write at this moment may say so (*writing*), and be answered sooner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from transparency.policy.judge import Judgement
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry


class Kind(IntEnum):
    """What an entry is to the log itself. Documents of the service are found again by their kind."""

    STATEMENT = 0
    POLICY = 1
    KEYS = 2
    OPERATION = 3


# What rules the log from its place on.
DOCUMENTS = (Kind.POLICY, Kind.KEYS)


@dataclass(frozen=True, slots=True)
class Tip:
    size: int
    root: bytes
    epoch: int


class NewEntry(NamedTuple):
    """``collateral`` is what the judgement used besides the statement, and will be asked for when it is replayed."""

    entry: Entry
    kind: Kind
    generation: int
    tbs_digest: bytes
    statement: bytes
    collateral: bytes = b""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    index: int
    entry: Entry
    kind: Kind
    generation: int
    tbs_digest: bytes
    statement: bytes
    collateral: bytes = b""

    @property
    def erased(self) -> bool:
        """No statement is empty: an empty one was taken away by order."""
        return not self.statement


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch: from the tip it expects to the head it makes. ``tiles`` maps (level, index) to whole contents."""

    expected: Tip
    entries: Sequence[NewEntry]
    tiles: Mapping[tuple[int, int], bytes]
    head: SignedHead
    intake_done: Sequence[Entry] = field(default=())
    kept: bool = False


@dataclass(frozen=True, slots=True)
class IntakeRow:
    """An acknowledged (202) statement that is not in the tree yet, with the judgement it was accepted under."""

    entry: Entry
    statement: bytes
    judgement: Judgement
    accepted: int
    failed: str | None = None

    @property
    def size(self) -> int:
        return len(self.statement) + len(self.judgement.collateral)


class Admitted(NamedTuple):
    """An entry without its statement: where and what it is, under which policy, its collateral's digest if any."""

    place: int
    kind: int
    generation: int
    collateral: bytes | None


class Store(Protocol):
    """See the contract at the top of this module."""

    def take_over(self) -> Tip: ...
    def tip(self) -> Tip: ...
    def commit(self, batch: Commit) -> None: ...
    def settle(self) -> None: ...
    def check_owned(self, epoch: int) -> None: ...
    def entry(self, index: int) -> StoredEntry | None: ...
    def entries(self, start: int, stop: int) -> Iterator[StoredEntry]: ...
    def digests(self, start: int, stop: int) -> list[Entry]: ...
    def admitted(self, start: int, stop: int) -> list[Admitted]: ...
    def documents(self, kind: Kind) -> list[StoredEntry]: ...
    def newest_documents(self, kind: Kind, before: int, most: int) -> list[StoredEntry]: ...
    def tile(self, level: int, index: int) -> bytes | None: ...
    def head(self, size: int) -> SignedHead | None: ...
    def head_covering(self, index: int) -> SignedHead | None: ...
    def newest_head(self) -> SignedHead | None: ...
    def heads(self, after: int = 0) -> Iterator[SignedHead]: ...
    def heads_made(self) -> int: ...
    def find(self, entry: Entry) -> int | None: ...
    def find_some(self, entries: Sequence[Entry], *, writing: bool = False) -> dict[Entry, int]: ...
    def siblings(self, tbs_digest: bytes, most: int) -> list[tuple[int, Entry]]: ...
    def indexed_size(self) -> int: ...
    def extend_index(self, upto: int) -> None: ...
    def index_some(
        self, digests: Sequence[tuple[bytes, int]], siblings: Sequence[tuple[bytes, int]], upto: int | None
    ) -> None: ...
    def intake_add(self, rows: Sequence[IntakeRow]) -> None: ...
    def intake_fail(self, failures: Sequence[tuple[Entry, str]], time: int) -> None: ...
    def intake_remove(self, entries: Sequence[Entry]) -> None: ...
    def intake_get(self, entry: Entry) -> IntakeRow | None: ...
    def intake_pending(self, most_bytes: int, besides: Collection[Entry] = ()) -> list[IntakeRow]: ...
    def intake_sizes(self) -> dict[Entry, int]: ...
    def intake_forget(self, failed_before: int) -> None: ...
    def erase(self, indexes: Sequence[int]) -> None: ...
    def scrub(self) -> str: ...
    def erased_upto(self) -> int: ...
    def note_erased(self, upto: int) -> None: ...
    def put_checkpoint(self, size: int, note: bytes, *, witnessed: bool) -> None: ...
    def newest_checkpoint(self) -> bytes | None: ...
    def checkpoint_covering(self, index: int) -> bytes | None: ...
    def checkpoints(self, after: int = 0) -> Iterator[tuple[int, bytes]]: ...
    def close(self) -> None: ...
