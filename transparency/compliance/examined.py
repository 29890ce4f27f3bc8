"""Examined: one entry of a log, looked at: what log checks are fed, one after the other. Plain data.

*Availability* says what could be looked at: ``read`` (the record was there), ``hash-only`` (its digest stands here, the
record does not), ``erased`` (by an order), ``not-permitted`` (the log did not show it), ``operation`` (a document or an
act of the service, no record). What is not available passes nothing: it is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from transparency.compliance.finding import Finding
from transparency.records.convert import flat
from transparency.records.facts import NONE, RecordFacts
from transparency.records.timestamps import instant

READ: Final = "read"
HASH_ONLY: Final = "hash-only"
ERASED: Final = "erased"
NOT_PERMITTED: Final = "not-permitted"
OPERATION: Final = "operation"
AVAILABILITIES: Final = (READ, HASH_ONLY, ERASED, NOT_PERMITTED, OPERATION)

# Bounds of what is kept of one session, whatever its record says.
MAX_TEXT: Final = 256
MAX_TOOLS: Final = 256
MAX_MODELS: Final = 16
MAX_LINKS: Final = 16
MAX_TOKENS: Final = 2**53
_FAILED: Final = frozenset({"error", "failed", "failure", "denied", "aborted", "cancelled", "timeout"})


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """What log checks compare of one session. Times in milliseconds since 1970; ``agent`` names whose history it is.

    ``raw_hash`` is the digest of *other* bytes that the record says it was made from.
    """

    session: str = ""
    agent: str = ""
    start: int | None = None
    end: int | None = None
    entries: int = 0
    calls: int = 0
    errors: int = 0
    tokens: int = 0
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    raw_hash: str | None = None
    parents: tuple[str, ...] = ()
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Examined:
    """One entry. ``time`` is its head's, in seconds since 1970; ``outcome`` is what replaying its admission gave.

    ``findings`` are those of all ``sessions``, one after the other, equally many for each. ``stated`` is what the
    entry says in a form that this package knows: a policy, a key set, an operation, a review, an attestation.
    """

    entry: str
    index: int
    kind: str
    iss: str
    sub: str
    time: int
    digest: str = ""
    findings: tuple[Finding, ...] = ()
    facts: RecordFacts = NONE
    sessions: tuple[SessionFigures, ...] = ()
    availability: str = READ
    outcome: str = ""
    kid: str = ""
    content_type: str = ""
    size: int = 0
    reason: str = ""
    supersedes: str = ""
    checkpoint: int | None = None
    redactions: int = 0
    # Marks of a redaction that no commitment stands for, and among them those that show a digest of what is gone.
    bare_marks: int = 0
    bare_hashes: int = 0
    retention: tuple[str, int] | None = None
    stated: object = None

    @property
    def is_record(self) -> bool:
        """Whether this is a statement about a record, which may or may not be available."""
        return bool(self.sessions)

    def by_session(self) -> Iterator[tuple[SessionFigures, tuple[Finding, ...]]]:
        each = len(self.findings) // len(self.sessions) if self.sessions else 0
        for place, session in enumerate(self.sessions):
            yield session, self.findings[place * each : (place + 1) * each]

    def of_check(self, check: str) -> Iterator[tuple[SessionFigures, Finding]]:
        """The finding of one record check for each session."""
        for session, findings in self.by_session():
            for finding in findings:
                if finding.check == check:
                    yield session, finding


def figures(record: Mapping[str, Any], facts: RecordFacts, digest: str) -> SessionFigures:
    """What log checks compare of the session in a canonical record; any member may be of any type."""
    session = _map(record.get("session"))
    meta = _map(session.get("agent-meta"))
    source = _map(record.get("source"))
    vcs = _map(record.get("vcs"))
    tools: dict[str, None] = {}
    models: dict[str, None] = {}
    calls = errors = tokens = count = 0
    entries = session.get("entries")
    for entry in flat(entries if isinstance(entries, list) else ()):
        count += 1
        kind = entry.get("type")
        if kind == "tool-call":
            _keep(tools, entry.get("name"), MAX_TOOLS)
        elif kind == "tool-result":
            calls += 1
            errors += is_failed(entry)
        if "model-id" in entry:
            _keep(models, entry["model-id"], MAX_MODELS)
        if "token-usage" in entry:
            tokens += tokens_of(entry["token-usage"])
    _keep(models, meta.get("model-id"), MAX_MODELS)
    raw = source.get("raw-hash")
    revision = vcs.get("revision")
    parent = session.get("parent-session-id")
    return SessionFigures(
        session=_text(session.get("session-id")),
        agent=_text(meta.get("cli-name")) or facts.agent or facts.vendor or facts.format,
        start=instant(session.get("session-start")) or (facts.start if len(facts.sessions) <= 1 else None),
        end=instant(session.get("session-end")) or (facts.end if len(facts.sessions) <= 1 else None),
        entries=count,
        calls=calls,
        errors=errors,
        tokens=min(tokens, MAX_TOKENS),
        tools=tuple(tools),
        models=tuple(models),
        raw_hash=raw.lower() if isinstance(raw, str) and 0 < len(raw) <= MAX_TEXT and raw.lower() != digest else None,
        parents=(parent,) if isinstance(parent, str) and len(parent) <= MAX_TEXT else (),
        revision=revision if isinstance(revision, str) and 0 < len(revision) <= MAX_TEXT else None,
    )


def is_failed(entry: Mapping[str, Any]) -> bool:
    """Whether a tool's result says that it failed."""
    if isinstance(entry.get("is-error"), bool):
        return entry["is-error"] is True
    status = entry.get("status")
    return isinstance(status, str) and status.lower() in _FAILED


def tokens_of(usage: object) -> int:
    """The tokens of one entry: its total, else what went in and came out."""
    said = _map(usage)
    total = said.get("total")
    # A total of 0 beside others is a tool that does not count.
    parts = (total,) if type(total) is int and total > 0 else (said.get("input"), said.get("output"))
    return sum(part for part in parts if type(part) is int and 0 <= part <= MAX_TOKENS)


def _map(value: object) -> Mapping[str, Any]:
    # First what nearly all are: asking an abstract class costs ten times as much.
    return value if isinstance(value, dict) or isinstance(value, Mapping) else {}  # noqa: SIM101


def _text(value: object) -> str:
    """An identifier as text; one that is too long is its beginning, which is enough to tell sessions apart here."""
    if isinstance(value, bytes):
        return value.hex()[:MAX_TEXT]
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _keep(where: dict[str, None], value: object, most: int) -> None:
    if isinstance(value, str) and 0 < len(value) <= MAX_TEXT and len(where) < most:
        where[value] = None
