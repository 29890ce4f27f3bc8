"""A report as plain text: the sentence first, then the checks, then what may be relied on, then what is open.

Everything that came out of a file goes through ``safe_text``; the caller may colour lines but must not print the
report's own values past this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transparency.display import iso_utc, safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transparency.verifier.report import Check, Claim, Outcome, Report

MARKS: Final[Mapping[Outcome, str]] = {"passed": "✓", "failed": "✗", "warned": "!", "not_checked": "·"}
_TIMES: Final = frozenset({"head-time", "issued-at", "witnessed-time"})


def render_text(report: Report) -> str:
    """The whole report, one line a check; safe to print."""
    lines = [report.summary, ""]
    lines += [_check_line(check) for check in report.checks if check.outcome != "not_checked"]
    if report.claims:
        lines += ["", "May be relied on:"]
        lines += [_claim_line(claim) for claim in report.claims]
    if report.not_checked:
        lines += ["", "Not checked:"]
        lines += [_check_line(check) for check in report.not_checked]
    return "\n".join(lines) + "\n"


def _check_line(check: Check) -> str:
    place = "" if check.receipt is None else f"receipt {check.receipt + 1}: "
    detail = f" ({safe_text(check.detail, 400)})" if check.detail else ""
    return f"  {MARKS[check.outcome]} {place}{safe_text(check.title)}{detail}"


def _claim_line(claim: Claim) -> str:
    value = claim.value
    text = iso_utc(value) if claim.name in _TIMES and isinstance(value, int) else safe_text(str(value))
    return f"  {claim.name} = {text}  [{safe_text(claim.basis)}]"
