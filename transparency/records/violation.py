"""A violation: one place where a record is not what its format says, and how much that matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Level = Literal["violation", "warning"]

# A hostile record can be wrong in a million places; nobody reads more than these.
MAX_VIOLATIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Violation:
    """``pointer`` is a JSON pointer (RFC 6901) into the value; in JSONL it is prefixed by ``line N: ``.

    A "violation" breaks a rule of the format; a "warning" is what real tools write and readers accept.
    """

    level: Level
    pointer: str
    message: str


def token(name: str) -> str:
    """A member's name as one step of a JSON pointer (RFC 6901 §3)."""
    return name.replace("~", "~0").replace("/", "~1")
