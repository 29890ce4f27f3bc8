"""The two hashes a tree is made of (RFC 9162 §2.1.1), and the sizes a tree can have.

The prefixes 0x00 and 0x01 keep leaves and inner nodes apart: without them an inner node could be passed off
as an entry.

What is hashed has one or two blocks, and so little costs OpenSSL more to begin with than to hash. Python brings a
SHA-256 of its own, as a module whose name depends on the version: with it a node takes 0.8 µs instead of 1.7 (Debian's
3.11), a leaf 0.5 instead of 0.7 to 1.3. Builds may leave it out; then it is OpenSSL's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from hashlib import _Hash

HASH_SIZE: Final = 32
MAX_SIZE: Final = (1 << 63) - 1
"""The greatest tree size: what SQLite, Go and a signed CBOR reader hold alike."""

EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def _own_sha256() -> Callable[[bytes], _Hash]:
    with suppress(ImportError):  # since 3.12
        from _sha2 import sha256 as own  # type: ignore[import-not-found]  # noqa: PLC0415 - it may not be there

        return cast("Callable[[bytes], _Hash]", own)
    with suppress(ImportError):
        from _sha256 import sha256 as own  # type: ignore[import-not-found]  # noqa: PLC0415 - as above

        return cast("Callable[[bytes], _Hash]", own)
    return hashlib.sha256


sha256: Final = _own_sha256()
"""For what is as short as a node."""
# Entries of ours are digests. Others' may be whole statements (spec.md, LEAF).
_SHORT: Final = 256


def leaf_hash(entry: bytes) -> bytes:
    """``HASH(0x00 || d)``: the hash of an entry as a leaf."""
    quick = sha256 if len(entry) <= _SHORT else hashlib.sha256
    return quick(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """``HASH(0x01 || left || right)``: the hash of an inner node."""
    return sha256(b"\x01" + left + right).digest()


def pair_up(nodes: list[bytes]) -> list[bytes]:
    """The row above ``nodes``; of an odd number the last has no partner and is left out.

    One comprehension over a row is twice as fast as a call per node, and nearly all hashing is in rows.
    """
    return [
        sha256(b"\x01" + left + right).digest()
        for left, right in zip(nodes[::2], nodes[1::2], strict=False)  # odd: the last one waits
    ]


def pair_up_bytes(nodes: bytes) -> list[bytes]:
    """``pair_up`` of an even number of hashes that stand one behind another, as they do in a tile."""
    pair = 2 * HASH_SIZE
    return [sha256(b"\x01" + nodes[at : at + pair]).digest() for at in range(0, len(nodes), pair)]
