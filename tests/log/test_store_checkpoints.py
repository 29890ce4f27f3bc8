"""The published checkpoints' part of the store contract, held against every store."""

from __future__ import annotations

import hashlib

import pytest

from tests.log.stores import Opener, batch_of, entry_of
from tests.notes.world import ORIGIN, log_signer, signed, witness
from transparency.errors import StoreError
from transparency.log.store import Store
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint


def _checkpoint(size: int, *, root: bytes = b"a") -> SignedCheckpoint:
    return signed(Checkpoint(ORIGIN, size, hashlib.sha256(root).digest()), by=(log_signer(),))


def _put(store: Store, size: int, *, witnessed: bool = True) -> bytes:
    note = _checkpoint(size).to_bytes()
    store.put_checkpoint(size, note, witnessed=witnessed)
    return note


def test_a_new_store_has_published_nothing(store: Store) -> None:
    assert store.newest_checkpoint() is None
    assert store.checkpoint_covering(0) is None
    assert list(store.checkpoints()) == []


def test_the_newest_checkpoint_is_the_largest_whatever_the_order_they_came_in(store: Store) -> None:
    notes = {size: _put(store, size) for size in (2, 9, 5)}

    assert store.newest_checkpoint() == notes[9]
    assert list(store.checkpoints()) == sorted(notes.items())
    assert list(store.checkpoints(after=2)) == [(5, notes[5]), (9, notes[9])]


def test_an_index_is_covered_by_the_first_witnessed_checkpoint_that_is_larger(store: Store) -> None:
    notes = {size: _put(store, size, witnessed=size != 4) for size in (2, 4, 6, 8)}

    covering = [store.checkpoint_covering(index) for index in (0, 1, 2, 5, 6, 8)]
    assert covering == [notes[2], notes[2], notes[6], notes[6], notes[8], None]


def test_a_checkpoint_gains_signatures_and_is_still_one(store: Store) -> None:
    first = _checkpoint(3)
    store.put_checkpoint(3, first.to_bytes(), witnessed=False)
    second = first.with_signature(witness().sign(first.note.text, 1_790_000_000))
    store.put_checkpoint(3, second.to_bytes(), witnessed=True)

    assert list(store.checkpoints()) == [(3, second.to_bytes())]
    assert store.checkpoint_covering(0) == second.to_bytes()


def test_a_second_checkpoint_of_a_size_that_says_something_else_is_refused(store: Store) -> None:
    """CP-2: two checkpoints of one size are the same text, whatever goes wrong above."""
    note = _put(store, 3)

    with pytest.raises(StoreError, match="size 3"):
        store.put_checkpoint(3, _checkpoint(3, root=b"b").to_bytes(), witnessed=True)
    assert store.newest_checkpoint() == note


def test_what_was_published_is_there_when_the_store_is_opened_again(opener: Opener) -> None:
    note = _put(opener(), 3)

    assert opener().newest_checkpoint() == note


def test_the_digests_of_a_range_are_those_of_its_entries(store: Store) -> None:
    store.commit(batch_of(store.take_over(), 7))

    assert store.digests(2, 5) == [entry_of(n) for n in (2, 3, 4)]
    assert store.digests(5, 99) == [entry_of(n) for n in (5, 6)]
    assert store.digests(7, 8) == []
