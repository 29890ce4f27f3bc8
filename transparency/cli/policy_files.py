"""Where commands get a policy from: a file, a log's folder, or the log itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO, read_input
from transparency.cli.folders import require_log
from transparency.cli.settings import Setting, refuse_several
from transparency.errors import MalformedError
from transparency.policy.document import Policy
from transparency.policy.toml import MAX_DOCUMENT_BYTES

_F = TypeVar("_F", bound=Callable[..., Any])


def connection_options() -> Callable[[_F], _F]:
    """``--data`` or ``--log``, with what the latter needs."""
    options = (
        click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="The log's data folder; or:"),
        click.option(
            "--log", cls=Setting, envvar="TRANSPARENCY_LOG", metavar="URL", help="The log [TRANSPARENCY_LOG]."
        ),
        click.option(
            "--token", cls=Setting, envvar="TRANSPARENCY_TOKEN", metavar="T", help="Access token [TRANSPARENCY_TOKEN]."
        ),
        click.option("--cacert", cls=Setting, type=click.Path(), metavar="FILE", help="Trust this CA file for TLS."),
    )

    def add(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def read_document(file: str) -> bytes:
    return read_input(file, most=MAX_DOCUMENT_BYTES)


def read_policy(file: str) -> Policy:
    """The policy in *file*; what is wrong with it is said with its line."""
    try:
        return Policy.from_toml(read_document(file), "standard input" if file == STDIO else file)
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, str(error)) from error


def in_force(data: Path | None, log: str | None, token: str | None, cacert: str | None) -> bytes:
    """The policy in force, as it was registered."""
    refuse_several("data", "log")
    if data is not None:
        return _of_folder(data)
    if log is None:
        raise CommandError(Exit.USAGE, "which log?", "Give --data DIR or --log URL.")
    from transparency.cli.connection import connect

    with connect(log, token=token, cacert=cacert) as client:
        return client.policy()


def _of_folder(data: Path) -> bytes:
    from transparency.log.admin import open_admin

    require_log(data)
    with open_admin(data, reading=True) as admin:
        toml = admin.call("documents")["policy"]
    if not isinstance(toml, bytes):
        raise CommandError(Exit.INTERNAL, "the log's owner did not answer with a policy")
    return toml
