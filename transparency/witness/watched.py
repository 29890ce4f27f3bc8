"""How many witnesses have cosigned a checkpoint that covers an entry (R7.3).

Every checkpoint that is larger than an entry's index covers it, so the one that most witnesses cosigned counts. Of all
checkpoints only those are kept that no later one has outdone: as many as there are witnesses at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from transparency.errors import NoteError, SignatureInvalidError
from transparency.log.store import Store
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.policy import WitnessPolicy

Witnesses = tuple[int, int]
"""Cosigned by how many of how many."""


class Watched:
    """Fed with checkpoints by size, then asked about entries."""

    def __init__(self, policy: WitnessPolicy) -> None:
        # Which log signed is not asked here: a root that is the tree's own names the log well enough, and L5 asks.
        self._policy: Final = replace(policy, logs=())
        self._of = len(policy.witnesses)
        self._steps: list[tuple[int, int]] = []

    def see(self, note: bytes, root: bytes | None = None) -> None:
        """One checkpoint; *root* is that of the tree at its size, where known. What does not hold counts nothing."""
        try:
            signed = SignedCheckpoint.from_bytes(note)
            counted = len(self._policy.check(signed).counted)
        except (NoteError, SignatureInvalidError):
            return  # L5 says what is wrong with it
        if root is not None and signed.checkpoint.root != root:
            return
        while self._steps and self._steps[-1][1] <= counted:
            self._steps.pop()
        if counted:
            self._steps.append((signed.checkpoint.size, counted))

    def covering(self, index: int) -> Witnesses:
        return next((counted for size, counted in self._steps if size > index), 0), self._of


def watched_in(store: Store, policy: WitnessPolicy) -> Watched:
    """By all checkpoints that a log has published; the replay holds the heads against the entries."""
    seen = Watched(policy)
    for size, note in store.checkpoints():
        head = store.head(size)
        if head is not None:
            seen.see(note, head.root)
    return seen


def watched_by(notes: Iterable[bytes], policy: WitnessPolicy) -> Watched:
    """By what a running log serves, whose tiles have been asked for the root."""
    seen = Watched(policy)
    for note in notes:
        seen.see(note)
    return seen
