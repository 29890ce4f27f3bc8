"""From the export of a log to findings: every entry replayed and examined, in order, each exactly once.

A batch of entries is one transaction: what was found of them, and the place from which the replay goes on. Whatever
goes wrong before the commit (the log stops answering, the process is killed) leaves the batch to be done again, from
the same place. Nothing here depends on how entries fall into batches: what is usual for an agent (R9.4) is what all
entries before it showed, and "now" is the time of the head that covers the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from transparency.compliance.baseline import MAX_AGENTS, AgentKey, Running, TokenBaseline
from transparency.compliance.examined import Examined
from transparency.compliance.log_settings import LogSettings
from transparency.compliance.period import Period
from transparency.compliance.settings import DEFAULT, Settings
from transparency.cose.keys import PublicKey
from transparency.display import safe_text
from transparency.errors import TransparencyError
from transparency.log.audit_replay import Replay
from transparency.log.audit_report import AuditFinding, AuditReport
from transparency.log.audit_scratch import Scratch
from transparency.log.audit_sources import Fetch, RemoteSource
from transparency.log.documents import InForce
from transparency.log.store import Kind, StoredEntry
from transparency.policy.document import Policy
from transparency.policy.retention import DEFAULT as DEFAULT_CLASS
from transparency.statements.receipt import SignedHead
from transparency.statements.statement import Statement
from transparency.witness.examiner import Artifact, Examiner, Known
from transparency.witness.findings import Findings

BATCH: Final = 256
BATCH_BYTES: Final = 4 * 1024 * 1024
LONGEST_WHAT: Final = 300
_MAX_CLASSES: Final = 10_000
Told = Callable[[int], None]


class EntryMissingError(TransparencyError):
    """The log does not give an entry, or no signed head that covers it: ``index`` is where nothing follows."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


@dataclass(frozen=True, slots=True)
class Reading:
    """How the log is read: pages of its export, and records."""

    fetch: Fetch
    artifact: Artifact


