"""The keys of a witness: one Ed25519 key and one ML-DSA-44 key under one name, and the lines they sign.

Ed25519 (0x04) is what verifiers in the field read, ML-DSA-44 (0x06) what C2SP asks for now and what signs subtrees.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from transparency.cose.algorithms import ED25519, ML_DSA_44
from transparency.cose.keys import PrivateKey, Signer, is_encrypted
from transparency.errors import LogUnusableError, MalformedError, NoteError, PassphraseError, UnsupportedAlgorithmError
from transparency.log.durable import create_durably
from transparency.log.folder import Passphrase, ask
from transparency.notes.checkpoint_text import Checkpoint
from transparency.notes.note import Signature
from transparency.notes.numbers import check_name
from transparency.notes.signer import CosignatureSigner
from transparency.notes.vkey import MLDSA, VerifierKey

FILES: Final = {"ed25519.pem": ED25519.id, "ml-dsa-44.pem": ML_DSA_44.id}
LONGEST_NAME: Final = 255
"""Bytes of a cosigner's name and of an origin in what ML-DSA-44 signs (CS-2)."""


class WitnessKeys:
    """The signers of one witness. Safe to use from several threads: signing keeps no state."""

    def __init__(self, name: str, keys: Sequence[Signer]) -> None:
        self.name = name
        self._signers = tuple(CosignatureSigner(name, key) for key in keys)
        self._subtree_signers = tuple(signer for signer in self._signers if signer.vkey.kind == MLDSA)

    @property
    def vkeys(self) -> tuple[VerifierKey, ...]:
        return tuple(signer.vkey for signer in self._signers)

    def cosign(self, checkpoint: Checkpoint, time: int) -> tuple[Signature, ...]:
        """The lines for a checkpoint. Whether it may be signed is decided before (decide.py)."""
        return tuple(signer.sign_checkpoint(checkpoint, time) for signer in self._signers)

    def sign_subtree(self, origin: str, start: int, end: int, root: bytes) -> tuple[Signature, ...]:
        return tuple(signer.sign_subtree(origin, start, end, root) for signer in self._subtree_signers)


def check_witness_name(name: str) -> None:
    """Refuse what cannot stand in every cosignature; raises NoteError."""
    check_name(name)
    if len(name.encode()) > LONGEST_NAME:
        raise NoteError(f"key name: more than {LONGEST_NAME} bytes")
    if not name.isprintable():
        raise NoteError("key name: has a character that cannot be printed")


def make_keys(folder: Path, passphrase: bytes | None = None) -> None:
    """New keys in *folder*, readable by their owner only, and encrypted if there is a *passphrase*."""
    for file, alg in FILES.items():
        create_durably(folder / file, PrivateKey.generate(alg).to_pem(passphrase), mode=0o600)


def load_keys(folder: Path, name: str, passphrase: Passphrase | None = None) -> WitnessKeys:
    """The keys in *folder*; one that others may read is refused, as ssh does it."""
    return WitnessKeys(name, [_load(folder / file, alg, passphrase) for file, alg in FILES.items()])


def _load(path: Path, alg: int, passphrase: Passphrase | None) -> PrivateKey:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            pem = file.read()
        if mode & 0o077:
            raise LogUnusableError(f"{path} can be read by others (mode {mode:04o}); chmod 600 it, if they have not")
        password = ask(passphrase) if is_encrypted(pem) else None
        return PrivateKey.from_pem(pem, password, alg=alg)
    except OSError as error:
        raise LogUnusableError(f"the key {path} cannot be read: {error.strerror}") from error
    except PassphraseError as error:
        raise PassphraseError(f"the key {path} cannot be read: {error}") from error
    except (MalformedError, UnsupportedAlgorithmError) as error:
        raise LogUnusableError(f"the key {path} cannot be used: {error}") from error
