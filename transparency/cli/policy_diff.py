"""``transparency policy diff``: what one policy allows that another does not."""

from __future__ import annotations

import click

from transparency.cli.exits import Exit
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, out, print_json, safe
from transparency.cli.policy_files import read_policy
from transparency.cli.settings import json_option
from transparency.policy.diff import ADDED, CHANGED, NARROWED, REMOVED, WIDENED, Change, compare

_MARKS = {ADDED: ("+", GOOD), REMOVED: ("-", BAD), WIDENED: (">", GOOD), NARROWED: ("<", BAD), CHANGED: ("~", UNSURE)}


@click.command("diff", epilog="\b\nExample: transparency policy diff old.toml new.toml")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@json_option()
def command(a: str, b: str, as_json: bool) -> None:
    """Say what policy B adds, removes, narrows or widens against policy A, per issuer and key. "-" is standard input.

    Exit 0 both allow the same, 1 they differ. Generation and predecessor are not compared.
    """
    old, new = read_policy(a), read_policy(b)
    found = compare(old, new)
    if as_json:
        print_json({
            "same": not found, "generations": [old.generation, new.generation],
            "changes": [{"kind": each.kind, "where": each.where, "what": each.what} for each in found],
        })  # fmt: skip
    else:
        _print(found)
    raise click.exceptions.Exit(Exit.NEGATIVE if found else Exit.OK)


def _print(found: list[Change]) -> None:
    console = out()
    for each in found:
        mark, style = _MARKS[each.kind]
        what = f": {safe(each.what)}" if each.what else ""
        console.print(f"[{style}]{mark} {each.kind:<8}[/] {safe(each.where)}{what}")
    if not found:
        console.print(f"[{DIM}]both allow the same[/]")
