"""From a leaf to the root, with what neighbours have in common done once.

Entries of one batch stand beside each other under one head, so that their paths differ in the lowest levels only. The
root is a function of the node reached after these levels, its place, the tree's size and the rest of the path; so it
is remembered under exactly these. A path whose upper part is not byte for byte one that was climbed before is climbed.
"""

from __future__ import annotations

from typing import Final

from transparency.merkle.hashing import sha256
from transparency.merkle.proofs import root_from_inclusion

STEP: Final = 34
"""Bytes of a hash in a proof: its CBOR head (58 20) and itself."""
MAX_CLIMBS: Final = 4096
# Neighbours in groups of 4, and of 32: fewer levels would share less, more would be shared by fewer.
_NEAR_LEVELS: Final = 2
_NEAR_BELOW: Final = _NEAR_LEVELS * STEP
_LEVELS: Final = 5
_BELOW: Final = _LEVELS * STEP

_Name = tuple[bytes, int, int, bytes]


class Climber:
    """Roots of inclusion paths; as ``root_from_inclusion``, for paths as they stand in a receipt."""

    def __init__(self, most: int = MAX_CLIMBS) -> None:
        self._most = most
        self._near: dict[_Name, bytes] = {}
        self._far: dict[_Name, bytes] = {}

    def root(self, leaf: bytes, index: int, size: int, path: bytes) -> bytes:
        """The root for ``leaf``; ``path`` is hashes of 32 bytes, each after its head. ProofError on any misfit."""
        inner = (index ^ (size - 1)).bit_length()
        if inner < _LEVELS or len(path) < _BELOW:
            return root_from_inclusion(leaf, index, size, split(path))
        # Below ``inner`` every ancestor has a sibling, on the side its bit says (RFC 9162 §2.1.3.2).
        node = sha256(b"\x01" + path[2:34] + leaf if index & 1 else b"\x01" + leaf + path[2:34]).digest()
        node = sha256(b"\x01" + path[36:68] + node if index & 2 else b"\x01" + node + path[36:68]).digest()
        name = (node, index >> _NEAR_LEVELS, size, path[_NEAR_BELOW:])
        root = self._near.get(name)
        if root is None:
            root = self._root_above(node, leaf, index, size, path)
            _keep(self._near, self._most, name, root)
        return root

    def _root_above(self, node: bytes, leaf: bytes, index: int, size: int, path: bytes) -> bytes:
        place, at = index >> _NEAR_LEVELS, _NEAR_BELOW + 2
        for _ in range(_LEVELS - _NEAR_LEVELS):
            sibling = path[at : at + 32]
            node = sha256(b"\x01" + sibling + node if place & 1 else b"\x01" + node + sibling).digest()
            at += STEP
            place >>= 1
        name = (node, place, size, path[_BELOW:])
        root = self._far.get(name)
        if root is None:
            root = root_from_inclusion(leaf, index, size, split(path))
            _keep(self._far, self._most, name, root)
        return root


def _keep(known: dict[_Name, bytes], most: int, name: _Name, root: bytes) -> None:
    if len(known) >= most:
        known.clear()
    known[name] = root


def split(path: bytes) -> tuple[bytes, ...]:
    """The hashes of a path."""
    return tuple([path[at + 2 : at + STEP] for at in range(0, len(path), STEP)])
