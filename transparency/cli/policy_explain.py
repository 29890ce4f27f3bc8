"""``transparency policy explain``: which rule accepts or refuses a statement, and why."""

from __future__ import annotations

import time
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input
from transparency.cli.output import BAD, DIM, GOOD, out, print_json, safe
from transparency.cli.policy_files import connection_options, in_force, read_policy
from transparency.cli.settings import json_option, refuse_several
from transparency.errors import PayloadMissingError, TransparencyError
from transparency.policy.document import Policy
from transparency.policy.explain import Step, explain, refusal
from transparency.policy.judge import Judge
from transparency.statements.statement import Statement

_MARKS = {True: ("✓", GOOD), False: ("✗", BAD), None: ("-", DIM)}


@click.command("explain", epilog="\b\nExample: transparency policy explain session.cose --data ./log")
@click.argument("statement", type=click.Path())
@connection_options()
@click.option(
    "--policy", "policy_file", type=click.Path(), metavar="FILE", help="Or: a policy that is not in force yet."
)
@click.option("--payload", type=click.Path(), metavar="FILE", help="The payload of a detached statement.")
@json_option()
def command(
    statement: str,
    data: Path | None,
    log: str | None,
    token: str | None,
    cacert: str | None,
    policy_file: str | None,
    payload: str | None,
    as_json: bool,
) -> None:
    """Show every rule that applies to STATEMENT, and which one refuses it, by the policy in force and the time now.

    Exit 0 accepted, 1 refused, 65 not a statement. Nothing is registered.
    """
    refuse_several("data", "log", "policy_file")
    made = _read(statement, payload)
    policy = read_policy(policy_file) if policy_file else Policy.from_toml(in_force(data, log, token, cacert))
    steps = explain(Judge(policy), made, int(time.time()))
    refused = refusal(steps)
    if as_json:
        print_json({
            "entry": made.entry_id, "iss": made.iss, "generation": policy.generation, "accepted": refused is None,
            "refused-by": None if refused is None else refused.rule,
            "rules": [{"rule": step.rule, "passed": step.passed, "reason": step.reason} for step in steps],
        })  # fmt: skip
    else:
        _print(steps, refused, policy)
    raise click.exceptions.Exit(Exit.OK if refused is None else Exit.NEGATIVE)


def _read(file: str, payload: str | None) -> Statement:
    body = None if payload is None else read_input(payload, may_be_empty=True)
    name = "standard input" if file == STDIO else file
    try:
        return Statement.from_bytes(read_input(file), body)
    except PayloadMissingError as error:
        raise CommandError(Exit.BAD_INPUT, f"{name}: {error}", "Give it with --payload.") from error
    except TransparencyError as error:
        # What a log would answer before it looks at its policy.
        raise CommandError(Exit.BAD_INPUT, f"{name}: {error}") from error


def _print(steps: list[Step], refused: Step | None, policy: Policy) -> None:
    console = out()
    verdict = "accepted" if refused is None else f"refused by {refused.rule}"
    style = GOOD if refused is None else BAD
    console.print(f"[{style}]{verdict}[/] (policy generation {policy.generation} of {safe(policy.log)})")
    width = max(len(step.rule) for step in steps)
    for step in steps:
        mark, style = _MARKS[step.passed]
        console.print(f"  [{style}]{mark}[/] {step.rule:<{width}}  {safe(step.reason)}")
