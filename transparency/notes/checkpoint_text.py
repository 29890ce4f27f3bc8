"""What a checkpoint says: the text of its note, without signatures (C2SP tlog-checkpoint, CP-1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

from transparency.errors import NoteError
from transparency.merkle.hashing import HASH_SIZE
from transparency.notes.numbers import check_text, is_number, read_decimal, read_hash, read_lines, write_base64


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A log's tree head. The origin is any line: "clients MUST NOT assume" that it is a URL or has no spaces.

    A size of 0 with a root that is not the empty tree's can be read: whoever checks consistency refuses it.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_number(self.size):
            raise NoteError("checkpoint: its size is not a number from 0 to 2^63-1")
        if type(self.root) is not bytes or len(self.root) != HASH_SIZE:
            raise NoteError(f"checkpoint: its root is not a hash of {HASH_SIZE} bytes")
        for line in (self.origin, *self.extensions):
            if not line or "\n" in line:
                raise NoteError("checkpoint: its origin and each extension are one line that is not empty")
        try:
            text = self.text
        except UnicodeEncodeError:
            raise NoteError("checkpoint: has no UTF-8 form") from None
        check_text(text, "checkpoint")

    @classmethod
    def from_text(cls, text: bytes) -> Self:
        """Read a note's text. What is accepted prints back the same, by ``text``."""
        lines = read_lines(text, "checkpoint")
        if len(lines) < 3 or not all(lines):
            raise NoteError("checkpoint: not three or more lines, none of them empty")
        origin, size, root, *extensions = lines
        return cls(origin, read_decimal(size, "checkpoint size"), read_hash(root, "checkpoint root"), tuple(extensions))

    @property
    def text(self) -> bytes:
        """The text that is signed, with its last newline."""
        lines = (self.origin, str(self.size), write_base64(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines).encode()


def origin_hash(origin: str) -> str:
    """Under which name a witness serves what it cosigned of a log (tlog-witness, W-4)."""
    return hashlib.sha256(origin.encode()).hexdigest()
