"""What ``submit`` tells: what was registered where, in which form, and who can read the record now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from transparency.cli.errors import describe
from transparency.cli.exits import Exit
from transparency.cli.outcome import Form, NotARecordError, Outcome
from transparency.cli.output import (
    BAD,
    DIM,
    GOOD,
    UNSURE,
    done,
    err,
    lines_above,
    note,
    print_json,
    progress,
    safe,
    timestamp,
    warn,
)
from transparency.cli.registration_batch import Settled
from transparency.cli.sessions import Source
from transparency.statements.chain import checkpoint_of
from transparency.statements.receipt import Receipt
from transparency.statements.statement import Statement, entry_id

if TYPE_CHECKING:
    from transparency.client.client import Submission
    from transparency.client.kept import Kept

_READERS = "whoever may read this log's statements: holders of a read token, everyone if the log is public"
_PRIVATE = "nobody but whom you give it to"
_READABLE: dict[Form, str] = {"attached": _READERS, "envelope": _READERS, "private": _PRIVATE}
_WHERE: dict[Form, str] = {
    "attached": "the record is in the statement",
    "envelope": "the record lies beside the log, its SHA-256 is in the statement",
    "private": "the log has the record's SHA-256 only; keep the record, nobody else has it",
}


def print_pending(submission: Submission, *, as_json: bool) -> None:
    if as_json:
        print_json({"status": "pending", "entry-id": submission.entry_id, "location": submission.location})
    else:
        click.echo(submission.location)
        note("accepted; submit the same file again, without --no-wait, for its receipt")


def registered(target: str, submission: Submission, statement: Statement, *, trusted: bool) -> dict[str, Any]:
    """The facts of a registration; a program reads them with --json."""
    receipt = Receipt.from_bytes(submission.receipt or b"")
    proof = receipt.inclusion[0]
    return {
        "status": "registered", "entry-id": submission.entry_id, "location": submission.location, "file": target,
        "iss": statement.iss, "sub": statement.sub, "log": receipt.sub, "index": proof.index, "tree-size": proof.size,
        "time": timestamp(receipt.iat), "receipt-checked-with": "pinned keys" if trusted else "keys the log serves",
        "erased": submission.erased,
    }  # fmt: skip


def print_registered(body: dict[str, Any], *, trusted: bool, known: bool = False) -> None:
    word = "is registered already" if known else "registered"
    done(f"{body['file']}: {word} as entry {body['index']} of {body['log'] or 'the log'}, {body['time']}")
    err().print(f"  [{DIM}]{safe(body['location'])}[/]")
    if body["erased"]:
        warn("the log has erased this statement and did not keep it again; your copy and its receipt stay valid")
    if not trusted:
        note("the receipt was checked with the keys this log serves; pin them with --log-key")


def row(outcome: Outcome) -> dict[str, Any]:
    """One session as JSON."""
    submission, statement = outcome.submission, outcome.statement
    if submission is None or submission.receipt is None:
        body: dict[str, Any] = {"status": "pending", "entry-id": statement.entry_id, "file": outcome.out}
        body["location"] = "" if submission is None else submission.location
    else:
        body = registered(outcome.out, submission, statement, trusted=outcome.trusted)
    detected, earlier = outcome.about.detected, outcome.earlier
    body |= {
        "session": outcome.file, "known": outcome.known,
        "format": detected.format.trace_format if detected is not None else None,
        "form": outcome.form, "readable-by": _readable_by(outcome),
        "artifact": statement.payload.hex() if outcome.form == "envelope" else None,
        "trace-metadata": outcome.signed.trace_metadata is not None, "finished": outcome.about.finished,
        "checkpoint": checkpoint_of(statement.message.headers),
        "supersedes": None if earlier is None else entry_id(earlier.statement.entry),
        "earlier-is-prefix": None if earlier is None else earlier.is_prefix,
        "violations": sum(found.level == "violation" for found in outcome.violations),
        "warnings": sum(found.level == "warning" for found in outcome.violations),
        "notes": _notes(outcome),
    }  # fmt: skip
    if outcome.canonical:
        body["canonical"] = [row(each) for each in outcome.canonical]
    return body


def print_outcome(outcome: Outcome) -> None:
    """One session, for the person watching."""
    submission = outcome.submission
    if submission is not None and submission.receipt is None:
        print_pending(submission, as_json=False)
    elif submission is not None:
        body = registered(outcome.out, submission, outcome.statement, trusted=outcome.trusted)
        print_registered(body, trusted=outcome.trusted, known=outcome.known)
    if submission is None or not submission.erased:
        note(f"{_WHERE[outcome.form]}; it can be read by {_readable_by(outcome)}")
    for text in _notes(outcome):
        note(text)
    violations = sum(found.level == "violation" for found in outcome.violations)
    if violations:
        warn(f"the record breaks its format in {violations} places; `transparency check {outcome.file}` lists them")
    for canonical in outcome.canonical:
        print_outcome(canonical)


def _readable_by(outcome: Outcome) -> str:
    if outcome.submission is not None and outcome.submission.erased:
        return _PRIVATE
    # Of a receipt that was kept nobody asked the log: what it erased meanwhile is not known here.
    unless = ", unless the log has erased it since" if outcome.known and outcome.form != "private" else ""
    return _READABLE[outcome.form] + unless


def _notes(outcome: Outcome) -> list[str]:
    about, earlier = outcome.about, outcome.earlier
    notes = list(outcome.notes)
    if len(about.sessions) > 1 and outcome.signed.sub == about.sessions[0]:
        notes.append(f"the file holds {len(about.sessions)} sessions; the statement's sub is the first")
    if not about.finished:
        number = checkpoint_of(outcome.statement.message.headers)
        which = f" {number}" if number is not None else ""
        notes.append(f"the session is not finished: this is checkpoint{which}; submit it again when it has grown")
    if earlier is not None:
        notes.append(
            f"{_how_it_went_on(earlier)}: this supersedes checkpoint {earlier.checkpoint}, kept as"
            f" {outcome.earlier_file}"
        )
    if outcome.signed.note and outcome.form != "private":
        notes.append(f"no trace-metadata: {outcome.signed.note}")
    return notes


def _how_it_went_on(earlier: Kept) -> str:
    if earlier.is_shortened:
        return "the session is SHORTER than before"
    if earlier.is_prefix:
        return "the session has grown, and begins with the same bytes"
    not_so = "; the bytes before are NOT how it begins" if earlier.is_prefix is False else ""
    return f"the session has changed{not_so}"


def submit_many(sources: list[Source], settled: Iterable[tuple[Source, Settled]], *, as_json: bool) -> Exit:
    """Each in turn, a line each, a bar on a terminal. What was done stays done, whatever happens to the next."""
    counts = {"registered": 0, "known": 0, "pending": 0, "skipped": 0, "failed": 0}
    rows: list[dict[str, Any]] = []
    worst = Exit.OK
    with progress("submitting", quiet=as_json) as bar:
        lines = lines_above(bar)
        for source, result in bar.track(settled, total=len(sources)):
            kind, code, body, line = _told(source, result)
            counts[kind] += 1
            worst = worst or code
            if as_json:
                rows.append(body)
            else:
                lines.print(line)
    if as_json:
        print_json({"exit-code": int(worst), "counts": counts, "files": rows})
    else:
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        err().print(f"[{DIM}]{len(sources)} sessions: {told}[/]")
    return worst


def _told(source: Source, outcome: Settled) -> tuple[str, Exit, dict[str, Any], str]:
    name = safe(source.name)
    if not isinstance(outcome, Outcome):
        failure = describe(outcome)
        told = safe(failure.message.removeprefix(f"{source.name}: "))
        failed: dict[str, Any] = {"session": source.name, "error": failure.message, "exit-code": int(failure.code)}
        if source.found and isinstance(outcome, NotARecordError):
            return "skipped", Exit.OK, {**failed, "status": "skipped"}, f"[{DIM}]· {name}: {told}[/]"
        return "failed", failure.code, {**failed, "status": "failed"}, f"[{BAD}]✗[/] {name}: {told}"
    body = row(outcome)
    kind: str = "known" if outcome.known else body["status"]
    mark = f"[{UNSURE}]…[/]" if kind == "pending" else f"[{GOOD}]✓[/]"
    where = f"entry {body['index']}" if "index" in body else "accepted"
    more: list[str] = [outcome.form]
    if outcome.earlier is not None:
        more.append(f"supersedes checkpoint {outcome.earlier.checkpoint}")
    if not outcome.about.finished:
        more.append("not finished")
    if kind == "known":
        more.append("known")
    return kind, Exit.OK, body, f"{mark} {name}  [{DIM}]{where}, {', '.join(more)}[/]"
