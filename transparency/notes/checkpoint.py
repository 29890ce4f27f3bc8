"""Checkpoints: a tree head as a signed note, opened only when the log's signature on it holds (CP-1, CP-2, SN-3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from transparency.errors import SignatureInvalidError
from transparency.notes.checkpoint_text import Checkpoint, origin_hash
from transparency.notes.note import Note, Signature
from transparency.notes.vkey import LOG_KINDS, MLDSA, VerifierKey, by_name_and_id

__all__ = ["Checkpoint", "SignedCheckpoint", "open_checkpoint", "origin_hash", "verify_log_signatures"]


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A note and what it says. Only one that ``open_checkpoint`` gave is known to be signed by its log."""

    note: Note
    checkpoint: Checkpoint

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read without checking any signature: to learn whose it claims to be, and so which keys to ask."""
        note = Note.from_bytes(data)
        return cls(note, Checkpoint.from_text(note.text))

    def to_bytes(self) -> bytes:
        return self.note.to_bytes()

    def with_signature(self, signature: Signature) -> SignedCheckpoint:
        """The same with one more line; see ``Note.with_signature``."""
        return SignedCheckpoint(self.note.with_signature(signature), self.checkpoint)


def open_checkpoint(data: bytes, keys: Collection[VerifierKey]) -> SignedCheckpoint:
    """Read a checkpoint that one of ``keys`` signed as its log: one whose name is the checkpoint's origin.

    Raises NoteError where it is malformed, SignatureInvalidError where no such signature is there or one of a
    known key does not hold.
    """
    signed = SignedCheckpoint.from_bytes(data)
    verify_log_signatures(signed, keys)
    return signed


def verify_log_signatures(signed: SignedCheckpoint, keys: Collection[VerifierKey]) -> tuple[VerifierKey, ...]:
    """The log's keys that signed; raises SignatureInvalidError if there is none.

    SN-3: lines of unknown keys are ignored, also when name *or* id is known; a line of a known key that does not
    hold makes the whole note invalid, whoever else signed it. Lines of ``keys`` that are not the log's, such as a
    witness', are checked as well, but do not count.
    """
    known = by_name_and_id(keys)
    signers = []
    for line in signed.note.signatures:
        key = known.get((line.name, line.key_id))
        if key is not None:
            key.verify_note(signed.note.text, line.blob)
            if key.kind in LOG_KINDS and key.name == signed.checkpoint.origin:
                signers.append(key)
    if not signers:
        raise SignatureInvalidError("the checkpoint is not signed by a known key of its log")
    # tlog-checkpoint, "Signatures": "the ML-DSA-44 cosignature format doesn't sign the extension lines, which SHOULD
    # be empty". Where they are not, and no other signature covers them, anyone may have written them.
    if signed.checkpoint.extensions and all(key.kind == MLDSA for key in signers):
        raise SignatureInvalidError("no signature of the log covers the extension lines of its checkpoint")
    return tuple(signers)
