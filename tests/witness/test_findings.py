"""The store of a compliance witness' findings, and what it proves with the entries it has replayed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from transparency.compliance.examined import ERASED, OPERATION, Examined
from transparency.log.store import Kind, StoredEntry
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import consistency_path, root_at, verify_consistency
from transparency.policy.erasure import ARTIFACT, PAYLOAD, Erasure, Item
from transparency.statements.statement import Entry, entry_id
from transparency.witness import follow_evidence
from transparency.witness.findings import Findings

RECORD = hashlib.sha256(b"record").hexdigest()


@pytest.fixture
def findings(tmp_path: Path) -> Iterator[Findings]:
    found = Findings(tmp_path / "findings.sqlite")
    yield found
    found.close()


def entry_at(index: int) -> Entry:
    return Entry(hashlib.sha256(b"%d" % index).digest())


def add(findings: Findings, index: int, availability: str, digest: str = "", stated: object = None) -> None:
    kind = Kind.STATEMENT if stated is None else Kind.OPERATION
    row = StoredEntry(index, entry_at(index), kind, 2, b"", b"a statement")
    examined = Examined(
        entry_id(row.entry), index, kind.name.lower(), "", "", 1, digest, availability=availability, stated=stated
    )
    with findings.batch():
        findings.add(row, examined, counts=True)


def order(index: int, entry: Entry, what: str) -> Erasure:
    return Erasure("log.example", (Item(index, entry_id(entry), what, "rule", "somebody", 1),))


@pytest.mark.parametrize(
    ("named", "entry", "what", "gone"),
    [
        (0, 0, ARTIFACT, []),
        (1, 1, ARTIFACT, []),  # another entry with the same record
        (0, 7, ARTIFACT, [0, 1]),  # an index with another entry's id
        (0, 0, PAYLOAD, [0, 1]),  # an order to erase the statement
    ],
)
def test_a_record_is_rightly_gone_by_an_order_for_an_entry_that_has_it(
    findings: Findings, named: int, entry: int, what: str, gone: list[int]
) -> None:
    """REG-20: what is erased is named by an order, by its index and its entry id."""
    for index in (0, 1):
        add(findings, index, ERASED, RECORD)
    assert [index for index, _ in findings.artifacts_gone(10)] == [0, 1]

    add(findings, 2, OPERATION, stated=order(named, entry_at(entry), what))

    assert [index for index, _ in findings.artifacts_gone(10)] == gone


def test_a_misbehaviour_is_told_once_and_again_when_it_comes_back(findings: Findings) -> None:
    def find() -> list[int]:
        with findings.batch():
            findings.find("missing", 7, "", "the log does not give this entry", 9, 1)
        numbers = [each.number for each in findings.untold(10)]
        findings.told(numbers)
        return numbers

    assert (find(), find()) == ([1], [])
    with findings.batch():
        findings.end(1, 2)
    assert findings.standing_count() == 0
    assert (find(), find()) == ([1], [])
    assert findings.standing_count() == 1


def test_what_was_replayed_proves_any_smaller_tree_a_few_leaves_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_evidence, "_AT_ONCE", 4)
    hashes = [leaf_hash(entry_at(index)) for index in range(37)]
    asked = []

    def leaves(start: int, stop: int) -> list[bytes]:
        asked.append(stop - start)
        return hashes[start:stop]

    read = follow_evidence._reader(leaves)
    for size in range(1, 38):
        tree = CompactRange()
        tree.extend(hashes[:size])
        assert root_at(size, read) == tree.root()
        verify_consistency(size, 37, tree.root(), root_at(37, read), consistency_path(size, 37, read))

    assert max(asked) == 4
