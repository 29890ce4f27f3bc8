"""``transparency monitor``: follow logs from outside, and say when one breaks its word."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from transparency.cli.connection import is_protected, tls_context
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import BAD, DIM, GOOD, UNSURE, note, out, safe, timestamp, warn
from transparency.cli.settings import Setting, json_option
from transparency.cli.verify_evidence import read_vkeys
from transparency.cli.verify_witnesses import load_policy
from transparency.errors import FolderOwnedError, MalformedError, TransparencyError
from transparency.log.waiting import is_set_within

if TYPE_CHECKING:
    from transparency.witness.monitor import Monitor, Round

_STYLES: Final = {"alarm": BAD, "ended": GOOD, "match": UNSURE, "not-told": UNSURE}
_MARKS: Final = {"alarm": "✗", "ended": "✓", "match": "•", "not-told": "!"}


@click.command(
    epilog="\b\nExample: transparency monitor https://log.example https://mirror.example/log --policy log.policy"
)
@click.argument("logs", nargs=-1, metavar="[LOG]...")
@click.option(
    "--policy", metavar="FILE", type=click.Path(), help="A C2SP policy file: the log's keys, witnesses, quorum."
)
@click.option(
    "--log-vkey", multiple=True, metavar="VKEY", help="A verifier key of a log, without a policy (repeatable)."
)
@click.option(
    "--state", type=click.Path(path_type=Path), metavar="DIR",
    help="What was seen, and the evidence [~/.local/state/transparency/monitor].",
)  # fmt: skip
@click.option(
    "--once", is_flag=True,
    help="One round: exit 0 if all is well, 1 on an alarm, 69 if no log answers, 75 if something has to wait.",
)  # fmt: skip
@click.option(
    "--interval", type=click.FloatRange(1), default=60, show_default=True, metavar="S", help="Between rounds."
)
@click.option(
    "--frozen-after", type=click.IntRange(1), default=86_400, show_default=True, metavar="S",
    help="Alarm when there was no new entry and no newly signed time for this long.",
)  # fmt: skip
@click.option("--from-start", is_flag=True, help="Rebuild the first tree from entry 0 instead of beginning with it.")
@click.option("--watch-iss", multiple=True, metavar="URI", help="Tell of new entries of this issuer (repeatable).")
@click.option("--watch-sub", multiple=True, metavar="TEXT", help="Tell of new entries on this subject (repeatable).")
@click.option(
    "--watch-session", multiple=True, metavar="ID", help="Tell of new entries with this session (repeatable)."
)
@click.option(
    "--acknowledge-split-view", "acknowledged", metavar="ORIGIN",
    help="Only put aside the split views of this log, in the state: they are an alarm in every round until then.",
)  # fmt: skip
@click.option("--webhook", metavar="URL", help="POST each event there, as JSON.")
@click.option("--exec", "command_line", metavar="CMD", help="Run this for each event: JSON on its standard input.")
@click.option(
    "--token", cls=Setting, envvar="TRANSPARENCY_TOKEN", metavar="T",
    help="Access token that may read, for --watch [TRANSPARENCY_TOKEN].",
)  # fmt: skip
@click.option("--cacert", cls=Setting, type=click.Path(), metavar="FILE", help="Trust this CA file for TLS too.")
@json_option()
def command(
    logs: tuple[str, ...], policy: str | None, log_vkey: tuple[str, ...], state: Path | None, once: bool,
    interval: float, frozen_after: int, from_start: bool, watch_iss: tuple[str, ...], watch_sub: tuple[str, ...],
    watch_session: tuple[str, ...], acknowledged: str | None, webhook: str | None, command_line: str | None,
    token: str | None, cacert: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Follow logs: any that serve C2SP tiles. LOG is a URL of one; several URLs of one log are compared.

    Without LOG the URLs in the policy are followed. Alarms: split-view, rollback, frozen, missing-quorum, unreachable,
    bad-tile, bad-checkpoint, not-compared; what convicts the log is kept under the state folder, for `transparency
    verify x.evidence`.
    Watching needs a log of this project and a token that may read: hash tiles do not say what entries are about.
    """
    home = _state_folder() if state is None else state
    if home.exists() and not home.is_dir():
        raise CommandError(Exit.USAGE, f"--state {home} is a file", "Name a folder: new, or that of a monitor.")
    if acknowledged is not None:
        _acknowledge(home, acknowledged)
        return
    named = load_policy(policy)
    keys = read_vkeys(log_vkey)
    urls = list(logs)
    if named is not None:
        keys += [log.key for log in named.logs if log.key not in keys]
        urls = urls or [log.url for log in named.logs if log.url is not None]
    if not urls:
        raise CommandError(Exit.USAGE, "no log to follow", "Give its URL, or a --policy file whose log line has one.")
    if not keys:
        hint = "Give --policy FILE or --log-vkey (its operator publishes what `transparency log vkey` prints)."
        raise CommandError(Exit.USAGE, "no key of the log is known, so anybody could speak for it", hint)
    values = {"issuer": watch_iss, "subject": watch_sub, "session": watch_session}
    watches = tuple((kind, value) for kind, given in values.items() for value in given)
    if watches and token is not None and not all(is_protected(url) for url in urls):
        warn("the token goes over plain HTTP, readable on the way; use an https:// URL")
    # Here, and not above: aiohttp takes longer to import than many a command to run.
    from transparency.witness.monitor import Monitor, MonitorSettings
    from transparency.witness.monitor_calls import Calls
    from transparency.witness.monitor_state import MonitorFolder

    tls = tls_context(cacert)
    settings = MonitorSettings(
        tuple(dict.fromkeys(urls)), tuple(keys), named, frozen_after, from_start, watches, token, tls
    )  # fmt: skip
    folder = MonitorFolder(home)
    try:
        calls = Calls(webhook, command_line, tls) if webhook or command_line else None
        monitor = Monitor(settings, folder, time.time, _say_json if as_json else _say, calls)
    except TransparencyError as error:
        raise CommandError(Exit.USAGE, str(error)) from error
    try:
        found = asyncio.run(_follow(monitor, None if once else interval, as_json=as_json))
    except FolderOwnedError as error:
        raise _owned(home) from error
    except MalformedError as error:
        # It says which file, and what to do: the usual advice about files would lead away from that.
        raise CommandError(Exit.BAD_INPUT, str(error)) from error
    raise click.exceptions.Exit(_verdict(found) if once else Exit.OK)


