"""The intake's part of the store contract (REG-23), held against every store."""

from __future__ import annotations

from dataclasses import replace

from tests.log.stores import entry_of, intake_row
from transparency.log.store import Store


def test_intake_rows_are_pending_in_the_order_they_came(store: Store) -> None:
    rows = [intake_row(n) for n in (5, 3, 9)]
    store.intake_add(rows[:2])
    store.intake_add(rows[2:])

    assert store.intake_pending(2**20) == rows
    assert store.intake_get(entry_of(3)) == intake_row(3)


def test_rows_that_the_caller_has_already_are_left_out(store: Store) -> None:
    rows = [intake_row(n) for n in (5, 3, 9)]
    store.intake_add(rows)

    assert store.intake_pending(2**20, {entry_of(3), entry_of(9), entry_of(77)}) == [rows[0]]
    assert store.intake_pending(1, {entry_of(5)}) == [rows[1]]
    assert store.intake_pending(2**20, [row.entry for row in rows]) == []


def test_rows_are_given_until_their_sizes_reach_what_was_asked_for(store: Store) -> None:
    rows = [replace(intake_row(n), statement=bytes(1000)) for n in range(600)]
    store.intake_add(rows)

    some = store.intake_pending(300_000)

    assert 280 <= len(some) <= 300
    assert some == rows[: len(some)]
    assert store.intake_pending(1) == rows[:1]
    assert store.intake_pending(2**40) == rows


def test_a_failed_row_keeps_its_reason_and_loses_its_statement(store: Store) -> None:
    store.intake_add([intake_row(1), intake_row(2)])
    store.intake_fail([(entry_of(1), "refused")], 50)

    failed = store.intake_get(entry_of(1))
    assert failed == replace(intake_row(1), statement=b"", failed="refused")
    assert store.intake_pending(2**20) == [intake_row(2)]


def test_a_statement_that_failed_may_be_taken_in_again(store: Store) -> None:
    store.intake_add([intake_row(1)])
    store.intake_fail([(entry_of(1), "refused")], 50)
    store.intake_add([intake_row(1)])

    assert store.intake_pending(2**20) == [intake_row(1)]
    store.intake_forget(1000)
    assert store.intake_pending(2**20) == [intake_row(1)]


def test_only_rows_that_failed_long_enough_ago_are_forgotten(store: Store) -> None:
    store.intake_add([intake_row(1), intake_row(2), intake_row(3)])
    store.intake_fail([(entry_of(1), "refused")], 49)
    store.intake_fail([(entry_of(2), "refused")], 50)
    store.intake_forget(50)

    assert store.intake_get(entry_of(1)) is None
    assert store.intake_get(entry_of(2)) is not None
    assert store.intake_pending(2**20) == [intake_row(3)]


def test_settling_rows_that_are_not_there_is_no_error(store: Store) -> None:
    store.intake_add([intake_row(1)])
    store.intake_remove([entry_of(2), entry_of(1)])
    store.intake_remove([])
    store.intake_fail([(entry_of(2), "refused")], 1)

    assert store.intake_pending(2**20) == []
    assert store.intake_get(entry_of(2)) is None
