"""``transparency serve``: run a log. On an empty folder it makes one first and says so."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import ssl
from dataclasses import replace
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import refuse_existing_log
from transparency.cli.init import log_creation_options
from transparency.cli.output import done, note, warn
from transparency.cli.settings import data_option
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.server.serve import serve, tls_context
from transparency.server.settings import ServerSettings
from transparency.server.tokens import TokenStore


@click.command(epilog="\b\nExample: transparency serve --data ./log --host 127.0.0.1 --port 8080 --open")
@data_option()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option(
    "--open", "is_open", is_flag=True, help="No tokens for submitting and reading. Signatures and policy still apply."
)
@click.option("--public", is_flag=True, help="No tokens for reading.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="PEM", help="Certificate chain; serves https.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="PEM", help="Its private key.")
@click.option("--base-url", metavar="URL", help="How clients reach the log behind a proxy.")
@click.option(
    "--rate-limit", type=click.IntRange(0), metavar="N", help="Requests a minute and client; 0 lifts the limit."
)
@click.option("--access-log", metavar="FILE", help="Structured access log, without payloads or tokens; - is stderr.")
@log_creation_options
def command(
    data: Path, host: str, port: int, is_open: bool, public: bool, tls_cert: Path | None, tls_key: Path | None,
    base_url: str | None, rate_limit: int | None, access_log: str | None,
    origin: str | None, iss: str | None, watermark: Path | None,
) -> None:  # fmt: skip
    """Run the log in DIR until SIGTERM or Ctrl-C; an empty or missing DIR becomes a new log.

    When it is ready, one line with its URL is printed on standard output.
    """
    settings = _settings(host, port, is_open, public, tls_cert, tls_key, base_url, rate_limit, access_log)
    _prepare(data, origin, iss, watermark)
    folder = Folder(data.absolute())
    log = Log.open(data, watermark=watermark)
    tokens = TokenStore(folder.access)
    _advise(data, log, tokens, settings)

    def ready(url: str) -> None:
        click.echo(base_url or url)

    try:
        asyncio.run(serve(log, settings, tokens, ready))
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise CommandError(
                Exit.CANNOT_WRITE,
                f"cannot listen on {host}:{port}: {_reason(error)}",
                "Choose another --port or --host.",
            ) from error
        raise
    finally:
        tokens.close()
    note("stopped; everything that was acknowledged is committed")


def _settings(
    host: str, port: int, is_open: bool, public: bool, tls_cert: Path | None, tls_key: Path | None,
    base_url: str | None, rate_limit: int | None, access_log: str | None,
) -> ServerSettings:  # fmt: skip
    if (tls_cert is None) != (tls_key is None):
        raise CommandError(Exit.USAGE, "--tls-cert and --tls-key belong together")
    settings = ServerSettings(
        host=host, port=port, open=is_open, public=public, tls_cert=tls_cert, tls_key=tls_key, base_url=base_url,
        access_log=access_log,
    )  # fmt: skip
    if rate_limit is not None:
        settings = replace(settings, rate_limit=rate_limit or None)
    try:
        tls_context(settings)
    except ssl.SSLError as error:
        raise CommandError(
            Exit.BAD_INPUT, "--tls-cert and --tls-key are not a certificate chain and its key"
        ) from error
    except OSError as error:
        raise CommandError(Exit.NO_INPUT, f"--tls-cert or --tls-key: {error.strerror}") from error
    return settings


def _prepare(data: Path, origin: str | None, iss: str | None, watermark: Path | None) -> None:
    if Folder(data.absolute()).exists():
        return
    refuse_existing_log(data, f"Run it: `transparency serve --data {data}`.")
    created = Log.create(data, origin=origin, iss=iss, watermark=watermark)
    done(f"made a new log in {data}: {created.origin}, with its keys, policy and store")
    note(f"policy key thumbprint, for auditors to pin: {created.policy_thumbprint.hex()}")
    note(f"high-water mark: {created.watermark} (keep it apart from {data}; it detects old copies)")


def _advise(data: Path, log: Log, tokens: TokenStore, settings: ServerSettings) -> None:
    if not log.policy.issuers:
        note(f"nobody may register yet: transparency issuer add --data {data} --iss URI --key issuer.pub.pem")
    if not settings.open and not tokens.list():
        note(f"clients need a token: transparency token create --data {data}   (or serve with --open)")
    if settings.tls_cert is None and not _is_loopback(settings.host):
        warn(f"plain HTTP on {settings.host}: put a proxy with TLS in front, or give --tls-cert and --tls-key")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason(error: OSError) -> str:
    known = {errno.EADDRINUSE: "the address is in use", errno.EADDRNOTAVAIL: "not an address of this machine",
             errno.EACCES: "not allowed"}  # fmt: skip
    return known.get(error.errno or 0, str(error.strerror))