async def _follow(monitor: Monitor, interval: float | None, *, as_json: bool) -> Round:
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with monitor:
        while True:
            found = await monitor.round()
            if not as_json:
                _summary(found)
            if interval is None or await is_set_within(stop, interval):
                return found


def _acknowledge(home: Path, origin: str) -> None:
    """Put the split views of a log aside. Loud: from then on a monitor is silent about what it has seen signed."""
    from transparency.witness.monitor_state import MonitorFolder

    folder = MonitorFolder(home)
    try:
        ownership = folder.own()
    except FolderOwnedError as error:
        raise _owned(home) from error
    try:
        state = folder.load(origin)
        keys = state.acknowledge(timestamp(int(time.time())))
        if not keys:
            hint = "ORIGIN is the log's name, as the alarm says it; --state is the monitor's folder."
            raise CommandError(Exit.NO_INPUT, f"no split view of {origin} is active in {home}", hint)
        folder.save(state)
    finally:
        ownership.release()
    for key in keys:
        warn(f"{origin}: put aside: {key}: {state.acknowledged[key]}")
    if state.last is None:
        warn(f"{origin}: no tree was followed before it, so whichever is shown next is BELIEVED")
    else:
        size = state.last.checkpoint.size
        warn(f"{origin}: the tree of {size} entries at {state.place} is followed on: begin anew if it is not the true")
    note(f"the evidence stays in {folder.folder_of(origin)}: the log did sign two histories")


def _owned(home: Path) -> CommandError:
    hint = "Stop it, or give this one another --state."
    return CommandError(Exit.TRY_LATER, f"another monitor keeps its state in {home}", hint)


def _verdict(found: Round) -> Exit:
    if not found.alarms:
        return Exit.TRY_LATER if found.waiting or found.untold else Exit.OK
    lost = all(alarm.code == "unreachable" for alarm in found.alarms)
    return Exit.UNREACHABLE if lost and not found.answered else Exit.NEGATIVE


def _summary(found: Round) -> None:
    for origin, size in found.sizes.items():
        count = sum(alarm.origin in (origin, "") for alarm in found.alarms)
        note(f"{origin}: {size} entries followed, {count} alarm{'' if count == 1 else 's'}")
    for words in found.waiting:
        note(f"could not be compared yet, and waits: {words}")


def _say(event: dict[str, Any]) -> None:
    kind = event["event"]
    words = {"alarm": "alarm", "ended": "ended", "match": "new entry", "not-told": "could not tell it"}[kind]
    parts = [event[name] for name in ("code", "log", "place") if event.get(name)]
    console = out()
    console.print(f"[{_STYLES[kind]}]{_MARKS[kind]}[/] [bold]{words}[/] {safe('  '.join(parts))}")
    for name in ("meaning", "detail", "issuer", "subject", "session", "index", "entry", "evidence"):
        if name in event:
            console.print(f"    [{DIM}]{name}[/] {safe(str(event[name]))}")


def _say_json(event: dict[str, Any]) -> None:
    """One object a line, as it happens."""
    sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
    sys.stdout.flush()


def _state_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or ""
    root = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return root / "transparency" / "monitor"
