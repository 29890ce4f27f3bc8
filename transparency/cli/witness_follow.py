"""``transparency witness init-follower|follow``: the compliance witness, which cosigns a log after replaying it."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from transparency.cli.audit import read_thumbprint
from transparency.cli.connection import is_protected, tls_context
from transparency.cli.cosigners import init_options, listening_options, listening_settings, tell_made
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.files import read_input
from transparency.cli.folders import check_iss
from transparency.cli.listening import cannot_listen
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, note, out, progress, safe, warn
from transparency.cli.passphrases import new_kept_passphrase
from transparency.cli.report_options import software
from transparency.cli.settings import Setting, json_option
from transparency.cli.witness_folders import check_new, dir_option, require_follower
from transparency.errors import LogUnusableError, MalformedError, TransparencyError

if TYPE_CHECKING:
    from transparency.server.settings import ServerSettings
    from transparency.witness.follow import Round
    from transparency.witness.follow_folder import FollowerFolder
    from transparency.witness.follow_serve import FollowSettings
    from transparency.witness.monitor_calls import Calls
    from transparency.witness.state import WitnessState

_STYLES: Final = {"misbehaviour": BAD, "records": UNSURE, "trouble": UNSURE, "not-told": UNSURE}
_EXITS: Final = {"cosigned": Exit.OK, "current": Exit.OK, "waiting": Exit.TRY_LATER,
                 "unreachable": Exit.UNREACHABLE, "refused": Exit.REFUSED}  # fmt: skip
Event = dict[str, Any]


@click.command(
    epilog="\b\nExample: transparency witness init-follower --dir ./compliance --name control.example/c1"
    " --policy-key 5f1c… --iss https://control.example"
)
@dir_option(keys=True)
@init_options
@click.option("--policy-key", required=True, metavar="THUMBPRINT",
              help="The log's policy key, as its operator published it: that is which log is followed.")  # fmt: skip
@click.option("--iss", required=True, metavar="URI", help="The issuer of its attestations.")
def init_follower(
    folder: Path, name: str, policy_key: str, iss: str, watermark: Path | None, encrypt_keys: bool, as_json: bool
) -> None:
    """Make a compliance witness in DIR, for the log with this policy key: cosigning keys, and an issuer's key.

    Its verifier keys are printed, one a line: publish them. DIR/issuer.pub.pem goes to the log's operator, who lets it
    register attestations with `transparency issuer add`.
    """
    from transparency.witness.follow_folder import create_follower

    pinned = read_thumbprint(policy_key)
    check_iss(iss)
    check_new(folder, name, "control.example/c1")
    passphrase = new_kept_passphrase() if encrypt_keys else None
    with storage(folder):
        made = create_follower(folder, name, pinned, iss, watermark, passphrase)
    tell_made(
        made,
        {"dir": str(folder), "name": name, "iss": iss, "issuer-key": str(folder / "issuer.pub.pem")},
        f"{folder}: a compliance witness by the name {name}; these are its verifier keys, for verifiers to trust",
        f"for the log's operator: transparency issuer add --data DIR --iss {iss} --key {folder / 'issuer.pub.pem'}",
        f"next: transparency witness follow LOG --dir {folder} --token T",
        as_json=as_json,
    )


@click.command(epilog="\b\nExample: transparency witness follow https://log.example --dir ./compliance --token T")
@click.argument("log", metavar="LOG")
@dir_option(keys=True)
@click.option("--token", cls=Setting, envvar="TRANSPARENCY_TOKEN", metavar="T",
              help="Access token that may read, and register attestations [TRANSPARENCY_TOKEN].")  # fmt: skip
@click.option("--cacert", cls=Setting, type=click.Path(), metavar="FILE", help="Trust this CA file for TLS too.")
@click.option("--once", is_flag=True, help="One round, without serving: exit 0 if it is cosigned, 1 if not.")
@click.option("--interval", type=click.FloatRange(0.05, 3600), default=10, show_default=True, metavar="S",
              help="Seconds between rounds.")  # fmt: skip
@click.option("--period", type=click.IntRange(1), default=86_400, show_default=True, metavar="S",
              help="Seconds from one attestation to the next, at least.")  # fmt: skip
@click.option("--also", metavar="URL", help="Register attestations on this log, too.")
@click.option("--also-token", envvar="TRANSPARENCY_ALSO_TOKEN", metavar="T",
              help="Access token for that [TRANSPARENCY_ALSO_TOKEN].")  # fmt: skip
@click.option("--settings", "settings_file", type=click.Path(), metavar="TOML",
              help="Thresholds of the checks (docs/checks.md).")  # fmt: skip
@click.option("--webhook", metavar="URL", help="POST each alert there, as JSON.")
@click.option(
    "--exec",
    "command_line",
    metavar="CMD",
    help="Run this program for each alert, without a shell: JSON on its standard input.",
)
@click.option("--alerts-per-hour", type=click.IntRange(1), default=60, show_default=True, metavar="N",
              help="More are held back until there is room.")  # fmt: skip
@click.option("--public-findings", is_flag=True, help="Show findings to everybody, not only to this machine.")
@listening_options(8091)
@json_option()
def follow(
    log: str, folder: Path, token: str | None, cacert: str | None, once: bool, interval: float, period: int,
    also: str | None, also_token: str | None, settings_file: str | None, webhook: str | None, command_line: str | None,
    alerts_per_hour: int, public_findings: bool, watermark: Path | None, as_json: bool,
    **options: Any,  # noqa: ANN401 - those of listening_settings
) -> None:  # fmt: skip
    """Follow LOG: replay and check every entry, cosign each checkpoint that the log has earned, attest what was found.

    A cosignature is withheld only when the log itself misbehaved; what records look like is counted, and registered as
    an attestation. When it is ready one line with its URL is printed, where checkpoint and findings are to be had.
    """
    from transparency.witness.state import open_state

    found = require_follower(folder)
    _check_config(found)
    if token is not None and not is_protected(log):
        warn("the token goes over plain HTTP, readable on the way; use an https:// URL")
    server = None if once else listening_settings(**options)
    tls = tls_context(cacert)
    settings = _settings(
        settings_file, url=log, token=token, tls=tls, interval=interval, period=period, also=also,
        also_token=also_token, per_hour=alerts_per_hour, public=public_findings,
    )  # fmt: skip
    try:
        calls = _calls(webhook, command_line, tls)
        with storage(found.state), open_state(found, watermark=watermark) as state:
            last = asyncio.run(_run(found, state, settings, server, calls, as_json=as_json))
    except OSError as error:
        raise cannot_listen(options["host"], options["port"], error) or error from error
    if once:
        raise click.exceptions.Exit(_EXITS.get(last.what, Exit.NEGATIVE))
    note("stopped; everything that was cosigned is recorded")


def _check_config(folder: FollowerFolder) -> None:
    from transparency.witness.follow_folder import FollowConfig

    try:
        FollowConfig.read(folder.follow)
    except LogUnusableError as error:
        hint = "Put back what `transparency witness init-follower` wrote: policy-key and iss."
        raise CommandError(Exit.BAD_INPUT, str(error), hint) from error


async def _run(
    folder: FollowerFolder, state: WitnessState, settings: FollowSettings, server: ServerSettings | None,
    calls: Calls | None, *, as_json: bool,
) -> Round:  # fmt: skip
    from transparency.witness.follow_serve import following, serve

    with _catching_up(quiet=as_json) as told:
        say = _say_json if as_json else _say
        async with following(folder, state, settings, clock=time.time, say=say, told=told, calls=calls) as witness:
            if server is not None:
                await serve(witness, folder, settings, server, click.echo)
                return witness.follower.last
            last = await witness.round()
            # An attestation makes the log grow by one: that is looked at as well.
            if last.what == "cosigned":
                last = await witness.round()
    if as_json:
        recorded = witness.follower.recorded
        _say_json({"event": "round", "log": witness.follower.origin or None, "what": last.what, "size": last.size,
                   "detail": last.detail, "cosigned": None if recorded is None else recorded.size})  # fmt: skip
        return last
    detail = f": {last.detail}" if last.detail else ""
    cosigned = "nothing" if witness.follower.recorded is None else f"size {witness.follower.recorded.size}"
    note(f"{witness.follower.origin or 'the log'}: {last.what}{detail} (cosigned is {cosigned})")
    return last


@contextmanager
def _catching_up(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar while there is a backlog; it goes away at its end."""
    with progress("replaying", quiet=quiet) as bar:
        task = bar.add_task("entries", total=None, visible=False)

        def told(size: int, total: int) -> None:
            bar.update(task, completed=size, total=total, visible=size < total)

        yield told


