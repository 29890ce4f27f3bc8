"""What goes in columns between workers and the owner comes out in rows as it went in."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.samples import ISS, KEY
from transparency.log.store import Kind as EntryKind
from transparency.log.store import NewEntry
from transparency.policy.judge import Judgement
from transparency.server.handing import Alike, Receipts, Sheaf
from transparency.statements.statement import Statement, sign_statement

ALIKE = Alike(3, b"certificates", True, False, "10.0.0.1", 7)
STATEMENTS = [
    Statement.from_bytes(sign_statement(bytes(size), KEY, iss=ISS, sub=f"s{size}", content_type=None))
    for size in (0, 1, 300, 70_000)
]


def over_the_wire(value: object) -> list[object]:
    return list(cbor2.loads(cbor2.dumps(value)))


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.sampled_from(STATEMENTS)), min_size=1, max_size=8))
def test_a_sheaf_holds_what_was_put_into_it_in_its_order(rows: list[tuple[int, Statement]]) -> None:
    judgement = Judgement(3, 5, 9, b"certificates", unique=True)

    sheaf = Sheaf.of(ALIKE, [judgement] * len(rows), [(number, one, one.tbs_digest) for number, one in rows])
    read = Sheaf._make(over_the_wire(sheaf))

    assert read.judgement == judgement
    assert (read.patient, read.client, read.rate) == (False, "10.0.0.1", 7)
    assert list(zip(*read.numbered(), strict=True)) == [
        (number, NewEntry(one.entry, EntryKind.STATEMENT, 3, one.tbs_digest, one.normalised, b"certificates"))
        for number, one in rows
    ]


def test_the_judgement_of_a_sheaf_holds_only_while_each_of_its_own_does() -> None:
    """REG-21: one interval for all is never wider than anyone's."""
    one = STATEMENTS[0]
    judgements = [Judgement(3, 5, 90), Judgement(3, 20, 100), Judgement(3, 0, 50)]

    sheaf = Sheaf.of(ALIKE, judgements, [(number, one, one.tbs_digest) for number in range(3)])

    assert (sheaf.not_before, sheaf.not_after) == (20, 50)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=40)), max_size=8))
def test_receipts_are_told_apart(rows: list[tuple[int, bytes]]) -> None:
    receipts = Receipts.of([number for number, _ in rows], [receipt for _, receipt in rows])

    assert list(Receipts._make(over_the_wire(receipts)).rows()) == rows


def test_columns_of_different_lengths_are_no_sheaf() -> None:
    one = STATEMENTS[1]
    sheaf = Sheaf.of(ALIKE, [Judgement(3, 0, 9)], [(1, one, one.tbs_digest)])

    with pytest.raises(ValueError, match="as many numbers"):
        sheaf._replace(numbers=sheaf.numbers * 2).numbered()
