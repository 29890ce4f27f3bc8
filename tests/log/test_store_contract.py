"""Every sentence of the contract in transparency/log/store.py, held against every store.

A further store is added by one line in ``STORES``: a function that gives, for an empty folder, an opener of stores
over one and the same empty data (size 0, epoch 0). What power loss leaves is tests/faults/test_power_cut.py's.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from transparency.errors import StoreError, TipMovedError
from transparency.log import schema
from transparency.log.sqlite import SqliteStore
from transparency.log.store import Commit, IntakeRow, Kind, NewEntry, Store, Tip
from transparency.merkle.hashing import EMPTY_ROOT, leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.policy.judge import Judgement
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Entry
from transparency.testing import FaultyStore, MemoryStore

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


STORES: dict[str, Callable[[Path], Opener]] = {
    "memory": _memory,
    "faulty": _wrapped,
    "sqlite": _sqlite,
}


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Stores over the same data; each is closed afterwards."""
    open_store = STORES[request.param](tmp_path)
    opened: list[Store] = []

    def remembering() -> Store:
        opened.append(open_store())
        return opened[-1]

    yield remembering
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> Store:
    return opener()


# -- a new store ---------------------------------------------------------------------------------------------------


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.tip() == Tip(0, EMPTY_ROOT, 0)
    assert store.newest_head() is None
    assert list(store.entries(0, 10)) == []
    assert list(store.heads()) == []
    assert store.intake_pending() == []
    assert store.indexed_size() == 0


# -- 1: commit is one transaction, and its first act is the compare-and-swap ----------------------------------------


def test_a_commit_stores_entries_tiles_and_head_and_moves_the_tip(store: Store) -> None:
    batch = _batch(store.take_over(), 3)
    store.commit(batch)

    assert store.tip() == Tip(3, batch.head.root, 1)
    assert [row.entry for row in store.entries(0, 3)] == [new.entry for new in batch.entries]
    assert [row.index for row in store.entries(0, 3)] == [0, 1, 2]
    assert store.newest_head() == store.head(3) == batch.head
    assert store.tile(0, 0) == b"".join(leaf_hash(new.entry) for new in batch.entries)
    row = store.entry(1)
    assert row is not None
    new = batch.entries[1]
    assert (row.kind, row.generation, row.tbs_digest, row.statement) == (
        new.kind,
        new.generation,
        new.tbs_digest,
        new.statement,
    )


@pytest.mark.parametrize(
    "other",
    [Tip(1, EMPTY_ROOT, 1), Tip(0, bytes(32), 1), Tip(0, EMPTY_ROOT, 2), Tip(0, EMPTY_ROOT, 0)],
    ids=["size", "root", "later epoch", "earlier epoch"],
)
def test_a_commit_that_expects_another_tip_changes_nothing(store: Store, other: Tip) -> None:
    tip = store.take_over()
    store.intake_add([_row(1)])
    batch = replace(_batch(tip, 2), expected=other, intake_done=[_entry(1)])

    with pytest.raises(TipMovedError):
        store.commit(batch)

    _assert_untouched(store, tip)
    assert store.intake_get(_entry(1)) == _row(1)


def test_a_commit_moves_the_tip_once_so_it_cannot_be_repeated(store: Store) -> None:
    batch = _batch(store.take_over(), 2)
    store.commit(batch)

    with pytest.raises(TipMovedError):
        store.commit(batch)
    assert store.tip().size == 2


def test_a_head_size_is_unique_and_a_second_one_undoes_its_whole_commit(store: Store) -> None:
    first = _batch(store.take_over(), 2)
    store.commit(first)
    tip = store.tip()
    store.intake_add([_row(1)])
    empty = Commit(tip, [], {(5, 5): b"tile"}, replace(first.head, time=99), [_entry(1)])

    with pytest.raises(StoreError):
        store.commit(empty)

    assert store.tip() == tip
    assert store.head(2) == first.head
    assert store.tile(5, 5) is None
    assert store.intake_get(_entry(1)) == _row(1)


def test_an_entry_index_is_unique_and_a_second_one_undoes_its_whole_commit(store: Store) -> None:
    """A writer that says fewer entries than it wrote is caught by the next commit."""
    batch = _batch(store.take_over(), 3)
    store.commit(replace(batch, head=replace(batch.head, size=2)))
    tip = store.tip()

    with pytest.raises(StoreError):
        store.commit(_batch(tip, 1))

    assert store.tip() == tip
    assert store.head(3) is None
    assert len(list(store.entries(0, 10))) == 3


def test_a_commit_settles_intake_rows_in_the_same_transaction(store: Store) -> None:
    tip = store.take_over()
    store.intake_add([_row(1), _row(2)])
    store.commit(_batch(tip, 1, intake_done=[_entry(1)]))

    assert store.intake_get(_entry(1)) is None
    assert store.intake_pending() == [_row(2)]


