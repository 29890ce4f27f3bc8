"""From findings to statuses: what is evidenced of a requirement and of a clause.

The rules, exactly, as docs/report.md has them.

A check, over all that it judged, with n-a left out:
    *not applicable*      it judged nothing, and everything was read
    *missing*             at least one fail, and neither a pass nor a warning; a record that nobody signed counts
                          as a fail of the checks of its signature (SIGNING_CHECKS), which themselves say n-a;
                          or no record could be read
    *partial*             a warning, or a fail beside a pass, or a record that could not be read beside one that was
    *needs attestation*   no fail and no warning, and an attest that nobody has filled
    *present*             otherwise: passes, and attests that a signed statement fills

A clause or a requirement, over its checks, with those that are not applicable left out; the first that holds counts:
    *missing*             a check is missing, and none is present or partial
    *partial*             a check is missing or partial
    *not applicable*      no check of it judged anything here
    *partial*             a check of it was not run here, or records are kept for less time than the clause names
    *needs attestation*   a check needs attestation, or the clause names a subject that nobody has attested
    *present*             all its checks are present
A clause without checks is for persons to speak for: it needs attestation, and is present once all is attested.
Nothing is ever better than its worst part, and what was not looked at is never present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from transparency.compliance.finding import Finding, Verdict
from transparency.compliance.framework import Clause, Framework

ATTESTED: Final = "attested"
UNSIGNED: Final = "unsigned"
UNREAD: Final = "not-read"
SIGNING_CHECKS: Final = frozenset({"R3.4", "R7.1", "R7.2", "R7.3"})
MONTH_SECONDS: Final = 365 * 24 * 60 * 60 // 12


class Status(StrEnum):
    PRESENT = "evidence present"
    PARTIAL = "evidence partial"
    MISSING = "evidence missing"
    ATTEST = "needs attestation"
    NOT_APPLICABLE = "not applicable"


@dataclass(slots=True)
class Tally:
    """How often a check gave which verdict; for some, why.

    ``attested`` are *attest* verdicts that a signed statement fills. ``unsigned`` are *n-a* verdicts on the signature
    of a record that has none: there is nothing to judge, and that is just what is missing. ``not-read`` are those on a
    record that is not here or not readable: nobody looked, so that nothing is shown of it.
    """

    check: str
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict, *, attested: bool = False, signed: bool = True) -> None:
        kind = str(verdict)
        if attested and verdict is Verdict.ATTEST:
            kind = ATTESTED
        elif not signed and verdict is Verdict.NOT_APPLICABLE and self.check in SIGNING_CHECKS:
            kind = UNSIGNED
        self.counts[kind] += 1

    def add_unread(self) -> None:
        self.counts[UNREAD] += 1

    @property
    def status(self) -> Status:
        passed = self.counts[Verdict.PASS] + self.counts[ATTESTED]
        failed, warned = self.counts[Verdict.FAIL] + self.counts[UNSIGNED], self.counts[Verdict.WARN]
        if failed and not passed and not warned:
            return Status.MISSING
        if failed or warned:
            return Status.PARTIAL
        unread = self.counts[UNREAD]
        if unread:
            return Status.MISSING if unread == self.counts.total() else Status.PARTIAL
        if self.counts[Verdict.ATTEST]:
            return Status.ATTEST
        return Status.PRESENT if passed else Status.NOT_APPLICABLE


class Tallies:
    """One tally a check. Mutable; memory does not grow with the number of records."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._tallies: dict[str, Tally] = {}
        self.add(findings)

    def add(self, findings: Iterable[Finding], attested: Collection[str] = (), *, signed: bool = True) -> None:
        """Count findings; *attested* are the checks whose *attest* verdicts a statement fills for this record."""
        for finding in findings:
            tally = self._of(finding.check)
            if finding.is_unread:
                tally.add_unread()
            else:
                tally.add(finding.verdict, attested=finding.check in attested, signed=signed)

    def add_unread(self, checks: Iterable[str]) -> None:
        """A record of which nothing is left that these checks could look at."""
        for check in checks:
            self._of(check).add_unread()

    def _of(self, check: str) -> Tally:
        tally = self._tallies.get(check)
        if tally is None:
            tally = self._tallies[check] = Tally(check)
        return tally

    def fill(self, check: str, number: int) -> None:
        """A statement that was read later fills *number* of the *attest* verdicts of a check."""
        tally = self._tallies.get(check)
        if tally is not None:
            number = min(number, tally.counts[Verdict.ATTEST])
            tally.counts[Verdict.ATTEST] -= number
            tally.counts[ATTESTED] += number

    def get(self, check: str) -> Tally | None:
        return self._tallies.get(check)

    def __iter__(self) -> Iterator[Tally]:
        return iter(self._tallies.values())


