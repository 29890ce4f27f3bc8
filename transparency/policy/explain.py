"""Why a statement is accepted or refused: every rule that applies to it, in order, with what each found.

The rules are the judge's own objects, so that what is explained is what is decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from transparency.policy.judge import ISSUER, UNKNOWN_ISSUER, Judge
from transparency.policy.rules import Case, Signature
from transparency.statements.statement import Statement


@dataclass(frozen=True, slots=True)
class Step:
    """One rule: *passed* is None where it was not or could not be applied, and *reason* then says why."""

    rule: str
    passed: bool | None
    reason: str


def explain(judge: Judge, statement: Statement, now: int) -> list[Step]:
    """Every step. The statement is refused by the first that did not pass, as :meth:`Judge.judge` says."""
    found = judge.rules_for(statement.iss)
    case = Case(statement, now)
    if found is None:
        steps = [Step(ISSUER, passed=False, reason=UNKNOWN_ISSUER)]
        rules = judge.rules_for_all()
    else:
        how = f"its iss matches the pattern {found.pattern}" if found.pattern else "its iss is registered"
        steps = [Step(ISSUER, passed=True, reason=how)]
        rules = found.rules
    for rule in rules:
        if isinstance(rule, Signature) and case.key is None:
            steps.append(Step(rule.name, passed=None, reason="not checked: there is no key to check it with"))
            continue
        reason = rule.refuses(case)
        steps.append(Step(rule.name, passed=not reason, reason=reason or rule.accepts(case)))
    if found is not None and found.unique:
        told = "the log looks for another signature over the same bytes when it takes the statement in"
        steps.append(Step("duplicates", passed=None, reason=told))
    return steps


def refusal(steps: list[Step]) -> Step | None:
    """The step that refuses; None where the statement is accepted."""
    return next((step for step in steps if step.passed is False), None)
