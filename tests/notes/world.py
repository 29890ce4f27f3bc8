"""Keys of a log and a witness, made once a run, and checkpoints they signed."""

from __future__ import annotations

import hashlib
from functools import cache

from transparency.cose.algorithms import ED25519, ML_DSA_44
from transparency.cose.private_key import PrivateKey
from transparency.notes.checkpoint import Checkpoint, SignedCheckpoint
from transparency.notes.note import Note
from transparency.notes.signer import CosignatureSigner, NoteSigner

ORIGIN = "log.example/tlog"
ROOT = hashlib.sha256(b"a root").digest()
TIME = 1_790_000_000


@cache
def log_signer(alg: int = ED25519.id, name: str = ORIGIN) -> NoteSigner:
    return NoteSigner(name, PrivateKey.generate(alg))


@cache
def witness(name: str = "witness.example/w1", alg: int = ED25519.id) -> CosignatureSigner:
    return CosignatureSigner(name, PrivateKey.generate(alg))


def log_signers() -> tuple[NoteSigner, NoteSigner]:
    return log_signer(), log_signer(ML_DSA_44.id)


def witnesses() -> tuple[CosignatureSigner, CosignatureSigner]:
    return witness(), witness(alg=ML_DSA_44.id)


def signed(
    checkpoint: Checkpoint | None = None,
    by: tuple[NoteSigner, ...] | None = None,
    cosigned_by: tuple[CosignatureSigner, ...] = (),
) -> SignedCheckpoint:
    checkpoint = Checkpoint(ORIGIN, 5, ROOT) if checkpoint is None else checkpoint
    note = Note(checkpoint.text)
    for signer in log_signers() if by is None else by:
        note = note.with_signature(signer.sign(note.text))
    for cosigner in cosigned_by:
        note = note.with_signature(cosigner.sign(note.text, TIME))
    return SignedCheckpoint(note, checkpoint)
