"""``transparency issuer add|list|remove|compromise``: who may register. Each change is a new policy on the log."""

from __future__ import annotations

from pathlib import Path

import click

from transparency.cli import issuer_compromise
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import change_policy, check_iss, open_admin, require_log
from transparency.cli.issuer_files import find_key, load_jwks, load_roots, named_option
from transparency.cli.keyfiles import load_public
from transparency.cli.output import BAD, DIM, done, note, out, print_json, safe
from transparency.cli.settings import data_option, json_option
from transparency.cose.keys import PublicKey
from transparency.cose.x509 import Certificate
from transparency.errors import MalformedError
from transparency.policy.document import Policy
from transparency.policy.issuer import Issuer
from transparency.policy.toml import write_time


@click.group()
def command() -> None:
    """Who may register: the issuers of the policy in force.

    Works while a server runs, too: a change is in force from the next batch on, without a restart.
    """


command.add_command(issuer_compromise.command)


@command.command(
    "add", epilog="\b\nExample: transparency issuer add --data ./log --iss https://acme.example --key issuer.pub.pem"
)
@data_option()
@named_option()
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Its public key (repeatable): PEM, DER, JWK or COSE_Key.",
)
@click.option(
    "--jwks",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="A JWK Set: each of its keys that is for signatures.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="A CA certificate that its signers' lead to.",
)
@click.option(
    "--subject", "subjects", multiple=True, metavar="CN=NAME", help="What their subject must say (with --root)."
)
@click.option(
    "--san", "sans", multiple=True, metavar="dns:NAME", help="A name they must have: dns:, uri:, email: (one)."
)
@click.option("--eku", "ekus", multiple=True, metavar="OID", help="A use they must be for (one of them).")
@json_option()
def add(
    data: Path,
    iss: str | None,
    pattern: str | None,
    keys: tuple[str, ...],
    jwks: tuple[str, ...],
    roots: tuple[str, ...],
    subjects: tuple[str, ...],
    sans: tuple[str, ...],
    ekus: tuple[str, ...],
    as_json: bool,
) -> None:
    """Let an issuer register statements signed with these keys, or by holders of certificates under these roots."""
    folder = require_log(data)
    name = iss or pattern or ""
    if iss is not None:
        check_iss(iss)
    if not (keys or jwks or roots):
        raise CommandError(Exit.USAGE, "by which key?", "Give --key, --jwks or --root.")
    public = load_public(keys) + load_jwks(jwks)
    anchors = load_roots(roots, subjects, sans, ekus)

    def build(policy: Policy, entry: str) -> Policy | None:
        known = policy.issuer(name)
        if known is not None and _has(known, public) and all(root in known.roots for root in anchors):
            return None
        try:
            return policy.with_issuer(name, public, roots=anchors, previous=entry, is_pattern=pattern is not None)
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, str(error)) from error

    with open_admin(data) as admin:
        policy, registered = change_policy(admin, folder, build)
    _report(
        policy, name, "may register now" if registered else "could register already; nothing changed", as_json=as_json
    )


def _has(known: Issuer, public: tuple[PublicKey, ...]) -> bool:
    return {key.thumbprint for key in public} <= {key.thumbprint for key in known.keys}


@command.command("list", epilog="\b\nExample: transparency issuer list --data ./log")
@data_option()
@json_option()
def list_(data: Path, as_json: bool) -> None:
    """Show the issuers of the policy in force."""
    require_log(data)
    with open_admin(data, reading=True) as admin:
        policy = Policy.from_toml(admin.call("documents")["policy"])
    if as_json:
        print_json({"generation": policy.generation, "issuers": [_issuer_row(each) for each in policy.issuers]})
        return
    console = out()
    for each in policy.issuers:
        console.print(f"[bold]{safe(each.name)}[/]{f' [{DIM}](pattern)[/]' if each.pattern else ''}")
        for key in each.keys:
            console.print(f"  {key.thumbprint.hex()}  {safe(key.kty_name)}{_own_kid(key)}{_bounds(each, key)}")
        for root in each.roots:
            console.print(f"  root {safe(Certificate.from_der(root.der).name)}")
    if not policy.issuers:
        note("nobody may register yet: transparency issuer add --data DIR --iss URI --key FILE")


@command.command("remove", epilog="\b\nExample: transparency issuer remove --data ./log --iss https://acme.example")
@data_option()
@named_option()
@click.option("--kid", metavar="HEX", help="Only this key of it: its id or thumbprint, or the beginning of either.")
@json_option()
def remove(data: Path, iss: str | None, pattern: str | None, kid: str | None, as_json: bool) -> None:
    """Stop an issuer, or one of its keys, from registering. What it registered stays."""
    folder = require_log(data)
    name = iss or pattern or ""

    def build(policy: Policy, entry: str) -> Policy:
        known = policy.issuer(name)
        if known is None:
            raise CommandError(Exit.BAD_INPUT, f"{name} is not an issuer here", "See `transparency issuer list`.")
        return policy.without_issuer(name, previous=entry, kid=None if kid is None else find_key(known.keys, kid).kid)

    with open_admin(data) as admin:
        policy, _ = change_policy(admin, folder, build)
    _report(policy, name, "may no longer register" + (" with that key" if kid else ""), as_json=as_json)


def _issuer_row(issuer: Issuer) -> dict[str, object]:
    row: dict[str, object] = {"iss": issuer.iss} if issuer.iss else {"pattern": issuer.pattern}
    row["keys"] = [_row(issuer, key) for key in issuer.keys]
    if issuer.roots:
        row["roots"] = [Certificate.from_der(root.der).subject.rfc4514_string() for root in issuer.roots]
    return row


def _row(issuer: Issuer, key: PublicKey) -> dict[str, str]:
    return {"thumbprint": key.thumbprint.hex(), "kid": key.kid.hex(), "type": key.kty_name, **_times(issuer, key)}


def _times(issuer: Issuer, key: PublicKey) -> dict[str, str]:
    bounds = issuer.validity_of(key.kid)
    times = (
        ("not-before", bounds.not_before),
        ("not-after", bounds.not_after),
        ("compromised-since", bounds.compromised_since),
    )
    return {name: write_time(at) for name, at in times if at is not None}


def _own_kid(key: PublicKey) -> str:
    return "" if key.kid == key.thumbprint else f"  [{DIM}]kid {key.kid.hex()}[/]"


def _bounds(issuer: Issuer, key: PublicKey) -> str:
    return "".join(
        f"  [{BAD if name == 'compromised-since' else DIM}]{name} {at}[/]" for name, at in _times(issuer, key).items()
    )


def _report(policy: Policy, iss: str, what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"iss": iss, "generation": policy.generation, "result": what})
        return
    done(f"{iss} {what} (policy generation {policy.generation})")
