"""CBOR and COSE: canonical bytes, signed messages, algorithms and keys. No clock, no I/O."""

from __future__ import annotations

from transparency.cose.algorithms import ALGORITHMS, Algorithm, algorithm
from transparency.cose.cbor import CBORTag, bstr, decode, encode, read, read_bstr, skip
from transparency.cose.keys import (
    PrivateKey,
    PublicKey,
    Signer,
    decode_key_set,
    encode_key_set,
    read_public_keys,
)
from transparency.cose.sign1 import Sign1, sig_structure, sign1

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "CBORTag",
    "PrivateKey",
    "PublicKey",
    "Sign1",
    "Signer",
    "algorithm",
    "bstr",
    "decode",
    "decode_key_set",
    "encode",
    "encode_key_set",
    "read",
    "read_bstr",
    "read_public_keys",
    "sig_structure",
    "sign1",
    "skip",
]
