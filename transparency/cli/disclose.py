"""``transparency disclose``: one redacted original for somebody who has the statement, and nothing else."""

from __future__ import annotations

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input, refuse_existing, write_output
from transparency.cli.output import DIM, ascii_json, done, out, print_json, safe
from transparency.cli.settings import json_option
from transparency.errors import TransparencyError
from transparency.records.disclosure import Disclosure
from transparency.records.redact import SideFile, read_side_file


@click.command(epilog="\b\nExample: transparency disclose session.redactions.json --item 3 --out disclosure.json")
@click.argument("file", type=click.Path(), metavar="REDACTIONS")
@click.option("--item", type=click.IntRange(1), metavar="N", help="The redaction to disclose: the number in its mark.")
@click.option("--out", "target", type=click.Path(), metavar="JSON", help="Where to write it.")
@click.option("--force", is_flag=True, help="Replace an existing output file.")
@json_option()
def command(file: str, item: int | None, target: str | None, force: bool, as_json: bool) -> None:
    """Disclose one redaction: its salt and original, for `transparency verify --disclosure`.

    REDACTIONS is the side file that was written beside the session. Without --item its redactions are listed, without
    what was redacted.
    """
    try:
        side = read_side_file(read_input(file))
    except TransparencyError as error:
        raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    if item is None:
        _list(side, as_json=as_json)
        return
    if item > len(side.items):
        raise CommandError(Exit.BAD_INPUT, f"{file} has {len(side.items)} redactions, no number {item}")
    if target is None:
        raise CommandError(Exit.USAGE, "--out says where the disclosure goes ('-' is standard output)")
    refuse_existing(target, force=force)
    disclosed = side.items[item - 1]
    body = disclosed.to_json()
    # 0600 as the side file: whoever may read it is the owner's decision.
    write_output(target, ascii_json(body).encode() + b"\n", force=force, mode=0o600)
    if as_json:
        print_json({"file": target, "item": item, "rule": disclosed.rule, "location": disclosed.location})
    else:
        done(f"{target}: discloses redaction {item} ({disclosed.rule} at {disclosed.location}) and no other")


def _list(side: SideFile, *, as_json: bool) -> None:
    if as_json:
        print_json({"record-sha-256": side.record, "items": [_shown(item) for item in side.items]})
        return
    console = out()
    for item in side.items:
        console.print(f"{item.number:>5}  {safe(item.rule):<16} [{DIM}]{safe(item.location)}[/]")


def _shown(item: Disclosure) -> dict[str, str | int]:
    return {"item": item.number, "rule": item.rule, "location": item.location}
