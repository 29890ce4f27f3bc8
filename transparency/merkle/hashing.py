"""The two hashes a tree is made of (RFC 9162 §2.1.1), and the sizes a tree can have.

The prefixes 0x00 and 0x01 keep leaves and inner nodes apart: without them an inner node could be passed off
as an entry.
"""

from __future__ import annotations

import hashlib
from typing import Final

HASH_SIZE: Final = 32
MAX_SIZE: Final = (1 << 63) - 1
"""The greatest tree size: what SQLite, Go and a signed CBOR reader hold alike."""

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def leaf_hash(entry: bytes) -> bytes:
    """``HASH(0x00 || d)``: the hash of an entry as a leaf."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """``HASH(0x01 || left || right)``: the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def pair_up(nodes: list[bytes]) -> list[bytes]:
    """The row above ``nodes``; of an odd number the last has no partner and is left out.

    One comprehension over a row is twice as fast as a call per node, and nearly all hashing is in rows.
    """
    sha256 = hashlib.sha256
    return [
        sha256(b"\x01" + left + right).digest()
        for left, right in zip(nodes[::2], nodes[1::2], strict=False)  # odd: the last one waits
    ]


def pair_up_bytes(nodes: bytes) -> list[bytes]:
    """``pair_up`` of an even number of hashes that stand one behind another, as they do in a tile."""
    sha256 = hashlib.sha256
    pair = 2 * HASH_SIZE
    return [sha256(b"\x01" + nodes[at : at + pair]).digest() for at in range(0, len(nodes), pair)]
