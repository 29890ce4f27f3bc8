"""The options of ``serve`` that say how checkpoints are published, and by whom they have to be witnessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import MAX_KEY_FILE, read_input
from transparency.errors import NoteError
from transparency.log.checkpoints import PublishSettings
from transparency.log.log import system_clock
from transparency.log.witnessing import Witnesses
from transparency.notes.policy import WitnessPolicy

CLOSED: Final = "closed"
OPEN: Final = "open"
_DEFAULT: Final = PublishSettings()
_F = TypeVar("_F", bound=Callable[..., Any])


def publish_options(function: _F) -> _F:
    """``--checkpoint-interval`` and the witness options; ``publish_settings`` makes of them what a log is served by."""
    for option in (
        click.option(
            "--witness-timeout", type=click.FloatRange(0.1, 600), default=_DEFAULT.timeout, show_default=True,
            metavar="S", help="Seconds a witness has to answer.",
        ),
        click.option(
            "--witness-quorum", type=click.Choice([CLOSED, OPEN]), default=CLOSED, show_default=True,
            help="closed: no checkpoint is served without its quorum; open: it is, and metrics say so.",
        ),
        click.option(
            "--witness-policy", type=click.Path(), metavar="FILE",
            help="Witnesses to ask for cosignatures, and how many are enough (C2SP tlog-policy, with URLs).",
        ),
        click.option(
            "--checkpoint-interval", type=click.FloatRange(0, 3600), default=_DEFAULT.interval, show_default=True,
            metavar="S", help="Seconds by which the published checkpoint may be behind.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def publish_settings(interval: float, policy: str | None, quorum: str, timeout: float) -> PublishSettings:
    """What the options say; a policy file that cannot be used is refused before anything is started."""
    if policy is None:
        if quorum == OPEN:
            raise CommandError(Exit.USAGE, "--witness-quorum is for a log with a --witness-policy", "Name the file.")
        return PublishSettings(interval=interval)
    try:
        witnesses = WitnessPolicy.from_text(read_input(policy, most=MAX_KEY_FILE))
        Witnesses(witnesses, timeout=timeout, clock=system_clock)
    except NoteError as error:
        raise CommandError(
            Exit.BAD_INPUT, f"{policy}: {error}", "docs/tiles.md shows a policy file for a log."
        ) from error
    return PublishSettings(interval=interval, policy=witnesses, closed=quorum == CLOSED, timeout=timeout)
