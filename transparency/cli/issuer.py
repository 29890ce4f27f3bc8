"""``transparency issuer add|list|remove``: who may register. Each change is a new policy on the log itself."""

from __future__ import annotations

import re
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import change_policy, check_iss, require_log
from transparency.cli.keyfiles import load_public
from transparency.cli.output import done, note, out, print_json, safe
from transparency.cli.settings import data_option, json_option
from transparency.cose.keys import PublicKey
from transparency.errors import MalformedError
from transparency.log.admin import open_admin
from transparency.policy.document import Policy


@click.group()
def command() -> None:
    """Who may register: the issuers of the policy in force.

    Works while a server runs, too: a change is in force from the next batch on, without a restart.
    """


@command.command(
    "add", epilog="\b\nExample: transparency issuer add --data ./log --iss https://acme.example --key issuer.pub.pem"
)
@data_option()
@click.option("--iss", required=True, metavar="URI", help="The issuer, exactly as its statements say.")
@click.option(
    "--key",
    "keys",
    required=True,
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Its public key (repeatable): PEM, DER, JWK or COSE_Key.",
)
@json_option()
def add(data: Path, iss: str, keys: tuple[str, ...], as_json: bool) -> None:
    """Let an issuer register statements signed with these keys."""
    folder = require_log(data)
    check_iss(iss)
    public = load_public(keys)

    def build(policy: Policy, entry: str) -> Policy | None:
        known = policy.issuer(iss)
        if known is not None and {key.thumbprint for key in public} <= {key.thumbprint for key in known.keys}:
            return None
        try:
            return policy.with_issuer(iss, public, previous=entry)
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, str(error)) from error

    with open_admin(data) as admin:
        policy, registered = change_policy(admin, folder, build)
    _report(
        policy, iss, "may register now" if registered else "could register already; nothing changed", as_json=as_json
    )


@command.command("list", epilog="\b\nExample: transparency issuer list --data ./log")
@data_option()
@json_option()
def list_(data: Path, as_json: bool) -> None:
    """Show the issuers of the policy in force."""
    require_log(data)
    with open_admin(data, reading=True) as admin:
        policy = Policy.from_toml(admin.call("documents")["policy"])
    if as_json:
        rows = [{"iss": each.iss, "keys": [_row(key) for key in each.keys]} for each in policy.issuers]
        print_json({"generation": policy.generation, "issuers": rows})
        return
    console = out()
    for each in policy.issuers:
        console.print(f"[bold]{safe(each.iss)}[/]")
        for key in each.keys:
            console.print(f"  {key.thumbprint.hex()}  {safe(key.kty_name)}")
    if not policy.issuers:
        note("nobody may register yet: transparency issuer add --data DIR --iss URI --key FILE")


@command.command("remove", epilog="\b\nExample: transparency issuer remove --data ./log --iss https://acme.example")
@data_option()
@click.option("--iss", required=True, metavar="URI", help="The issuer.")
@click.option("--kid", metavar="HEX", help="Only this key of it: its id or thumbprint, or the beginning of either.")
@json_option()
def remove(data: Path, iss: str, kid: str | None, as_json: bool) -> None:
    """Stop an issuer, or one of its keys, from registering. What it registered stays."""
    folder = require_log(data)

    def build(policy: Policy, entry: str) -> Policy:
        known = policy.issuer(iss)
        if known is None:
            raise CommandError(Exit.BAD_INPUT, f"{iss} is not an issuer here", "See `transparency issuer list`.")
        return policy.without_issuer(iss, previous=entry, kid=None if kid is None else _find(known.keys, kid).kid)

    with open_admin(data) as admin:
        policy, _ = change_policy(admin, folder, build)
    _report(policy, iss, "may no longer register" + (" with that key" if kid else ""), as_json=as_json)


def _find(keys: tuple[PublicKey, ...], kid: str) -> PublicKey:
    found = [
        key for key in keys if key.kid.hex().startswith(kid.lower()) or key.thumbprint.hex().startswith(kid.lower())
    ]
    if not re.fullmatch(r"[0-9A-Fa-f]{4,}", kid) or len(found) != 1:
        raise CommandError(
            Exit.BAD_INPUT, f"--kid {kid} names {len(found)} of its keys", "Give at least 4 hex digits of one."
        )
    return found[0]


def _row(key: PublicKey) -> dict[str, str]:
    return {"thumbprint": key.thumbprint.hex(), "kid": key.kid.hex(), "type": key.kty_name}


def _report(policy: Policy, iss: str, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"iss": iss, "generation": policy.generation, "result": what})
        return
    done(f"{iss} {what} (policy generation {policy.generation})")
