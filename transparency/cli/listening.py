"""How a server is to listen and write, tried before a folder is made or opened: a slip leaves nothing behind.

The log's server and the witness' do it alike.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from yarl import URL

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO
from transparency.cli.output import warn

if TYPE_CHECKING:
    from transparency.server.settings import ServerSettings

_F = TypeVar("_F", bound=Callable[..., Any])
_REASONS = {
    errno.EADDRINUSE: "the address is in use",
    errno.EADDRNOTAVAIL: "not an address of this machine",
    errno.EACCES: "not allowed",
}


def check_base_url(text: str) -> None:
    """An absolute http or https URL that a path can be put behind: it stands in every Location."""
    try:
        url = URL(text)
        fits = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
        plain = text.isascii() and text.isprintable() and " " not in text and not (url.query_string or url.fragment)
        fits = fits and plain and url.user is None and url.password is None
    except ValueError:
        fits = False
    if not fits:
        raise CommandError(
            Exit.USAGE,
            f"--base-url {text!r} is not how a client reaches a log",
            "It is like https://log.example/scitt.",
        )


def check_can_listen(host: str, port: int) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError, ValueError) as error:
        raise CommandError(
            Exit.USAGE,
            f"--host {host!r} is neither an address nor a name that is known here",
            "Try 127.0.0.1 or 0.0.0.0.",
        ) from error
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as trial:
                # As the server will: an address that a stopped one held a moment ago is free.
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(address)
        except OSError as error:
            failure = cannot_listen(host, port, error)
            if failure is not None and (error.errno != errno.EADDRNOTAVAIL or len(found) == 1):
                raise failure from error


def cannot_listen(host: str, port: int, error: OSError) -> CommandError | None:
    """The failure to show where *error* is about listening."""
    reason = _REASONS.get(error.errno or 0)
    if reason is None:
        return None
    return CommandError(
        Exit.CANNOT_WRITE, f"cannot listen on {host}:{port}: {reason}", "Choose another --port or --host."
    )


def check_can_append(access_log: str | None) -> None:
    if access_log is None or access_log == STDIO:
        return
    try:
        with Path(access_log).open("ab"):
            pass
    except OSError as error:
        raise CommandError(Exit.CANNOT_WRITE, f"--access-log {access_log}: {error.strerror}") from error


def tls_options(function: _F) -> _F:
    """``--tls-cert`` and ``--tls-key``."""
    function = click.option("--tls-key", type=click.Path(path_type=Path), metavar="PEM", help="Its private key.")(
        function
    )
    return click.option(
        "--tls-cert", type=click.Path(path_type=Path), metavar="PEM", help="Certificate chain; serves https."
    )(function)


def check_tls(cert: Path | None, key: Path | None) -> None:
    from transparency.server.settings import ServerSettings
    from transparency.server.site import tls_context

    if (cert is None) != (key is None):
        raise CommandError(Exit.USAGE, "--tls-cert and --tls-key belong together")
    try:
        tls_context(ServerSettings(tls_cert=cert, tls_key=key))
    except ssl.SSLError as error:
        raise CommandError(
            Exit.BAD_INPUT, "--tls-cert and --tls-key are not a certificate chain and its key"
        ) from error
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"--tls-cert or --tls-key: {error.strerror}") from error


def warn_of_plain_http(settings: ServerSettings) -> None:
    if settings.tls_cert is None and not _is_loopback(settings.host):
        warn(f"plain HTTP on {settings.host}: put a proxy with TLS in front, or give --tls-cert and --tls-key")


def fit_connections(settings: ServerSettings) -> ServerSettings:
    """As many connections as there may be open files, beside those the server itself needs."""
    from transparency.server.limits import RESERVED_FILES, allow_files

    room = allow_files(settings.max_connections + RESERVED_FILES) - RESERVED_FILES
    if room >= settings.max_connections:
        return settings
    warn(f"this process may open files for {max(room, 1)} connections, not {settings.max_connections}: see ulimit -n")
    return replace(settings, max_connections=max(room, 1))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
