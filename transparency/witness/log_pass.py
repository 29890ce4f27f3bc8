"""One pass over a log: every decision replayed, every record in scope examined, every log check fed.

The replay is the audit's own (log/audit_replay.py) and sees the whole log, whatever the scope: what a policy says at
one place follows from all before it. Only statements in scope are examined; what the service states about itself is
seen always, and so is what people state (reviews, attestations). Memory is bounded: by the window of work that is out,
and by what each part says of itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeVar

from transparency.compliance.examined import READ, Examined
from transparency.compliance.finding import Verdict
from transparency.compliance.log_check import Spill, joined, parted
from transparency.compliance.log_checks import LogChecks
from transparency.compliance.stated import ATTESTATION, REPRODUCED, REVIEW, Attestation, Review
from transparency.errors import TransparencyError
from transparency.log.audit import AuditReport, AuditSource, Outcome, Progress, walk
from transparency.log.audit_replay import Replay
from transparency.log.store import Kind, StoredEntry
from transparency.policy.document import Policy
from transparency.policy.issuer import Issuer
from transparency.policy.keyset import ServiceKeys
from transparency.policy.retention import DEFAULT
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement, entry_id
from transparency.witness.examining import Examining, Work

_T = TypeVar("_T")
MAX_ATTESTATIONS: Final = 1_000
MAX_POLICIES: Final = 64
_MAX_CLASSES: Final = 10_000
_PEOPLES_TYPES: Final = (REVIEW.encode(), ATTESTATION.encode())


@dataclass(frozen=True, slots=True)
class Scope:
    """Which statements are examined: registered in ``since <= t < until`` (seconds since 1970), by *iss*."""

    since: int | None = None
    until: int | None = None
    iss: str | None = None

    @property
    def whole(self) -> bool:
        return self == Scope()

    def has(self, time: int, iss: str) -> bool:
        return (
            (self.since is None or time >= self.since)
            and (self.until is None or time < self.until)
            and self.iss in (None, iss)
        )


@dataclass(frozen=True, slots=True)
class Drawn:
    """An entry that was drawn at random, to be verified again by what the policy of its place says of its issuer."""

    index: int
    entry: str
    iss: str
    time: int
    rule: Issuer | None


@dataclass(frozen=True, slots=True)
class Findable:
    """An entry that was drawn at random, and what it should be found by."""

    entry: str
    time: int
    tool: str
    path: str


@dataclass(slots=True)
class Passed:
    """What a pass leaves, besides what it fed to the checks."""

    audit: AuditReport = field(default_factory=AuditReport)
    policy: Policy | None = None
    keys: ServiceKeys | None = None
    first_time: int = 0
    last_time: int = 0
    in_scope: int = 0
    availability: Counter[str] = field(default_factory=Counter)
    drawn: list[Drawn] = field(default_factory=list)
    findable: list[Findable] = field(default_factory=list)
    attestations: list[tuple[Attestation, str, str]] = field(default_factory=list)
    """Attestation, entry and iss: only those that the policy of their place admitted."""
    heads: dict[int, SignedHead] = field(default_factory=dict)
    """The heads that were asked for by their size."""


@dataclass(slots=True)
class LogPass:
    """*each* is called with every examined entry, in order. *sizes* are those of heads that are wanted.

    *witnesses* says of an entry, by its index, how many of how many cosigned a checkpoint that covers it; None where
    nobody asked for witnesses.
    """

    checks: LogChecks
    examining: Examining
    each: Callable[[Examined], None]
    scope: Scope
    seed: int
    spill: Spill
    sizes: frozenset[int] = frozenset()
    witnesses: Callable[[int], tuple[int, int]] | None = None
    passed: Passed = field(default_factory=Passed)
    _ask: _Draw = field(init=False)

    def __post_init__(self) -> None:
        self._ask = _Draw(f"{self.seed} queries", self.checks.settings.drill_queries)

    def run(self, source: AuditSource, policy_key: bytes, progress: Progress | None = None) -> Passed:
        report = self.passed.audit
        with Replay(policy_key, report) as replay:
            walk(source, _Watch(replay, self), report, progress)
            for examined in self.examining.finish():
                self.take(examined)
            replay.end()
        return self.passed

    def take(self, examined: Examined) -> None:
        stated, known = examined.stated, self.passed.attestations
        if isinstance(stated, Attestation) and examined.outcome == REPRODUCED and len(known) < MAX_ATTESTATIONS:
            known.append((stated, examined.entry, examined.iss))
        if examined.kind == "statement" and not self.scope.has(examined.time, examined.iss):
            # It was looked at for what it may say of records in scope.
            if isinstance(stated, Review):
                self.checks.oversight.see(examined)
            return
        self.passed.availability[examined.availability] += 1
        self.checks.see(examined)
        for finding in examined.findings:
            if finding.verdict is Verdict.ATTEST:
                # What fills it may come later on the log.
                self.spill.add("attest", joined(finding.check, examined.iss, f"{examined.time:015d}"))
        found = examined.facts
        if examined.availability == READ and examined.is_record and found.tools and found.paths:
            query = Findable(examined.entry, examined.time, found.tools[0], found.paths[0])
            self._ask.put(self.passed.findable, query)
        self.each(examined)

    def attested(self, now: int) -> Iterator[tuple[str, int]]:
        """(check, how many): the *attest* verdicts of records that an attestation fills which stands at *now*."""
        standing = [each for each, _, _ in self.passed.attestations if each.stands(now)]
        for key, number in self.spill.counts("attest") if standing else ():
            check, iss, time = parted(key)
            if any(check in each.checks and each.covers(iss, int(time)) for each in standing):
                yield check, number


class _Draw:
    """A uniform sample of unknown many (algorithm R), by a seed that is printed."""

    def __init__(self, seed: str, most: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._most = most
        self._seen = 0

    def put(self, where: list[_T], what: _T) -> None:
        """Put the next one into the sample, or not."""
        self._seen += 1
        if len(where) < self._most:
            where.append(what)
        elif (place := self._chance.randrange(self._seen)) < self._most:
            where[place] = what


class _Watch:
    """Stands between the walk and the replay, and hands out what is to be examined."""

    def __init__(self, replay: Replay, run: LogPass) -> None:
        self._replay = replay
        self._run = run
        self._passed = run.passed
        self._policies: dict[int, Policy] = {}
        self._classes: dict[tuple[int, str], tuple[str, int]] = {}
        self._draw = _Draw(f"{run.seed} entries", run.checks.settings.sample)

    def entry(self, row: StoredEntry, head: SignedHead) -> Outcome:
        outcome = self._replay.entry(row, head)
        if row.kind is not Kind.STATEMENT:
            if outcome is Outcome.REPRODUCED:
                self._rule(row)
            self._hand_out(row, head, outcome, None)
            return outcome
        iss = _iss(row)
        in_scope = self._run.scope.has(head.time, iss)
        if not in_scope and _is_stated(row):
            self._hand_out(row, head, outcome, None)
        elif in_scope:
            self._passed.in_scope += 1
            if iss:
                policy = self._policies.get(row.generation)
                rule = None if policy is None else policy.rule_for(iss)
                self._draw.put(self._passed.drawn, Drawn(row.index, entry_id(row.entry), iss, head.time, rule))
            self._hand_out(row, head, outcome, self._retention(row.generation, iss) if iss else None)
        return outcome

    def head(self, head: SignedHead) -> None:
        self._replay.head(head)
        passed = self._passed
        passed.first_time = passed.first_time or head.time
        passed.last_time = max(passed.last_time, head.time)
        if head.size in self._run.sizes:
            passed.heads[head.size] = head

    def _hand_out(
        self, row: StoredEntry, head: SignedHead, outcome: Outcome, retention: tuple[str, int] | None
    ) -> None:
        ask = self._run.witnesses
        witnesses = None if ask is None else ask(row.index)
        for examined in self._run.examining.add(Work(row, head, str(outcome), retention, witnesses)):
            self._run.take(examined)

    def _rule(self, row: StoredEntry) -> None:
        """A policy or key set that holds: it is what later entries were judged under."""
        statement = Statement.from_bytes(row.statement)
        if row.kind is Kind.POLICY:
            policy = Policy.from_toml(statement.payload)
            self._passed.policy = self._policies[policy.generation] = policy
            if len(self._policies) > MAX_POLICIES:
                self._policies.pop(min(self._policies))
        elif row.kind is Kind.KEYS:
            self._passed.keys = ServiceKeys.from_toml(statement.payload)

    def _retention(self, generation: int, iss: str) -> tuple[str, int] | None:
        known = self._classes.get((generation, iss))
        policy = self._policies.get(generation)
        if known is None and policy is not None:
            rule = policy.rule_for(iss)
            found = policy.retention_class(DEFAULT if rule is None else rule.retention)
            known = (found.name, found.keep)
            if len(self._classes) < _MAX_CLASSES:
                self._classes[generation, iss] = known
        return known


def _is_stated(row: StoredEntry) -> bool:
    """Whether people state something in it: about records that may be in scope where it is not itself."""
    return any(each in row.statement for each in _PEOPLES_TYPES)


def _iss(row: StoredEntry) -> str:
    """Whose statement it is; "" for one that is gone or damaged, which is in no issuer's scope."""
    try:
        return "" if row.erased else Statement.from_bytes(row.statement).iss
    except TransparencyError:
        return ""
