"""``transparency token create|list|revoke``: who may talk to the server. Secrets are shown once and kept hashed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import check_iss, require_log
from transparency.cli.output import done, note, out, print_json, safe, timestamp
from transparency.cli.settings import data_option, json_option
from transparency.errors import MalformedError
from transparency.log.access_log import record_local
from transparency.log.folder import Config
from transparency.policy.patterns import Pattern
from transparency.server.tokens import MAX_ISSUERS, MAX_NOTE_CHARS, Scope, Token, TokenStore

DAMAGED = "It holds nothing but tokens: move it away, and make new ones with `transparency token create`."
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400, "y": 365 * 86400}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([hdwy])")


@click.group()
def command() -> None:
    """Access tokens of a server: create, list, revoke. In force at once, also while the server runs."""


@command.command(epilog="\b\nExample: transparency token create --data ./log --scope submit --note ci --expires 90d")
@data_option(keys=False)
@click.option("--scope", "scopes", multiple=True, type=click.Choice([str(scope) for scope in Scope]),
              default=("submit", "read"), show_default=True, help="What it allows (repeatable).")  # fmt: skip
@click.option("--iss", "issuers", multiple=True, metavar="URI|PATTERN",
              help="Submit for this issuer only (repeatable); in patterns * is one label, ** anything.")  # fmt: skip
@click.option("--rate", type=click.IntRange(1), metavar="N",
              help="Requests a minute, instead of what the server gives to each client.")  # fmt: skip
@click.option("--note", "text", default="", metavar="TEXT", help="Whose it is, for the list.")
@click.option("--expires", metavar="12h|90d|4w|1y", help="When it ends. Default: never.")
@json_option()
def create(
    data: Path, scopes: tuple[str, ...], issuers: tuple[str, ...], rate: int | None, text: str, expires: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Make a token and print its secret, which is not kept."""
    if len(text) > MAX_NOTE_CHARS:
        raise CommandError(Exit.USAGE, f"--note has more than {MAX_NOTE_CHARS} characters")
    _check_issuers(scopes, issuers)
    until = None if expires is None else int(time.time()) + _seconds(expires)
    with _store(data) as store:
        token_id, secret = store.create(scopes, text, until, issuers=issuers, rate=rate)
    _record(data, "token-create", token_id)
    if as_json:
        print_json({"id": token_id, "secret": secret, "scopes": sorted(set(scopes)), "expires": until,
                    "issuers": sorted(set(issuers)), "rate": rate})  # fmt: skip
        return
    click.echo(secret)
    done(f"token {token_id} ({', '.join(sorted(set(scopes)))}), expires {timestamp(until) if until else 'never'}")
    note("this secret is shown once; give it to a client as TRANSPARENCY_TOKEN")


@command.command("list", epilog="\b\nExample: transparency token list --data ./log")
@data_option(keys=False)
@json_option()
def list_(data: Path, as_json: bool) -> None:
    """Show all tokens, without their secrets."""
    with _store(data) as store:
        tokens = store.list()
    now = time.time()
    if as_json:
        print_json([
            {"id": token.id, "scopes": sorted(token.scopes), "note": token.note, "created": token.created,
             "expires": token.expires, "revoked": token.revoked, "in-force": token.in_force(now),
             "issuers": list(token.issuers), "rate": token.rate}
            for token in tokens
        ])  # fmt: skip
        return
    console = out()
    for token in tokens:
        console.print(
            f"{token.id}  {_state(token, now):<22}  {', '.join(sorted(token.scopes)):<12}  {safe(token.note)}"
        )
        limits = [*(f"for {safe(issuer)}" for issuer in token.issuers)]
        limits += [f"{token.rate} requests a minute"] if token.rate is not None else []
        if limits:
            console.print(f"              only {', '.join(limits)}")
    if not tokens:
        note("there are no tokens: transparency token create --data DIR")


@command.command(epilog="\b\nExample: transparency token revoke --data ./log 0123456789ab")
@data_option(keys=False)
@click.argument("token_id", metavar="ID")
@json_option()
def revoke(data: Path, token_id: str, as_json: bool) -> None:
    """Put a token out of force, for good."""
    with _store(data) as store:
        token = store.revoke(token_id)
    _record(data, "token-revoke", token_id)
    if as_json:
        print_json({"id": token.id, "revoked": token.revoked})
        return
    done(f"token {token.id} is revoked")


@contextmanager
def _store(data: Path) -> Iterator[TokenStore]:
    path = require_log(data).access
    with storage(path, DAMAGED), closing(TokenStore(path)) as store:
        yield store


def _record(data: Path, action: str, token_id: str) -> None:
    folder = require_log(data)
    record_local(folder.path, Config.read(folder.config).origin, action, f"token:{token_id}")


def _check_issuers(scopes: tuple[str, ...], issuers: tuple[str, ...]) -> None:
    if issuers and Scope.SUBMIT not in scopes:
        raise CommandError(Exit.USAGE, "--iss limits what a token may submit: it needs --scope submit")
    if len(set(issuers)) > MAX_ISSUERS:
        raise CommandError(Exit.USAGE, f"a token is for at most {MAX_ISSUERS} issuers; a pattern names many")
    for issuer in issuers:
        if "*" not in issuer:
            check_iss(issuer)
            continue
        try:
            Pattern(issuer)
        except MalformedError as error:
            raise CommandError(Exit.USAGE, f"--iss {issuer!r}: {error}") from error


def _seconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise CommandError(Exit.USAGE, "--expires is a number with h, d, w or y, as in 90d")
    return int(match[1]) * _UNITS[match[2]]


def _state(token: Token, now: float) -> str:
    if token.revoked is not None:
        return "revoked"
    if not token.in_force(now):
        return "expired"
    return f"until {timestamp(token.expires)[:10]}" if token.expires is not None else "in force"
