"""A report on a terminal: what is evidenced, what is not, and where to look."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from transparency.cli.output import BAD, DIM, GOOD, UNSURE, out, safe, timestamp
from transparency.compliance.finding import Verdict
from transparency.compliance.framework import REQUIREMENTS
from transparency.compliance.report import Attested, FrameworkResult, Report
from transparency.compliance.rollup import Status

SHOWN_EXAMPLES: Final = 2
SHOWN_NEEDED: Final = 12
_STATES: Final = {
    Status.PRESENT: (GOOD, "●"),
    Status.PARTIAL: (UNSURE, "◐"),
    Status.MISSING: (BAD, "○"),
    Status.ATTEST: ("blue", "✎"),
    Status.NOT_APPLICABLE: (DIM, "-"),
}
_VERDICTS: Final = {Verdict.FAIL: (BAD, "✗"), Verdict.WARN: (UNSURE, "!")}


def print_report(report: Report) -> None:
    console = out()
    # Tables need a width; without one, lines would be cut where no terminal is.
    console.soft_wrap = False
    sessions = "1 session" if report.total == 1 else f"{report.total} sessions"
    console.print(f"[bold]Evidence report[/] about {sessions}. It is evidence, not a verdict of law.")
    for name, why in report.unreadable:
        console.print(f"[{BAD}]✗[/] {safe(name)}: {safe(why)}")
    _requirements(report, console)
    _findings(report, console)
    for result in report.frameworks:
        _framework(result, console)
    for each in report.attested[:SHOWN_NEEDED]:
        console.print(f"[blue]✎[/] [bold]{safe(each.subject)}[/] attested by {safe(each.by)}{_until(each)}")
    for each in report.lapsed[:SHOWN_NEEDED]:
        console.print(
            f"[{UNSURE}]![/] [bold]{safe(each.subject)}[/] attestation of {safe(each.by)} expired{_until(each)}"
        )
    if report.needed:
        names = [each.subject for each in report.needed]
        more = f" and {len(names) - SHOWN_NEEDED} more" if len(names) > SHOWN_NEEDED else ""
        console.print(f"\n[bold]To be attested[/] {safe(', '.join(names[:SHOWN_NEEDED]))}{more}")
    console.print(f"[{DIM}]--json or --html FILE: everything, with method and limits[/]")


def _until(attested: Attested) -> str:
    until = "" if attested.expires is None else f" ({timestamp(attested.expires // 1000)})"
    of = f", of {safe(attested.scope)}" if attested.scope else ""
    checks = f" for {', '.join(attested.checks)}" if attested.checks else ""
    return f"{checks}{of}{until}"


def _requirements(report: Report, console: Console) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", style=DIM)
    for number, rolled in report.requirements:
        table.add_row(f"REQ-{number}", REQUIREMENTS[number], _state(rolled.status), escape(rolled.why))
    console.print(table)


def _findings(report: Report, console: Console) -> None:
    for check in report.checks:
        examples = report.examples.get(check.id, ())
        for example in examples[:SHOWN_EXAMPLES]:
            style, sign = _VERDICTS[example.finding.verdict]
            where = f" [{DIM}]{safe(example.record)}[/]" if report.total > 1 else ""
            console.print(f"[{style}]{sign}[/] [bold]{check.id}[/] {safe(example.finding.summary)}{where}")
        if len(examples) > SHOWN_EXAMPLES:
            console.print(f"  [{DIM}]{check.id}: and further ones[/]")
    for finding in report.log:
        if finding.verdict in _VERDICTS:
            style, sign = _VERDICTS[finding.verdict]
            console.print(f"[{style}]{sign}[/] [bold]{finding.check}[/] {safe(finding.summary)}")


def _framework(result: FrameworkResult, console: Console) -> None:
    console.print(f"\n[bold]{safe(result.framework.title)}[/]")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, max_width=28)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for clause, rolled in result.clauses:
        marked = safe(clause.title) + ("" if clause.verified else f" [{DIM}](unverified)[/]")
        table.add_row(safe(clause.id), _state(rolled.status), marked)
    console.print(table)


def _state(status: Status) -> str:
    style, sign = _STATES[status]
    return f"[{style}]{sign}[/] {status}"
