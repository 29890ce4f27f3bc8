"""A report is data: what was examined, what each check found, and what that evidences of which clause.

It never says that anyone complies. ``ReportBuilder`` takes any number of records one by one and keeps a bounded part
of them, the worst first; every figure is over all of them, and what was left out is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from transparency.compliance.finding import Finding, Verdict, worst
from transparency.compliance.framework import REQUIREMENTS, Clause, Framework
from transparency.compliance.rollup import UNSIGNED, RolledUp, Status, Tallies, roll_up, roll_up_framework
from transparency.display import iso_utc

KIND: Final = "transparency-report/1"
CONTENT_TYPE: Final = "application/vnd.agent-transparency.report+json"
MAX_RECORDS: Final = 200
MAX_EXAMPLES: Final = 20
NOT_AVAILABLE: Final = "not-available"
# What a record counts as on its day, from the worst.
DAY_STATUSES: Final = (*(str(v) for v in (Verdict.FAIL, Verdict.WARN, Verdict.ATTEST, Verdict.PASS)), NOT_AVAILABLE)
About = Literal["records", "log"]


@dataclass(frozen=True, slots=True)
class CheckNote:
    """What a check is, for the reader."""

    id: str
    requirement: int
    title: str
    looks_at: str


@dataclass(frozen=True, slots=True)
class Examination:
    """One session that was examined. ``outcome`` is the verifier's verdict, ``statement`` its sentence."""

    name: str
    session: str
    format: str
    findings: tuple[Finding, ...]
    file: str | None = None
    entry: str | None = None
    index: int | None = None
    registered: int | None = None
    iss: str | None = None
    outcome: str = UNSIGNED
    statement: str = ""
    availability: str = "read"

    @property
    def verdict(self) -> Verdict:
        return worst(finding.verdict for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "session": self.session,
            "format": self.format,
            "file": self.file,
            "entry": self.entry,
            "index": self.index,
            "registered": _time(self.registered),
            "iss": self.iss,
            "availability": self.availability,
            "verification": {"outcome": self.outcome, "summary": self.statement},
            "verdict": str(self.verdict),
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Example:
    """Where a check did not pass."""

    record: str
    entry: str | None
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        return {"record": self.record, "entry": self.entry, **self.finding.to_json()}


@dataclass(frozen=True, slots=True)
class Attested:
    """An operator's signed statement that fills what no data can show; who made it is named."""

    subject: str
    checks: tuple[str, ...]
    by: str
    expires: int | None = None
    entry: str | None = None
    # What it is limited to; "" where it speaks of all that the report is about.
    scope: str = ""
    statement: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "checks": list(self.checks),
            "scope": self.scope or None,
            "statement": self.statement,
            "by": self.by,
            "expires": _time(self.expires),
            "entry": self.entry,
        }


@dataclass(frozen=True, slots=True)
class Needed:
    """Something that has to be attested: for how many records, and which clauses ask for it."""

    subject: str
    records: int
    clauses: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "records": self.records, "clauses": list(self.clauses)}


