"""The report: an ordered list of checks, the verdict that follows from them, and what may be relied on.

A report is data. The verdict is computed, never set: any failure is a failure, and "verified" needs every required
check to be *there* and passed, so that a check which was forgotten can only ever give "cannot tell".
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from transparency.display import iso_utc, safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Outcome = Literal["passed", "failed", "warned", "not_checked"]
Verdict = Literal["verified", "failed", "cannot-tell", "warnings"]
Value = str | int

EXIT_CODES: Final[Mapping[Verdict, int]] = MappingProxyType(
    {"verified": 0, "failed": 1, "cannot-tell": 2, "warnings": 3}
)

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "form": "the file is one COSE_Sign1 in its only form",
        "profile": "the statement has the headers RFC 9943 asks for",
        "payload": "the payload is at hand",
        "issuer-certificate": "the issuer's certificate leads to a trusted root",
        "issuer-key": "the issuer's key is known",
        "issuer-signature": "the issuer signed these bytes",
        "issuer-key-time": "the issuer's key was good when this was registered",
        "receipt": "the statement carries a receipt",
        "receipt-form": "the receipt has its form (RFC 9942)",
        "receipt-profile": "the receipt has the headers RFC 9943 asks for",
        "receipt-key": "the receipt's key is trusted",
        "inclusion": "a path leads from this statement to a root",
        "tree-size": "size and index are signed",
        "head-signature": "the log signed that root",
        "log-identity": "the log is the one the key is trusted for",
        "key-validity": "the log's key was good at that time",
        "registered": "the statement is registered in a trusted log",
        "checkpoint-proof": "a path leads from this statement to a checkpoint",
        "checkpoint-signature": "the log signed that checkpoint",
        "witness-quorum": "enough witnesses have cosigned that checkpoint",
        "tree-seen": "the tree continues the one seen before",
        "envelope": "the record is the one whose digest was signed",
        "signed-trace-metadata": "trace-metadata (signed copy, -70100) agrees with the record",
        "trace-metadata": "trace-metadata (label 100, unsigned) agrees with the record",
        "trace-metadata-copies": "both copies of trace-metadata say the same",
        "subject": "the subject is the record's session",
        "supersedes": "the earlier statement of this session is continued",
        "redactions": "what was redacted is marked where the statement says",
        "disclosure": "the disclosed original is the one committed to",
    }
)


class Check(NamedTuple):
    """One question, its answer, and why. A tuple because bulk verification makes a dozen for every file.

    ``essential``: while this is not checked, nobody can tell. ``advisory``: its warning is shown and does not
    change the verdict (RC-20). ``receipt`` is the position in label 394 that the check is about.
    """

    id: str
    outcome: Outcome
    detail: str = ""
    evidence: Mapping[str, Value] = MappingProxyType({})
    receipt: int | None = None
    essential: bool = False
    advisory: bool = False

    def __reduce__(self) -> tuple[type[Check], tuple[object, ...]]:
        # A mapping that nobody can write to cannot be pickled.
        return Check, (*self[:3], dict(self.evidence), *self[4:])

    @property
    def title(self) -> str:
        """The question in words; for one member of trace-metadata, with the member's name."""
        name, _, member = self.id.partition("/")
        return f"{TITLES[name]}: {member}" if member else TITLES[name]

    def to_json(self) -> dict[str, Any]:
        """See ``Report.to_json``."""
        return {
            "id": self.id,
            "title": self.title,
            "outcome": self.outcome,
            "detail": self.detail,
            "evidence": dict(self.evidence),
            "receipt": self.receipt,
            "essential": self.essential,
            "advisory": self.advisory,
        }


