"""The verifier keys of a log's checkpoints, from its registered key set: the origin is their name."""

from __future__ import annotations

from typing import Final

from transparency.cose.algorithms import ED25519_KTY_NAME, ML_DSA_44
from transparency.notes.vkey import ED25519, MLDSA, VerifierKey
from transparency.policy import keyset
from transparency.policy.keyset import ServiceKeys

_KINDS: Final = {ED25519_KTY_NAME: ED25519, ML_DSA_44.kty_name: MLDSA}


def checkpoint_vkeys(keys: ServiceKeys, time: int | None = None) -> tuple[VerifierKey, ...]:
    """Those in use at *time*, or all there ever were. A key of a type that signs no notes is left out.

    Raises NoteError where the origin cannot be the name of a key.
    """
    public = keys.ever(keyset.CHECKPOINTS) if time is None else keys.at(keyset.CHECKPOINTS, time)
    return tuple(VerifierKey.of(keys.log, _KINDS[key.kty_name], key) for key in public if key.kty_name in _KINDS)
