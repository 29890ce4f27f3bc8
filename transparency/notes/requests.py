"""Lines, an empty line and a checkpoint: the form that proofs and requests to witnesses share, and those requests.

tlog-witness: add-checkpoint (W-1) and sign-subtree. Both ways byte for byte; whether what is asked is true, and what
to answer, is the witness' to judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from transparency.errors import NoteError
from transparency.merkle.hashing import HASH_SIZE
from transparency.notes.checkpoint import SignedCheckpoint
from transparency.notes.numbers import (
    MAX_BYTES,
    MAX_PATH,
    is_number,
    read_decimal,
    read_hash,
    read_lines,
    read_path,
    write_base64,
)


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """The body of add-checkpoint: the size the log believes the witness has, the proof from there, the checkpoint."""

    old: int
    path: tuple[bytes, ...]
    checkpoint: bytes

    def __post_init__(self) -> None:
        _check_number(self.old, "old size")
        check_path(self.path)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a body. What is accepted prints back the same; the checkpoint in it has a checkpoint's form."""
        return cls.read(data)[0]

    @classmethod
    def read(cls, data: bytes) -> tuple[Self, SignedCheckpoint]:
        """The same, and the checkpoint in it, which had to be read for that."""
        (first, *path), signed, checkpoint = split_head(data, "add-checkpoint")
        (old,) = read_words(first, "old", 1, "add-checkpoint")
        return cls(read_decimal(old, "old size"), read_path(path, "consistency proof"), checkpoint), signed

    def to_bytes(self) -> bytes:
        return join_head((f"old {self.old}", *map(write_base64, self.path)), self.checkpoint)


@dataclass(frozen=True, slots=True)
class SignSubtree:
    """The body of sign-subtree: leaves ``[start, end)``, their hash, the proof to a checkpoint the witness cosigned."""

    start: int
    end: int
    root: bytes
    path: tuple[bytes, ...]
    checkpoint: bytes

    def __post_init__(self) -> None:
        _check_number(self.start, "start")
        _check_number(self.end, "end")
        check_path((self.root,))
        check_path(self.path)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a body. What is accepted prints back the same; the range need not be a valid subtree."""
        lines, _, checkpoint = split_head(data, "sign-subtree")
        if len(lines) < 2:
            raise NoteError("sign-subtree: not a range line and a hash line")
        start, end = read_words(lines[0], "subtree", 2, "sign-subtree")
        return cls(
            read_decimal(start, "start"),
            read_decimal(end, "end"),
            read_hash(lines[1], "subtree hash"),
            read_path(lines[2:], "consistency proof"),
            checkpoint,
        )

    def to_bytes(self) -> bytes:
        lines = (f"subtree {self.start} {self.end}", write_base64(self.root), *map(write_base64, self.path))
        return join_head(lines, self.checkpoint)


def split_head(data: bytes, what: str) -> tuple[list[str], SignedCheckpoint, bytes]:
    """One or more lines that are not empty; after the first empty line a checkpoint, read and as it came."""
    if len(data) > MAX_BYTES:
        raise NoteError(f"{what}: {len(data)} bytes, more than {MAX_BYTES}")
    at = data.find(b"\n\n")
    lines = read_lines(data[: at + 1], what) if at > 0 else []
    if not lines or not all(lines):
        raise NoteError(f"{what}: does not begin with lines that an empty line ends")
    checkpoint = data[at + 2 :]
    return lines, SignedCheckpoint.from_bytes(checkpoint), checkpoint


def join_head(lines: tuple[str, ...], checkpoint: bytes) -> bytes:
    """What ``split_head`` reads."""
    SignedCheckpoint.from_bytes(checkpoint)
    data = "".join(f"{line}\n" for line in lines).encode() + b"\n" + checkpoint
    if len(data) > MAX_BYTES:
        raise NoteError(f"{len(data)} bytes around a checkpoint, more than {MAX_BYTES}")
    return data


def read_words(line: str, keyword: str, count: int, what: str) -> list[str]:
    """The ``count`` words behind a keyword, each after exactly one space."""
    first, *words = line.split(" ")
    if first != keyword or len(words) != count:
        raise NoteError(f"{what}: a line that begins with {keyword!r} and one space belongs here")
    return words


def check_path(path: tuple[bytes, ...]) -> None:
    """Refuse what could not be printed as proof lines."""
    if len(path) > MAX_PATH or not all(type(each) is bytes and len(each) == HASH_SIZE for each in path):
        raise NoteError(f"proof: not up to {MAX_PATH} hashes of {HASH_SIZE} bytes")


def _check_number(value: object, what: str) -> None:
    if not is_number(value):
        raise NoteError(f"{what}: not a number from 0 to 2^63-1")