class Claim(NamedTuple):
    """Something that may be relied on, and on whose word: a named key's, or a key that was merely given."""

    name: str
    value: Value
    basis: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Values out of signed bytes whose signature was checked; the summary and the claims use nothing else."""

    issuer: tuple[Claim, ...] = ()
    registration: tuple[Claim, ...] = ()
    record: tuple[Claim, ...] = ()


class Answer(tuple[Check, ...]):  # noqa: SLOT001 - a tuple can only keep something beside its items in a __dict__
    """The checks of many reports that say the same: the verdict that follows from them is worked out once."""

    _judged: tuple[frozenset[str], Verdict] | None = None

    def __reduce__(self) -> tuple[type[Answer], tuple[tuple[Check, ...]]]:
        return Answer, (tuple(self),)

    def verdict(self, required: frozenset[str]) -> Verdict:
        """As of a report with these checks."""
        judged = self._judged
        if judged is None or judged[0] != required:
            self._judged = judged = (required, _judge(self, required))
        return judged[1]


def _judge(checks: tuple[Check, ...], required: frozenset[str]) -> Verdict:
    passed, warned, open_question = set(), False, False
    for check in checks:
        if check.outcome == "failed":
            return "failed"
        if check.outcome == "passed":
            passed.add(check.id)
        elif check.outcome == "warned":
            warned = warned or not check.advisory
        else:
            open_question = open_question or check.essential
    if open_question or not required <= passed:
        return "cannot-tell"
    return "warnings" if warned else "verified"


@dataclass(frozen=True, slots=True)
class Report:
    """What verifying one file gave."""

    checks: tuple[Check, ...]
    required: frozenset[str]
    facts: Callable[[], Facts] = Facts
    """Made when asked for: in bulk most reports are only counted."""

    @property
    def verdict(self) -> Verdict:
        """Any failure: failed. A required check that did not pass: cannot tell. A warning: warnings."""
        checks = self.checks
        return checks.verdict(self.required) if isinstance(checks, Answer) else _judge(checks, self.required)

    @property
    def exit_code(self) -> int:
        """0 verified, 1 failed, 2 cannot tell, 3 warnings only."""
        return EXIT_CODES[self.verdict]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What may be relied on: nothing at all once a check has failed."""
        if self.verdict == "failed":
            return ()
        facts = self.facts()
        return facts.issuer + facts.registration + facts.record

    @property
    def not_checked(self) -> tuple[Check, ...]:
        """The questions that stay open."""
        return tuple(check for check in self.checks if check.outcome == "not_checked")

    @property
    def summary(self) -> str:
        """One sentence: what was registered by whom, where and when, or why that cannot be said."""
        verdict = self.verdict
        if verdict == "failed":
            failed = next(check for check in self.checks if check.outcome == "failed")
            return f"Not verified: {safe_text(failed.detail or failed.title, 400)}."
        if verdict == "cannot-tell":
            return f"Cannot tell: {safe_text(self._what_is_missing(), 400)}."
        sentence = _sentence(self.facts())
        if verdict == "warnings":
            warned = next(check for check in self.checks if check.outcome == "warned" and not check.advisory)
            return f"{sentence}; with a warning: {safe_text(warned.detail, 400)}."
        return sentence + "."

    def _what_is_missing(self) -> str:
        for check in self.checks:
            if check.outcome == "not_checked" and (check.essential or check.id in self.required):
                return check.detail
        return "a required check was not made"

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values. The keys are stable.

        ``verdict`` (verified, failed, cannot-tell, warnings), ``exit-code``, ``summary`` (safe to display);
        ``checks``: ``id``, ``title``, ``outcome`` (passed, failed, warned, not_checked), ``detail``, ``evidence``
        (object of text and numbers), ``receipt`` (position in label 394, or null), ``essential``, ``advisory``;
        ``claims``: ``name``, ``value``, ``basis``; ``not-checked``: ids. Values of evidence and claims are as
        signed, not made safe for a terminal.
        """
        return {
            "verdict": self.verdict,
            "exit-code": self.exit_code,
            "summary": self.summary,
            "checks": [check.to_json() for check in self.checks],
            "claims": [claim._asdict() for claim in self.claims],
            "not-checked": [check.id for check in self.not_checked],
        }


def _sentence(facts: Facts) -> str:
    issuer = {claim.name: claim for claim in facts.issuer}
    log = {claim.name: claim for claim in facts.registration}
    parts = ["a statement"]
    if "sub" in issuer:
        parts.append(f'about "{safe_text(str(issuer["sub"].value))}"')
    if "iss" in issuer:
        parts.append(f'signed by "{safe_text(str(issuer["iss"].value))}"')
    elif "issuer-key" in issuer:
        parts.append(f"signed by the key {issuer['issuer-key'].value}")
    if not log:
        return "Verified: " + " ".join(parts)
    parts.append("is registered")
    if "log-origin" in log:
        parts.append(f'in the log "{safe_text(str(log["log-origin"].value))}"')
    elif "log-key" in log:
        parts.append(f"in the log of the key {log['log-key'].value}")
    if "log-iss" in log:
        parts.append(f'of "{safe_text(str(log["log-iss"].value))}"')
    if "index" in log:
        parts.append(f"at index {log['index'].value}")
    if "head-time" in log:
        parts.append(f"and was there by {iso_utc(int(log['head-time'].value))}")
    return "Verified: " + " ".join(parts)
