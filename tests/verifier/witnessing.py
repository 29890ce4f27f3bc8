"""Witnesses, a policy over them, and proofs from a statement to checkpoints they cosigned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.notes.world import ORIGIN, TIME, log_signer, witness
from transparency.merkle.proofs import inclusion_path
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.note import Note
from transparency.notes.policy import WitnessPolicy
from transparency.notes.proof import TlogProof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.verifier.world import Log
    from transparency.notes.signer import CosignatureSigner, NoteSigner

W1: Final = witness("w1.example")
W2: Final = witness("w2.example")
W3: Final = witness("w3.example")
ALL: Final = (W1, W2, W3)


def policy(quorum: str = "two", log: NoteSigner | None = None) -> WitnessPolicy:
    """Two of three witnesses, for the log of this world."""
    lines = [f"log {(log or log_signer()).vkey.text}"]
    lines += [f"witness w{number} {each.vkey.text}" for number, each in enumerate(ALL, 1)]
    lines += ["group two 2 w1 w2 w3", f"quorum {quorum}"]
    return WitnessPolicy.from_text("".join(f"{line}\n" for line in lines).encode())


def checkpoint(
    log: Log,
    size: int | None = None,
    *,
    cosigned_by: Sequence[CosignatureSigner] = (W1, W2),
    by: NoteSigner | None = None,
    origin: str = ORIGIN,
) -> SignedCheckpoint:
    """The log's checkpoint of a size; the n-th witness cosigns n seconds after TIME."""
    size = len(log.entries) if size is None else size
    tree = Checkpoint(origin, size, log.root(size))
    note = Note(tree.text)
    note = note.with_signature((by or log_signer()).sign(note.text))
    for number, each in enumerate(cosigned_by, 1):
        note = note.with_signature(each.sign(note.text, TIME + number))
    return SignedCheckpoint(note, tree)


def proof(log: Log, index: int, signed: SignedCheckpoint | None = None) -> bytes:
    signed = checkpoint(log) if signed is None else signed
    path = inclusion_path(index, signed.checkpoint.size, log.read)
    return TlogProof(index, tuple(path), signed.to_bytes()).to_bytes()
