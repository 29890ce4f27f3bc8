"""What a mirror is sent, and what it answers: the body of add-entries and ``mirror-info`` (C2SP tlog-mirror, M-1, M-2).

An upload is a head and *packages*: the entries under one tile of level 0, or the part of it that is uploaded, and the
proof that they are of the tree at ``end``. Which packages belong to an upload follows from its range alone, so a reader
knows at every byte what must come next. Nothing is held but the package that is being read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from transparency.errors import NoteError
from transparency.merkle.compact_range import CompactRange
from transparency.merkle.hashing import HASH_SIZE, leaf_hash
from transparency.merkle.tile_paths import WIDTH
from transparency.notes.bundle import MAX_ENTRY
from transparency.notes.numbers import MAX_PATH, is_number, read_base64, read_decimal, read_lines, write_base64
from transparency.notes.requests import check_path
from transparency.notes.subtree import verify_subtree_consistency

MAX_TICKET: Final = (1 << 16) - 1
MAX_ORIGIN: Final = (1 << 16) - 1
MAX_PACKAGE: Final = WIDTH * (2 + MAX_ENTRY) + 1 + MAX_PATH * HASH_SIZE
_SHORT: Final = 2
_LONG: Final = 8
_MAX_LONG: Final = (1 << 64) - 1
_INFO_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class UploadHead:
    """Whose entries, and which: ``[start, end)``, where ``end`` is the size of a checkpoint that the mirror knows.

    ``origin`` is bytes: what is not UTF-8 is no log that anybody knows, and no reason to call the request malformed.
    """

    origin: bytes
    start: int
    end: int
    ticket: bytes = b""

    def __post_init__(self) -> None:
        if len(self.origin) > MAX_ORIGIN or len(self.ticket) > MAX_TICKET:
            raise NoteError(f"add-entries: its origin or ticket has more than {MAX_TICKET} bytes")
        if not all(type(each) is int and 0 <= each <= _MAX_LONG for each in (self.start, self.end)):
            raise NoteError("add-entries: its range is not of numbers from 0 to 2^64-1")
        if self.start > self.end:
            raise NoteError("add-entries: its start is after its end")

    def to_bytes(self) -> bytes:
        return b"".join((
            len(self.origin).to_bytes(_SHORT, "big"),
            self.origin,
            self.start.to_bytes(_LONG, "big"),
            self.end.to_bytes(_LONG, "big"),
            len(self.ticket).to_bytes(_SHORT, "big"),
            self.ticket,
        ))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """One package of an upload: entries ``[start, end)``, proven as the subtree ``[base, end)``."""

    base: int
    start: int
    end: int


def spans(start: int, end: int) -> Iterator[Span]:
    """The canonical sequence of an upload, in order; none if it is empty."""
    base = start - start % WIDTH
    while base < end and start < end:
        yield Span(base, max(start, base), min(end, base + WIDTH))
        base += WIDTH


@dataclass(frozen=True, slots=True)
class Package:
    span: Span
    entries: tuple[bytes, ...]
    path: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.entries) != self.span.end - self.span.start:
            raise NoteError("entry package: not as many entries as its range has")
        if any(len(entry) > MAX_ENTRY for entry in self.entries):
            raise NoteError(f"entry package: an entry of more than {MAX_ENTRY} bytes")
        check_path(self.path)

    def to_bytes(self) -> bytes:
        entries = [len(entry).to_bytes(_SHORT, "big") + entry for entry in self.entries]
        return b"".join([*entries, bytes([len(self.path)]), *self.path])

    def verify(self, before: bytes, size: int, root: bytes) -> list[bytes]:
        """The leaf hashes of its entries, if they are those of the tree ``(size, root)``; raises ProofError.

        ``before``: the leaf hashes, one after another, from the package's base to its start, which the mirror has.
        """
        known = [before[at : at + HASH_SIZE] for at in range(0, len(before), HASH_SIZE)]
        leaves = [leaf_hash(entry) for entry in self.entries]
        subtree = CompactRange()
        subtree.extend([*known, *leaves])
        verify_subtree_consistency(self.span.base, self.span.end, size, self.path, subtree.root(), root)
        return leaves


class UploadReader:
    """Reads a body as it comes. ``head`` is there once it has been read, ``done`` once every package has.

    What follows the last package is passed over: tlog-mirror has it discarded.
    """

    def __init__(self) -> None:
        self.head: UploadHead | None = None
        self.done = False
        self._buffer = bytearray()
        self._at = 0
        self._spans: Iterator[Span] = iter(())
        self._span: Span | None = None
        self._entries: list[bytes] = []
        self._hashes: int | None = None

    def feed(self, data: bytes) -> list[Package]:
        """The packages that these bytes complete. Raises NoteError where they can be those of no upload."""
        found: list[Package] = []
        if not self.done:
            self._buffer += data
            if self.head is None:
                self._read_head()
            while (package := self._next()) is not None:
                found.append(package)
        del self._buffer[: len(self._buffer) if self.done else self._at]
        self._at = 0
        return found

    def _read_head(self) -> None:
        begin = self._at
        origin = self._sized()
        rest = None if origin is None else self._take(2 * _LONG)
        ticket = None if rest is None else self._sized()
        if origin is None or rest is None or ticket is None:
            self._at = begin
            return
        start, end = int.from_bytes(rest[:_LONG], "big"), int.from_bytes(rest[_LONG:], "big")
        self.head = UploadHead(origin, start, end, ticket)
        self._spans = spans(start, end)
        self._turn()

    def _next(self) -> Package | None:
        if self._span is None:
            return None
        while len(self._entries) < self._span.end - self._span.start:
            entry = self._sized()
            if entry is None:
                return None
            self._entries.append(entry)
        if self._hashes is None:
            count = self._take(1)
            if count is None:
                return None
            if count[0] > MAX_PATH:
                raise NoteError(f"entry package: a proof of {count[0]} hashes, more than {MAX_PATH}")
            self._hashes = count[0]
        path = self._take(self._hashes * HASH_SIZE)
        if path is None:
            return None
        hashes = tuple(path[at : at + HASH_SIZE] for at in range(0, len(path), HASH_SIZE))
        package = Package(self._span, tuple(self._entries), hashes)
        self._turn()
        return package

    def _turn(self) -> None:
        """To the next package."""
        self._entries, self._hashes = [], None
        self._span = next(self._spans, None)
        self.done = self._span is None

    def _sized(self) -> bytes | None:
        begin = self._at
        length = self._take(_SHORT)
        content = None if length is None else self._take(int.from_bytes(length, "big"))
        if content is None:
            self._at = begin
        return content

    def _take(self, count: int) -> bytes | None:
        if len(self._buffer) - self._at < count:
            return None
        self._at += count
        return bytes(self._buffer[self._at - count : self._at])


@dataclass(frozen=True, slots=True)
class MirrorInfo:
    """What a mirror says with 202 and 409: the size to upload to, from where, and the ticket to bring along."""

    size: int
    next_entry: int
    ticket: bytes = b""

    def __post_init__(self) -> None:
        if not is_number(self.size) or not is_number(self.next_entry):
            raise NoteError("mirror-info: not two numbers from 0 to 2^63-1")
        if len(self.ticket) > MAX_TICKET:
            raise NoteError(f"mirror-info: a ticket of more than {MAX_TICKET} bytes")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a body. What is accepted prints back the same."""
        lines = read_lines(data, "mirror-info")
        if len(lines) != _INFO_LINES:
            raise NoteError(f"mirror-info: {len(lines)} lines, not {_INFO_LINES}")
        size, following, ticket = lines
        return cls(
            read_decimal(size, "size"), read_decimal(following, "next entry"), read_base64(ticket, "ticket")
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        return f"{self.size}\n{self.next_entry}\n{write_base64(self.ticket)}\n".encode()