def test_a_store_goes_on_after_a_commit_that_was_refused(store: Store) -> None:
    tip = store.take_over()
    with pytest.raises(TipMovedError):
        store.commit(replace(_batch(tip, 1), expected=replace(tip, epoch=7)))

    store.commit(_batch(tip, 1))
    assert store.tip().size == 1


# -- 2: what returned is kept --------------------------------------------------------------------------------------


def test_what_a_commit_or_an_intake_wrote_is_there_for_whoever_opens_next(opener: Opener) -> None:
    first = opener()
    first.commit(_batch(first.take_over(), 2))
    first.intake_add([_row(1)])

    second = opener()

    assert second.tip() == first.tip()
    assert [row.index for row in second.entries(0, 9)] == [0, 1]
    assert second.newest_head() == first.newest_head()
    assert second.intake_pending() == [_row(1)]


# -- 3: take_over fences ---------------------------------------------------------------------------------------------


def test_take_over_raises_the_epoch_and_nothing_else(store: Store) -> None:
    store.commit(_batch(store.take_over(), 2))
    before = store.tip()

    assert store.take_over() == replace(before, epoch=before.epoch + 1) == store.tip()


def test_after_a_take_over_every_commit_of_the_earlier_owner_fails(opener: Opener) -> None:
    old, new = opener(), opener()
    batch = _batch(old.take_over(), 1)
    taken = new.take_over()

    with pytest.raises(TipMovedError):
        old.commit(batch)
    new.commit(_batch(taken, 1))
    assert new.tip() == replace(new.tip(), size=1, epoch=taken.epoch)


def test_no_two_take_overs_give_the_same_epoch(opener: Opener) -> None:
    """Two owners of one epoch would not be fenced from each other."""
    stores = [opener(), opener()]
    with ThreadPoolExecutor(2) as pool:
        epochs = [epoch for taken in pool.map(_take_over_often, stores) for epoch in taken]

    assert len(set(epochs)) == len(epochs)


# -- 4: derived indexes ------------------------------------------------------------------------------------------------


def test_the_index_lags_until_it_is_extended_and_extending_is_safe_to_repeat(store: Store) -> None:
    batch = _batch(store.take_over(), 5)
    store.commit(batch)
    wanted = batch.entries[3]
    assert store.find(wanted.entry) is None
    assert store.siblings(wanted.tbs_digest) == []

    store.extend_index(2)
    assert store.indexed_size() == 2
    assert store.find(wanted.entry) is None
    assert store.find(batch.entries[1].entry) == 1
    for _ in range(2):
        store.extend_index(5)

    assert store.indexed_size() == 5
    assert [store.find(new.entry) for new in batch.entries] == [0, 1, 2, 3, 4]
    assert store.siblings(wanted.tbs_digest) == [3]


def test_the_index_never_goes_back(store: Store) -> None:
    store.commit(_batch(store.take_over(), 5))
    store.extend_index(5)
    store.extend_index(3)

    assert store.indexed_size() == 5


def test_siblings_are_all_entries_over_the_same_signed_bytes_in_order(store: Store) -> None:
    """LEAF-7."""
    batch = _batch(store.take_over(), 3)
    shared = batch.entries[0].tbs_digest
    store.commit(replace(batch, entries=[replace(new, tbs_digest=shared) for new in batch.entries]))
    store.extend_index(3)

    assert store.siblings(shared) == [0, 1, 2]


def test_the_index_keeps_the_first_place_of_an_entry(store: Store) -> None:
    batch = _batch(store.take_over(), 2)
    store.commit(replace(batch, entries=[batch.entries[0], batch.entries[0]]))
    store.extend_index(2)

    assert store.find(batch.entries[0].entry) == 0


# -- 5 and 6: reads, also from another thread ----------------------------------------------------------------------


def test_reads_of_what_is_not_there_say_so(store: Store) -> None:
    store.commit(_batch(store.take_over(), 2))

    assert store.entry(2) is None
    assert store.head(1) is None
    assert store.head_covering(2) is None
    assert store.tile(1, 0) is None
    assert store.find(_entry(9)) is None
    assert store.intake_get(_entry(9)) is None
    assert list(store.entries(5, 2)) == []


def test_the_head_that_covers_an_index_is_the_first_that_does(store: Store) -> None:
    tip = store.take_over()
    for count in (2, 3, 1):
        store.commit(_batch(tip, count, before=tip.size))
        tip = store.tip()

    covering = [store.head_covering(index) for index in range(6)]
    assert [head.size if head else None for head in covering] == [2, 2, 5, 5, 5, 6]
    assert [head.size for head in store.heads()] == [2, 5, 6]


def test_documents_are_found_by_kind_and_statements_are_not_documents(store: Store) -> None:
    batch = _batch(store.take_over(), 4)
    kinds = [Kind.POLICY, Kind.KEYS, Kind.STATEMENT, Kind.POLICY]
    entries = [replace(new, kind=kind) for new, kind in zip(batch.entries, kinds, strict=True)]
    store.commit(replace(batch, entries=entries))

    assert [row.index for row in store.documents(Kind.POLICY)] == [0, 3]
    assert [row.index for row in store.documents(Kind.KEYS)] == [1]
    assert store.documents(Kind.STATEMENT) == []


