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


class Findings:
    """What a check has found so far, at most MAX_VIOLATIONS of it."""

    __slots__ = ("violations",)

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    @property
    def full(self) -> bool:
        return len(self.violations) >= MAX_VIOLATIONS

    def add(self, level: Level, pointer: str, message: str) -> None:
        if not self.full:
            self.violations.append(Violation(level, pointer, message))

    def wrong(self, pointer: str, message: str) -> None:
        self.add("violation", pointer, message)

    def odd(self, pointer: str, message: str) -> None:
        self.add("warning", pointer, message)


def token(name: str) -> str:
    """A member's name as one step of a JSON pointer (RFC 6901 §3)."""
    return name.replace("~", "~0").replace("/", "~1")
