"""``transparency show``: a session as a timeline, from its file or out of its statement. Nothing is verified here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from transparency.cli.chain import Chain, follow
from transparency.cli.connection import connect
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input
from transparency.cli.json_lines import now, write_line
from transparency.cli.output import DIM, UNSURE, note, out, safe
from transparency.cli.sessions import one
from transparency.cli.settings import log_options
from transparency.cli.timeline import WIDEST, Timeline
from transparency.cli.verify_inputs import payload_beside
from transparency.cose import labels
from transparency.cose.sign1 import Sign1
from transparency.errors import MalformedError, UnsupportedAlgorithmError
from transparency.records import convert
from transparency.statements.envelope import Envelope
from transparency.statements.statement import entry_id
from transparency.statements.transparent import receipts_of

_SIGN1_HEAD = b"\xd2"
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
    if data.startswith(_SIGN1_HEAD):
        message = _statement(file, data)
        record = _record(file, message, payload, fetch=fetch, log=(log, token, cacert))
    else:
        record = data
    try:
        if as_json:
            for each in convert.convert_to_bytes(record, created=now()):
                write_line(each)
        else:
            _print(file, record, message, full=full)
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    if message is not None:
        note("nothing was verified: `transparency verify` checks signature, receipt and record")


def _print(file: str, record: bytes, message: Sign1 | None, *, full: bool) -> None:
    records = convert.convert(record, created=now())
    console = out()
    width = min(console.width, WIDEST)
    if message is not None:
        for line in _provenance(message, follow(file, message, record)):
            console.print(line)
        console.print()
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


def _provenance(message: Sign1, chain: Chain) -> list[str]:
    claims = message.headers.get(labels.CWT_CLAIMS)
    claims = claims if isinstance(claims, dict) else {}
    receipts = len(receipts_of(message))
    registered = f"with {receipts} receipt{'s' if receipts != 1 else ''}" if receipts else "without a receipt"
    about = f"by {safe(claims.get(labels.CLAIM_ISS))} about {safe(claims.get(labels.CLAIM_SUB))}"
    lines = [f"[{UNSURE}]not verified[/]  a statement {about}, {registered}"]
    words = {True: "whose bytes this record begins with", False: "whose bytes are NOT how this record begins",
             None: "of which it cannot be told whether this record begins with it"}  # fmt: skip
    for link in chain.links:
        number = f"checkpoint {link.checkpoint}" if link.checkpoint is not None else "the first statement"
        lines.append(f"  [{DIM}]supersedes[/]  {number}, {safe(link.file)}, {words[link.is_prefix]}")
    if chain.missing is not None:
        lines.append(f"  [{DIM}]supersedes[/]  entry {entry_id(chain.missing)}, which is not beside this file")
    return lines


def _statement(file: str, data: bytes) -> Sign1:
    try:
        message = Sign1.from_bytes(data)
        receipts_of(message)
    except (MalformedError, UnsupportedAlgorithmError) as error:
        raise CommandError(Exit.BAD_INPUT, f"{file} is not a readable statement: {error}") from error
    if labels.VDS in message.headers:
        raise CommandError(Exit.BAD_INPUT, f"{file} is a receipt", "`transparency inspect` shows it.")
    return message


def _record(
    file: str, message: Sign1, payload: str | None, *, fetch: bool, log: tuple[str | None, str | None, str | None]
) -> bytes:
    """The record a statement is about: in it, named, beside it, or at the log; never another one."""
    try:
        envelope = Envelope.from_headers(message.headers, message.unprotected, message.payload or b"")
    except (MalformedError, UnsupportedAlgorithmError) as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    if envelope is None and message.payload is not None:
        return message.payload
    place = payload if payload is not None else payload_beside(file)
    if place is None and fetch and envelope is not None and envelope.hash_alg == labels.HASH_SHA256:
        url, token, cacert = log
        if url is None:
            raise CommandError(Exit.USAGE, "--fetch needs to know the log", "Give --log URL.")
        with connect(url, token=token, cacert=cacert) as client:
            return client.artifact((message.payload or b"").hex())
    if place is None:
        raise CommandError(
            Exit.NO_INPUT, f"{file} does not hold the record, and it is not beside it",
            "Give --payload FILE, or --fetch --log URL if the log has it.",
        )  # fmt: skip
    record = read_input(place)
    if envelope is not None and envelope.digest(record) != message.payload:
        raise CommandError(
            Exit.BAD_INPUT, f"{os.fspath(Path(place))} is not the record this statement is about: its digest differs",
            "Give the right one with --payload FILE.",
        )  # fmt: skip
    return record
