"""R9: what deserves a second look: failures, loops, risky commands, secrets, unusual use of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from transparency.compliance.commands import MAX_COMMAND
from transparency.compliance.outcomes import DENIED, outcomes
from transparency.compliance.record_check import (
    Outcome,
    Place,
    failed,
    not_applicable,
    passed,
    record_check,
    warned,
)
from transparency.compliance.survey import CALL, RESULT, Row, Survey, as_text
from transparency.compliance.texts import CARD
from transparency.compliance.touched import touched
from transparency.records.redaction_rules import EMAIL
from transparency.records.shells import TOOLS, command_text

# Values of permission and sandbox members that mean: nothing holds the agent back.
_UNBOUND: Final = frozenset(
    {"danger-full-access", "bypassPermissions", "dangerouslySkipPermissions", "yolo", "full-access"}
)


@record_check(
    "R9.1",
    "Failures, refusals and repetitions are within bounds",
    "outcomes of tool results; name and input of consecutive tool calls",
)
def steady(survey: Survey) -> Outcome:
    results, calls = survey.kind(RESULT), survey.kind(CALL)
    if not results and not calls:
        return not_applicable("the session has no tool calls")
    settings = survey.settings
    ended = {row: outcome for row, outcome in outcomes(survey).items() if row.kind == RESULT}
    denied = [row for row, outcome in ended.items() if outcome == DENIED]
    bad = len(ended) - len(denied)
    loops, longest = _loops(calls, settings.repeated)
    counts = {
        "results": len(results), "failed": bad, "denied": len(denied), "loops": len(loops),
        "longest-repetition": longest,
    }  # fmt: skip
    reasons = []
    places: list[Place] = []
    if len(results) >= settings.failed_least and bad * 100 > len(results) * settings.failed_percent:
        reasons.append(f"{bad} of {len(results)} calls failed")
        places += [row for row, outcome in ended.items() if outcome != DENIED]
    if len(denied) >= settings.denied:
        reasons.append(f"{len(denied)} calls were denied")
        places += denied
    if loops:
        reasons.append(f"one call was made {longest} times in a row")
        places += loops
    if reasons:
        return warned("; ".join(reasons), counts, places)
    return passed(f"{bad} of {len(results)} calls failed, {len(denied)} denied", counts)


def _loops(calls: list[Row], least: int) -> tuple[list[Row], int]:
    """Where a call is made for the *least*-th time in a row, with the same input; and the longest such row."""
    found: list[Row] = []
    run = longest = 0
    before: Mapping[str, Any] | None = None
    for row in calls:
        same = before is not None and before.get("name") == row.entry.get("name") and _alike(before, row.entry)
        run = run + 1 if same else 1
        longest = max(longest, run)
        if run == least and least > 1:
            found.append(row)
        before = row.entry
    return found, longest


def _alike(before: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    try:
        return bool(before.get("input") == entry.get("input"))
    except RecursionError:
        return False


@record_check(
    "R9.2",
    "No command, path or permission stands out as risky",
    "commands of shells, paths of tools that write, permission and sandbox members",
)
def harmless(survey: Survey) -> Outcome:
    calls = survey.kind(CALL)
    if not calls and not survey.policies:
        return not_applicable("the session has no tool calls, and says nothing of permissions")
    risks = survey.settings.commands
    named: Counter[str] = Counter()
    places: list[Place] = []
    commands = 0
    for row in calls:
        if as_text(row.entry.get("name")).lower().rsplit("__", 1)[-1] not in TOOLS:
            continue
        command = (command_text(row.entry.get("input")) or "")[:MAX_COMMAND]
        commands += 1
        found = [risk.name for risk in risks if risk.found(command)]
        named.update(found)
        if found:
            places.append(row)
    outside = touched(survey).outside
    unbound = [path for path, _, value in survey.policies if _is_unbound(value)]
    counts: dict[str, int | str] = {"commands": commands, "outside": len(outside), "unbound": len(unbound)}
    counts |= dict(sorted(named.items()))
    if not places and not outside and not unbound:
        return passed(f"{commands} commands, none of a risky kind", counts)
    kinds = [f"{count} {name}" for name, count in sorted(named.items())]
    kinds += [f"{len(outside)} writes outside the working directory"] if outside else []
    kinds += ["the sandbox or the permissions were off"] if unbound else []
    return warned("; ".join(kinds), counts, [*places, *outside, *unbound])


def _is_unbound(value: object) -> bool:
    if isinstance(value, str):
        return value in _UNBOUND
    if isinstance(value, Mapping):
        return any(isinstance(each, str) and each in _UNBOUND for each in (value.get("type"), value.get("mode")))
    return False


@record_check(
    "R9.3",
    "No secret, card number or address of a person stands in the record",
    "every text of the record, by the rules of redaction; card numbers by issuer, length and Luhn",
    entries=False,
)
def clean(survey: Survey) -> Outcome:
    found = survey.texts.secrets()
    mails = found.get(EMAIL, [])
    ignored = survey.settings.ignored_mail
    found[EMAIL] = [offset for offset in mails if not _is_ignored(survey.texts.around(offset), ignored)]
    numbers = found.pop(CARD, [])
    known = frozenset(survey.settings.known_numbers)
    cards = [offset for offset in numbers if not _is_known(survey.texts.around(offset, 40), known)]
    counts: dict[str, int | str] = {"ignored-mail": len(mails) - len(found[EMAIL])}
    counts |= {name: len(offsets) for name, offsets in ((CARD, cards), *found.items()) if offsets}
    others = sorted(offset for offsets in found.values() for offset in offsets)
    if not cards and not others:
        return passed("nothing that the rules know as secret or personal", counts)
    places = survey.paths_of([*cards, *others])
    shown = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if name != "ignored-mail")
    if cards:
        return failed(f"{len(cards)} card numbers by issuer and check digit; in all: {shown}", counts, places)
    return warned(f"found: {shown}", counts, places)


def _is_known(text: str, known: frozenset[str]) -> bool:
    if not known:
        return False
    digits = "".join(char for char in text[: len(text) - len(text.lstrip("0123456789 -"))] if char.isdigit())
    return any(digits.startswith(number) for number in known)


def _is_ignored(text: str, ignored: tuple[str, ...]) -> bool:
    """Whether the address with which *text* begins is one that names no person."""
    local, _, rest = text.partition("@")
    domain = rest[: next((at for at, char in enumerate(rest) if not (char.isalnum() or char in ".-_")), len(rest))]
    address = f"{local}@{domain.rstrip('.')}".lower()
    return any(address.startswith(each.lower()) or address.endswith(each.lower()) for each in ignored)


@record_check(
    "R9.4",
    "The session used about as many tokens as this agent usually does",
    "token-usage of the entries; the history of the agent in the log",
)
def usual(survey: Survey) -> Outcome:
    tokens, stated = survey.tokens
    if not stated or not tokens:
        return not_applicable("the record says nothing of tokens")
    baseline = survey.subject.baseline
    if baseline is None:
        return not_applicable("there is no history of this agent to compare with")
    if baseline.count < survey.settings.least_history:
        return not_applicable(
            f"{baseline.count} earlier sessions are too few to compare with: {survey.settings.least_history} are needed"
        )
    # Sessions that are all alike are no law: a deviation is never taken for less than a tenth of the mean.
    deviation = max(baseline.deviation, abs(baseline.mean) / 10)
    score = (tokens - baseline.mean) / deviation if deviation else 0.0
    counts: dict[str, int | str] = {
        "tokens": tokens,
        "sessions": baseline.count,
        "mean": round(baseline.mean),
        "score": f"{score:.1f}",
    }
    summary = f"{tokens} tokens, {score:+.1f} deviations from the mean of {baseline.count} sessions"
    return (warned if abs(score) * 100 > survey.settings.unusual_hundredths else passed)(summary, counts)


CHECKS: Final = (steady, harmless, clean, usual)
