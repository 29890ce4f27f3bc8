"""The log a command talks to, from its flags."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.output import warn
from transparency.errors import MalformedError

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient
    from transparency.cose.keys import PublicKey


def connect(
    log: str,
    *,
    token: str | None = None,
    cacert: str | None = None,
    pinned_keys: Sequence[PublicKey] | None = None,
    timeout: float = 30.0,
    retries: int = 5,
) -> SyncLogClient:
    # Here, and not above: aiohttp takes longer to import than many a command to run.
    from transparency.client.sync import SyncLogClient

    tls = tls_context(cacert)
    try:
        client = SyncLogClient(log, token=token, pinned_keys=pinned_keys, timeout=timeout, retries=retries, tls=tls)
    except MalformedError as error:
        raise CommandError(Exit.USAGE, str(error)) from error
    if token is not None and not is_protected(log):
        warn("the token goes over plain HTTP, readable on the way; use an https:// URL")
    return client


def tls_context(cacert: str | None) -> ssl.SSLContext | None:
    """The system's trust and that file's; None where there is none, and the system's alone is meant."""
    if cacert is None:
        return None
    try:
        tls = ssl.create_default_context()
        tls.load_verify_locations(cacert)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(Exit.NO_INPUT, f"{cacert}: not a readable file of CA certificates") from error
    return tls


def is_protected(log: str) -> bool:
    from yarl import URL

    from transparency.client.places import is_web

    if not is_web(log):
        return True  # a folder or a bucket: no token goes there
    url = URL(log)
    if url.scheme == "https" or url.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(url.host or "").is_loopback
    except ValueError:
        return False
