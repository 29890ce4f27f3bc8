"""What a log answers: registered, accepted, found, pending, failed. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from transparency.statements.statement import Entry, entry_id


@dataclass(frozen=True, slots=True)
class Registered:
    """In the tree, under a released head."""

    entry: Entry
    index: int
    receipt: bytes
    new: bool

    @property
    def entry_id(self) -> str:
        return entry_id(self.entry)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Durable in the intake table; will be in the tree, or be recorded as failed (REG-23)."""

    entry: Entry

    @property
    def entry_id(self) -> str:
        return entry_id(self.entry)


@dataclass(frozen=True, slots=True)
class Found:
    index: int


@dataclass(frozen=True, slots=True)
class Pending:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    reason: str


Lookup = Found | Pending | Failed | None


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    generation: int
    index: int
    entry_id: str
    toml: bytes


@dataclass(frozen=True, slots=True)
class LogStatus:
    origin: str
    iss: str
    size: int
    root: bytes
    head_time: int
    generation: int
    epoch: int
    waiting: int
    accepted: int
    sequenced: int
    published: int
    alive: bool
