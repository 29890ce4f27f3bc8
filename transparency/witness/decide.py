"""The decision: whether a witness cosigns a checkpoint, by the rules of C2SP tlog-witness and nothing else (W-2).

Pure: a request and what is recorded go in, an answer comes out, with the record that must be durable before the answer
is given. The order of the checks is that of the text:

    400  the body is not of its form                          403  no line of a trusted key, or one that does not hold
    404  the origin is not on the list                        400  old is more than the checkpoint's size
    409  old is not the recorded size                         422  the tree is not shown to extend the recorded one
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Self

from transparency.errors import NoteError, ProofError, SignatureInvalidError
from transparency.merkle.hashing import EMPTY_ROOT
from transparency.merkle.proofs import roots_of_consistency, verify_consistency
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint, verify_log_signatures
from transparency.notes.note import Note, Signature, write_signatures
from transparency.notes.requests import AddCheckpoint
from transparency.notes.vkey import VerifierKey
from transparency.witness.record import NOTHING, Evidence, Ground, Record

KeysOf = Callable[[str], Collection[VerifierKey] | None]
"""The trusted keys of an origin; None where it is not known."""
Cosign = Callable[[Checkpoint, int], tuple[Signature, ...]]
"""The witness' lines for a checkpoint at a time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``body`` is what goes out with 200 and 409; other refusals are told in ``detail``.

    ``record`` must be durable before a 200 leaves. ``evidence`` is worth keeping, whatever the answer. ``origin`` is
    that of a known log, else empty.
    """

    status: int
    body: bytes = b""
    detail: str = ""
    record: Record | None = None
    evidence: Evidence | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Submission:
    """An add-checkpoint request whose checkpoint is signed by a log on the list. ``lines`` are those that hold."""

    body: bytes
    request: AddCheckpoint
    signed: SignedCheckpoint
    lines: tuple[Signature, ...]

    @property
    def checkpoint(self) -> Checkpoint:
        return self.signed.checkpoint


def read_submission(body: bytes, keys_of: KeysOf) -> Submission | Answer:
    """All that can be judged without knowing what is recorded; an Answer is a refusal."""
    try:
        request, signed = AddCheckpoint.read(body)
    except NoteError as error:
        return Answer(400, detail=str(error))
    keys = keys_of(signed.checkpoint.origin)
    if keys is None:
        return Answer(404, detail="The log with this origin is not known here")
    try:
        signers = {(key.name, key.key_id) for key in verify_log_signatures(signed, keys)}
    except SignatureInvalidError as error:
        detail = f"Not signed by a trusted key of its log: {error}"
        return Answer(403, detail=detail, origin=signed.checkpoint.origin)
    if request.old > signed.checkpoint.size:
        detail = "The old size is more than the size of the checkpoint"
        return Answer(400, detail=detail, origin=signed.checkpoint.origin)
    lines = tuple(line for line in signed.note.signatures if (line.name, line.key_id) in signers)
    return Submission(body, request, signed, lines)


@dataclass(frozen=True, slots=True)
class Approved:
    """A checkpoint that is to be cosigned. What is left to do needs neither state nor order: signing.

    ``record`` is what will be recorded, still without the witness' lines.
    """

    checkpoint: Checkpoint
    record: Record

    @classmethod
    def of(cls, submission: Submission, time: int) -> Self:
        checkpoint = submission.checkpoint
        signed = Note(submission.signed.note.text, submission.lines).to_bytes()
        return cls(checkpoint, Record(checkpoint.size, checkpoint.root, time, signed, b""))

    def cosigned(self, cosign: Cosign) -> Answer:
        lines = write_signatures(cosign(self.checkpoint, self.record.time))
        return Answer(200, lines, record=replace(self.record, lines=lines), origin=self.checkpoint.origin)


def decide(submission: Submission, known: Record | None, now: int, cosign: Cosign) -> Answer:
    """The whole decision at once: judge and sign."""
    judged = judge(submission, known, now)
    return judged.cosigned(cosign) if isinstance(judged, Approved) else judged


def judge(submission: Submission, known: Record | None, now: int) -> Answer | Approved:
    """Hold a submission against what is recorded for its origin.

    The time is never 0 and never less than the last one for this log, whatever the clock says (W-3).
    """
    recorded = known or NOTHING
    refusal = _refusal(submission, recorded, now)
    if refusal is not None:
        return replace(refusal, origin=submission.checkpoint.origin)
    time = max(now, recorded.time, 1)
    if known is not None and known.lines and time == known.time and known.has_text(submission.signed.note.text):
        # Said already, in this very second: the same lines again. Whoever replays a checkpoint causes no write.
        return Answer(200, known.lines, origin=submission.checkpoint.origin)
    return Approved.of(submission, time)


def _refusal(submission: Submission, recorded: Record, now: int) -> Answer | None:  # noqa: PLR0911 - one a rule
    checkpoint, old, path = submission.checkpoint, submission.request.old, submission.request.path
    # Two roots for one size convict the log whatever it says about the old size.
    evidence = _conviction(submission, recorded, now)
    if old != recorded.size:
        return Answer(409, b"%d\n" % recorded.size, evidence=evidence)
    if checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT:
        return Answer(422, detail="The root of a tree of size 0 is not that of the empty tree", evidence=evidence)
    if old == 0:
        if path:
            return Answer(422, detail="From size 0 there is nothing to prove: the proof must be empty")
        return None
    if evidence is not None:
        detail = "The recorded checkpoint of this size has another root; this one has been kept as evidence"
        return Answer(422, detail=detail, evidence=evidence)
    try:
        verify_consistency(old, checkpoint.size, recorded.root, checkpoint.root, path)
    except ProofError as error:
        if old != checkpoint.size:
            ground = Ground.UNPROVEN if other_beginning(submission.request, checkpoint) is None else Ground.FORK
            evidence = _evidence(submission, recorded, now, ground)
        return Answer(422, detail=f"Not shown to extend the recorded tree: {error}", evidence=evidence)
    return None


def _conviction(submission: Submission, recorded: Record, now: int) -> Evidence | None:
    checkpoint = submission.checkpoint
    if checkpoint.size == 0:
        forked = checkpoint.root != EMPTY_ROOT
    else:
        forked = checkpoint.size == recorded.size and checkpoint.root != recorded.root
    return _evidence(submission, recorded, now, Ground.FORK) if forked else None


def _evidence(submission: Submission, recorded: Record, now: int, ground: Ground) -> Evidence:
    checkpoint = submission.checkpoint
    return Evidence(
        checkpoint.origin, ground, checkpoint.size, checkpoint.root, max(now, 1), recorded.note, submission.body
    )


def other_beginning(request: AddCheckpoint, checkpoint: Checkpoint) -> bytes | None:
    """The root that a refused proof shows the checkpoint's tree to have had at the old size; None if it shows nothing.

    Anyone can write a proof, but only one that leads to the root the log signed says something about that tree.
    """
    try:
        old_root, new_root = roots_of_consistency(request.old, checkpoint.size, request.path)
    except ProofError:
        return None
    return old_root if new_root == checkpoint.root else None
