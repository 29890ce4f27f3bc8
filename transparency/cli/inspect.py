"""``transparency inspect``: what a file says, without believing it."""

from __future__ import annotations

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import read_input
from transparency.cli.output import note, out, print_json, print_tree, safe
from transparency.cli.settings import json_option
from transparency.cli.views import view
from transparency.errors import TransparencyError

_VERIFIABLE = ("receipt", "tlog-proof", "evidence against a log")


@click.command(epilog="\b\nExample: transparency inspect session.t.cose")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@json_option()
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Show what a statement, receipt, checkpoint, proof, evidence file or key says. "-" reads standard input.

    Nothing is checked here: `transparency verify` does that. Of a private key only the public part is shown.
    """
    views = []
    for file in files:
        try:
            views.append(view(read_input(file)))
        except TransparencyError as error:
            raise CommandError(Exit.BAD_INPUT, f"{file}: {error}") from error
    if as_json:
        print_json(
            views[0] if len(views) == 1 else [{"file": file, **item} for file, item in zip(files, views, strict=True)]
        )
        return
    console = out()
    for file, item in zip(files, views, strict=True):
        console.print(f"[bold]{safe(file)}[/]: {safe(item['kind'])}")
        print_tree({name: value for name, value in item.items() if name != "kind"}, console, 1)
    if any("statement" in item["kind"] or item["kind"] in _VERIFIABLE for item in views):
        note("not verified: use `transparency verify`")
