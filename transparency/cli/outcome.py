"""What ``submit`` is told about sessions, and what becomes of each. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from transparency.cli.errors import CommandError
from transparency.cli.redaction_options import Redaction
from transparency.client.kept import Kept
from transparency.client.signing import About, SignedRecord
from transparency.records.violation import Violation
from transparency.statements.statement import Statement

if TYPE_CHECKING:
    from transparency.client.client import Submission

Form = Literal["attached", "envelope", "private"]


class NotARecordError(CommandError):
    """The file is in no format that is known; in a folder such files are passed over."""


@dataclass(frozen=True, slots=True)
class Options:
    """How sessions are to be signed and registered; the same for all of one command."""

    iss: str
    sub: str | None = None
    content_type: str | None = None
    private: bool = False
    attach: bool = False
    detached: bool = False
    trace_metadata: bool = False
    convert: bool = False
    wait: bool = True
    force: bool = False
    redaction: Redaction = field(default_factory=Redaction)


@dataclass(slots=True)
class Outcome:
    """What happened to one session."""

    file: str
    out: str
    statement: Statement
    form: Form
    about: About
    signed: SignedRecord
    size: int
    submission: Submission | None = None
    trusted: bool = False
    known: bool = False
    """It had its receipt already; nothing was sent."""
    new_artifact: bool | None = None
    earlier: Kept | None = None
    earlier_file: str | None = None
    violations: list[Violation] = field(default_factory=list)
    canonical: list[Outcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Begun:
    """A session whose statement is signed and written, and what was in its place before."""

    outcome: Outcome
    before: bytes | None
    done: bool = False
    """There is nothing to send."""

    @property
    def statement(self) -> bytes:
        """As it is sent: with its payload."""
        statement = self.outcome.statement
        return statement.message.with_payload(statement.payload).to_bytes()
