"""``transparency mirror``: keep a copy of logs, cosign what it has, and serve it (C2SP tlog-mirror)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from transparency.cli import mirror_logs
from transparency.cli.connection import is_protected, tls_context
from transparency.cli.cosigners import (
    init_options,
    listening_options,
    listening_settings,
    rate_option,
    tell_made,
    until_stopped,
)
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.mirror_logs import check_place
from transparency.cli.output import note, warn
from transparency.cli.passphrases import new_kept_passphrase
from transparency.cli.settings import Setting
from transparency.cli.verify_witnesses import load_policy
from transparency.cli.witness_folders import check_new, dir_option, is_mirror, print_vkeys, require_mirror
from transparency.cli.witness_logs import put_on_list, read_log
from transparency.client.places import is_web
from transparency.errors import StoreError

if TYPE_CHECKING:
    from transparency.mirror.folder import MirrorFolder

_F = TypeVar("_F", bound=Callable[..., Any])
_LIKE = "mirror.example/m1"
_FOLLOW = "follow"


class _Group(click.Group):
    """``transparency mirror LOG …`` is ``transparency mirror follow LOG …``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_FOLLOW, *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or (self.commands[_FOLLOW] if "://" in cmd_name else None)


@click.group(cls=_Group, epilog="\b\nExample: transparency mirror https://log.example --dir ./mirror --log-vkey VKEY")
def command() -> None:
    """Keep a copy of logs, cosign what it has, and serve it: follow LOG, or init, add-log, serve.

    `transparency mirror LOG --dir DIR` does all of it for one log. Logs may push to it as well, by C2SP tlog-mirror.
    """


command.add_command(mirror_logs.add_log)
command.add_command(mirror_logs.list_)
command.add_command(mirror_logs.evidence)
command.add_command(mirror_logs.check)
command.add_command(mirror_logs.push)
command.add_command(mirror_logs.statements)


def _serving(function: _F) -> _F:
    """The options of whatever runs a mirror."""
    for option in (
        click.option("--cacert", cls=Setting, type=click.Path(), metavar="FILE",
                     help="Trust this CA file for TLS too."),
        rate_option,
        click.option("--interval", type=click.FloatRange(1), default=10, show_default=True, metavar="S",
                     help="Between two looks at the logs that have a URL."),
        listening_options(8091),
    ):  # fmt: skip
        function = option(function)
    return function


@command.command(epilog="\b\nExample: transparency mirror init --dir ./mirror --name mirror.example/m1")
@dir_option(keys=True, keeper="mirror")
@init_options
def init(folder: Path, name: str, watermark: Path | None, encrypt_keys: bool, as_json: bool) -> None:
    """Make a mirror in DIR: two keys, Ed25519 and ML-DSA-44, and no entry of any log.

    Its verifier keys are printed, one a line: publish them.
    """
    check_new(folder, name, _LIKE)
    made = _make(folder, name, watermark, new_kept_passphrase() if encrypt_keys else None)
    tell_made(
        made, {"dir": str(folder), "name": name},
        f"{folder}: a mirror by the name {name}; these are its verifier keys, for whoever relies on its copies",
        f"next: transparency mirror add-log --dir {folder} VKEY --url URL, then mirror serve --dir {folder}",
        as_json=as_json,
    )  # fmt: skip


@command.command(epilog="\b\nExample: transparency mirror vkey --dir ./mirror")
@dir_option(keys=True, keeper="mirror")
def vkey(folder: Path) -> None:
    """Print the verifier keys of a mirror, one a line: the Ed25519 one, then the ML-DSA-44 one."""
    print_vkeys(require_mirror(folder))


@command.command(epilog="\b\nExample: transparency mirror serve --dir ./mirror --port 8091")
@dir_option(keys=True, keeper="mirror")
@_serving
def serve(folder: Path, **options: Any) -> None:  # noqa: ANN401 - those of _serving
    """Run the mirror in DIR until SIGTERM or Ctrl-C.

    When it is ready, one line with its URL is printed: the submission prefix and the monitoring prefix. Logs that have
    a URL are followed; all may push. Logs that are added meanwhile are noticed.
    """
    _run(require_mirror(folder), {}, **options)


