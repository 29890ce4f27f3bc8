"""Statuses and verdicts as marks: a sign, a word, and a colour that says the same again."""

from __future__ import annotations

from typing import Final

from transparency.compliance.finding import Verdict
from transparency.compliance.html_elements import Element, el
from transparency.compliance.report import Report
from transparency.compliance.rollup import Status

_STATES: Final = {
    Status.PRESENT: ("present", "●"),
    Status.PARTIAL: ("partial", "◐"),
    Status.MISSING: ("missing", "○"),
    Status.ATTEST: ("attest", "✎"),
    Status.NOT_APPLICABLE: ("none", "-"),
}
_VERDICTS: Final = {
    Verdict.PASS: ("pass", "✓"),
    Verdict.WARN: ("warn", "!"),
    Verdict.FAIL: ("fail", "✗"),
    Verdict.ATTEST: ("attest", "✎"),
    Verdict.NOT_APPLICABLE: ("none", "-"),
}


def state(status: Status) -> Element:
    name, sign = _STATES[status]
    return el("span", el("span", sign, class_="mark"), str(status), class_=f"s-{name}")


def verdict_mark(verdict: Verdict, label: str = "") -> Element:
    """The sign with a *label* after it; the word for who cannot see the sign."""
    name, sign = _VERDICTS[verdict]
    return el("span", f"{sign} {label}" if label else sign, class_=f"v-{name}", title=str(verdict))


def chip(check: str, status: Status | None, report: Report) -> Element:
    """A check of a clause with where it stands; it leads to the check's findings where there are any."""
    name, sign = _STATES[Status.NOT_APPLICABLE] if status is None else _STATES[status]
    shown = check if status is not None else f"{check} not run"
    has_place = report.examples.get(check) or any(finding.check == check for finding in report.log)
    label = el("a", shown, href=f"#c-{check}") if has_place else el("span", shown)
    said = "not run" if status is None else str(status)
    return el("span", el("span", sign, class_="mark"), label, class_=f"chip s-{name}", title=said)
