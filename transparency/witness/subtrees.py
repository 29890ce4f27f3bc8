"""sign-subtree: a cosignature for part of a tree that the witness has cosigned as a whole (C2SP tlog-witness, W-4).

Nothing is recorded and no state is asked: the witness' own cosignature on the reference checkpoint says that it is of
the one history, and the proof that the subtree is part of it.
"""

from __future__ import annotations

from transparency.errors import NoteError, ProofError, SignatureInvalidError
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.cosignature import verify_cosignatures
from transparency.notes.note import write_signatures
from transparency.notes.requests import SignSubtree
from transparency.notes.subtree import is_subtree, verify_subtree_consistency
from transparency.witness.decide import Answer, KeysOf
from transparency.witness.keys import WitnessKeys


def answer_subtree(body: bytes, keys_of: KeysOf, own: WitnessKeys) -> Answer:  # noqa: PLR0911 - one a rule
    """Judge a request, and sign if all holds. The time in the line is 0: it says nothing about when."""
    try:
        request = SignSubtree.from_bytes(body)
        signed = SignedCheckpoint.from_bytes(request.checkpoint)
    except NoteError as error:
        return Answer(400, detail=str(error))
    checkpoint = signed.checkpoint
    if not is_subtree(request.start, request.end) or request.end > checkpoint.size:
        return Answer(400, detail="The range is not a valid subtree of the checkpoint's tree")
    if keys_of(checkpoint.origin) is None:
        return Answer(404, detail="The log with this origin is not known here")
    try:
        cosigned = verify_cosignatures(signed, own.vkeys)
    except SignatureInvalidError as error:
        return Answer(403, detail=f"The cosignature of this service does not hold: {error}")
    if not cosigned:
        return Answer(403, detail="The checkpoint is not cosigned by this service; add it first")
    try:
        verify_subtree_consistency(
            request.start, request.end, checkpoint.size, request.path, request.root, checkpoint.root
        )
    except ProofError as error:
        return Answer(422, detail=str(error))
    lines = own.sign_subtree(checkpoint.origin, request.start, request.end, request.root)
    return Answer(200, write_signatures(lines))
