"""What a witness remembers: of each log the last checkpoint it cosigned, and what may convict a log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from transparency.merkle.hashing import EMPTY_ROOT


@dataclass(frozen=True, slots=True)
class Record:
    """The last checkpoint cosigned for an origin.

    ``signed`` is the note with those of the log's lines that were verified, ``lines`` what the witness put under it.
    """

    size: int
    root: bytes
    time: int
    signed: bytes
    lines: bytes

    @property
    def note(self) -> bytes:
        """What the monitoring endpoint serves (W-4)."""
        return self.signed + self.lines

    def has_text(self, text: bytes) -> bool:
        """Whether this is the text that was signed. An empty line ends it, and no line in it is empty."""
        return self.signed.startswith(text + b"\n")


NOTHING: Final = Record(0, EMPTY_ROOT, 0, b"", b"")
"""What is known of a log before its first checkpoint: the empty tree, which every tree extends."""


@dataclass(frozen=True, slots=True)
class Move:
    """From what was recorded (None: nothing) to what is to be recorded, for one origin."""

    origin: str
    before: Record | None
    after: Record


class Ground(StrEnum):
    """Why something was kept."""

    FORK = "fork"
    """The log signed two histories: two roots for one size, another empty tree, or a tree whose proof leads to another
    beginning than the recorded one. Its signatures convict it."""
    UNPROVEN = "unproven"
    """The log signed a tree that nobody has shown to extend the recorded one; the sender's proof may be at fault."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A checkpoint that the log signed and the witness did not cosign, beside the one it had cosigned.

    ``recorded`` is empty where a note convicts by itself. ``request`` is the body as it came, proof and all.
    """

    origin: str
    ground: Ground
    size: int
    root: bytes
    time: int
    recorded: bytes
    request: bytes


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What `witness forget` took away, and when."""

    origin: str
    size: int
    root: bytes
    time: int
    note: bytes
    forgotten_at: int
