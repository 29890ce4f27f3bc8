"""Recent entries: found at any time, and each brought to the indexes once a round, from the low end to the high one."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from transparency.log.recent import Recent, Slice
from transparency.log.store import Kind, NewEntry
from transparency.statements.statement import Entry


def new(number: int, signs: int | None = None) -> NewEntry:
    """Entry *number*; what it signs is its own unless said otherwise, -1 for what was erased."""
    signs = number if signs is None else signs
    tbs = b"" if signs < 0 else hashlib.sha256(b"signed %d" % signs).digest()
    return NewEntry(Entry(hashlib.sha256(b"%d" % number).digest()), Kind.STATEMENT, 1, tbs, b"statement")


def slices_of(recent: Recent, least: int) -> list[Slice]:
    slices = []
    while recent.in_round:
        slices.append(recent.next_slice(least))
        if slices[-1].upto is not None:
            recent.end_round()
    return slices


@given(st.integers(0, 400), st.integers(0, 100), st.integers(1, 300))
def test_a_round_has_every_row_once_in_order_and_all_are_found_meanwhile(count: int, later: int, least: int) -> None:
    recent = Recent()
    entries = [new(number) for number in range(count)]
    recent.add(entries, 5)
    recent.begin_round(5 + count)
    others = [new(number) for number in range(count, count + later)]
    recent.add(others, 5 + count)

    everything = {entry.entry: 5 + index for index, entry in enumerate([*entries, *others])}
    assert recent.places(list(everything)) == everything
    assert all(recent.place(entry) == index for entry, index in everything.items())
    assert all(recent.has_signed(entry.tbs_digest) for entry in [*entries, *others])

    slices = slices_of(recent, least)

    digests = [row for some in slices for row in some.digests]
    siblings = [row for some in slices for row in some.siblings]
    assert digests == sorted((entry.entry, 5 + index) for index, entry in enumerate(entries))
    assert siblings == sorted((entry.tbs_digest, 5 + index) for index, entry in enumerate(entries))
    assert [some.upto for some in slices] == [None] * (len(slices) - 1) + [5 + count]
    assert all(len(some.digests) >= least for some in slices[:-1])
    assert recent.places(list(everything)) == {entry.entry: 5 + count + at for at, entry in enumerate(others)}
    assert bool(recent) == bool(others)


def test_all_who_sign_the_same_are_siblings_and_what_was_erased_signs_nothing() -> None:
    recent = Recent()
    recent.add([new(0, signs=7), new(1, signs=-1), new(2, signs=7)], 0)
    recent.begin_round(3)

    [some] = slices_of(recent, 10)

    assert [index for _, index in some.siblings] == [0, 2]
    assert len(some.digests) == 3


def test_what_the_index_has_got_by_other_means_is_forgotten_and_a_round_with_it() -> None:
    recent = Recent()
    recent.add([new(number) for number in range(4)], 0)
    recent.begin_round(4)
    recent.add([new(number) for number in range(4, 8)], 4)

    recent.forget(6)

    assert not recent.in_round
    assert [recent.place(new(number).entry) for number in range(8)] == [None] * 6 + [6, 7]
    assert [recent.has_signed(new(number).tbs_digest) for number in range(8)] == [False] * 6 + [True, True]
    assert len(recent) == 2
