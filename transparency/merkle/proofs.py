"""Inclusion and consistency proofs (RFC 9162 §2.1.3, §2.1.4): made from stored hashes, checked without them.

Making: whatever can say the hash of a *complete* subtree (a ``ReadHash``) can prove, for any size up to its
own. Such hashes never change as the tree grows; only the ragged right edge does, and it is folded up here
from complete parts. A size or index out of range is the calling program's error: ``ValueError``.

Checking: everything comes from outside, so everything is judged before it is used, and every misfit is a
``ProofError``. A path must have exactly the length its position calls for; no hash is computed for one that
has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from transparency.errors import ProofError
from transparency.merkle.hashing import EMPTY_ROOT, HASH_SIZE, MAX_SIZE, node_hash, sha256

MAX_RANGES: Final = 1024
ReadHash: TypeAlias = Callable[[int, int], bytes]
"""``(level, index)`` -> hash of the complete subtree over ``[index << level, (index + 1) << level)``."""


def complete_subtrees(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """``(level, index)`` of the complete subtrees that make up leaves ``[begin, end)``, biggest first.

    ``begin`` must be a multiple of the biggest: then this is how MTH splits the range (RFC 9162 §2.1.1,
    §2.1.2).
    """
    while begin < end:
        level = (end - begin).bit_length() - 1
        yield level, begin >> level
        begin += 1 << level


def root_at(size: int, read: ReadHash) -> bytes:
    """The root of the first ``size`` leaves."""
    _require(_is_size(size), "size", size)
    return _range_hash(0, size, read) if size else EMPTY_ROOT


def inclusion_path(index: int, size: int, read: ReadHash) -> list[bytes]:
    """PATH(index, D[size]) of RFC 9162 §2.1.3.1: the siblings from the leaf up to the root."""
    _require(_is_size(size), "size", size)
    _require(_is_size(index) and index < size, "index", index)
    return _siblings(0, index, size, read)


def consistency_path(old: int, new: int, read: ReadHash) -> list[bytes]:
    """PROOF(old, D[new]) of RFC 9162 §2.1.4.1; empty when both are the same tree.

    The proof climbs from the last complete subtree of the old tree. Where that subtree is the whole old tree
    (``old`` a power of two), the verifier has its hash already and it is left out.
    """
    _require(_is_size(new), "new size", new)
    _require(_is_size(old) and 1 <= old <= new, "old size", old)
    if old == new:
        return []
    level = _trailing_zeros(old)
    start = [] if old == 1 << level else [read(level, (old >> level) - 1)]
    return start + _siblings(level, old - 1, new, read)


def root_from_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that ``path`` leads to from leaf hash ``leaf`` at ``index`` of ``size`` (RFC 9162 §2.1.3.2).

    Same result as the RFC's loop, with its shifts taken together: below ``inner`` the leaf's ancestors have
    a sibling at every level, on the side the index says; above, they lie on the right edge and have left
    siblings only.
    """
    _check_size(size, "tree size")
    _check_size(index, "leaf index", minimum=0)
    if index >= size:
        raise ProofError(f"leaf index {index} is not below tree size {size}")
    _check_hash(leaf, "leaf hash")
    inner = (index ^ (size - 1)).bit_length()
    expected = inner + (index >> inner).bit_count()
    if len(path) != expected:
        raise ProofError(f"inclusion path has {len(path)} hashes; leaf {index} of {size} has {expected}")
    _check_path(path, "inclusion path")
    root = leaf
    for level, sibling in enumerate(path):
        on_left = level >= inner or index >> level & 1
        # node_hash, in place: this loop is most of what checking a receipt costs beside its signature.
        root = sha256(b"\x01" + sibling + root if on_left else b"\x01" + root + sibling).digest()
    return root


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Return if the path leads from ``leaf`` to ``root``, else raise ``ProofError``."""
    _check_hash(root, "root")
    if root_from_inclusion(leaf, index, size, path) != root:
        raise ProofError(f"inclusion path of leaf {index} leads to another root of size {size}")


def root_from_consistency(old_size: int, new_size: int, old_root: bytes, path: Sequence[bytes]) -> bytes:
    """The new root, after showing that the path reproduces ``old_root`` (RFC 9162 §2.1.4.2).

    ``1 <= old_size < new_size``. Between equal sizes there is no new root to find: see
    ``verify_consistency``. From a power of two the climb starts at ``old_root`` itself, so a wrong one is not
    noticed here but leads to another new root: the result means nothing until it has been compared, or a
    signature over it verified.
    """
    _check_sizes(old_size, new_size)
    _check_hash(old_root, "old root")
    old, new = _climb(old_size, new_size, old_root, path)
    if old != old_root:
        raise ProofError(f"consistency path from {old_size} to {new_size} does not reproduce the old root")
    return new


def roots_of_consistency(old_size: int, new_size: int, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """The roots that a path has at its two ends, whatever they ought to be.

    If the new one is signed, so is by it that the old one is the root of its first ``old_size`` leaves. The path from a
    power of two does not have its old root: refused.
    """
    _check_sizes(old_size, new_size)
    if old_size.bit_count() == 1:
        raise ProofError(f"a consistency path from {old_size}, a power of two, leaves the old root out")
    return _climb(old_size, new_size, EMPTY_ROOT, path)


def _climb(old_size: int, new_size: int, old_root: bytes, path: Sequence[bytes]) -> tuple[bytes, bytes]:
    """Old and new root by the path; it starts at ``old_root`` where that is a complete subtree, else at its own."""
    level = _trailing_zeros(old_size)
    whole = old_size == 1 << level
    index = (old_size - 1) >> level
    last = (new_size - 1) >> level
    inner = (index ^ last).bit_length()
    expected = inner + (index >> inner).bit_count() + (not whole)
    if len(path) != expected:
        raise ProofError(f"consistency path has {len(path)} hashes; from {old_size} to {new_size} it has {expected}")
    _check_path(path, "consistency path")
    old = new = old_root if whole else path[0]
    for height, sibling in enumerate(path if whole else path[1:]):
        if height >= inner or index >> height & 1:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
        else:
            new = node_hash(new, sibling)
    return old, new


def verify_consistency(
    old_size: int,
    new_size: int,
    old_root: bytes,
    new_root: bytes,
    path: Sequence[bytes],
) -> None:
    """Return if tree ``(new_size, new_root)`` extends ``(old_size, old_root)``, else raise ``ProofError``.

    Equal sizes need an empty path and equal roots. Size 0 is refused: every tree extends the empty one, so
    such a proof says nothing, and whoever asks for it has lost the size it meant.
    """
    _check_size(old_size, "old size")
    _check_size(new_size, "new size")
    _check_hash(old_root, "old root")
    _check_hash(new_root, "new root")
    if old_size == new_size:
        if len(path):
            raise ProofError(f"consistency path between equal sizes ({old_size}) is not empty")
        reached = old_root
    else:
        reached = root_from_consistency(old_size, new_size, old_root, path)
    if reached != new_root:
        raise ProofError(f"consistency path from {old_size} leads to another root of size {new_size}")


def _siblings(level: int, index: int, size: int, read: ReadHash) -> list[bytes]:
    """Hashes beside the ancestors of leaf ``index`` from ``level`` up, in the tree of ``size`` leaves.

    The leaf and the last leaf part ways at level ``inner``. Just below it stands the one sibling that may
    be ragged; lower ones are complete, and above it the ancestors lie on the right edge, where only left
    siblings exist.
    """
    inner = (index ^ (size - 1)).bit_length()
    path = _beside(level, inner - 1, index, read)
    if inner > level:
        path.append(_range_hash(((index >> (inner - 1)) ^ 1) << (inner - 1), size, read))
    path.extend(
        read(height, (index >> height) - 1) for height in range(inner, index.bit_length()) if index >> height & 1
    )
    return path


def _beside(low: int, high: int, index: int, read: ReadHash) -> list[bytes]:
    """Hashes beside the ancestors of leaf ``index`` from level ``low`` to below ``high``, where they are complete.

    A reader that has several of them in one place may give them together, by ``beside``.
    """
    together: Callable[[int, int, int], list[bytes]] | None = getattr(read, "beside", None)
    if together is not None:
        return together(low, high, index)
    return [read(level, (index >> level) ^ 1) for level in range(low, high)]


def _range_hash(begin: int, end: int, read: ReadHash) -> bytes:
    """The hash of the leaves from ``begin`` to ``end``, of which nearly every proof for one tree needs the same few.

    It never changes, so a reader that lives longer than a proof may have a table for them, ``ranges``.
    """
    known: dict[tuple[int, int], bytes] | None = getattr(read, "ranges", None)
    if known is not None and (root := known.get((begin, end))) is not None:
        return root
    parts = [read(level, index) for level, index in complete_subtrees(begin, end)]
    root = parts.pop()
    while parts:
        root = node_hash(parts.pop(), root)
    if known is not None:
        if len(known) >= MAX_RANGES:
            known.clear()
        known[begin, end] = root
    return root


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


def _is_size(value: object) -> bool:
    # `type is int`: True would otherwise be the size 1.
    return type(value) is int and 0 <= value <= MAX_SIZE


def _require(holds: bool, name: str, value: object) -> None:  # noqa: FBT001 - a guard reads best this way
    if not holds:
        raise ValueError(f"{name} {value!r} is out of range")


def _check_size(value: object, name: str, minimum: int = 1) -> None:
    if type(value) is not int:
        raise ProofError(f"{name} is not an integer but {type(value).__name__}")
    if not minimum <= value <= MAX_SIZE:
        raise ProofError(f"{name} is not between {minimum} and 2^63-1")


def _check_sizes(old_size: int, new_size: int) -> None:
    _check_size(old_size, "old size")
    _check_size(new_size, "new size")
    if old_size >= new_size:
        raise ProofError(f"old size {old_size} is not below new size {new_size}")


def _check_hash(value: object, name: str) -> None:
    if type(value) is not bytes or len(value) != HASH_SIZE:
        raise ProofError(f"{name}: not a hash of {HASH_SIZE} bytes")


def _check_path(path: Sequence[bytes], name: str) -> None:
    # Two sets by map() cost a third of a test for each hash.
    if not (set(map(type, path)) <= {bytes} and set(map(len, path)) <= {HASH_SIZE}):
        raise ProofError(f"{name}: not all are hashes of {HASH_SIZE} bytes")
