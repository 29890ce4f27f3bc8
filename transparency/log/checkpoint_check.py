"""What fsck asks of published checkpoints: each is over a head of this log, and one of its keys signed it."""

from __future__ import annotations

from collections.abc import Callable

from transparency.errors import NoteError, SignatureInvalidError
from transparency.log.store import Store
from transparency.notes.checkpoint import open_checkpoint
from transparency.policy.checkpoint_keys import checkpoint_vkeys
from transparency.policy.keyset import ServiceKeys

AddFinding = Callable[[str, str], None]


def check_checkpoints(store: Store, keys: ServiceKeys, upto: int, add: AddFinding) -> None:
    """Those of at most *upto* entries, whose heads have been checked; the log may have gone on meanwhile."""
    vkeys = None
    for size, note in store.checkpoints():
        if size > upto:
            return
        where = f"checkpoint {size}"
        try:
            vkeys = checkpoint_vkeys(keys) if vkeys is None else vkeys
            said = open_checkpoint(note, vkeys).checkpoint
        except (NoteError, SignatureInvalidError) as error:
            add(where, str(error))
            continue
        head = store.head(size)
        if head is None or (said.origin, said.size, said.root) != (keys.log, size, head.root):
            add(where, "it was published and is not over a tree head of this log")
