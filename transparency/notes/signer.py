"""What makes signature lines: a log's for its checkpoints, a witness' for those of others.

The clock is the caller's: a time is passed in. Whether a tree may be signed at all is the caller's judgement too.
"""

from __future__ import annotations

from typing import Final

from transparency.cose.private_key import Signer
from transparency.errors import NoteError, UnsupportedAlgorithmError
from transparency.notes.checkpoint_text import Checkpoint
from transparency.notes.cosigned import cosignature_v1_message, join_time, subtree_message
from transparency.notes.note import Note, Signature
from transparency.notes.vkey import COSIGNATURE, ED25519, MLDSA, VerifierKey

_LOG_KIND: Final = {"OKP Ed25519": ED25519, "AKP ML-DSA-44": MLDSA}
_WITNESS_KIND: Final = {"OKP Ed25519": COSIGNATURE, "AKP ML-DSA-44": MLDSA}


class NoteSigner:
    """A log's key under the log's name: Ed25519 signs any note (0x01), ML-DSA-44 checkpoints (0x06)."""

    __slots__ = ("_signer", "vkey")

    vkey: VerifierKey

    def __init__(self, name: str, signer: Signer) -> None:
        self.vkey = VerifierKey.of(name, _kind(_LOG_KIND, signer), signer.public)
        self._signer = signer

    def sign(self, text: bytes, time: int = 0) -> Signature:
        """The signature line for a note's text.

        ``time`` goes into an ML-DSA-44 line only. 0 makes no statement; another time says that this tree is the
        largest of the log at that time (tlog-cosignature).
        """
        if self.vkey.kind == ED25519:
            Note(text)  # refuses what is not the text of a note
            return _line(self.vkey, self._signer.sign(text))
        return _sign_checkpoint(self.vkey, self._signer, Checkpoint.from_text(text), time)

    def __repr__(self) -> str:
        return f"<NoteSigner {self.vkey.text:.60}>"


class CosignatureSigner:
    """A witness' key under the witness' name: Ed25519 (0x04) or ML-DSA-44 (0x06), which signs subtrees as well."""

    __slots__ = ("_signer", "vkey")

    vkey: VerifierKey

    def __init__(self, name: str, signer: Signer) -> None:
        self.vkey = VerifierKey.of(name, _kind(_WITNESS_KIND, signer), signer.public)
        self._signer = signer

    def sign(self, text: bytes, time: int) -> Signature:
        """The cosignature line for a checkpoint's text. "The timestamp MUST NOT be zero" (tlog-witness, W-3)."""
        return self.sign_checkpoint(Checkpoint.from_text(text), time)

    def sign_checkpoint(self, checkpoint: Checkpoint, time: int) -> Signature:
        """The same for a checkpoint that has been read."""
        if time == 0:
            raise NoteError("cosignature: a witness signs its time, which is not 0")
        return _sign_checkpoint(self.vkey, self._signer, checkpoint, time)

    def sign_subtree(self, origin: str, start: int, end: int, root: bytes) -> Signature:
        """The cosignature line for leaves ``[start, end)`` of a log: ML-DSA-44 only, and without a time."""
        if self.vkey.kind != MLDSA:
            raise UnsupportedAlgorithmError("only an ML-DSA-44 key cosigns subtrees")
        message = subtree_message(self.vkey.name, 0, origin, start, end, root)
        return _line(self.vkey, join_time(0, self._signer.sign(message)))

    def __repr__(self) -> str:
        return f"<CosignatureSigner {self.vkey.text:.60}>"


def _sign_checkpoint(vkey: VerifierKey, signer: Signer, checkpoint: Checkpoint, time: int) -> Signature:
    if vkey.kind == COSIGNATURE:
        message = cosignature_v1_message(checkpoint.text, time)
    else:
        message = subtree_message(vkey.name, time, checkpoint.origin, 0, checkpoint.size, checkpoint.root)
    return _line(vkey, join_time(time, signer.sign(message)))


def _line(vkey: VerifierKey, blob: bytes) -> Signature:
    return Signature(vkey.name, vkey.key_id, blob)


def _kind(kinds: dict[str, int], signer: Signer) -> int:
    kind = kinds.get(signer.public.kty_name)
    if kind is None:
        raise UnsupportedAlgorithmError(
            f"notes are signed with {' or '.join(kinds)} keys; this one is {signer.public.kty_name}"
        )
    return kind
