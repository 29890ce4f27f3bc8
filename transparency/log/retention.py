"""Retention: which artifacts may go, and when. Reads only, beside a running server too; log/erasure.py acts on it.

The class of an entry is the one that its issuer had in the policy *generation the entry was judged under*: a later
policy does not shorten what was promised. Its term begins when it was registered, at its head's time. An artifact may
be named by several envelopes; it is due when the terms of all of them are over and none of them is on hold.

Attached payloads have a class too. They go by order only (REG-20), so here they are counted and no more.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from transparency.cose import labels
from transparency.errors import GoneError, MalformedError, NotFoundError
from transparency.log.artifacts import ArtifactStore
from transparency.log.search_entry import derive
from transparency.log.stated import StandingHold, sessions_held, standing_holds
from transparency.log.store import Kind, Store, StoredEntry
from transparency.policy.document import Policy
from transparency.policy.retention import DEFAULT, RetentionClass
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement, entry_id

Progress = Callable[[int, int], None]
# Few digests are looked for in the bytes; where there are many, reading each statement is quicker.
_FEW: Final = 16


class Terms:
    """The class of each entry, by the policy of its generation."""

    def __init__(self, store: Store) -> None:
        self._documents = store.documents(Kind.POLICY)
        self._policies: dict[int, Policy] = {}

    def of(self, generation: int, iss: str) -> RetentionClass:
        policy = self._policies.get(generation)
        if policy is None:
            if not 1 <= generation <= len(self._documents):
                raise MalformedError(f"there is no policy of generation {generation} on this log")
            payload = Statement.from_bytes(self._documents[generation - 1].statement).payload
            policy = self._policies[generation] = Policy.from_toml(payload)
        rule = policy.rule_for(iss)
        return policy.retention_class(DEFAULT if rule is None else rule.retention)


@dataclass(frozen=True, slots=True)
class Reference:
    """An entry that names an artifact, and until when it is kept."""

    index: int
    entry: str
    rule: str
    until: int


@dataclass(frozen=True, slots=True)
class DueArtifact:
    digest: str
    bytes: int
    references: tuple[Reference, ...]


@dataclass(slots=True)
class Plan:
    """*size* entries were read at *time*. ``next`` is when something else will be due, None if nothing will."""

    size: int
    time: int
    due: list[DueArtifact] = field(default_factory=list)
    # Artifacts that would be due, each with the hold that keeps it.
    held: list[tuple[DueArtifact, StandingHold]] = field(default_factory=list)
    holds: list[StandingHold] = field(default_factory=list)
    kept: int = 0
    kept_bytes: int = 0
    next: int | None = None
    # What is kept, by class and tier: ("pci-dss", "immediate").
    tiers: Counter[tuple[str, str]] = field(default_factory=Counter)
    payloads: int = 0
    payloads_past: int = 0
    unreferenced: int = 0
    unreferenced_bytes: int = 0


def artifact_of(statement: Statement) -> str | None:
    """The name of the artifact that *statement* is the envelope of; artifacts are kept by SHA-256 only."""
    envelope = statement.envelope
    return statement.payload.hex() if envelope is not None and envelope.hash_alg == labels.HASH_SHA256 else None


def rule_text(found: RetentionClass, generation: int) -> str:
    """How an erasure names the term that is over."""
    return f"retention class {found.name}, policy generation {generation}"


def references_to(store: Store, digests: Iterable[str], start: int, stop: int) -> Iterator[tuple[int, str]]:
    """(index, digest) of each envelope of one of *digests* from *start* to *stop*."""
    wanted = set(digests)
    raw = [bytes.fromhex(digest) for digest in wanted] if len(wanted) <= _FEW else None
    for row in store.entries(start, stop):
        if row.kind is not Kind.STATEMENT or row.erased:
            continue
        if raw is not None and not any(each in row.statement for each in raw):
            continue
        digest = artifact_of(Statement.from_bytes(row.statement))
        if digest in wanted:
            yield row.index, digest


def hold_on(
    row: StoredEntry, statement: Statement, holds: list[StandingHold], artifacts: ArtifactStore
) -> StandingHold | None:
    """The hold that keeps what *row* has, if any. Its record is read only if there are holds by session."""
    entry = entry_id(row.entry)
    for each in holds:
        if each.about(entry, statement.iss):
            return each
    by_session = sessions_held(holds)
    if by_session:
        for session in derive(row, 0, artifacts).facts.sessions:
            if session in by_session:
                return by_session[session]
    return None


def plan(store: Store, artifacts: ArtifactStore, now: int, progress: Progress | None = None) -> Plan:
    """What may be erased at *now*."""
    size = store.tip().size
    made = Plan(size, now, holds=standing_holds(store))
    scan = _Scan(store, artifacts, made)
    for row, head in _with_heads(store, size):
        if row.kind is Kind.STATEMENT and not row.erased:
            scan.see(row, head)
        if progress is not None and (row.index % 1024 == 0 or row.index == size - 1):
            progress(row.index + 1, size)
    scan.decide()
    return made


def _with_heads(store: Store, size: int) -> Iterator[tuple[StoredEntry, SignedHead]]:
    heads = store.heads()
    head = next(heads)
    for row in store.entries(0, size):
        while head.size <= row.index:
            head = next(heads)
        yield row, head


class _Scan:
    """References by artifact, in a temporary database without a name: memory stays bounded whatever the log holds."""

    def __init__(self, store: Store, artifacts: ArtifactStore, made: Plan) -> None:
        self._store = store
        self._artifacts = artifacts
        self._plan = made
        self._terms = Terms(store)
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("CREATE TABLE refs (digest TEXT, idx INTEGER, until INTEGER, PRIMARY KEY (digest, idx))")
        self._db.execute("BEGIN")

    def see(self, row: StoredEntry, head: SignedHead) -> None:
        statement = Statement.from_bytes(row.statement)
        found = self._terms.of(row.generation, statement.iss)
        until = head.time + found.keep
        made = self._plan
        if statement.envelope is None:
            made.payloads += 1
            made.payloads_past += until <= made.time
        else:
            digest = artifact_of(statement)
            if digest is None or self._bytes(digest) is None:
                return
            self._db.execute("INSERT INTO refs VALUES (?, ?, ?)", (digest, row.index, until))
        if until > made.time:
            made.tiers[found.name, found.tier_at(made.time - head.time)] += 1

    def decide(self) -> None:
        made = self._plan
        for digest, until in self._db.execute("SELECT digest, max(until) FROM refs GROUP BY digest ORDER BY digest"):
            size = self._bytes(digest)
            if size is None:
                continue
            if until > made.time:
                made.kept, made.kept_bytes = made.kept + 1, made.kept_bytes + size
                made.next = until if made.next is None else min(made.next, until)
                continue
            due, hold = self._references(digest, size)
            if hold is None:
                made.due.append(due)
            else:
                made.held.append((due, hold))
        for digest in self._artifacts.digests():
            if self._db.execute("SELECT 1 FROM refs WHERE digest = ?", (digest,)).fetchone() is None:
                made.unreferenced += 1
                made.unreferenced_bytes += self._bytes(digest) or 0
        self._db.close()

    def _references(self, digest: str, size: int) -> tuple[DueArtifact, StandingHold | None]:
        references = []
        hold = None
        for index, until in self._db.execute("SELECT idx, until FROM refs WHERE digest = ? ORDER BY idx", (digest,)):
            row = self._store.entry(index)
            if row is None or row.erased:
                continue
            statement = Statement.from_bytes(row.statement)
            rule = rule_text(self._terms.of(row.generation, statement.iss), row.generation)
            references.append(Reference(index, entry_id(row.entry), rule, until))
            hold = hold or hold_on(row, statement, self._plan.holds, self._artifacts)
        return DueArtifact(digest, size, tuple(references)), hold

    def _bytes(self, digest: str) -> int | None:
        try:
            return self._artifacts.size(digest)
        except (GoneError, NotFoundError):
            return None
