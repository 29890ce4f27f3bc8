"""``transparency attribution``: the lines a session wrote, and whether they are still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, note, out, print_json, safe
from transparency.cli.record_files import read_records
from transparency.cli.settings import json_option
from transparency.cli.working_tree import NotOpenedError, read_inside
from transparency.records import range_check
from transparency.records.attribution import not_attributed
from transparency.records.paths import is_outside
from transparency.records.range_check import Text, Verdict, check_range

_STYLES: Final = {
    range_check.MATCH: GOOD,
    range_check.MOVED: UNSURE,
    range_check.CHANGED: BAD,
    range_check.MISSING: BAD,
    range_check.UNVERIFIABLE: DIM,
}
_REASONS: Final = {
    "shell": "a command that may have written files",
    "unconfirmed": "no result says that the edit was made",
    "no-lines": "nothing recorded says which lines were edited",
    "rewound": "the message was taken back",
    "too-much": "the session has more edits than are followed",
}


@click.command(epilog="\b\nExample: transparency attribution session.jsonl --verify .")
@click.argument("file", type=click.Path(), metavar="FILE")
@click.option(
    "--verify", "repo", type=click.Path(path_type=Path), metavar="REPO", help="Compare with the files of this folder."
)
@json_option()
def command(file: str, repo: Path | None, as_json: bool) -> None:
    """Show which lines a session wrote. FILE is a record of any format, or a statement with one.

    With --verify: exit 0 if all lines are where they were, 3 if some moved, 1 if some changed or are missing, 2 if no
    range has a hash. Paths that lead out of REPO and symbolic links are never opened.
    """
    if repo is not None and not repo.is_dir():
        raise CommandError(Exit.NO_INPUT, f"{repo} is no folder")
    records, signed = read_records(file)
    found = [_session(record, repo) for record in records]
    if as_json:
        print_json({"file": file, "signed": signed, "sessions": found})
    else:
        _print(found, out())
        if signed:
            note("the statement is not verified here: use `transparency verify`")
    if repo is not None:
        raise click.exceptions.Exit(_exit(found))


def _session(record: Mapping[str, Any], repo: Path | None) -> dict[str, Any]:
    session_id = record["session"]["session-id"]
    return {
        "session-id": session_id.hex() if isinstance(session_id, bytes) else session_id,
        "files": [_file(file, repo) for file in record.get("file-attribution", {}).get("files", [])],
        "not-attributed": [dict(each) for each in not_attributed(record)],
    }


def _file(file: Mapping[str, Any], repo: Path | None) -> dict[str, Any]:
    text, reason = (None, "") if repo is None else _text(repo, file["path"])
    ranges = []
    for found, contributor in _ranges(file):
        one: dict[str, Any] = {**found, "contributor": dict(contributor)}
        if repo is not None:
            verdict = check_range(found, text) if text is not None else _absent(reason)
            one |= {"outcome": verdict.outcome, "line": verdict.line, "detail": verdict.detail}
        ranges.append(one)
    return {"path": file["path"], "outside": is_outside(file["path"]), "ranges": ranges}


def _absent(reason: str) -> Verdict:
    return Verdict(range_check.UNVERIFIABLE if reason else range_check.MISSING, detail=reason)


def _ranges(file: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Every range with its contributor: its own, or that of its conversation."""
    for conversation in file["conversations"]:
        for found in conversation["ranges"]:
            yield found, found.get("contributor", conversation.get("contributor", {"type": "unknown"}))


def _text(repo: Path, path: str) -> tuple[Text | None, str]:
    try:
        data = read_inside(repo, path)
    except NotOpenedError as error:
        return None, f"not opened: {error}"
    return (None, "") if data is None else (Text(data), "")


def _exit(sessions: list[dict[str, Any]]) -> Exit:
    outcomes = {found["outcome"] for session in sessions for file in session["files"] for found in file["ranges"]}
    if outcomes & {range_check.CHANGED, range_check.MISSING}:
        return Exit.NEGATIVE
    if range_check.MOVED in outcomes:
        return Exit.WARNINGS
    return Exit.OK if range_check.MATCH in outcomes else Exit.CANNOT_TELL


def _print(sessions: list[dict[str, Any]], console: Console) -> None:
    for session in sessions:
        console.print(f"[bold]session {safe(session['session-id'])}[/]")
        if not session["files"]:
            console.print("  no lines are attributed")
        for file in session["files"]:
            flag = f"  [{UNSURE}]leads out of the working directory, or may[/]" if file["outside"] else ""
            console.print(f"  {safe(file['path'])}{flag}")
            for found in file["ranges"]:
                console.print(f"    {_line(found)}")
        for each in session["not-attributed"]:
            console.print(f"  [{DIM}]not attributed:[/] {_note(each)}")


def _line(found: Mapping[str, Any]) -> str:
    who = found["contributor"]
    model = f" {safe(who['model-id'])}" if "model-id" in who else ""
    text = f"{found['start-line']}-{found['end-line']}  {safe(who['type'])}{model}"
    if "outcome" not in found:
        return text
    where = f" to line {found['line']}" if found["outcome"] == range_check.MOVED else ""
    detail = f" ({safe(found['detail'])})" if found["detail"] else ""
    return f"{text}  [{_STYLES[found['outcome']]}]{found['outcome']}{where}[/]{detail}"


def _note(each: Mapping[str, Any]) -> str:
    reason = each.get("reason")
    said = _REASONS.get(reason, reason) if isinstance(reason, str) else "no reason is given"
    shows = f" ({safe(each['shows'])})" if "shows" in each else ""
    place = each.get("call-id", each.get("source-ref", "?"))
    path = f", {safe(each['path'])}" if "path" in each else ""
    return f"{safe(each.get('tool', '?'))} {safe(place)}: {safe(said)}{shows}{path}"
