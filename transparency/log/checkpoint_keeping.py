"""Which published checkpoints are kept: those that a proof may be made from. The rest say nothing the tree does not.

A checkpoint costs 4 KB and more, and one may be published every second. Of those below the newest

* one without a quorum's cosignatures goes: proofs are made from witnessed ones or from the newest, and every partial
  tile is a prefix of a tile that stays (TL-4), so nobody can ask for anything that needs it;
* of the witnessed the newest ``RECENT`` stay, and of the older ones the last of each ``BLOCK`` entries. So what is kept
  is bounded by the entries, about 4 bytes for each, however often is published.

docs/decisions/0014 has the reasons.
"""

from __future__ import annotations

from typing import Final

from transparency.errors import StoreError
from transparency.notes.note import Note

RECENT: Final = 1024
BLOCK: Final = 4096


def in_one_block(older: int, newer: int) -> bool:
    """Whether the last entries of two trees lie in one block: then the newer one stands in for the older."""
    return (older - 1) // BLOCK == (newer - 1) // BLOCK


def check_may_follow(newest: int | None, size: int) -> None:
    """Sizes only grow: what is smaller would be a rollback, and nobody remembers any more what was said of it."""
    if newest is not None and size < newest:
        raise StoreError(f"a checkpoint of size {newest} was published; one of size {size} must not follow it")


def check_same_text(old: bytes, new: bytes, size: int) -> None:
    """Two checkpoints of one size that say different things would be the proof of a split view (CP-2)."""
    if Note.from_bytes(old).text != Note.from_bytes(new).text:
        raise StoreError(f"another checkpoint of size {size} was published before; this one must not be")
