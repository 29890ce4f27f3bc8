"""``verify`` with a state: a log that shows another tree than before is noticed offline."""

from __future__ import annotations

import json

import pytest

from tests.verifier.witnessing import checkpoint, policy, proof
from tests.verifier.world import DATA, Log, bare, failed, outcomes, registered, trust
from transparency.cose.keys import PrivateKey
from transparency.errors import MalformedError
from transparency.statements.transparent import attach_receipts
from transparency.verifier import Report, Verifier
from transparency.verifier.seen import SeenTree, SeenTrees


def with_receipt(log: Log, index: int, size: int | None = None) -> bytes:
    return attach_receipts(DATA, [log.receipt(index, size)])


def forked(log: Log, index: int) -> Log:
    """The same log with another entry behind DATA."""
    return Log(log.key, entries=[*log.entries[: index + 1], *(b"\xee" * 32 for _ in log.entries[index + 1 :])])


def check(data: bytes, seen: SeenTrees, *consistency: bytes) -> Report:
    return Verifier(trust(), consistency=consistency, seen=seen).verify(data)


def tree_seen(report: Report) -> str:
    return outcomes(report)["tree-seen"]


def reread(seen: SeenTrees) -> SeenTrees:
    return SeenTrees.from_json(seen.to_json())


def test_the_first_tree_is_remembered_and_the_same_again_passes() -> None:
    log, index = registered()
    seen = SeenTrees()

    first = check(with_receipt(log, index), seen)
    again = check(with_receipt(log, index), reread(seen))

    assert (first.verdict, tree_seen(first), seen.changed) == ("verified", "not_checked", True)
    assert (again.verdict, tree_seen(again)) == ("verified", "passed")


def test_another_tree_of_the_same_size_is_a_fork() -> None:
    log, index = registered()
    seen = SeenTrees()
    check(with_receipt(log, index), seen)

    report = check(with_receipt(forked(log, index), index), reread(seen))

    assert failed(report) == ["tree-seen"]
    assert "fork" in report.summary


def test_a_larger_tree_needs_a_proof_and_is_remembered_with_it() -> None:
    log, index = registered()
    seen = SeenTrees()
    check(with_receipt(log, index), seen)
    old = len(log.entries)
    log.add(b"\x01" * 32)
    data = with_receipt(log, index)

    without = check(data, seen)
    assert (without.verdict, tree_seen(without)) == ("cannot-tell", "not_checked")
    assert f"from={old}&to={old + 1}" in without.summary
    remembered = seen.get(log.origin)
    assert remembered is not None
    assert remembered.size == old, "what was not shown to continue the tree does not take its place"

    assert check(data, seen, log.consistency(old, old + 1)).verdict == "verified"
    remembered = seen.get(log.origin)
    assert remembered is not None
    assert remembered.size == old + 1


def test_a_larger_tree_that_does_not_continue_the_one_seen_fails() -> None:
    log, index = registered()
    seen = SeenTrees()
    check(with_receipt(log, index), seen)
    old = len(log.entries)
    other = forked(log, index)
    other.add(b"\x01" * 32)

    report = check(with_receipt(other, index), seen, other.consistency(old, old + 1))

    assert failed(report) == ["tree-seen"]


def test_the_signature_of_a_consistency_receipt_does_not_matter_between_two_trees_that_are_known() -> None:
    log, index = registered()
    seen = SeenTrees()
    check(with_receipt(log, index), seen)
    old = len(log.entries)
    log.add(b"\x01" * 32)
    strangers = Log(PrivateKey.generate(-7), entries=log.entries).consistency(old, old + 1)

    assert check(with_receipt(log, index), seen, strangers).verdict == "verified"


def test_a_smaller_tree_is_no_crime_if_it_is_how_the_one_seen_begins() -> None:
    """Proofs are kept for years: last year's is of a smaller tree than the one verified yesterday."""
    log, index = registered()
    seen = SeenTrees()
    size = len(log.entries)
    check(with_receipt(log, index), seen)
    older = with_receipt(log, index, size - 1)

    without = check(older, seen)
    assert (without.verdict, tree_seen(without)) == ("cannot-tell", "not_checked")
    assert "older" in without.summary
    assert check(older, seen, log.consistency(size - 1, size)).verdict == "verified"


def test_a_witnessed_checkpoint_is_compared_and_kept_whole() -> None:
    log, index = registered()
    seen = SeenTrees()
    verifier = Verifier(trust(), witness_policy=policy(), seen=seen)

    verifier.verify(with_receipt(log, index), proofs=[proof(log, index)])
    kept = reread(seen).get(log.origin)
    assert kept is not None
    assert kept.checkpoint == checkpoint(log).to_bytes()

    other = forked(log, index)
    report = verifier.verify(with_receipt(log, index), proofs=[proof(other, index)])
    assert failed(report) == ["tree-seen"]


def test_a_checkpoint_without_quorum_is_not_remembered() -> None:
    log, index = registered()
    seen = SeenTrees()
    alone = proof(log, index, checkpoint(log, cosigned_by=()))

    Verifier(trust(), witness_policy=policy(), seen=seen).verify(with_receipt(log, index), proofs=[alone])

    kept = seen.get(log.origin)
    assert kept is not None
    assert (kept.checkpoint, kept.root) == (None, log.root(len(log.entries))), "the receipt's tree is"


def test_a_log_without_a_pinned_origin_is_not_remembered() -> None:
    """Whoever holds a key given by hand could claim any log's name, and convict it."""
    log, index = registered()
    seen = SeenTrees()

    report = Verifier(bare(), seen=seen).verify(with_receipt(log, index))

    assert (tree_seen(report), report.verdict, seen.changed) == ("not_checked", "cannot-tell", False)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value | {"kind": "other"},
        lambda value: value | {"more": 1},
        lambda value: value | {"logs": []},
        lambda value: value | {"logs": {"o": {"size": 1, "root": "x", "checkpoint": None}}},
        lambda value: value | {"logs": {"o": {"size": "01", "root": "x", "checkpoint": None}}},
        lambda value: value | {"logs": {"o": {"size": "1", "root": "AAAA", "checkpoint": None}}},
        lambda value: value | {"logs": {"another": next(iter(value["logs"].values()))}},
        lambda value: [value],
    ],
)
def test_a_state_that_is_not_one_is_refused(spoil: object) -> None:
    log, _ = registered()
    good = SeenTrees([SeenTree.of(checkpoint(log))]).to_json()
    assert callable(spoil)

    with pytest.raises(MalformedError):
        SeenTrees.from_json(json.dumps(spoil(json.loads(good))).encode())
