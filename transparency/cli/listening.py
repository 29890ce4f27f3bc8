"""Where a server is to listen and write, tried before a log is made or opened: a slip leaves nothing behind."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from yarl import URL

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.files import STDIO

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
