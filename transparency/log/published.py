"""What of a log is published: its newest checkpoint, and every tile, entry and proof under it (C2SP tlog-tiles).

A tile is one growing blob in the store, and a partial tile a prefix of it, so every width up to what the newest
published checkpoint has can be served, for ever: the partial tiles of every checkpoint there ever was are among them
(TL-4). Nothing beyond that checkpoint is shown, though the tree may have grown: what is shown here is under a signature
that witnesses have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from transparency.errors import NotFoundError, StoreError
from transparency.log.store import Store
from transparency.merkle.hashing import HASH_SIZE
from transparency.merkle.proofs import consistency_path, inclusion_path, root_at
from transparency.merkle.tiles import WIDTH, TileHashes, tile_width
from transparency.notes.bundle import write_bundle
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.note import Signature
from transparency.notes.proof import TlogProof

Suits = Callable[[Collection[Signature]], bool]
"""Whether a checkpoint with these signature lines is good enough for a proof."""


class Published:
    """Reads only. The tile cache belongs to the thread that reads, which is the event loop's.

    ``newest`` is set by the publisher alone, after the checkpoint is durable in the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hashes = TileHashes(store.tile)
        note = store.newest_checkpoint()
        self.newest: SignedCheckpoint | None = None if note is None else SignedCheckpoint.from_bytes(note)

    @property
    def size(self) -> int:
        """How many entries are under the newest published checkpoint."""
        return 0 if self.newest is None else self.newest.checkpoint.size

    def tile(self, level: int, index: int, width: int = WIDTH) -> bytes:
        """The first *width* hashes of a tile, if the published tree has them."""
        if not 1 <= width <= tile_width(level, index, self.size):
            raise NotFoundError("the published tree has no such tile; /checkpoint says how far it goes")
        content = self._store.tile(level, index)
        if content is None or len(content) < width * HASH_SIZE:
            raise StoreError(f"tile {index} of level {level} is missing or too short")
        return content[: width * HASH_SIZE]

    def bundle(self, index: int, width: int = WIDTH) -> bytes:
        """The entries under the first *width* hashes of tile *index* of level 0 (TL-5)."""
        if not 1 <= width <= tile_width(0, index, self.size):
            raise NotFoundError("the published tree has no such entries; /checkpoint says how far it goes")
        start = index * WIDTH
        entries = self._store.digests(start, start + width)
        if len(entries) != width:
            raise StoreError(f"entries from {start} on are missing")
        return write_bundle(entries)

    def proof(self, index: int, suits: Suits) -> TlogProof | None:
        """The proof of an entry; None while no published checkpoint covers it.

        From the first witnessed checkpoint that covers it, so that an entry's proof stays the same and shows how early
        witnesses saw it. Where that one no longer *suits*, since keys or witnesses have changed, from the newest.
        """
        signed = self._first_witnessed(index, suits) or self.newest
        if signed is None or signed.checkpoint.size <= index:
            return None
        path = inclusion_path(index, signed.checkpoint.size, self._hashes)
        return TlogProof(index, tuple(path), signed.to_bytes())

    def consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """What a witness that has seen *old* is shown; from nothing or to the same size there is nothing to show."""
        return tuple(consistency_path(old, new, self._hashes)) if 0 < old < new else ()

    def root_at(self, size: int) -> bytes:
        return root_at(size, self._hashes)

    def _first_witnessed(self, index: int, suits: Suits) -> SignedCheckpoint | None:
        note = self._store.checkpoint_covering(index)
        if note is None:
            return None
        signed = SignedCheckpoint.from_bytes(note)
        return signed if suits(signed.note.signatures) else None


def with_signatures(signed: SignedCheckpoint, lines: Iterable[Signature]) -> SignedCheckpoint:
    """The checkpoint with more lines; one of the same key gives way to the newer."""
    for line in lines:
        signed = signed.with_signature(line)
    return signed
