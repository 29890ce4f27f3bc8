"""Cosignatures: what a witness says about a checkpoint or subtree, checked (C2SP tlog-cosignature, CS-1, CS-2).

Two types: 0x04, Ed25519 over the whole text of the checkpoint, and 0x06, ML-DSA-44 over origin, range and hash. Of a
witness both sign the time; 0x06 may say 0 ("doesn't make any statement as to the tree being the largest observed").
Such a cosignature holds here, since it still says that the tree is consistent with all the witness has seen; who asked
a witness by add-checkpoint must refuse it ("the timestamp MUST NOT be zero", tlog-witness).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from transparency.errors import NoteError, SignatureInvalidError
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.cosigned import cosignature_v1_message, split_time, subtree_message
from transparency.notes.note import Signature
from transparency.notes.vkey import MLDSA, WITNESS_KINDS, VerifierKey, by_name_and_id

__all__ = [
    "Cosignature",
    "cosignature_v1_message",
    "subtree_message",
    "verify_cosignature",
    "verify_cosignatures",
    "verify_subtree_cosignature",
]


@dataclass(frozen=True, slots=True)
class Cosignature:
    """A cosignature that holds. ``name`` is the witness' key name, ``time`` in seconds since 1970."""

    name: str
    key_id: bytes
    time: int
    kind: int


def verify_cosignatures(signed: SignedCheckpoint, witness_keys: Collection[VerifierKey]) -> list[Cosignature]:
    """Every cosignature of a known witness, in the order of the lines; it may be none.

    SN-3: a line of a known key that does not hold makes the whole note invalid (SignatureInvalidError).
    """
    known = by_name_and_id(witness_keys)
    lines = [line for line in signed.note.signatures if (line.name, line.key_id) in known]
    return [verify_cosignature(signed.note.text, line, known[line.name, line.key_id]) for line in lines]


def verify_cosignature(text: bytes, line: Signature, key: VerifierKey) -> Cosignature:
    """Check one line against the key it must be of; raises SignatureInvalidError."""
    _must_name(line, key)
    time = key.verify_note(text, line.blob)
    assert time is not None  # noqa: S101 - both types of a witness have one
    return Cosignature(key.name, key.key_id, time, key.kind)


def verify_subtree_cosignature(
    line: Signature, key: VerifierKey, origin: str, start: int, end: int, root: bytes
) -> Cosignature:
    """Check a cosignature of leaves ``[start, end)`` of a log; raises SignatureInvalidError."""
    _must_name(line, key)
    if key.kind != MLDSA:
        raise SignatureInvalidError(f"a signature of type 0x{key.kind:02x} is not one of a subtree")
    try:
        time, bare = split_time(line.blob)
        message = subtree_message(key.name, time, origin, start, end, root)
    except NoteError as error:
        raise SignatureInvalidError(f"the signature cannot be one of this subtree: {error}") from None
    key.verify(message, bare)
    return Cosignature(key.name, key.key_id, time, key.kind)


def _must_name(line: Signature, key: VerifierKey) -> None:
    if key.kind not in WITNESS_KINDS:
        raise SignatureInvalidError(f"a signature of type 0x{key.kind:02x} is not a cosignature")
    if (line.name, line.key_id) != (key.name, key.key_id):
        raise SignatureInvalidError("the line is not of this key: name and key id must both match")
