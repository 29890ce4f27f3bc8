"""Subtrees: parts of a tree that can be cosigned by themselves (draft-ietf-plants-merkle-tree-certs-03 §4).

The leaves ``[start, end)`` are a subtree if the tree over them is made of nodes that every tree of the log has, up to
its right edge: ``start`` is a multiple of the least power of two that is not below the size.
"""

from __future__ import annotations

from collections.abc import Sequence

from transparency.errors import ProofError
from transparency.merkle.hashing import HASH_SIZE, node_hash
from transparency.merkle.proofs import ReadHash, root_at
from transparency.notes.numbers import MAX_PATH, is_number


def is_subtree(start: int, end: int) -> bool:
    """Whether ``[start, end)`` is a valid subtree (§4.1): ``start`` is a multiple of BIT_CEIL(end - start)."""
    return is_number(start) and is_number(end) and start < end and start % (1 << (end - start - 1).bit_length()) == 0


def subtree_hash(start: int, end: int, read: ReadHash) -> bytes:
    """MTH(D[start:end]), from the hashes of complete subtrees."""
    if not is_subtree(start, end):
        raise ValueError(f"[{start!r}, {end!r}) is not a subtree")
    return _range_hash(start, end, read)


def subtree_path(start: int, end: int, size: int, read: ReadHash) -> list[bytes]:
    """SUBTREE_PROOF(start, end, D_n) of §4.4.1, for the tree of the first ``size`` leaves.

    The definition goes down from the root to the subtree and lists siblings on its way back; so does this, in a loop.
    """
    if not is_subtree(start, end) or not is_number(size) or end > size:
        raise ValueError(f"[{start!r}, {end!r}) is not a subtree of a tree of {size!r} leaves")
    begin, stop, known = 0, size, True
    path: list[bytes] = []
    while (start, end) != (begin, stop):
        middle = begin + (1 << (stop - begin - 1).bit_length() - 1)
        if end <= middle:
            path.append(_range_hash(middle, stop, read))
            stop = middle
        else:
            path.append(_range_hash(begin, middle, read))
            if start < middle:  # the subtree reaches over the middle: what is left of it is no longer all of it
                start, known = middle, False
            begin = middle
    if not known:
        path.append(_range_hash(start, end, read))
    return path[::-1]


def verify_subtree_consistency(
    start: int, end: int, size: int, path: Sequence[bytes], subtree: bytes, root: bytes
) -> None:
    """Return if the leaves under ``subtree`` are those at ``[start, end)`` under ``root``, else raise ``ProofError``.

    The steps of §4.4.3, by its names: fn, sn, tn are the nodes above the subtree's first and last leaf and the tree's
    last one, level by level.
    """
    _check(start, end, size, (subtree, root, *path))
    fn, sn, tn = start, end - 1, size - 1
    while fn != sn and (sn == tn or sn & 1):
        fn, sn, tn = fn >> 1, sn >> 1, tn >> 1
    # Where the subtree is a node of the tree the climb starts at its hash, else at its last complete part, which must
    # be there: tn is then not 0, and a path without it too short.
    first, siblings = (subtree, path) if fn == sn else (next(iter(path), subtree), path[1:])
    fr = sr = first
    for sibling in siblings:
        if tn == 0:
            raise ProofError("subtree consistency path is too long")
        if sn & 1 or sn == tn:
            fr = node_hash(sibling, fr) if fn < sn else fr
            sr = node_hash(sibling, sr)
            while not sn & 1:
                fn, sn, tn = fn >> 1, sn >> 1, tn >> 1
        else:
            sr = node_hash(sr, sibling)
        fn, sn, tn = fn >> 1, sn >> 1, tn >> 1
    if tn:
        raise ProofError("subtree consistency path is too short")
    if fr != subtree:
        raise ProofError("subtree consistency path does not reproduce the subtree's hash")
    if sr != root:
        raise ProofError(f"subtree consistency path leads to another root of size {size}")


def _check(start: int, end: int, size: int, hashes: Sequence[bytes]) -> None:
    if not is_subtree(start, end) or not is_number(size) or end > size:
        raise ProofError("the range is not a subtree of a tree of this size")
    # Besides the path there are two.
    if len(hashes) > MAX_PATH + 2 or any(type(each) is not bytes or len(each) != HASH_SIZE for each in hashes):
        raise ProofError(f"subtree consistency: not up to {MAX_PATH} hashes of {HASH_SIZE} bytes")


def _range_hash(begin: int, end: int, read: ReadHash) -> bytes:
    """MTH(D[begin:end]); ``begin`` is a multiple of every complete subtree in it, so it is a tree that stands apart."""
    return root_at(end - begin, lambda level, index: read(level, (begin >> level) + index))