@command.command(
    _FOLLOW, epilog="\b\nExample: transparency mirror follow https://log.example --dir ./mirror --policy log.policy"
)
@click.argument("log", metavar="LOG")
@dir_option(keys=True, keeper="mirror")
@click.option("--name", metavar="NAME", help="The mirror's name, if DIR has none yet: a URL, no https.")
@click.option("--policy", metavar="FILE", type=click.Path(), help="A C2SP policy file with the log's keys.")
@click.option("--log-vkey", multiple=True, metavar="VKEY", help="A verifier key of the log (repeatable).")
@click.option(
    "--token", cls=Setting, envvar="TRANSPARENCY_TOKEN", metavar="T",
    help="Access token that may read, to keep statements too [TRANSPARENCY_TOKEN].",
)  # fmt: skip
@_serving
def follow(
    log: str, folder: Path, name: str | None, policy: str | None, log_vkey: tuple[str, ...], token: str | None,
    **options: Any  # noqa: ANN401 - those of _serving
) -> None:  # fmt: skip
    """Mirror LOG in DIR and serve it: `init`, `add-log` and `serve` in one. The word `follow` may be left out.

    LOG is where a log serves C2SP tiles. Its keys are given once, from elsewhere than the log itself; a mirror that
    knows the log needs neither them nor --name.
    """
    check_place(log, "LOG")
    named = load_policy(policy)
    told = log_vkey + tuple(each.key.text for each in (named.logs if named is not None else ()))
    vkeys = tuple(dict.fromkeys(told))
    new = not is_mirror(folder)
    if new and name is None:
        hint = f"Give --name NAME to make one. It is like {_LIKE}."
        raise CommandError(Exit.NO_INPUT, f"there is no mirror in {folder}", hint)
    if new and not vkeys:
        raise _no_keys(log)
    if vkeys:
        read_log(vkeys, log)
    if new:
        assert name is not None  # noqa: S101 - refused above
        check_new(folder, name, _LIKE)
    found = _make(folder, name or "", options["watermark"], None) if new else require_mirror(folder)
    if vkeys:
        known, _ = put_on_list(found, vkeys, log, None, replace_keys=False)
        note(f"mirroring {known.origin} from {log}")
        origin: str | None = known.origin
    else:
        origin = _followed(found, log)
    if origin is None:
        raise _no_keys(log)
    if token is not None and is_web(log) and not is_protected(log):
        warn("the token goes over plain HTTP, readable on the way; use an https:// URL")
    _run(found, {} if token is None else {origin: token}, **options)


def _make(folder: Path, name: str, watermark: Path | None, passphrase: bytes | None) -> MirrorFolder:
    from transparency.mirror.folder import create_mirror

    with storage(folder):
        return create_mirror(folder, name, watermark, passphrase)


def _followed(found: MirrorFolder, url: str) -> str | None:
    """The origin of the log that is followed there."""
    from transparency.witness.logs import LogList

    return next((log.origin for log in LogList.read(found.logs).values() if log.url == url), None)


def _no_keys(log: str) -> CommandError:
    hint = "Give --log-vkey or --policy (its operator publishes what `transparency log vkey` prints)."
    return CommandError(Exit.USAGE, f"no key of the log at {log} is known, so anybody could speak for it", hint)


@contextmanager
def _starting(found: MirrorFolder) -> Iterator[None]:
    """Around a start: what it cannot read is the mirror's own, and no `log fsck` looks at that."""
    try:
        yield
    except StoreError as error:
        hint = (
            f"Look at its disk; `transparency mirror check --dir {found.path}` tells what is lost. Put the newest copy "
            "of that file back, never an older one; if there is none, start a new mirror with a new name."
        )
        raise CommandError(Exit.CANNOT_WRITE, f"{found.path}: the mirror cannot start: {error}", hint) from error


def _run(
    found: MirrorFolder, tokens: Mapping[str, str], *, interval: float, cacert: str | None, watermark: Path | None,
    **options: Any,  # noqa: ANN401 - those of listening_settings
) -> None:  # fmt: skip
    import asyncio

    from transparency.mirror.pull import PullSettings
    from transparency.mirror.serve import open_mirror
    from transparency.mirror.serve import serve as run

    settings = listening_settings(**options)
    pull = PullSettings(interval=interval, tls=tls_context(cacert), tokens=tokens)
    with (
        _starting(found),
        storage(found.path),
        open_mirror(found, watermark=watermark) as mirror,
        until_stopped(found.path, "mirror", settings),
    ):
        asyncio.run(run(found, mirror, settings, pull, click.echo))
    if mirror.damaged:
        words = "; ".join(f"{origin}: {fault}" for origin, fault in sorted(mirror.damaged.items()))
        hint = "What a log that is followed still has is fetched again by the next start; else see docs/mirror.md."
        raise CommandError(Exit.NEGATIVE, f"stopped, and not every entry that was cosigned is here: {words}", hint)
    note("stopped; every entry that was cosigned is here")