@dataclass(frozen=True, slots=True)
class RolledUp:
    """The status of a requirement or clause, and why: which of its checks stand where."""

    status: Status
    checks: Mapping[str, Status]
    not_run: tuple[str, ...] = ()
    to_attest: tuple[str, ...] = ()
    short_of_months: int | None = None
    unread: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """One sentence in figures of checks; no text of a record is in it."""
        parts = [
            f"{word}: {', '.join(names)}"
            for word, status in (
                ("missing", Status.MISSING),
                ("partial", Status.PARTIAL),
                ("to be attested", Status.ATTEST),
            )
            if (names := [check for check, each in self.checks.items() if each is status])
        ]
        if self.to_attest:
            parts.append(f"to be stated by the operator: {', '.join(self.to_attest)}")
        if self.not_run:
            parts.append(f"not looked at here: {', '.join(self.not_run)}")
        if self.unread:
            parts.append(f"could not be judged of records that were not read: {', '.join(self.unread)}")
        if self.short_of_months is not None:
            parts.append(f"records are kept for less than {self.short_of_months} months")
        if not parts and self.status is Status.NOT_APPLICABLE:
            parts.append("nothing here that its checks could judge")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "status": str(self.status),
            "checks": {check: str(status) for check, status in self.checks.items()},
            "not-run": list(self.not_run),
            "not-read": list(self.unread),
            "to-attest": list(self.to_attest),
            "why": self.why,
        }


def roll_up(checks: Sequence[str], tallies: Tallies, to_attest: Sequence[str] = ()) -> RolledUp:
    """The status over *checks*; ``to_attest`` are subjects that are asked for and that nobody has attested."""
    statuses: dict[str, Status] = {}
    not_run: list[str] = []
    unread: list[str] = []
    for check in checks:
        tally = tallies.get(check)
        if tally is None:
            not_run.append(check)
        else:
            statuses[check] = tally.status
            if tally.counts[UNREAD]:
                unread.append(check)
    status = _status(statuses.values(), not_run, to_attest)
    return RolledUp(status, statuses, tuple(not_run), tuple(to_attest), unread=tuple(unread))


def roll_up_clause(
    clause: Clause, tallies: Tallies, attested: Collection[str] = (), kept_seconds: int | None = None
) -> RolledUp:
    """The status of a clause. *attested* are subjects stated by the operator; *kept_seconds* the shortest retention."""
    to_attest = [subject for subject in clause.attest if subject not in attested]
    if not clause.checks:
        return RolledUp(Status.ATTEST if to_attest else Status.PRESENT, {}, to_attest=tuple(to_attest))
    rolled = roll_up(clause.checks, tallies, to_attest)
    months = clause.retention_months
    if months is None or kept_seconds is None or kept_seconds >= months * MONTH_SECONDS:
        return rolled
    status = Status.PARTIAL if rolled.status in (Status.PRESENT, Status.ATTEST) else rolled.status
    return replace(rolled, status=status, short_of_months=months)


def roll_up_framework(
    framework: Framework, tallies: Tallies, attested: Collection[str] = (), kept_seconds: int | None = None
) -> tuple[tuple[Clause, RolledUp], ...]:
    return tuple((clause, roll_up_clause(clause, tallies, attested, kept_seconds)) for clause in framework.clauses)


def _status(statuses: Iterable[Status], not_run: Sequence[str], to_attest: Sequence[str]) -> Status:
    judged = {status for status in statuses if status is not Status.NOT_APPLICABLE}
    if Status.MISSING in judged and not judged & {Status.PRESENT, Status.PARTIAL}:
        return Status.MISSING
    if judged & {Status.MISSING, Status.PARTIAL}:
        return Status.PARTIAL
    if not judged:
        return Status.NOT_APPLICABLE
    if not_run:
        return Status.PARTIAL
    return Status.ATTEST if Status.ATTEST in judged or to_attest else Status.PRESENT
