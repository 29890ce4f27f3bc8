"""Keys, all of them: the one place to import from. Each noun has its own module beside this one."""

from __future__ import annotations

from transparency.cose.key_sets import decode_key_set, encode_key_set, read_public_keys
from transparency.cose.private_key import PrivateKey, Signer, is_encrypted
from transparency.cose.public_key import PublicKey
from transparency.cose.signers import load_signer, names_signer

__all__ = [
    "PrivateKey",
    "PublicKey",
    "Signer",
    "decode_key_set",
    "encode_key_set",
    "is_encrypted",
    "load_signer",
    "names_signer",
    "read_public_keys",
]
