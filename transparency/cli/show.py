"""``transparency show``: a session as a timeline, from its file or out of its statement. Nothing is verified here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import SIGN1_HEAD
from transparency.cli.json_lines import now, write_line
from transparency.cli.output import DIM, UNSURE, note, out, print_json, print_tree, safe
from transparency.cli.record_files import open_statement, record_of
from transparency.cli.sessions import one
from transparency.cli.settings import log_options
from transparency.cli.timeline import WIDEST, Timeline
from transparency.cli.verify_inputs import earlier_beside
from transparency.cli.views import stated_view
from transparency.compliance.stated import read_stated
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError
from transparency.records import convert
from transparency.statements.transparent import receipts_of
from transparency.verifier.chain_checks import check_chain, is_linked
from transparency.verifier.report import Check
from transparency.verifier.statement_checks import read_subject

_BATCH = 200


@click.command(epilog="\b\nExample: transparency show session.jsonl.cose")
@click.argument("file", type=click.Path())
@click.option("--payload", type=click.Path(), metavar="FILE", help="The record of a statement that does not hold it.")
@click.option("--fetch", is_flag=True, help="Get the record from the log, if it is not at hand.")
@log_options(required=False)
@click.option("--full", is_flag=True, help="Show long texts and events whole.")
@click.option("--json", "as_json", is_flag=True, help="The canonical record instead, one a line for each session.")
def command(
    file: str, payload: str | None, fetch: bool, log: str | None, token: str | None, cacert: str | None, full: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Show a session as a timeline: messages, tool calls and results, reasoning, events, tokens, cost.

    FILE is a session of any format, or a statement about one; "-" reads standard input. Nothing is verified, and what
    is shown is what strangers wrote: do not feed --json to an agent unguarded. Control characters and the like are
    shown as escapes.
    """
    source = one(file)
    data = source.read()
    message = None
    record = data
    if data.startswith(SIGN1_HEAD):
        message = open_statement(file, data)
        if _show_stated(message, as_json=as_json):
            return
        record = record_of(file, message, payload, _fetcher(log, token, cacert) if fetch else None)
    try:
        if as_json:
            for each in convert.convert_to_bytes(record, created=now()):
                write_line(each)
        else:
            records = convert.convert(record, created=now())
            if message is not None:
                for line in _provenance(message, _chain(file, data, message, record)):
                    out().print(line)
                out().print()
            _print(records, full=full)
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    if message is not None:
        note("nothing was verified: `transparency verify` checks signature, receipt and record")


def _show_stated(message: Sign1, *, as_json: bool) -> bool:
    """What people and witnesses state has no timeline: its members, one a line."""
    content_type = message.headers.get(labels.CONTENT_TYPE)
    stated = None if message.payload is None else read_stated(content_type, message.payload)
    if stated is None:
        return False
    shown = stated_view(stated)
    if as_json:
        print_json(shown)
    else:
        for line in _provenance(message, ()):
            out().print(line)
        print_tree(shown, out(), 1)
        note("nothing was verified: `transparency verify` checks signature and receipt")
    return True


def _print(records: Sequence[Mapping[str, Any]], *, full: bool) -> None:
    console = out()
    width = min(console.width, WIDEST)
    for number, each in enumerate(records, 1):
        if len(records) > 1:
            console.print(f"[{DIM}]session {number} of {len(records)}[/]")
        _print_lines(console, Timeline(each, width=width, full=full).lines())
        if number < len(records):
            console.print()


def _print_lines(console: Console, lines: Iterator[Text]) -> None:
    """Many at a time: rich takes longer to begin than to print."""
    while batch := list(islice(lines, _BATCH)):
        if console.is_terminal:
            console.print(Text("\n").join(batch))
        else:
            click.echo("\n".join(line.plain for line in batch))


def _provenance(message: Sign1, chain: Sequence[Check]) -> Iterator[str]:
    claims = message.headers.get(labels.CWT_CLAIMS)
    claims = claims if isinstance(claims, dict) else {}
    receipts = len(receipts_of(message))
    registered = f"with {receipts} receipt{'s' if receipts != 1 else ''}" if receipts else "without a receipt"
    about = f"by {safe(claims.get(labels.CLAIM_ISS))} about {safe(claims.get(labels.CLAIM_SUB))}"
    yield f"[{UNSURE}]not verified[/]  a statement {about}, {registered}"
    for link in chain:
        entry = f"entry {safe(link.evidence['entry-id'])}: " if "entry-id" in link.evidence else ""
        yield f"  [{DIM}]supersedes[/]  {entry}{safe(link.detail)}"


def _chain(file: str, data: bytes, message: Sign1, record: bytes) -> list[Check]:
    """What the verifier says of the statements that this one continues, as far as they lie beside it."""
    subject = read_subject(message, record)
    return check_chain(subject, earlier_beside(file, data)) if is_linked(subject) else []


def _fetcher(log: str | None, token: str | None, cacert: str | None) -> Callable[[str], bytes]:
    def fetch(digest: str) -> bytes:
        if log is None:
            raise CommandError(Exit.USAGE, "--fetch needs to know the log", "Give --log URL.")
        with connect(log, token=token, cacert=cacert) as client:
            return client.artifact(digest)

    return fetch
