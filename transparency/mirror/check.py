"""What a mirror has, held against its tree: all of it (`mirror check`), what a start looks at, one bundle.

Four kinds of look, from cheap to whole:

    at a start     keys and lengths of every piece and tile (trees.py), each root that was cosigned, and the content of
                   the newest bundles and of the one that the scrub had come to
    when served    the entries of a bundle against its tile (shelf.py)
    while it runs  every bundle and tile in turn, slowly (scrub.py)
    when asked     every tile and root derived anew from the entries

What is found, but by the last, is fetched again if the log is followed (mending.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from transparency.errors import LogUnusableError, NoteError, StoreError
from transparency.merkle.hashing import HASH_SIZE, leaf_hash, pair_up, pair_up_bytes
from transparency.merkle.proofs import root_at
from transparency.merkle.tiles import WIDTH, RightEdge, TileHashes, tile_width
from transparency.mirror.mending import Damage
from transparency.mirror.trees import LOST, DamagedError, Trees
from transparency.notes.bundle import read_bundle
from transparency.witness.record import Record

NEWEST: Final = 16
"""Bundles of each log that a start reads, and how many bytes of them at most: a log is looked at in some 20 ms."""
NEWEST_BYTES: Final = 16 * 1024 * 1024


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
        except (DamagedError, StoreError, NoteError) as error:
            yield Checked(origin, size, signed, str(error))
        else:
            yield Checked(origin, size, signed)


def _check(trees: Trees, origin: str, size: int, record: Record | None) -> None:
    _check_size(size, record)
    edge = RightEdge()
    for index in range(-(-size // WIDTH)):
        width = tile_width(0, index, size)
        entries = read_bundle(trees.bundle(origin, index, width), width)
        for (level, number), content in edge.append([leaf_hash(entry) for entry in entries]).items():
            # A tile of a higher level is complete only later; so far it is how the stored one begins.
            if not (trees.tile(origin, level, number) or b"").startswith(content):
                raise DamagedError(f"tile {number} of level {level} is not what the entries hash to")
    for known in (*trees.pending().get(origin, []), *([] if record is None else [record])):
        if known.size <= size:
            _check_root(trees, origin, known)


def check_start(
    trees: Trees,
    cosigned: Mapping[str, Record],
    pending: Mapping[str, Mapping[int, Record]],
    reached: Mapping[str, int],
    followed: Collection[str] = (),
) -> dict[str, Damage]:
    """Refuse trees that do not have what was cosigned: an older copy was put back, or the disk has lost it.

    *reached* is the bundle of each log that the scrub had come to: it stands where it found damage. Damage to bundles
    of a log that is *followed* is returned instead: they can be fetched again (mending.py).
    """
    sizes, damage = trees.sizes(), dict[str, Damage]()
    for origin in sorted({*sizes, *cosigned}):
        size, record = sizes.get(origin, 0), cosigned.get(origin)
        try:
            check_log(trees, origin, size, record, pending.get(origin, {}), reached.get(origin, 0))
        except (DamagedError, StoreError, NoteError) as error:
            if origin in followed and isinstance(error, DamagedError) and error.bundle is not None:
                damage[origin] = Damage(error.bundle, str(error))
                continue
            said = "" if record is None else f" up to {record.size}, which this mirror has cosigned,"
            raise LogUnusableError(f"the entries of {origin}{said} are not all here: {error}. {LOST}") from error
    return damage


def check_log(
    trees: Trees, origin: str, size: int, record: Record | None, pending: Mapping[int, Record], reached: int
) -> None:
    """What a start looks at, of one log. Keys first: what is missing is then known by its place."""
    _check_size(size, record)
    if record is not None:
        _check_pending(pending or {0: record}, record)
    trees.check_keys(origin, size)
    if record is not None:
        _check_root(trees, origin, record)
    _check_newest(trees, origin, size)
    if reached * WIDTH < size:
        check_bundle(trees, origin, reached, size)


def _check_newest(trees: Trees, origin: str, size: int) -> None:
    left, held = NEWEST, 0
    for index in reversed(range(-(-size // WIDTH))):
        held += check_bundle(trees, origin, index, size)
        left -= 1
        if not left or held > NEWEST_BYTES:
            return


def check_bundle(trees: Trees, origin: str, index: int, size: int) -> int:
    """That the entries of a bundle, in a tree of *size*, are those of the tile above them, and that tile its parent's.

    The tiles above are checked with the last bundle below each. So who has looked at every bundle, and at the root of
    the tree, has looked at everything. How many bytes the entries have.
    """
    try:
        return _check_bundle(trees, origin, index, size)
    except DamagedError as error:
        error.bundle = index
        raise


def _check_bundle(trees: Trees, origin: str, index: int, size: int) -> int:
    width = tile_width(0, index, size)
    content = trees.bundle(origin, index, width)
    check_entries(content, width, trees.tile(origin, 0, index), index)
    level = 0
    while tile_width(level, index, size) == WIDTH:
        parent = trees.tile(origin, level + 1, index // WIDTH) or b""
        place = index % WIDTH * HASH_SIZE
        if _root(trees.tile(origin, level, index), level, index) != parent[place : place + HASH_SIZE]:
            raise DamagedError(f"tile {index} of level {level} and the one above it do not fit")
        level, index, last = level + 1, index // WIDTH, index % WIDTH == WIDTH - 1
        if not last:
            break
    return len(content)


def check_entries(bundle: bytes, width: int, tile: bytes | None, index: int) -> None:
    """That the entries of bundle *index* hash to the first *width* hashes of its tile."""
    try:
        hashes = b"".join(map(leaf_hash, read_bundle(bundle, width)))
    except NoteError as error:
        raise DamagedError(f"entries from {index * WIDTH} on are damaged: {error}") from error
    if not (tile or b"").startswith(hashes):
        raise DamagedError(f"entries from {index * WIDTH} on are not those that the tree has the hashes of")


def _root(tile: bytes | None, level: int, index: int) -> bytes:
    """Of a full tile."""
    if tile is None or len(tile) != WIDTH * HASH_SIZE:
        raise DamagedError(f"tile {index} of level {level} is missing or too short")
    nodes = pair_up_bytes(tile)
    while len(nodes) > 1:
        nodes = pair_up(nodes)
    return nodes[0]


def _check_size(size: int, record: Record | None) -> None:
    if record is not None and record.size > size:
        raise DamagedError(f"{record.size} entries were cosigned, and {size} are here")


def _check_pending(pending: Mapping[int, Record], record: Record) -> None:
    if max(pending) < record.size:
        raise DamagedError("the pending checkpoint is older than the one that was cosigned")


def _check_root(trees: Trees, origin: str, known: Record) -> None:
    if root_at(known.size, TileHashes(lambda *at: trees.tile(origin, *at))) != known.root:
        # Its right edge is what lies above its last entry.
        place = (known.size - 1) // WIDTH if known.size else None
        raise DamagedError(f"the entries do not give the root of the checkpoint of {known.size}", place)
