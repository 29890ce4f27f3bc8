"""Everything a mirror has, derived anew from its entries: what `transparency mirror check` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from transparency.errors import NoteError, StoreError
from transparency.merkle.hashing import leaf_hash
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import WIDTH, RightEdge, TileHashes, tile_width
from transparency.mirror.trees import Trees
from transparency.notes.bundle import read_bundle
from transparency.witness.record import Record


@dataclass(frozen=True, slots=True)
class Checked:
    """One log: how many entries were read, and what is wrong; nothing, if ``fault`` is empty."""

    origin: str
    size: int
    cosigned: int
    fault: str = ""


def check(trees: Trees, cosigned: Mapping[str, Record]) -> Iterator[Checked]:
    """Each log. Another process may be adding meanwhile: what it adds is not looked at."""
    sizes = trees.sizes()
    for origin in sorted({*sizes, *cosigned}):
        record, size = cosigned.get(origin), sizes.get(origin, 0)
        signed = 0 if record is None else record.size
        try:
            _check(trees, origin, size, record)
        except (StoreError, NoteError) as error:
            yield Checked(origin, size, signed, str(error))
        else:
            yield Checked(origin, size, signed)


def _check(trees: Trees, origin: str, size: int, record: Record | None) -> None:
    if record is not None and record.size > size:
        raise StoreError(f"{record.size} entries were cosigned, and {size} are here")
    edge = RightEdge()
    for index in range(-(-size // WIDTH)):
        width = tile_width(0, index, size)
        entries = read_bundle(trees.bundle(origin, index, width), width)
        for (level, number), content in edge.append([leaf_hash(entry) for entry in entries]).items():
            # A tile of a higher level is complete only later; so far it is how the stored one begins.
            if not (trees.tile(origin, level, number) or b"").startswith(content):
                raise StoreError(f"tile {number} of level {level} is not what the entries hash to")
    pending = trees.pending().get(origin, [])
    for known in (*pending, *([] if record is None else [record])):
        if known.size > size:
            continue
        if root_at(known.size, TileHashes(lambda level, index: trees.tile(origin, level, index))) != known.root:
            raise StoreError(f"the entries do not give the root of the checkpoint of {known.size}")