@dataclass(frozen=True, slots=True)
class FrameworkResult:
    framework: Framework
    clauses: tuple[tuple[Clause, RolledUp], ...]

    def to_json(self) -> dict[str, Any]:
        framework = self.framework
        return {
            "id": framework.id,
            "title": framework.title,
            "source": {
                "document": framework.document,
                "version": framework.version,
                "articles": framework.articles,
            },
            "note": framework.note,
            "clauses": [
                {
                    "id": clause.id,
                    "title": clause.title,
                    "text": clause.text,
                    "verified": clause.verified,
                    "read": clause.read,
                    "note": clause.note,
                    "retention-months": clause.retention_months,
                    **rolled.to_json(),
                }
                for clause, rolled in self.clauses
            ],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """``scope`` and ``trust`` are (what, value) lines. ``link`` is the log's address, under which entries are."""

    about: About
    time: int
    software: str
    scope: tuple[tuple[str, str], ...]
    trust: tuple[tuple[str, str], ...]
    checks: tuple[CheckNote, ...]
    tallies: Mapping[str, Mapping[str, int]]
    records: tuple[Examination, ...]
    total: int
    outcomes: Mapping[str, int]
    availability: Mapping[str, int]
    examples: Mapping[str, tuple[Example, ...]]
    log: tuple[Finding, ...]
    days: tuple[tuple[str, Mapping[str, int]], ...]
    requirements: tuple[tuple[int, RolledUp], ...]
    frameworks: tuple[FrameworkResult, ...]
    attested: tuple[Attested, ...]
    needed: tuple[Needed, ...]
    method: tuple[str, ...]
    limits: tuple[str, ...]
    link: str | None = None
    unreadable: tuple[tuple[str, str], ...] = ()
    lapsed: tuple[Attested, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values. The keys are stable; texts of records stand in it as they are, JSON-escaped."""
        return {
            "kind": KIND,
            "about": self.about,
            "time": _time(self.time),
            "software": self.software,
            "scope": dict(self.scope),
            "trust": dict(self.trust),
            "total": self.total,
            "outcomes": dict(self.outcomes),
            "availability": dict(self.availability),
            "unreadable": [{"name": name, "why": why} for name, why in self.unreadable],
            "requirements": [
                {"id": f"REQ-{number}", "title": REQUIREMENTS[number], **rolled.to_json()}
                for number, rolled in self.requirements
            ],
            "frameworks": [result.to_json() for result in self.frameworks],
            "checks": [
                {
                    "id": check.id,
                    "requirement": check.requirement,
                    "title": check.title,
                    "looks-at": check.looks_at,
                    "counts": dict(self.tallies.get(check.id, {})),
                    "examples": [example.to_json() for example in self.examples.get(check.id, ())],
                }
                for check in self.checks
            ],
            "log": [finding.to_json() for finding in self.log],
            "days": [{"day": day, **counts} for day, counts in self.days],
            "attestations": [each.to_json() for each in self.attested],
            "attestations-expired": [each.to_json() for each in self.lapsed],
            "attestations-needed": [each.to_json() for each in self.needed],
            "records": [record.to_json() for record in self.records],
            "records-left-out": self.total - len(self.records),
            "method": list(self.method),
            "limits": list(self.limits),
        }


@dataclass(slots=True)
class ReportBuilder:
    """Collects. ``kept_seconds`` is the shortest time for which records are kept, where a policy says so."""

    about: About
    time: int
    software: str
    checks: Sequence[CheckNote]
    frameworks: Sequence[Framework]
    scope: list[tuple[str, str]] = field(default_factory=list)
    trust: list[tuple[str, str]] = field(default_factory=list)
    attested: list[Attested] = field(default_factory=list)
    lapsed: list[Attested] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    method: Sequence[str] = ()
    limits: Sequence[str] = ()
    link: str | None = None
    kept_seconds: int | None = None
    _tallies: Tallies = field(default_factory=Tallies)
    _kept: dict[str, list[tuple[int, Examination]]] = field(default_factory=dict)
    _examples: dict[str, list[Example]] = field(default_factory=dict)
    _outcomes: Counter[str] = field(default_factory=Counter)
    _availability: Counter[str] = field(default_factory=Counter)
    _days: dict[str, Counter[str]] = field(default_factory=dict)
    _log: list[Finding] = field(default_factory=list)
    _total: int = 0

    def add(self, record: Examination, *, day: str | None = None, attested: Collection[str] = ()) -> None:
        """One session; *attested* are the checks that a statement fills for it, *day* (2026-01-31) is its place."""
        self._total += 1
        self._tallies.add(record.findings, attested, signed=record.outcome != UNSIGNED)
        if not record.findings and record.availability != "read":
            self._tallies.add_unread(check.id for check in self.checks if check.id.startswith("R"))
        verdict = record.verdict
        status = str(verdict) if record.availability == "read" and str(verdict) in DAY_STATUSES else NOT_AVAILABLE
        kept = self._kept.setdefault(status, [])
        if len(kept) < MAX_RECORDS:
            kept.append((self._total, record))
        self._outcomes[record.outcome] += 1
        self._availability[record.availability] += 1
        if day is not None:
            self._days.setdefault(day, Counter())[status] += 1
        for finding in record.findings:
            if finding.verdict in (Verdict.FAIL, Verdict.WARN):
                examples = self._examples.setdefault(finding.check, [])
                if len(examples) < MAX_EXAMPLES:
                    examples.append(Example(record.name, record.entry, finding))

    def fill(self, check: str, number: int) -> None:
        """Of a log a statement may come after what it speaks of: *number* of the *attest* verdicts are filled."""
        self._tallies.fill(check, number)

    def add_log(self, findings: Sequence[Finding], attested: Collection[str] = ()) -> None:
        """What the log checks found, once."""
        self._tallies.add(findings, attested)
        self._log += findings

    def build(self) -> Report:
        stated = {each.subject for each in self.attested if not each.scope}
        results = tuple(
            FrameworkResult(each, roll_up_framework(each, self._tallies, stated, self.kept_seconds))
            for each in self.frameworks
        )
        return Report(
            about=self.about,
            time=self.time,
            software=self.software,
            scope=tuple(self.scope),
            trust=tuple(self.trust),
            checks=tuple(self.checks),
            tallies={tally.check: dict(tally.counts) for tally in self._tallies},
            records=self._chosen(),
            total=self._total,
            outcomes=dict(self._outcomes),
            availability=dict(self._availability),
            examples={check: tuple(examples) for check, examples in self._examples.items()},
            log=tuple(self._log),
            days=tuple((day, dict(self._days[day])) for day in sorted(self._days)),
            requirements=tuple(
                (number, roll_up([check.id for check in self.checks if check.requirement == number], self._tallies))
                for number in REQUIREMENTS
            ),
            frameworks=results,
            attested=tuple(self.attested),
            needed=self._needed(results),
            method=tuple(self.method),
            limits=tuple(self.limits),
            link=self.link,
            unreadable=tuple(self.unreadable),
            lapsed=tuple(self.lapsed),
        )

    def _chosen(self) -> tuple[Examination, ...]:
        """The worst of them up to the bound, in the order in which they came."""
        chosen: list[tuple[int, Examination]] = []
        for status in DAY_STATUSES:
            chosen += self._kept.get(status, [])[: MAX_RECORDS - len(chosen)]
        return tuple(record for _, record in sorted(chosen, key=lambda item: item[0]))

    def _needed(self, results: Sequence[FrameworkResult]) -> tuple[Needed, ...]:
        clauses: dict[str, list[str]] = {}
        for result in results:
            for clause, rolled in result.clauses:
                open_checks = [check for check, status in rolled.checks.items() if status is Status.ATTEST]
                for subject in (*open_checks, *rolled.to_attest):
                    clauses.setdefault(subject, []).append(f"{result.framework.title} {clause.id}")
        open_counts = {tally.check: tally.counts[Verdict.ATTEST] for tally in self._tallies}
        wanted = dict.fromkeys((*(check for check, count in open_counts.items() if count), *clauses))
        return tuple(
            Needed(
                subject, open_counts.get(subject, 0) if subject.startswith("R") else 0, tuple(clauses.get(subject, ()))
            )
            for subject in wanted
        )


def _time(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso_utc(milliseconds // 1000)
