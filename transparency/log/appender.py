"""The appender: turns a list of judged entries into a durable, signed tree head. The one writer's core.

Safety argument
---------------
State: the tip (size, root, epoch), the right edge of the tree, the newest head's time. Owned by one thread at a time,
the sequencer's; nobody else holds a reference.

1. Leaves go onto a *copy* of the right edge; root and head are computed from the copy; the head is signed. Nothing
   has left this object yet: a crash here is as if nothing had happened.
2. ``store.commit`` swaps the tip only if it is still ours. If it raises, we do not know what was kept (a commit may
   fail after it persisted), so the appender is *spent*: every later call is refused, the process stops, and
   reopening reads the truth. The signature of step 1 never left, so another head of that size contradicts nothing.
3. The mark is written durably. Crash between 2 and 3: the mark is behind the tip, which start-up accepts after it
   has checked that the tree at the mark's size has the mark's root.
4. Only then does ``append`` return, and only then can a receipt be released.

A small batch is synced once, not twice (decision 0019): the commit of step 2 is told that it is *kept*, and need not
survive anything, nor be written at once (decision 0020); step 3 writes the batch itself into the mark's journal, which
moves the mark on with it. A crash before step 3 is done: as above, or the batch is gone from both, and nobody has seen
it. After: the mark knows of it, and start-up brings back from the journal what the store lacks, entry by entry and
under the very head that was signed (redo.py). The journal begins anew only when a commit that is not kept has
returned, with which all before it is on the disk. That nobody else has taken the store over is asked when the journal
is synced, not before: whoever takes it over raises the epoch first and reads the journal then. So one of the two sees
the other: either it finds this batch, which its store has not, and goes no further, or the epoch is found raised here,
and the batch is not released. So what the store holds and has not written is in the journal, from
the moment at which anybody can know of it.

Which key signs a head follows from the registered key set and the head's time alone (policy/keyset.py), so an announced
key takes over by itself, and whoever checks a head later, knows whose it must be.

Head times never go back: a head's time is the clock's, but never less than its predecessor's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transparency.cose.keys import Signer
from transparency.errors import StoreError
from transparency.log import redo
from transparency.log.journal import Kept
from transparency.log.mark import Mark, MarkValue
from transparency.log.store import Commit, NewEntry, Store, Tip
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.tiles import RightEdge
from transparency.statements.receipt import SignedHead, sign_head
from transparency.statements.statement import Entry

Clock = Callable[[], int]
SignerAt = Callable[[int], Signer]
"""Who signs a head of this time."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who signs heads: the service's iss and the log's origin, which is the receipts' sub (AMB-5)."""

    iss: str
    origin: str


class Appender:
    def __init__(
        self,
        store: Store,
        mark: Mark | None,
        identity: Identity,
        signer_at: SignerAt,
        clock: Clock,
        tip: Tip,
        time: int,
    ) -> None:
        self._store = store
        self._mark = mark
        self._identity = identity
        self._clock = clock
        self._tip = tip
        self._time = time
        self._edge = RightEdge.load(tip.size, store.tile)
        self._spent = False
        # Whether the store may hold a batch that is not written yet: it was kept.
        self.unsettled = False
        self._signer_at = signer_at
        # Of the batch that was appended last, the hashes of its entries as leaves: its receipts need them again.
        self.newest_leaves: list[bytes] = []
        self.on_commit: Callable[[int], None] = _nobody

    @property
    def tip(self) -> Tip:
        return self._tip

    def left_subtrees(self) -> list[bytes | None]:
        """By level, the complete subtree that waits there for its sibling: all that paths of what comes next need."""
        return self._edge.left_subtrees()

    def decision_time(self) -> int:
        """The time the next head would carry; the sequencer holds every judgement against it (REG-21)."""
        return max(self._clock(), self._time)

    def append(
        self,
        entries: Sequence[NewEntry],
        time: int,
        *,
        signer_at: SignerAt | None = None,
        intake_done: Sequence[Entry] = (),
    ) -> SignedHead:
        """Commit *entries* as one batch at *time*. *signer_at* decides from this head on, if given (a rotation)."""
        if self._spent:
            raise StoreError("an earlier write failed in doubt; restart the log to read what was kept")
        edge = self._edge.copy()
        leaves = [leaf_hash(new.entry) for new in entries]
        tiles = edge.append(leaves)
        time = max(time, self._time)
        head = sign_head(
            (signer_at or self._signer_at)(time),
            iss=self._identity.iss,
            origin=self._identity.origin,
            size=edge.size,
            root=edge.root(),
            time=time,
        )
        kept = self._to_keep(entries, head) if signer_at is None and not intake_done else None
        self._spent = True
        self._store.commit(Commit(self._tip, entries, tiles, head, intake_done, kept is not None))
        self.on_commit(len(entries))
        if self._mark is not None:
            if kept is not None:
                self._mark.keep(kept)
                self._store.check_owned(self._tip.epoch)
            else:
                self._mark.write(MarkValue(head.size, head.root))
        self._spent = False
        self.unsettled = kept is not None
        self._edge = edge
        self.newest_leaves = leaves
        self._tip = Tip(head.size, head.root, self._tip.epoch)
        self._time = head.time
        if signer_at is not None:
            self._signer_at = signer_at
        return head

    def settle(self) -> None:
        """Have all that was appended in the store, for whoever looks into it from outside."""
        self._store.settle()
        self.unsettled = False

    def finish(self) -> None:
        """Before the end: have all that was appended in the store for good, and the journal put away."""
        self._store.extend_index(self._tip.size)  # and with it whatever was kept until now (store.py, 4)
        if self._mark is not None and not self._spent:
            self._mark.finish(MarkValue(self._tip.size, self._tip.root))

    def forget(self) -> None:
        """Have all that was appended in the store for good, and nothing of it in the journal."""
        self._store.extend_index(self._tip.size)  # as above
        if self._mark is not None and not self._spent:
            if self._mark.keeps:
                self._mark.write(MarkValue(self._tip.size, self._tip.root))
            self._mark.forget()

    def _to_keep(self, entries: Sequence[NewEntry], head: SignedHead) -> Kept | None:
        """What the journal takes and has room for. Its length is known, not guessed, before a commit counts on it."""
        if self._mark is None or not redo.is_small(entries):
            return None
        kept = redo.batch(self._tip, entries, head)
        return kept if self._mark.can_keep(len(kept.content)) else None


def _nobody(_count: int) -> None:
    """Nobody listens."""
