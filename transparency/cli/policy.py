"""``transparency policy show|check|diff|explain|set``: what a log accepts, as the document that stands on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from transparency.cli import policy_diff, policy_explain
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO
from transparency.cli.folders import change_policy, open_admin, require_log
from transparency.cli.output import BAD, GOOD, done, out, print_json, safe
from transparency.cli.policy_files import connection_options, in_force, read_document, read_policy
from transparency.cli.settings import data_option, json_option
from transparency.display import safe_text
from transparency.errors import MalformedError
from transparency.policy import contradictions
from transparency.policy.document import Issuer, Policy
from transparency.policy.toml_lines import line_of

_WIDEST = 100_000


@click.group()
def command() -> None:
    """The registration policy: who may register what. `docs/policy.md` explains every member."""


command.add_command(policy_diff.command)
command.add_command(policy_explain.command)


@command.command(epilog="\b\nExample: transparency policy show --log https://log.example")
@connection_options()
@json_option()
def show(data: Path | None, log: str | None, token: str | None, cacert: str | None, as_json: bool) -> None:
    """Print the policy in force (TOML), of a folder or of a log."""
    toml = in_force(data, log, token, cacert)
    if as_json:
        policy = Policy.from_toml(toml)
        print_json({
            "log": policy.log, "generation": policy.generation, "previous": policy.previous,
            "policy-key-thumbprint": policy.policy_key.thumbprint.hex(), "algorithms": list(policy.algorithms),
            "content-types": list(policy.content_types), "max-statement-size": policy.max_statement_size,
            "max-artifact-size": policy.max_artifact_size, "duplicates": policy.duplicates,
            "issuers": [_issuer(each) for each in policy.issuers],
        })  # fmt: skip
        return
    # It comes from elsewhere: line by line, so that only its line ends are line ends.
    for line in toml.decode("utf-8").removesuffix("\n").split("\n"):
        click.echo(safe_text(line, _WIDEST))


def _issuer(issuer: Issuer) -> dict[str, object]:
    named = {"iss": issuer.iss} if issuer.iss else {"pattern": issuer.pattern}
    roots = {"roots": len(issuer.roots)} if issuer.roots else {}
    return {**named, "keys": [key.thumbprint.hex() for key in issuer.keys], **roots, "retention": issuer.retention}


@command.command(epilog="\b\nExample: transparency policy check policy.toml")
@click.argument("file", type=click.Path())
@json_option()
def check(file: str, as_json: bool) -> None:
    """Check a policy FILE before it is put in force. "-" reads standard input.

    Exit 0 good, 1 it contradicts itself (each place is listed with its line), 65 not a policy document.
    """
    data = read_document(file)
    name = "standard input" if file == STDIO else file
    try:
        policy = Policy.read(data, name)
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, str(error)) from error
    found = [(line_of(data, problem.path), problem.text) for problem in contradictions.find(policy)]
    if as_json:
        print_json({
            "file": file, "good": not found, "generation": policy.generation, "issuers": len(policy.issuers),
            "problems": [{"line": line, "message": text} for line, text in found],
        })  # fmt: skip
    else:
        for line, text in found:
            out().print(f"[{BAD}]✗[/] {safe(name)}:{line}: {safe(text)}")
        if not found:
            told = f"good, as generation {policy.generation} of {policy.log}; issuers: {len(policy.issuers)}"
            out().print(f"[{GOOD}]✓[/] {safe(name)}: {safe(told)}")
    raise click.exceptions.Exit(Exit.NEGATIVE if found else Exit.OK)


@command.command("set", epilog="\b\nExample: transparency policy set policy.toml --data ./log")
@click.argument("file", type=click.Path())
@data_option()
@click.option("--force", is_flag=True, help="Also if another policy came in force since FILE was taken.")
@json_option()
def set_(file: str, data: Path, force: bool, as_json: bool) -> None:
    """Put an edited policy FILE in force: it is signed and registered as the next generation.

    Take the file with `policy show`, edit it, look at `policy diff`, set it. `generation` and `previous` are filled in
    here; left as they were, they say which policy was edited, and one that came in between is not lost unnoticed.
    Works while a server runs, too.
    """
    folder = require_log(data)
    wanted = read_policy(file)

    def build(policy: Policy, entry: str) -> Policy | None:
        _check_successor(policy, entry, wanted, file, force=force)
        following = replace(wanted, generation=policy.generation + 1, previous=entry)
        if following.to_toml() == policy.following(entry).to_toml():
            return None
        following.check()
        return following

    with open_admin(data) as admin:
        policy, registered = change_policy(admin, folder, build)
    told = "in force now" if registered else "in force already; nothing changed"
    if as_json:
        print_json({"generation": policy.generation, "result": told})
        return
    done(f"{file} is {told} (policy generation {policy.generation})")


def _check_successor(policy: Policy, entry: str, wanted: Policy, file: str, *, force: bool) -> None:
    if wanted.log != policy.log:
        raise CommandError(Exit.BAD_INPUT, f"{file} is for the log {wanted.log}, this is {policy.log}")
    if wanted.policy_key != policy.policy_key:
        raise CommandError(
            Exit.BAD_INPUT, f"{file} names another policy key", "The policy key stays as it was; edit the rest."
        )
    edited = (wanted.generation, wanted.previous) == (policy.generation, policy.previous)
    numbered = (wanted.generation, wanted.previous) == (policy.generation + 1, entry)
    if not (edited or numbered or force):
        raise CommandError(
            Exit.BAD_INPUT, f"{file} was made from generation {wanted.generation}, in force is {policy.generation}",
            "Compare with `policy show` and `policy diff`, then set `generation` and `previous` as shown, or --force.",
        )  # fmt: skip