class FollowReplay:
    """The replay and the examiner over one store of findings. One thread at a time; ``size`` entries are done."""

    def __init__(
        self,
        findings: Findings,
        policy_key: bytes,
        *,
        issuer: PublicKey,
        clock: Callable[[], float],
        settings: Settings = DEFAULT,
        log_settings: LogSettings | None = None,
    ) -> None:
        self._findings = findings
        self._policy_key = policy_key
        self._issuer = issuer
        self._clock = clock
        self._examiner = Examiner(settings)
        self._least = (log_settings or LogSettings()).baseline_sessions
        self._load()

    def _load(self) -> None:
        """From what is committed; whatever was known beyond that is forgotten."""
        self.report = AuditReport()
        with self._findings.batch():
            scratch = Scratch(self._findings.connection)
        self.replay = Replay(self._policy_key, self.report, scratch)
        self._agents = self._findings.agents()
        self._usual: dict[AgentKey, TokenBaseline] = {}
        for key in self._agents:
            self._compare_with(key)
        self._changed: dict[AgentKey, Running] = {}
        self._classes: dict[tuple[int, str], tuple[str, int]] = {}

    @property
    def size(self) -> int:
        return self.report.size

    @property
    def in_force(self) -> InForce | None:
        return self.replay.in_force

    def advance(self, upto: int, reading: Reading, told: Told, stop: Callable[[], bool]) -> bool:
        """Everything up to *upto*, the size of a checkpoint; False where it was told to *stop* before.

        Raises EntryMissingError where the log does not give what its checkpoint promises, and what the reading raises
        where it cannot be read; everything before that is kept.
        """
        source = RemoteSource(reading.fetch)
        entries, heads = source.entries(self.size), source.heads(self.size)
        head: SignedHead | None = None
        while self.size < upto:
            if stop():
                return False
            with self._committing():
                used = 0
                for _ in range(BATCH):
                    head = self._covering(head, heads, upto)
                    row = next(entries, None)
                    if row is None or row.index != self.size:
                        raise _Ended(EntryMissingError(self.size, "the log does not give this entry"))
                    self._see(row, head, reading.artifact, upto)
                    used += len(row.statement)
                    if self.size >= upto or used >= BATCH_BYTES:
                        break
            told(self.size)
        return True

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """A batch. One that ends early because the log gives no more is kept as far as it came."""
        missing: EntryMissingError | None = None
        try:
            with self._findings.batch():
                try:
                    yield
                except _Ended as ended:
                    missing = ended.missing
                self.replay.save()
                self._findings.keep_agents(self._changed)
        except BaseException:
            self._load()
            raise
        self._changed.clear()
        if missing is not None:
            raise missing

    def _covering(self, head: SignedHead | None, heads: Iterator[SignedHead], upto: int) -> SignedHead:
        """The first head that covers the next entry."""
        while head is None or head.size <= self.size:
            head = next(heads, None)
            if head is None:
                raise _Ended(EntryMissingError(self.size, "no signed tree head of the log covers this entry"))
            if head.size <= self.size:
                self.report.add(-1, "", f"the tree head of size {head.size} covers no batch of entries")
        if head.size > upto:
            raise _Ended(EntryMissingError(self.size, f"there is no signed tree head of the checkpoint's size {upto}"))
        return head

    def _see(self, row: StoredEntry, head: SignedHead, artifact: Artifact, upto: int) -> None:
        outcome = self.replay.entry(row, head)
        known = Known(str(outcome), self._retention(row), self._usual, now=head.time)
        examined = self._examiner.examine(row, head, artifact, known)
        self._findings.add(row, examined, counts=_counts(row, examined))
        self._remember(examined)
        if isinstance(examined.stated, Period) and self._is_own(row):
            self._findings.keep_period(examined.stated, row.statement, examined.entry)
        self.report.size += 1
        if self.report.size == head.size:
            self.replay.head(head)
        now = int(self._clock())
        for found in self.report.findings:
            what = safe_text(found.what, LONGEST_WHAT)
            self._findings.find(_code(found), found.index, found.entry, what, upto, now)
        self.report.findings.clear()

    # -- what is known of an entry besides -----------------------------------------------------------------------

    def _compare_with(self, key: AgentKey) -> None:
        """From the next entry on, with all that is known of this agent."""
        one = self._agents[key]
        if one.count >= self._least:
            self._usual[key] = TokenBaseline(one.count, one.mean, one.deviation)

    def _remember(self, examined: Examined) -> None:
        for session in examined.sessions:
            key = (examined.iss, session.agent)
            if not session.tokens or (key not in self._agents and len(self._agents) >= MAX_AGENTS):
                continue
            usual = self._agents.setdefault(key, Running())
            usual.add(session.tokens)
            self._changed[key] = usual
            self._compare_with(key)

    def _is_own(self, row: StoredEntry) -> bool:
        """Whether this witness signed it. By its key: whose keys an issuer's are is what the *log* says."""
        try:
            Statement.from_bytes(row.statement).verify(self._issuer)
        except TransparencyError:
            return False
        return True

    def _retention(self, row: StoredEntry) -> tuple[str, int] | None:
        """The class by which the policy in force keeps what this issuer registers."""
        if self.in_force is None or row.kind is not Kind.STATEMENT or row.erased:
            return None
        try:
            iss = Statement.from_bytes(row.statement).iss
        except TransparencyError:
            return None
        policy = self.in_force.policy.policy
        known = self._classes.get((policy.generation, iss))
        if known is None:
            known = _class_of(policy, iss)
            if len(self._classes) < _MAX_CLASSES:
                self._classes[policy.generation, iss] = known
        return known


class _Ended(Exception):  # noqa: N818 - no error: the batch ends here, and is kept
    def __init__(self, missing: EntryMissingError) -> None:
        super().__init__(str(missing))
        self.missing = missing


def _class_of(policy: Policy, iss: str) -> tuple[str, int]:
    rule = policy.rule_for(iss)
    found = policy.retention_class(DEFAULT_CLASS if rule is None else rule.retention)
    return found.name, found.keep


def _counts(row: StoredEntry, examined: Examined) -> bool:
    """Attestations of witnesses are no reason for another: two witnesses of one log would go on for ever."""
    return row.kind is Kind.STATEMENT and not isinstance(examined.stated, Period)


def _code(found: AuditFinding) -> str:
    """What kind of misbehaviour a finding of the replay is."""
    if found.index < 0:
        return "tree"
    return "statement" if "hash to the entry" in found.what or "normalised form" in found.what else "admission"