def test_entries_are_read_in_order_across_any_chunk(store: Store) -> None:
    store.commit(_batch(store.take_over(), 3000))

    assert [row.index for row in store.entries(10, 2600)] == list(range(10, 2600))
    assert [row.index for row in store.entries(2990, 9999)] == list(range(2990, 3000))


def test_a_reader_meanwhile_sees_whole_commits_and_every_one_that_returned(store: Store) -> None:
    tip = store.take_over()
    returned = 0
    stop = threading.Event()
    trouble: list[str] = []

    def read() -> None:
        while not stop.is_set():
            least = returned
            head, size = store.newest_head(), store.tip().size
            if (head.size if head else 0) < least:
                trouble.append("a commit that returned was not seen")
            if head is not None:
                last, tile = store.entry(head.size - 1), store.tile(0, (head.size - 1) // 256)
                if last is None or tile is None or len(tile) < 32 * ((head.size - 1) % 256 + 1) or size < head.size:
                    trouble.append("half a commit was seen")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        edge = RightEdge()
        for _ in range(150):
            batch = _batch(tip, 5, before=tip.size, edge=edge)
            store.commit(batch)
            tip = replace(tip, size=batch.head.size, root=batch.head.root)
            returned = tip.size
    finally:
        stop.set()
        reader.join()

    assert trouble == []
    assert store.tip().size == 750


# -- the intake (REG-23) ---------------------------------------------------------------------------------------------


def test_intake_rows_are_pending_in_the_order_they_came(store: Store) -> None:
    rows = [_row(n) for n in (5, 3, 9)]
    store.intake_add(rows[:2])
    store.intake_add(rows[2:])

    assert store.intake_pending() == rows
    assert store.intake_get(_entry(3)) == _row(3)


def test_a_failed_row_keeps_its_reason_and_loses_its_statement(store: Store) -> None:
    store.intake_add([_row(1), _row(2)])
    store.intake_fail(_entry(1), "refused", 50)

    failed = store.intake_get(_entry(1))
    assert failed == replace(_row(1), statement=b"", failed="refused")
    assert store.intake_pending() == [_row(2)]


def test_a_statement_that_failed_may_be_taken_in_again(store: Store) -> None:
    store.intake_add([_row(1)])
    store.intake_fail(_entry(1), "refused", 50)
    store.intake_add([_row(1)])

    assert store.intake_pending() == [_row(1)]
    store.intake_forget(1000)
    assert store.intake_pending() == [_row(1)]


def test_only_rows_that_failed_long_enough_ago_are_forgotten(store: Store) -> None:
    store.intake_add([_row(1), _row(2), _row(3)])
    store.intake_fail(_entry(1), "refused", 49)
    store.intake_fail(_entry(2), "refused", 50)
    store.intake_forget(50)

    assert store.intake_get(_entry(1)) is None
    assert store.intake_get(_entry(2)) is not None
    assert store.intake_pending() == [_row(3)]


def test_settling_rows_that_are_not_there_is_no_error(store: Store) -> None:
    store.intake_add([_row(1)])
    store.intake_remove([_entry(2), _entry(1)])
    store.intake_remove([])
    store.intake_fail(_entry(2), "refused", 1)

    assert store.intake_pending() == []
    assert store.intake_get(_entry(2)) is None


# -- helpers ---------------------------------------------------------------------------------------------------------


def _entry(n: int) -> Entry:
    return Entry(hashlib.sha256(b"entry %d" % n).digest())


def _row(n: int) -> IntakeRow:
    return IntakeRow(_entry(n), b"statement %d" % n, Judgement(1, 10, 2**53), accepted=1000 + n)


def _batch(
    expected: Tip, count: int, *, before: int = 0, edge: RightEdge | None = None, intake_done: Sequence[Entry] = ()
) -> Commit:
    entries = [
        NewEntry(_entry(n), Kind.STATEMENT, n % 5, hashlib.sha256(b"tbs %d" % n).digest(), b"statement %d" % n)
        for n in range(before, before + count)
    ]
    if edge is None:
        edge = RightEdge()
        edge.append([leaf_hash(_entry(n)) for n in range(before)])
    tiles = edge.append([leaf_hash(new.entry) for new in entries])
    head = SignedHead(expected.size + count, edge.root(), 1000, b"kid", b"protected", b"signature")
    return Commit(expected, entries, tiles, head, intake_done)


def _take_over_often(store: Store) -> list[int]:
    return [store.take_over().epoch for _ in range(100)]


def _assert_untouched(store: Store, tip: Tip) -> None:
    assert store.tip() == tip
    assert list(store.entries(0, 10)) == []
    assert store.newest_head() is None
    assert store.tile(0, 0) is None