def _settings(path: str | None, **values: Any) -> FollowSettings:  # noqa: ANN401 - the settings' own members
    from transparency.client.places import base_url
    from transparency.compliance.log_settings import LogSettings
    from transparency.compliance.settings import Settings
    from transparency.witness.follow_serve import FollowSettings

    for url in (values["url"], values["also"]):
        try:
            base_url(url if url is not None else values["url"])
        except MalformedError as error:
            raise CommandError(Exit.USAGE, str(error)) from error
    if path is not None:
        toml = read_input(path)
        try:
            values |= {"settings": Settings.from_toml(toml), "log_settings": LogSettings.from_toml(toml)}
        except MalformedError as error:
            raise CommandError(Exit.BAD_INPUT, f"{path}: {error}", "docs/checks.md has every setting.") from error
    return FollowSettings(software=software(), **values)


def _calls(webhook: str | None, command_line: str | None, tls: Any) -> Calls | None:  # noqa: ANN401 - an SSLContext, or None
    from transparency.witness.monitor_calls import Calls

    try:
        return Calls(webhook, command_line, tls) if webhook or command_line else None
    except TransparencyError as error:
        raise CommandError(Exit.USAGE, str(error)) from error


def _say(event: Event) -> None:
    console = out()
    kind = str(event["event"])
    console.print(f"[{_STYLES.get(kind, GOOD)}]•[/] [bold]{kind}[/] {safe(str(event.get('code', '')))}")
    for name in ("index", "entry", "what", "detail", "first", "end", "failing", "checks"):
        if name in event:
            console.print(f"    [{DIM}]{name}[/] {safe(_words(event[name]))}")


def _words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items())
    return str(value)


def _say_json(event: Event) -> None:
    """One object a line, as it happens."""
    sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
    sys.stdout.flush()
