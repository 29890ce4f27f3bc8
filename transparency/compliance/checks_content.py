"""R5: what went in and what came out: messages, tool calls with their results, and what is cut off."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from transparency.compliance.finding import Verdict
from transparency.compliance.record_check import (
    Outcome,
    Place,
    by_share,
    failed,
    not_applicable,
    passed,
    record_check,
    warned,
)
from transparency.compliance.survey import ASSISTANT, CALL, EVENT, RESULT, USER, Row, Survey, as_map, as_text


@record_check(
    "R5.1",
    "There is input and output with content",
    "content of messages, input of tool calls, output of tool results",
    conversation=True,
)
def inputs_and_outputs(survey: Survey) -> Outcome:
    asked = sum(_says(row.entry.get("content")) for row in survey.kind(USER))
    given = sum(_says(row.entry.get("input")) for row in survey.kind(CALL))
    said = sum(_says(row.entry.get("content")) for row in survey.kind(ASSISTANT))
    returned = sum(_says(row.entry.get("output")) for row in survey.kind(RESULT))
    counts = {"user": asked, "calls": given, "assistant": said, "results": returned}
    if not said and not returned:
        return failed("nothing that came out is recorded", counts)
    if not asked and not given:
        return failed("nothing that went in is recorded", counts)
    if not asked:
        return warned("what the agent was asked is not recorded, only what it gave to tools", counts)
    return passed(f"{asked} inputs, {said} answers and {returned} results with content", counts)


def _says(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return value is not None and value not in ({}, [], ())


@dataclass(slots=True)
class Pairs:
    """Calls and their results, matched by call-id and order."""

    paired: int = 0
    concluded: int = 0
    unanswered: list[Row] = field(default_factory=list)
    orphans: list[Row] = field(default_factory=list)
    repeated: list[Row] = field(default_factory=list)


def pair(rows: list[Row]) -> Pairs:
    """A result belongs to the earlier call with its call-id; one without belongs to the latest such call."""
    found = Pairs()
    waiting: dict[str, Row] = {}
    unnamed: list[Row] = []
    answered: set[str] = set()
    for row in rows:
        if row.kind not in (CALL, RESULT):
            continue
        named = row.entry.get("call-id")
        if row.kind == CALL:
            if isinstance(named, str):
                waiting.setdefault(named, row)
            else:
                unnamed.append(row)
        elif isinstance(named, str) and named in waiting:
            del waiting[named]
            answered.add(named)
            found.paired += 1
        elif isinstance(named, str):
            (found.repeated if named in answered else found.orphans).append(row)
        elif unnamed:
            unnamed.pop()
            found.paired += 1
        else:
            found.orphans.append(row)
    found.unanswered = [row for row in (*waiting.values(), *unnamed) if not concluded_itself(row)]
    found.concluded = len(waiting) + len(unnamed) - len(found.unanswered)
    return found


def concluded_itself(call: Row) -> bool:
    """A call that the model's provider carried out (a web search): it says itself that it is done."""
    return as_map(call.entry.get("native")).get("status") in ("completed", "success")


@record_check(
    "R5.2",
    "Each tool call has one result, and each result a call before it",
    "call-id of tool calls and tool results, in their order",
)
def paired(survey: Survey) -> Outcome:
    calls, results = survey.kind(CALL), survey.kind(RESULT)
    if not calls and not results:
        return not_applicable("the session has no tool calls")
    pairs = pair(survey.rows)
    counts = {
        "calls": len(calls), "results": len(results), "paired": pairs.paired, "concluded": pairs.concluded,
        "orphans": len(pairs.orphans), "repeated": len(pairs.repeated), "unanswered": len(pairs.unanswered),
    }  # fmt: skip
    places: list[Place] = [*pairs.orphans, *pairs.repeated, *pairs.unanswered]
    if pairs.orphans or pairs.repeated:
        return failed(
            f"{len(pairs.orphans)} results without a call, {len(pairs.repeated)} with a second result", counts, places
        )
    verdict = by_share(len(pairs.unanswered), len(calls), survey.settings.tolerated_percent)
    if verdict is Verdict.PASS:
        return passed(f"{pairs.paired} calls, each with its result", counts)
    return Outcome(verdict, f"{len(pairs.unanswered)} of {len(calls)} calls have no result", counts, places)


@record_check(
    "R5.3",
    "Calls can be told apart, and results say whether they succeeded",
    "call-id of tool calls; status and is-error of tool results",
)
def conclusive(survey: Survey) -> Outcome:
    calls, results = survey.kind(CALL), survey.kind(RESULT)
    if not calls and not results:
        return not_applicable("the session has no tool calls")
    names = Counter(row.entry["call-id"] for row in calls if isinstance(row.entry.get("call-id"), str))
    twice = [row for row in calls if isinstance(row.entry.get("call-id"), str) and names[row.entry["call-id"]] > 1]
    unnamed = [row for row in calls if not isinstance(row.entry.get("call-id"), str) and not concluded_itself(row)]
    silent = [row for row in results if not _concluded(row)]
    counts = {
        "calls": len(calls), "results": len(results), "with-status": len(results) - len(silent),
        "repeated-ids": len(twice), "without-id": len(unnamed),
    }  # fmt: skip
    if twice:
        return failed(f"{len(twice)} calls with the call-id of another", counts, twice)
    if results and len(silent) == len(results):
        return failed("no result says whether the call succeeded", counts, silent)
    if silent or unnamed:
        summary = f"{len(silent)} results do not say whether the call succeeded, {len(unnamed)} calls have no call-id"
        return warned(summary, counts, [*silent, *unnamed])
    return passed(f"{len(calls)} calls, each with its own id, {len(results)} results with a status", counts)


def _concluded(row: Row) -> bool:
    status = row.entry.get("status")
    return isinstance(row.entry.get("is-error"), bool) or (isinstance(status, str) and bool(status))


@record_check(
    "R5.4",
    "Nothing in the content was cut out or cut off",
    "marks of truncation and redaction in every text, members truncated: true, truncation policies",
)
def uncut(survey: Survey) -> Outcome:
    texts = survey.texts
    cuts = texts.cuts()
    redactions = [offset for offset in cuts if texts.is_redaction(offset)]
    ended = [row for row in survey.kind(RESULT) if as_text(row.entry.get("output")).endswith("…")]
    flags = [survey.rows[number] for number in texts.flags if number < len(survey.rows)]
    policies = [row for row in survey.kind(EVENT) if as_map(row.entry.get("data")).get("truncation_policy")]
    counts = {
        "truncated": len(cuts) - len(redactions) + len(ended), "redacted": len(redactions), "flags": len(flags),
        "policies": len(policies),
    }  # fmt: skip
    if not cuts and not ended and not flags:
        noted = "; a policy of truncation is recorded" if policies else ""
        return passed(f"no mark of anything cut out{noted}", counts, policies)
    places: list[Place] = [*survey.paths_of(cuts), *((row.path, "output") for row in ended), *flags]
    summary = f"the content is partial: {counts['truncated']} marks of truncation, {len(redactions)} of redaction"
    return warned(summary, counts, places)


CHECKS: Final = (inputs_and_outputs, paired, conclusive, uncut)
