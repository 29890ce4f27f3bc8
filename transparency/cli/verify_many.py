"""Many files at once: a line each, a progress bar on a terminal, and the worst verdict as the verdict of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

from rich.markup import escape

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, err, lines_above, print_json, progress, safe
from transparency.client.many import BATCH_ITEMS, WORTH_PROCESSES, in_processes, processes_here
from transparency.verifier import Report

STYLES = {"verified": GOOD, "failed": BAD, "cannot-tell": UNSURE, "warnings": UNSURE}
MARKS = {"verified": "✓", "failed": "✗", "cannot-tell": "?", "warnings": "!"}
_WORST_FIRST = (Exit.NEGATIVE, Exit.BAD_INPUT, Exit.NO_INPUT, Exit.CANNOT_TELL, Exit.WARNINGS, Exit.OK)
_UNREADABLE = "unreadable"


class _Shown(NamedTuple):
    """What is shown of one file: all that a process sends back of it."""

    kind: str
    code: int
    line: str
    row: dict[str, Any]
    """Only if JSON is asked for."""


def verify_many(
    judge: Callable[[str], Report | CommandError], files: Sequence[str], *, as_json: bool, processes: int | None = None
) -> Exit:
    """Show what ``judge`` says of each file as it comes; the exit code of them all.

    ``processes``: by default one for each core, where there are enough files.
    """
    counts = {**dict.fromkeys(STYLES, 0), _UNREADABLE: 0}
    codes: set[int] = set()
    rows: list[dict[str, Any]] = []
    if processes is None:
        processes = processes_here() if len(files) >= WORTH_PROCESSES else 1
    shown = _all_shown(partial(_show, judge, as_json), files, processes)
    # Processes are forked before the bar has its thread.
    shown = chain(list(islice(shown, 1)), shown)
    with progress("verifying", quiet=as_json) as bar:
        lines = lines_above(bar)
        for each in bar.track(shown, total=len(files)):
            counts[each.kind] += 1
            codes.add(each.code)
            if as_json:
                rows.append(each.row)
            else:
                lines.print(each.line)
    worst = next(code for code in _WORST_FIRST if code in codes)
    if as_json:
        print_json({"exit-code": int(worst), "counts": counts, "files": rows})
    else:
        summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        err().print(f"[{DIM}]{len(files)} files: {summary}[/]")
    return worst


def _all_shown(show: Callable[[str], _Shown], files: Sequence[str], processes: int) -> Iterator[_Shown]:
    if processes <= 1:
        return map(show, files)
    batches = (list(files[at : at + BATCH_ITEMS]) for at in range(0, len(files), BATCH_ITEMS))
    return chain.from_iterable(shown for _, shown in in_processes(partial(_show_each, show), batches, processes))


def _show_each(show: Callable[[str], _Shown], files: Sequence[str]) -> list[_Shown]:
    return [show(file) for file in files]


def _show(judge: Callable[[str], Report | CommandError], as_json: bool, file: str) -> _Shown:
    outcome = judge(file)
    if isinstance(outcome, CommandError):
        row = {"file": file, "error": str(outcome), "exit-code": int(outcome.code)}
        return _Shown(_UNREADABLE, outcome.code, f"[{BAD}]✗[/] {safe(str(outcome))}", row)
    verdict = outcome.verdict
    detail = "" if verdict == "verified" else f"  {escape(outcome.summary)}"
    line = f"[{STYLES[verdict]}]{MARKS[verdict]}[/] {safe(file)}{detail}"
    return _Shown(verdict, outcome.exit_code, line, {"file": file, **outcome.to_json()} if as_json else {})
