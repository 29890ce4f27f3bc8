"""R10: what shows that a person could follow the agent, and stop it."""

from __future__ import annotations

from typing import Final

from transparency.compliance.outcomes import DENIED, outcomes
from transparency.compliance.record_check import (
    Outcome,
    Place,
    attest,
    failed,
    not_applicable,
    passed,
    record_check,
    warned,
)
from transparency.compliance.survey import EVENT, REASONING, RESULT, Row, Survey, as_map, as_text

# Policies under which a person is asked, as tools name them.
_ASKED: Final = frozenset({
    "ask", "default", "plan", "on-request", "on_request", "untrusted", "unless-trusted", "on-failure", "acceptEdits",
    "manual", "suggest",
})  # fmt: skip


@record_check(
    "R10.1",
    "There is evidence that a person oversaw the session",
    "events of approval, refusals, permission and approval policies, later turns of people, session.format",
    conversation=True,
)
def overseen(survey: Survey) -> Outcome:
    if survey.is_sub_agent:
        return not_applicable("a sub-agent's session: see the session that started it")
    approvals = [row for row in survey.kind(EVENT) if "approval" in as_text(row.entry.get("event-type"))]
    denied = [row for row, outcome in outcomes(survey).items() if outcome == DENIED and row.kind == RESULT]
    turns = survey.humans[1:]
    asked = [path for path, name, value in survey.policies if "sandbox" not in name and _asks(value)]
    autonomous = survey.session.get("format") == "autonomous"
    counts: dict[str, int | str] = {
        "approvals": len(approvals), "denied": len(denied), "turns-after-the-first": len(turns),
        "asking-policies": len(asked), "format": "autonomous" if autonomous else "not autonomous",
    }  # fmt: skip
    places: list[Place] = [*approvals, *denied, *turns, *asked]
    if autonomous and not approvals:
        return warned("the session ran on its own, and nothing was approved in it", counts, places)
    if places:
        said = f"{len(turns)} further turns, {len(asked)} asking policies"
        summary = f"{len(approvals)} approvals, {len(denied)} refusals, {said}"
        return passed(summary, counts, places)
    if survey.policies:
        return warned("one request, nothing approved, and a policy by which nobody is asked", counts)
    return attest("one request and no approval: whether somebody watched must be stated", counts)


def _asks(value: object) -> bool:
    if isinstance(value, str):
        return value in _ASKED
    if isinstance(value, list):  # OpenCode: a list of rules, each allow, ask or deny
        return any(as_map(rule).get("action") == "ask" for rule in value)
    return any(each == "ask" for each in as_map(value).values())


@record_check(
    "R10.2", "The agent's reasoning can be read", "content and encrypted of reasoning entries; token-usage.reasoning"
)
def reasoned(survey: Survey) -> Outcome:
    plain: list[Row] = []
    closed: list[Row] = []
    empty: list[Row] = []
    for row in survey.kind(REASONING):
        content = row.entry.get("content")
        says = bool(content.strip()) if isinstance(content, str) else bool(content)
        (plain if says else closed if row.entry.get("encrypted") else empty).append(row)
    counts = {
        "plain": len(plain), "encrypted-only": len(closed), "empty": len(empty), "tokens": survey.reasoning_tokens,
    }  # fmt: skip
    if not plain and not closed and not empty:
        if survey.reasoning_tokens:
            return warned(
                f"{survey.reasoning_tokens} tokens of reasoning were used, and none of it is recorded", counts
            )
        return not_applicable("no reasoning is recorded, and nothing says that there was any")
    if empty and not plain and not closed:
        return failed(f"all {len(empty)} entries of reasoning are empty", counts, empty)
    if closed or empty:
        summary = (
            f"{len(plain)} readable, {len(closed)} only encrypted (their provider can read them), {len(empty)} empty"
        )
        return warned(summary, counts, [*closed, *empty])
    return passed(f"{len(plain)} entries of reasoning, all readable", counts)


CHECKS: Final = (overseen, reasoned)
