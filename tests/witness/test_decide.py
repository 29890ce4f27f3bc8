"""Whatever is sent in whatever order, a witness cosigns one history (W-2, W-3): decisions held against a model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notes.world import ORIGIN
from tests.witness.trees import note_of, request, signer_of, tree_of
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.note import Signature
from transparency.notes.requests import AddCheckpoint
from transparency.witness.convict import evidence_file
from transparency.witness.decide import Answer, Submission, decide, read_submission
from transparency.witness.record import Ground, Record

LONGEST = 40
TRUE = tree_of(LONGEST)
BRANCHES = [TRUE, *(TRUE.cut(at).grow(*(b"fork %d" % n for n in range(at, LONGEST))) for at in (0, 1, 8, 21))]
PREFIXES = [{size: tree.root(size) for size in range(LONGEST + 1)} for tree in BRANCHES]


def cosign(checkpoint: Checkpoint, time: int) -> tuple[Signature, ...]:
    """A line that says what was signed: the decision is under test, not the keys."""
    assert time > 0
    return (Signature("witness.example", b"wwww", b"%d" % time + checkpoint.text),)


def judged(body: bytes, known: Record | None, now: int) -> Answer:
    read = read_submission(body, lambda origin: (signer_of().vkey,) if origin == ORIGIN else None)
    return decide(read, known, now, cosign) if isinstance(read, Submission) else read


@st.composite
def offers(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """Which branch, from what, to what, which branch's proof, and when."""
    branch = draw(st.integers(0, len(BRANCHES) - 1))
    size = draw(st.integers(0, LONGEST))
    return branch, draw(st.integers(-1, size)), size, draw(st.sampled_from((branch, 0, 3))), draw(st.integers(0, 9))


@given(st.lists(offers(), max_size=25))
@settings(max_examples=150, deadline=None)
def test_all_that_is_cosigned_is_one_history_at_times_that_do_not_go_back(
    sent: list[tuple[int, int, int, int, int]],
) -> None:
    known: Record | None = None
    history: list[tuple[int, bytes, int]] = []
    for branch, asked, size, prover, now in sent:
        recorded = 0 if known is None else known.size
        old = recorded if asked == -1 else asked
        if old > size:
            continue
        path = BRANCHES[prover].path(old, size)
        checkpoint = BRANCHES[branch].checkpoint(size)
        answer = judged(AddCheckpoint(old, path, note_of(checkpoint)).to_bytes(), known, now)

        assert (answer.status == 409) == (old != recorded)
        if answer.status == 409:
            assert answer.body == b"%d\n" % recorded
        extends = known is None or checkpoint.root == known.root if size == recorded else _extends(known, branch, size)
        if answer.status == 200:
            assert extends
            if answer.record is not None:
                known = answer.record
            assert known is not None
            history.append((known.size, known.root, known.time))
        elif old == recorded and extends and prover == branch:
            raise AssertionError("an honest log was refused")
        if answer.evidence is not None and answer.evidence.ground is Ground.FORK:
            assert not extends
            assert size == recorded or prover == branch

    assert history == sorted(history, key=lambda each: (each[0], each[2]))
    assert any(all(root == (prefix[size] if size else EMPTY_ROOT) for size, root, _ in history) for prefix in PREFIXES)


def _extends(known: Record | None, branch: int, size: int) -> bool:
    return known is None or known.size == 0 or (known.size < size and PREFIXES[branch][known.size] == known.root)


def test_an_extension_line_is_cosigned_as_it_stands_and_is_another_text() -> None:
    plain = judged(request(TRUE, 0, 5), None, 7).record
    assert plain is not None
    extended = Checkpoint(ORIGIN, 5, TRUE.root(5), ("an extension",))
    answer = judged(AddCheckpoint(5, (), note_of(extended)).to_bytes(), plain, 7)

    assert answer.record is not None
    assert answer.record.has_text(extended.text)
    assert not answer.record.has_text(plain.signed.partition(b"\n\n")[0] + b"\n")
    assert not plain.has_text(extended.text)


def test_a_tree_of_size_zero_with_another_root_convicts_by_itself() -> None:
    body = AddCheckpoint(0, (), note_of(Checkpoint(ORIGIN, 0, TRUE.root(5)))).to_bytes()
    answer = judged(body, None, 7)

    assert answer.status == 422
    assert answer.evidence is not None
    assert (answer.evidence.ground, answer.evidence.recorded) == (Ground.FORK, b"")


def test_a_proof_from_another_beginning_convicts_where_it_shows_one() -> None:
    """From 5 the proof has the root of the first five leaves in it; from a power of two it has not."""
    fork = BRANCHES[1]
    for old, ground in ((5, Ground.FORK), (8, Ground.UNPROVEN)):
        known = judged(request(TRUE, 0, old), None, 7).record
        answer = judged(request(fork, old, 13), known, 7)
        assert answer.status == 422
        assert answer.evidence is not None
        assert answer.evidence.ground is ground
        convicting = evidence_file(answer.evidence)
        assert (convicting is not None) == (ground is Ground.FORK)
        if convicting is not None:
            verdict = convicting.judge([signer_of().vkey])
            assert (verdict.convicts, verdict.crime) == (True, "fork")


def test_a_bad_proof_is_a_lead_and_no_conviction() -> None:
    """Anyone can send a log's public checkpoint with a proof of their own making."""
    known = judged(request(TRUE, 0, 5), None, 7).record
    body = AddCheckpoint(5, (), note_of(TRUE.checkpoint(9))).to_bytes()
    answer = judged(body, known, 7)

    assert answer.status == 422
    assert answer.evidence is not None
    assert answer.evidence.ground is Ground.UNPROVEN
