"""Evidence convicts a log by its own signatures, or it does not: nobody else can make it do so (CP-2)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notes.world import ORIGIN, TIME, log_signer, log_signers
from tests.verifier.witnessing import checkpoint
from tests.verifier.world import Log
from transparency.cose.algorithms import ML_DSA_44
from transparency.cose.private_key import PrivateKey
from transparency.errors import MalformedError
from transparency.merkle.proofs import consistency_path
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.note import Note
from transparency.notes.signer import NoteSigner
from transparency.verifier.evidence import Evidence, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = [signer.vkey for signer in log_signers()]


def log(*tail: int, common: int = 5) -> Log:
    return Log(entries=[bytes([n]) * 32 for n in range(common)] + [bytes([n]) * 32 for n in tail])


def fork(small: Log, large: Log, *, path_of: Log | None = None) -> Evidence:
    """What a monitor writes that saw the small tree, and now reads the tiles of the large one."""
    m, n = len(small.entries), len(large.entries)
    source = large if path_of is None else path_of
    return Evidence(
        "split-view",
        (checkpoint(small).to_bytes(), checkpoint(large).to_bytes()),
        source.root(m),
        tuple(consistency_path(m, n, source.read)),
    )


def judge(evidence: Evidence) -> Verdict:
    """As whoever gets the file does it."""
    return Evidence.from_bytes(evidence.to_bytes()).judge(KEYS)


def timed(tree: Log, time: int, signers: tuple[NoteSigner, ...] = log_signers()) -> bytes:
    text = Checkpoint(ORIGIN, len(tree.entries), tree.root(len(tree.entries))).text
    note = Note(text)
    for signer in signers:
        note = note.with_signature(signer.sign(text, time))
    return note.to_bytes()


def test_two_trees_of_one_size_convict() -> None:
    pair = (checkpoint(log(7)).to_bytes(), checkpoint(log(8)).to_bytes())

    verdict = judge(Evidence("split-view", pair))

    assert (verdict.convicts, verdict.crime, verdict.origin) == (True, "fork", ORIGIN)
    assert "two different trees of 6 entries" in verdict.why


@pytest.mark.parametrize("size", range(1, 9))
def test_a_larger_tree_that_begins_with_another_convicts(size: int) -> None:
    """Also from a power of two, where a consistency path leaves the old root to the verifier."""
    small = log(*range(0x50, 0x50 + size), common=0)
    large = log(*range(0x60, 0x60 + size + 3), common=0)

    assert judge(fork(small, large)).convicts


@given(common=st.integers(0, 40), small=st.integers(0, 9), large=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_an_honest_log_is_never_convicted_whatever_proof_is_shown(common: int, small: int, large: int) -> None:
    tree = [bytes([n]) * 32 for n in range(common + 1 + small + large + 1)]
    old, new = Log(entries=tree[: common + 1 + small]), Log(entries=tree)
    lie = Log(entries=[b"\xff" * 32] * len(tree))

    assert not judge(fork(old, new)).convicts
    assert not judge(fork(old, new, path_of=lie)).convicts


def test_a_proof_that_does_not_connect_shows_nothing() -> None:
    honest = fork(log(1), log(1, 2))
    spoiled = Evidence("split-view", honest.checkpoints, b"\x00" * 32, honest.path)

    verdict = judge(spoiled)

    assert (verdict.convicts, "proof does not hold" in verdict.why) == (False, True)


def test_one_tree_twice_convicts_nobody() -> None:
    same = (checkpoint(log(7)).to_bytes(), checkpoint(log(7), cosigned_by=()).to_bytes())

    assert "the same tree" in judge(Evidence("split-view", same)).why


def test_what_another_signed_convicts_nobody() -> None:
    stranger = log_signer(name="stranger.example")
    forged = checkpoint(log(8), by=stranger)
    pair = (checkpoint(log(7)).to_bytes(), forged.to_bytes())

    assert not judge(Evidence("split-view", pair)).convicts
    elsewhere = checkpoint(log(8), by=stranger, origin="stranger.example")
    mixed = Evidence("split-view", (checkpoint(log(7)).to_bytes(), elsewhere.to_bytes()))
    verdict = mixed.judge([*KEYS, stranger.vkey])
    assert (verdict.convicts, "different logs" in verdict.why) == (False, True)


def test_a_smaller_tree_signed_at_a_later_time_convicts_of_a_rollback() -> None:
    """tlog-cosignature: a time says that this is the largest tree at that time."""
    verdict = judge(Evidence("rollback", (timed(log(1), TIME + 60), timed(log(1, 2), TIME))))

    assert (verdict.convicts, verdict.crime) == (True, "rollback")


@pytest.mark.parametrize(("small", "large"), [(TIME, TIME + 60), (TIME, TIME), (0, TIME), (TIME, 0), (0, 0)])
def test_a_smaller_tree_signed_before_or_without_a_time_convicts_nobody(small: int, large: int) -> None:
    verdict = judge(Evidence("rollback", (timed(log(1), small), timed(log(1, 2), large))))

    assert (verdict.convicts, "only the word of" in verdict.why) == (False, True)


def test_times_of_two_keys_are_not_compared() -> None:
    one, other = (NoteSigner(ORIGIN, PrivateKey.generate(ML_DSA_44.id)) for _ in range(2))
    later, before = timed(log(1), TIME + 60, (one,)), timed(log(1, 2), TIME, (other,))

    assert not Evidence("rollback", (later, before)).judge([one.vkey, other.vkey]).convicts
    before = timed(log(1, 2), TIME, (one,))
    assert Evidence("rollback", (later, before)).judge([one.vkey, other.vkey]).convicts


def test_a_log_that_stands_still_is_only_the_monitors_word() -> None:
    verdict = judge(Evidence("frozen", (checkpoint(log(1)).to_bytes(),), observed=("2026-07-01 https://log.example",)))

    assert (verdict.convicts, "frozen" in verdict.why) == (False, True)


def test_what_is_written_is_read_back_the_same() -> None:
    evidence = fork(log(1), log(2, 3))

    assert Evidence.from_bytes(evidence.to_bytes()) == evidence


def test_no_changed_byte_convicts_an_honest_log() -> None:
    data = fork(log(1), log(1, 2)).to_bytes()
    for place in range(0, len(data), 13):
        for flip in (1, 2, 32):
            spoiled = bytearray(data)
            spoiled[place] ^= flip
            try:
                assert not Evidence.from_bytes(bytes(spoiled)).judge(KEYS).convicts
            except MalformedError:
                continue


@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value | {"kind": "other"},
        lambda value: value | {"more": 1},
        lambda value: {name: value[name] for name in value if name != "path"},
        lambda value: value | {"checkpoints": []},
        lambda value: value | {"checkpoints": value["checkpoints"] * 2},
        lambda value: value | {"checkpoints": [1, 2]},
        lambda value: value | {"prefix": "AAAA"},
        lambda value: value | {"prefix": 1},
        lambda value: value | {"path": ["x"]},
        lambda value: value | {"path": value["path"] * 64},
        lambda value: [value],
    ],
)
def test_what_is_not_evidence_is_refused(spoil: Callable[[dict[str, Any]], Any]) -> None:
    value = json.loads(fork(log(1), log(2, 3)).to_bytes())

    with pytest.raises(MalformedError):
        Evidence.from_bytes(json.dumps(spoil(value)).encode())
