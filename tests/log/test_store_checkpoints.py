"""The published checkpoints' part of the store contract, held against every store."""

from __future__ import annotations

import hashlib

import pytest

from tests.log.stores import Opener, batch_of, entry_of
from tests.notes.world import ORIGIN, log_signer, signed, witness
from transparency.errors import StoreError
from transparency.log import checkpoint_keeping
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


def test_sizes_only_grow(store: Store) -> None:
    """CP-2: what was said of a smaller size may be forgotten, so nothing is said of one again."""
    notes = {size: _put(store, size) for size in (2, 5, 9)}

    with pytest.raises(StoreError, match="size 9"):
        _put(store, 6)
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


def test_a_checkpoint_that_was_witnessed_stays_so(store: Store) -> None:
    """A restart without witnesses signs it anew; the cosignatures are still there."""
    _put(store, 3)
    note = _put(store, 3, witnessed=False)
    _put(store, 4, witnessed=False)

    assert store.checkpoint_covering(0) == note


def test_a_checkpoint_without_cosignatures_goes_when_there_is_a_newer_one(store: Store) -> None:
    for size in (2, 4, 6):
        _put(store, size, witnessed=size == 4)
    _put(store, 7, witnessed=False)

    assert [size for size, _ in store.checkpoints()] == [4, 7]


def test_of_old_witnessed_checkpoints_the_last_of_each_block_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry is still covered by one that came not much later, and what is kept is bounded by the entries."""
    monkeypatch.setattr(checkpoint_keeping, "RECENT", 3)
    monkeypatch.setattr(checkpoint_keeping, "BLOCK", 8)
    for size in (*range(2, 30), 50, 51, 52):
        _put(store, size)

    assert [size for size, _ in store.checkpoints()] == [8, 16, 24, 29, 50, 51, 52]
    assert store.checkpoint_covering(7) == _checkpoint(8).to_bytes()
    assert store.checkpoint_covering(8) == _checkpoint(16).to_bytes()


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
