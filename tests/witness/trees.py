"""Logs as a witness meets them: trees that grow, fork and prove, their signed checkpoints, and requests about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tests.notes.world import ORIGIN, log_signer
from transparency.merkle.hashing import leaf_hash, node_hash
from transparency.merkle.proofs import consistency_path, root_at
from transparency.notes.checkpoint import Checkpoint
from transparency.notes.note import Note
from transparency.notes.requests import AddCheckpoint
from transparency.notes.signer import NoteSigner


class Tree:
    """All complete subtrees of a log, in memory: proves between any two of its sizes. ``fork`` goes another way."""

    def __init__(self) -> None:
        self._levels: list[list[bytes]] = [[]]

    @property
    def size(self) -> int:
        return len(self._levels[0])

    def grow(self, *leaves: bytes) -> Self:
        for leaf in leaves:
            self._levels[0].append(leaf_hash(leaf))
            level = 0
            while len(self._levels[level]) % 2 == 0:
                if level + 1 == len(self._levels):
                    self._levels.append([])
                self._levels[level + 1].append(node_hash(*self._levels[level][-2:]))
                level += 1
        return self

    def fork(self) -> Tree:
        other = Tree()
        other._levels = [list(level) for level in self._levels]
        return other

    def cut(self, size: int) -> Tree:
        """The tree as it was at *size*."""
        other = Tree()
        other._levels = [level[: size >> height] for height, level in enumerate(self._levels)]
        return other

    def root(self, size: int | None = None) -> bytes:
        return root_at(self.size if size is None else size, self.read)

    def path(self, old: int, new: int | None = None) -> tuple[bytes, ...]:
        new = self.size if new is None else new
        return tuple(consistency_path(old, new, self.read)) if old else ()

    def read(self, level: int, index: int) -> bytes:
        return self._levels[level][index]

    def checkpoint(self, size: int | None = None, origin: str = ORIGIN) -> Checkpoint:
        size = self.size if size is None else size
        return Checkpoint(origin, size, self.root(size))


def tree_of(count: int, word: bytes = b"leaf") -> Tree:
    return Tree().grow(*(b"%b %d" % (word, number) for number in range(count)))


def signer_of(origin: str = ORIGIN) -> NoteSigner:
    """The one Ed25519 key of a log (a cache tells `f()` from `f(name=ORIGIN)`)."""
    return log_signer() if origin == ORIGIN else log_signer(name=origin)


def note_of(checkpoint: Checkpoint, by: Sequence[NoteSigner] | None = None) -> bytes:
    note = Note(checkpoint.text)
    for signer in (signer_of(checkpoint.origin),) if by is None else by:
        note = note.with_signature(signer.sign(note.text))
    return note.to_bytes()


def request(
    tree: Tree, old: int, size: int | None = None, *, origin: str = ORIGIN, by: Sequence[NoteSigner] | None = None
) -> bytes:
    """What an honest log sends: its checkpoint of *size*, and the proof from *old*."""
    size = tree.size if size is None else size
    path = tree.path(old, size) if old <= size else ()
    return AddCheckpoint(old, path, note_of(tree.checkpoint(size, origin), by)).to_bytes()
