"""Many files at once: a line each, a progress bar on a terminal, and the worst verdict as the verdict of all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.markup import escape

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, err, lines_above, print_json, progress, safe
from transparency.verifier import Report

STYLES = {"verified": GOOD, "failed": BAD, "cannot-tell": UNSURE, "warnings": UNSURE}
MARKS = {"verified": "✓", "failed": "✗", "cannot-tell": "?", "warnings": "!"}
_WORST_FIRST = (Exit.NEGATIVE, Exit.BAD_INPUT, Exit.NO_INPUT, Exit.CANNOT_TELL, Exit.WARNINGS, Exit.OK)
_UNREADABLE = "unreadable"


def verify_many(outcomes: Iterable[tuple[str, Report | CommandError]], total: int, *, as_json: bool) -> Exit:
    """Show the outcomes as they come; the exit code of them all."""
    counts = {**dict.fromkeys(STYLES, 0), _UNREADABLE: 0}
    codes: set[int] = set()
    rows: list[dict[str, Any]] = []
    with progress("verifying", quiet=as_json) as bar:
        lines = lines_above(bar)
        for file, outcome in bar.track(outcomes, total=total):
            kind, code, row, line = _shown(file, outcome)
            counts[kind] += 1
            codes.add(code)
            if as_json:
                rows.append(row)
            else:
                lines.print(line)
    worst = next(code for code in _WORST_FIRST if code in codes)
    if as_json:
        print_json({"exit-code": int(worst), "counts": counts, "files": rows})
    else:
        summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        err().print(f"[{DIM}]{total} files: {summary}[/]")
    return worst


def _shown(file: str, outcome: Report | CommandError) -> tuple[str, int, dict[str, Any], str]:
    if isinstance(outcome, CommandError):
        row = {"file": file, "error": str(outcome), "exit-code": int(outcome.code)}
        return _UNREADABLE, outcome.code, row, f"[{BAD}]✗[/] {safe(str(outcome))}"
    verdict = outcome.verdict
    detail = "" if verdict == "verified" else f"  {escape(outcome.summary)}"
    line = f"[{STYLES[verdict]}]{MARKS[verdict]}[/] {safe(file)}{detail}"
    return verdict, outcome.exit_code, {"file": file, **outcome.to_json()}, line
