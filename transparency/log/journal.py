"""The journal: what brings back batches that were acknowledged and that the store could still lose to a power cut.

To be durable a batch needs one flush, not one for the store and another for the mark (decision 0019). So a small one is
written whole into the file of the mark, behind its slots, and synced there: with it the mark has moved on, and the
store need not be synced. It is, with every batch that does not fit here, and from then on the journal begins anew.

    record = "TLREDO01" · SHA-256(origin) · epoch (u64) · size and root before (u64, 32) · size and root after
             · length (u32) · content · SHA-256 of all before

The epoch is the store's, raised by every start: what a store has lost since, it gets back; one that was put back from
before that start has a lower one: it is an old copy, and stays one.

Records stand one behind the other, each in blocks of its own: a write that is cut short spoils no other. They count up
to the first that does not continue the one before it: behind it is what was there before the journal began anew. Each
was synced before the next was written, so a whole one behind a gap that leads further says that there is damage. So
does a place that is cut short, or empty: when it was made it was filled with "TLBEGIN1", the origin's hash and zeros.
Hence a write changes nothing but content, and its sync is one flush.
"""

from __future__ import annotations

import errno
import hashlib
import struct
from typing import Final, NamedTuple

from transparency.log.durable import DurableFile

BEGIN: Final = 8192
CAPACITY: Final = 1024 * 1024
_BLOCK: Final = 4096
_MAGIC: Final = b"TLREDO01"
_BLANK: Final = b"TLBEGIN1"
_HEAD: Final = struct.Struct(">8s32sQQ32sQ32sI")
_HASH_BYTES: Final = 32
_TRIES: Final = 5


Tree = tuple[int, bytes]
"""A tree's size and root."""


class Kept(NamedTuple):
    """A batch: the tree *before* it, the tree *after* it, and what it takes to make the one of the other."""

    epoch: int
    before: Tree
    after: Tree
    content: bytes


class Journal:
    """Owned by the mark whose file it is in."""

    def __init__(self, file: DurableFile, origin: str) -> None:
        self._file = file
        self._origin = hashlib.sha256(origin.encode()).digest()
        self._at = 0
        # How much of its place is in the file; and whether it is used, or left as it is by who needs none.
        self._length = 0
        self._used = False
        # What it held when it was read; what is appended afterwards is not read by who appends it.
        self.kept: list[Kept] = []
        self.last: Tree | None = None

    @property
    def used(self) -> bool:
        return self._used

    def read(self, newest: int, *, expected: bool = False) -> str:
        """Read what it holds; what is damaged, or "".

        *newest* is the size up to which the slots vouch for the store: what does not lead beyond is done with.
        *expected*: they say that it is in use.
        """
        damage = ""
        for _ in range(_TRIES):  # who only looks may have read one block before a batch was written, another behind it
            region = self._file.read_at(BEGIN, CAPACITY)
            self._length = len(region)
            self.kept, self.last, self._at = [], None, 0
            while (kept := self._decode(region, self._at, self.last)) is not None:
                self.kept.append(kept)
                self.last = kept.after
                self._at += _blocks(len(kept.content))
            damage = self._damage(region, max(newest, self.last[0] if self.last is not None else 0), expected=expected)
            if not damage:
                break
        if self.last is not None and self.last[0] <= newest:
            self.begin_anew()
        return damage

    def _damage(self, region: bytes, newest: int, *, expected: bool) -> str:
        if expected and len(region) < CAPACITY:
            return "its file is cut short"
        if expected and not any(region[:_BLOCK]):
            return "it is empty"
        for at in range(self._at, len(region), _BLOCK):
            further = self._decode(region, at, None) if region.startswith(_MAGIC, at) else None
            if further is not None and further.after[0] > newest:
                return f"a batch up to size {newest} is followed by one from size {further.before[0]}"
        return ""

    def make(self) -> None:
        """Have it to append to, and first the place for it, if need be. It may raise OSError: then there is none."""
        if self._length < CAPACITY:
            self._fill(CAPACITY)
            self._length = CAPACITY
        self._used = True

    def put_away(self) -> None:
        """Nothing more is appended."""
        self._used = False

    @property
    def is_whole(self) -> bool:
        """Whether its place is there, as far as it is in use: somebody may have cut the file short."""
        return not self._used or self._file.length >= BEGIN + CAPACITY

    def mend(self) -> None:
        """Fill its place again. All that it held is in the store for good; it may raise OSError."""
        if not self.is_whole:
            self._fill(CAPACITY)

    def begin_anew(self) -> None:
        """All that it holds is in the store for good."""
        self.kept, self.last, self._at = [], None, 0

    def wipe(self) -> None:
        """As :meth:`begin_anew`; and nothing of what it held can be read from the file any more."""
        self.begin_anew()
        if self._length:  # else it would ask for room that there may not be
            self._fill(self._length)

    def _fill(self, length: int) -> None:
        self._file.write_at(BEGIN, (_BLANK + self._origin)[:length].ljust(length, b"\0"))
        self._file.sync()

    def has_room(self, length: int) -> bool:
        """Whether there is room for a content of this length."""
        return self._used and self._at + _blocks(length) <= CAPACITY

    def append(self, kept: Kept) -> None:
        """Returns only when it survives power loss. What has no room is refused: it would not be read again."""
        epoch, before, after, content = kept
        if not self.has_room(len(content)):
            raise OSError(errno.ENOSPC, "no room in the journal")
        head = _HEAD.pack(_MAGIC, self._origin, epoch, *before, *after, len(content))
        digest = hashlib.sha256(head)
        digest.update(content)
        self._file.write_at(BEGIN + self._at, b"".join((head, content, digest.digest())))
        self._file.sync()
        self._at += _blocks(len(content))
        self.last = after

    def _decode(self, region: bytes, at: int, last: Tree | None) -> Kept | None:
        """The record at *at*; None if there is none that is whole, this log's, and continues the *last*, if any."""
        begin = at + _HEAD.size
        if begin > len(region):
            return None
        magic, origin, epoch, *sizes, length = _HEAD.unpack_from(region, at)
        end = begin + length
        if (magic, origin) != (_MAGIC, self._origin) or end + _HASH_BYTES > len(region):
            return None
        if hashlib.sha256(region[at:end]).digest() != region[end : end + _HASH_BYTES]:
            return None
        before, after = (sizes[0], sizes[1]), (sizes[2], sizes[3])
        if before[0] >= after[0] or (last is not None and last != before):
            return None
        return Kept(epoch, before, after, region[begin:end])


def _blocks(length: int) -> int:
    """What a record with a content of this length takes."""
    return -(-(_HEAD.size + length + _HASH_BYTES) // _BLOCK) * _BLOCK
