"""``transparency check``: is a record what its format says."""

from __future__ import annotations

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, out, print_json, safe
from transparency.cli.sessions import one
from transparency.cli.settings import json_option
from transparency.errors import MalformedError
from transparency.records import convert
from transparency.records.detect import Detected, detect
from transparency.records.violation import MAX_VIOLATIONS, Violation

_STYLES = {"violation": (BAD, "✗"), "warning": (UNSURE, "!")}


@click.command(epilog="\b\nExample: transparency check session.agentlog.json")
@click.argument("file", type=click.Path())
@json_option()
def command(file: str, as_json: bool) -> None:
    """Check FILE against the rules of its format, which is found out by its content. "-" reads standard input.

    Exit 0 clean, 1 violations, 3 warnings only, 65 unreadable or of no known format. A place is a JSON pointer, in
    JSONL after its line. Native session files have no rules to break: only what is new in them is warned of.
    """
    source = one(file)
    data = source.read()
    try:
        detected = detect(data)
        found = convert.check(data, detected)
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    code = _code(found)
    if as_json:
        print_json(_body(file, detected, found, code))
    else:
        _print(file, detected, found)
    raise click.exceptions.Exit(code)


def _code(found: list[Violation]) -> Exit:
    if any(each.level == "violation" for each in found):
        return Exit.NEGATIVE
    return Exit.WARNINGS if found else Exit.OK


def _body(file: str, detected: Detected, found: list[Violation], code: Exit) -> dict[str, object]:
    return {
        "file": file, "format": detected.format.trace_format, "name": detected.format.name,
        "profile": detected.profile, "note": detected.note, "result": _RESULTS[code], "exit-code": int(code),
        "violations": sum(each.level == "violation" for each in found),
        "warnings": sum(each.level == "warning" for each in found),
        "findings": [{"level": each.level, "pointer": each.pointer, "message": each.message} for each in found],
    }  # fmt: skip


_RESULTS = {Exit.OK: "clean", Exit.NEGATIVE: "violations", Exit.WARNINGS: "warnings"}


def _print(file: str, detected: Detected, found: list[Violation]) -> None:
    console = out()
    profile = f", profile {detected.profile}" if detected.profile else ""
    console.print(f"[bold]{safe(file)}[/]: {safe(detected.format.name)}{safe(profile)}")
    if detected.note:
        console.print(f"  [{DIM}]{safe(detected.note)}[/]")
    for each in found:
        style, mark = _STYLES[each.level]
        console.print(f"  [{style}]{mark}[/] {safe(each.pointer) or '/'}  {safe(each.message)}")
    if len(found) >= MAX_VIOLATIONS:
        console.print(f"  [{DIM}]more are not listed[/]")
    violations = sum(each.level == "violation" for each in found)
    parts = [_count(violations, "violation"), _count(len(found) - violations, "warning")]
    style = BAD if violations else UNSURE if found else GOOD
    console.print(f"[{style}]{', '.join(part for part in parts if part) or '✓ nothing to object to'}[/]")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}" if number else ""
