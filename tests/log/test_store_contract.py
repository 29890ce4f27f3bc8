"""Every sentence of the contract in transparency/log/store.py, held against every store in stores.py.

The intake's are in test_store_intake.py; what power loss leaves is tests/faults/test_power_cut.py's.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.log.stores import Opener, batch_of, collateral_of, entry_of, intake_row
from transparency.errors import StoreError, TipMovedError
from transparency.log.store import Commit, Kind, Store, Tip
from transparency.merkle.hashing import EMPTY_ROOT, leaf_hash
from transparency.merkle.tiles import RightEdge

# -- a new store ---------------------------------------------------------------------------------------------------


def test_a_new_store_is_empty(store: Store) -> None:
    assert store.tip() == Tip(0, EMPTY_ROOT, 0)
    assert store.newest_head() is None
    assert list(store.entries(0, 10)) == []
    assert list(store.heads()) == []
    assert store.intake_pending(2**20) == []
    assert store.indexed_size() == 0


# -- 1: commit is one transaction, and its first act is the compare-and-swap ----------------------------------------


def test_a_commit_stores_entries_tiles_and_head_and_moves_the_tip(store: Store) -> None:
    batch = batch_of(store.take_over(), 3)
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


def test_collateral_comes_back_with_its_entry_in_every_way_of_reading(store: Store) -> None:
    batch = batch_of(store.take_over(), 8)
    policy = batch.entries[3]._replace(kind=Kind.POLICY)
    store.commit(replace(batch, entries=[*batch.entries[:3], policy, *batch.entries[4:]]))

    assert [row.collateral for row in store.entries(0, 8)] == [collateral_of(n) for n in range(8)]
    assert [row.collateral for row in store.documents(Kind.POLICY)] == [b"chain 1"]
    row = store.entry(6)
    assert row is not None
    assert row.collateral == b"chain 0"
    assert not row.erased


def test_the_newest_documents_come_first_and_heads_can_be_read_from_a_size_on(store: Store) -> None:
    batch = batch_of(store.take_over(), 6)
    kinds = [Kind.POLICY, Kind.OPERATION, Kind.STATEMENT, Kind.OPERATION, Kind.KEYS, Kind.OPERATION]
    store.commit(replace(batch, entries=[n._replace(kind=k) for n, k in zip(batch.entries, kinds, strict=True)]))
    store.commit(batch_of(store.tip(), 1, before=6))

    def newest(before: int, most: int) -> list[int]:
        return [row.index for row in store.newest_documents(Kind.OPERATION, before, most)]

    assert (newest(6, 2), newest(5, 9), newest(1, 9)) == ([5, 3], [3, 1], [])
    assert [[head.size for head in store.heads(after)] for after in (0, 5, 6, 7)] == [[6, 7], [6, 7], [7], []]


@pytest.mark.parametrize(
    "other",
    [Tip(1, EMPTY_ROOT, 1), Tip(0, bytes(32), 1), Tip(0, EMPTY_ROOT, 2), Tip(0, EMPTY_ROOT, 0)],
    ids=["size", "root", "later epoch", "earlier epoch"],
)
def test_a_commit_that_expects_another_tip_changes_nothing(store: Store, other: Tip) -> None:
    tip = store.take_over()
    store.intake_add([intake_row(1)])
    batch = replace(batch_of(tip, 2), expected=other, intake_done=[entry_of(1)])

    with pytest.raises(TipMovedError):
        store.commit(batch)

    _assert_untouched(store, tip)
    assert store.intake_get(entry_of(1)) == intake_row(1)


def test_a_commit_moves_the_tip_once_so_it_cannot_be_repeated(store: Store) -> None:
    batch = batch_of(store.take_over(), 2)
    store.commit(batch)

    with pytest.raises(TipMovedError):
        store.commit(batch)
    assert store.tip().size == 2


def test_a_head_size_is_unique_and_a_second_one_undoes_its_whole_commit(store: Store) -> None:
    first = batch_of(store.take_over(), 2)
    store.commit(first)
    tip = store.tip()
    store.intake_add([intake_row(1)])
    empty = Commit(tip, [], {(5, 5): b"tile"}, replace(first.head, time=99), [entry_of(1)])

    with pytest.raises(StoreError):
        store.commit(empty)

    assert store.tip() == tip
    assert store.head(2) == first.head
    assert store.tile(5, 5) is None
    assert store.intake_get(entry_of(1)) == intake_row(1)


def test_an_entry_index_is_unique_and_a_second_one_undoes_its_whole_commit(store: Store) -> None:
    """A writer that says fewer entries than it wrote is caught by the next commit."""
    batch = batch_of(store.take_over(), 3)
    store.commit(replace(batch, head=replace(batch.head, size=2)))
    tip = store.tip()

    with pytest.raises(StoreError):
        store.commit(batch_of(tip, 1))

    assert store.tip() == tip
    assert store.head(3) is None
    assert len(list(store.entries(0, 10))) == 3


def test_a_commit_settles_intake_rows_in_the_same_transaction(store: Store) -> None:
    tip = store.take_over()
    store.intake_add([intake_row(1), intake_row(2)])
    store.commit(batch_of(tip, 1, intake_done=[entry_of(1)]))

    assert store.intake_get(entry_of(1)) is None
    assert store.intake_pending(2**20) == [intake_row(2)]


def test_a_store_goes_on_after_a_commit_that_was_refused(store: Store) -> None:
    tip = store.take_over()
    with pytest.raises(TipMovedError):
        store.commit(replace(batch_of(tip, 1), expected=replace(tip, epoch=7)))

    store.commit(batch_of(tip, 1))
    assert store.tip().size == 1


# -- 2: what returned is kept --------------------------------------------------------------------------------------


def test_what_a_commit_or_an_intake_wrote_is_there_for_whoever_opens_next(opener: Opener) -> None:
    first = opener()
    first.commit(batch_of(first.take_over(), 2))
    first.intake_add([intake_row(1)])

    second = opener()

    assert second.tip() == first.tip()
    assert [row.index for row in second.entries(0, 9)] == [0, 1]
    assert second.newest_head() == first.newest_head()
    assert second.intake_pending(2**20) == [intake_row(1)]


# -- 3: take_over fences ---------------------------------------------------------------------------------------------


def test_take_over_raises_the_epoch_and_nothing_else(store: Store) -> None:
    store.commit(batch_of(store.take_over(), 2))
    before = store.tip()

    assert store.take_over() == replace(before, epoch=before.epoch + 1) == store.tip()


def test_after_a_take_over_every_commit_of_the_earlier_owner_fails(opener: Opener) -> None:
    old, new = opener(), opener()
    batch = batch_of(old.take_over(), 1)
    taken = new.take_over()

    with pytest.raises(TipMovedError):
        old.commit(batch)
    new.commit(batch_of(taken, 1))
    assert new.tip() == replace(new.tip(), size=1, epoch=taken.epoch)


def test_no_two_take_overs_give_the_same_epoch(opener: Opener) -> None:
    """Two owners of one epoch would not be fenced from each other."""
    stores = [opener(), opener()]
    with ThreadPoolExecutor(2) as pool:
        epochs = [epoch for taken in pool.map(_take_over_often, stores) for epoch in taken]

    assert len(set(epochs)) == len(epochs)


# -- 4: derived indexes ------------------------------------------------------------------------------------------------


def test_the_index_lags_until_it_is_extended(lagging_store: Store) -> None:
    store = lagging_store
    batch = batch_of(store.take_over(), 5)
    store.commit(batch)
    wanted = batch.entries[3]
    assert store.find(wanted.entry) is None
    assert store.siblings(wanted.tbs_digest, 10) == []

    store.extend_index(2)
    assert store.indexed_size() == 2
    assert store.find(wanted.entry) is None
    assert store.find(batch.entries[1].entry) == 1


def test_an_index_that_was_extended_knows_every_entry_and_extending_is_safe_to_repeat(store: Store) -> None:
    batch = batch_of(store.take_over(), 5)
    store.commit(batch)
    wanted = batch.entries[3]
    for _ in range(2):
        store.extend_index(5)

    assert store.indexed_size() == 5
    assert [store.find(new.entry) for new in batch.entries] == [0, 1, 2, 3, 4]
    many = [entry_of(number) for number in range(1_000, 1_300)]
    asked = [*many, *(new.entry for new in batch.entries)]
    assert store.find_some(asked) == {new.entry: index for index, new in enumerate(batch.entries)}
    assert store.find_some([]) == {}
    assert store.siblings(wanted.tbs_digest, 10) == [(3, wanted.entry)]


def test_the_index_never_goes_back(store: Store) -> None:
    store.commit(batch_of(store.take_over(), 5))
    store.extend_index(5)
    store.extend_index(3)

    assert store.indexed_size() == 5


def test_an_index_takes_rows_in_any_order_and_again_and_is_told_when_it_has_all(lagging_store: Store) -> None:
    store = lagging_store
    batch = batch_of(store.take_over(), 4)
    store.commit(batch)
    rows = [(new.entry, index) for index, new in enumerate(batch.entries)]
    signed = [(new.tbs_digest, index) for index, new in enumerate(batch.entries)]

    store.index_some(rows[2:], signed[2:], None)
    assert store.indexed_size() == 0
    assert store.find_some([new.entry for new in batch.entries]) == {rows[2][0]: 2, rows[3][0]: 3}
    store.index_some(rows, signed, 4)
    store.index_some([], [], 2)

    assert store.indexed_size() == 4
    store.extend_index(4)
    assert [store.find(new.entry) for new in batch.entries] == [0, 1, 2, 3]
    assert store.siblings(batch.entries[1].tbs_digest, 10) == [(1, batch.entries[1].entry)]


def test_siblings_are_all_entries_over_the_same_signed_bytes_in_order(store: Store) -> None:
    """LEAF-7."""
    batch = batch_of(store.take_over(), 3)
    shared = batch.entries[0].tbs_digest
    store.commit(replace(batch, entries=[new._replace(tbs_digest=shared) for new in batch.entries]))
    store.extend_index(3)

    assert [index for index, _ in store.siblings(shared, 10)] == [0, 1, 2]
    assert [index for index, _ in store.siblings(shared, 2)] == [0, 1]


def test_the_index_keeps_the_first_place_of_an_entry(lagging_store: Store) -> None:
    store = lagging_store
    batch = batch_of(store.take_over(), 2)
    store.commit(replace(batch, entries=[batch.entries[0], batch.entries[0]]))
    store.extend_index(2)

    assert store.find(batch.entries[0].entry) == 0


# -- 5 and 6: reads, also from another thread ----------------------------------------------------------------------


def test_reads_of_what_is_not_there_say_so(store: Store) -> None:
    store.commit(batch_of(store.take_over(), 2))

    assert store.entry(2) is None
    assert store.head(1) is None
    assert store.head_covering(2) is None
    assert store.tile(1, 0) is None
    assert store.find(entry_of(9)) is None
    assert store.intake_get(entry_of(9)) is None
    assert list(store.entries(5, 2)) == []


def test_the_head_that_covers_an_index_is_the_first_that_does(store: Store) -> None:
    tip = store.take_over()
    for count in (2, 3, 1):
        store.commit(batch_of(tip, count, before=tip.size))
        tip = store.tip()

    covering = [store.head_covering(index) for index in range(6)]
    assert [head.size if head else None for head in covering] == [2, 2, 5, 5, 5, 6]
    assert [head.size for head in store.heads()] == [2, 5, 6]


def test_documents_are_found_by_kind_and_statements_are_not_documents(store: Store) -> None:
    batch = batch_of(store.take_over(), 4)
    kinds = [Kind.POLICY, Kind.KEYS, Kind.STATEMENT, Kind.POLICY]
    entries = [new._replace(kind=kind) for new, kind in zip(batch.entries, kinds, strict=True)]
    store.commit(replace(batch, entries=entries))

    assert [row.index for row in store.documents(Kind.POLICY)] == [0, 3]
    assert [row.index for row in store.documents(Kind.KEYS)] == [1]
    assert store.documents(Kind.STATEMENT) == []


def test_entries_are_read_in_order_across_any_chunk(store: Store) -> None:
    store.commit(batch_of(store.take_over(), 3000))

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
            batch = batch_of(tip, 5, before=tip.size, edge=edge)
            store.commit(batch)
            tip = replace(tip, size=batch.head.size, root=batch.head.root)
            returned = tip.size
    finally:
        stop.set()
        reader.join()

    assert trouble == []
    assert store.tip().size == 750


# -- helpers ---------------------------------------------------------------------------------------------------------


def _take_over_often(store: Store) -> list[int]:
    return [store.take_over().epoch for _ in range(100)]


def _assert_untouched(store: Store, tip: Tip) -> None:
    assert store.tip() == tip
    assert list(store.entries(0, 10)) == []
    assert store.newest_head() is None
    assert store.tile(0, 0) is None
