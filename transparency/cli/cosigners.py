"""What runs a cosigner, a witness or a mirror: the options of its commands, and how such a command begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.listening import (
    cannot_listen,
    check_can_append,
    check_can_listen,
    check_tls,
    fit_connections,
    tls_options,
    warn_of_plain_http,
)
from transparency.cli.mark_options import mark_file_option
from transparency.cli.output import done, note, print_json
from transparency.cli.settings import json_option
from transparency.errors import StoreError

if TYPE_CHECKING:
    from transparency.server.settings import ServerSettings
    from transparency.witness.folder import WitnessFolder

_F = TypeVar("_F", bound=Callable[..., Any])


def init_options(function: _F) -> _F:
    """Of a command that makes one: ``--name``, ``--watermark``, ``--encrypt-keys`` and ``--json``."""
    for option in (
        json_option(),
        click.option("--encrypt-keys", is_flag=True, help="Encrypt its private keys with a passphrase."),
        mark_file_option("Its high-water mark. Default: beside the folder, not in it."),
        click.option("--name", required=True, metavar="NAME",
                     help="Its name in every cosignature, for ever: a URL, no https."),
    ):  # fmt: skip
        function = option(function)
    return function


def tell_made(made: WitnessFolder, view: dict[str, object], words: str, *notes: str, as_json: bool) -> None:
    """Its verifier keys, one a line, and what to do next; or *view* with the keys."""
    vkeys = [key.text for key in made.load_keys().vkeys]
    if as_json:
        print_json({**view, "vkeys": vkeys})
        return
    for line in vkeys:
        click.echo(line)
    done(words)
    for each in notes:
        note(each)


def add_log_options(where: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Of a command that puts a log on its list: the keys, ``--url``, which is *where*, and the rest."""

    def decorate(function: _F) -> _F:
        for option in (
            json_option(),
            click.option("--replace-keys", is_flag=True, help="The log is known by other keys: trust these instead."),
            click.option("--per-minute", type=click.IntRange(0), metavar="N",
                         help="New checkpoints a minute; 0 lifts the limit. Default: 600."),
            where,
            click.argument("vkeys", metavar="VKEY…", nargs=-1, required=True),
        ):  # fmt: skip
            function = option(function)
        return function

    return decorate


def listening_options(port: int) -> Callable[[_F], _F]:
    """Of a command that serves: what :func:`listening_settings` takes, and ``--watermark``."""

    def decorate(function: _F) -> _F:
        for option in (
            mark_file_option("The mark, if it was moved."),
            tls_options,
            click.option("--access-log", metavar="FILE", help="Structured access log; - is stderr."),
            click.option("--port", default=port, show_default=True, type=click.IntRange(0, 65535),
                         help="0 takes a free one."),
            click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        ):  # fmt: skip
            function = option(function)
        return function

    return decorate


def rate_option(function: _F) -> _F:
    return click.option(
        "--rate-limit", type=click.IntRange(0), metavar="N", help="Requests a minute and address; 0 lifts the limit."
    )(function)


def listening_settings(
    *, host: str, port: int, access_log: str | None, tls_cert: Path | None, tls_key: Path | None,
    rate_limit: int | None = None,
) -> ServerSettings:  # fmt: skip
    """What the options say, tried before a folder is opened."""
    from transparency.server.settings import ServerSettings

    check_tls(tls_cert, tls_key)
    check_can_listen(host, port)
    check_can_append(access_log)
    limit = ServerSettings().rate_limit if rate_limit is None else rate_limit or None
    settings = fit_connections(
        ServerSettings(
            host=host, port=port, rate_limit=limit, access_log=access_log, tls_cert=tls_cert, tls_key=tls_key
        )
    )
    warn_of_plain_http(settings)
    return settings


@contextmanager
def until_stopped(place: Path, keeper: str, settings: ServerSettings) -> Iterator[None]:
    """Around a server that runs: an address it cannot have, and a disk that does not take what it would sign."""
    try:
        yield
    except OSError as error:
        raise cannot_listen(settings.host, settings.port, error) or error from error
    except StoreError as error:
        hint = "Look at its disk and start it again: nothing that was cosigned is in doubt."
        raise CommandError(Exit.CANNOT_WRITE, f"{place}: the {keeper} has stopped: {error}", hint) from error
