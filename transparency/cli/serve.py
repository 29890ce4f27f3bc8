"""``transparency serve``: run a log. On an empty folder it makes one first and says so."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from transparency.cli.cluster_options import check_cluster_flags, cluster_options, mark_file, open_served
from transparency.cli.errors import CommandError, storage
from transparency.cli.exits import Exit
from transparency.cli.folders import check_names, find_log, make_log, refuse_existing_log
from transparency.cli.init import log_creation_options
from transparency.cli.listening import (
    cannot_listen,
    check_base_url,
    check_can_append,
    check_can_listen,
    check_tls,
    fit_connections,
    tls_options,
    warn_of_plain_http,
)
from transparency.cli.output import done, note
from transparency.cli.publishing import publish_options, publish_settings
from transparency.cli.settings import data_option
from transparency.cli.token import DAMAGED
from transparency.log.folder import Config, Folder
from transparency.log.log import Log
from transparency.log.mark import marks_beside
from transparency.server.garbage import collect_rarely
from transparency.server.serve import serve
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
@tls_options
@click.option("--base-url", metavar="URL", help="How clients reach the log behind a proxy.")
@click.option(
    "--rate-limit", type=click.IntRange(0), metavar="N", help="Requests a minute and client; 0 lifts the limit."
)
@click.option(
    "--max-artifact-bytes",
    type=click.IntRange(1),
    metavar="N",
    help=f"The largest record taken (PUT /artifacts). Default: {ServerSettings().max_artifact_bytes}.",
)
@click.option(
    "--max-uploads", type=click.IntRange(1), metavar="N",
    help=f"Records on their way at once. Default: {ServerSettings().max_uploads}.",
)  # fmt: skip
@click.option(
    "--max-connections", type=click.IntRange(1), metavar="N",
    help=f"Connections at once. Default: {ServerSettings().max_connections}.",
)  # fmt: skip
@click.option(
    "--max-connections-per-address", type=click.IntRange(0), metavar="N",
    help=f"Of these from one address; 0 lifts the limit. Default: {ServerSettings().max_connections_per_address}.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(0, 64), metavar="N",
    help="Processes that take and judge statements. Default: one for each core; none with TLS.",
)  # fmt: skip
@click.option("--access-log", metavar="FILE", help="Structured access log, without payloads or tokens; - is stderr.")
@publish_options
@log_creation_options
@cluster_options
def command(
    data: Path, host: str, port: int, is_open: bool, public: bool, tls_cert: Path | None, tls_key: Path | None,
    base_url: str | None, rate_limit: int | None, max_artifact_bytes: int | None, max_uploads: int | None,
    max_connections: int | None, max_connections_per_address: int | None, workers: int | None,
    access_log: str | None, checkpoint_interval: float, witness_policy: str | None, witness_quorum: str,
    witness_timeout: float, origin: str | None, iss: str | None, db: str | None,
    watermark: Path | str | None, accept_failover: str | None, never_lead: bool, read_db: str | None,
) -> None:  # fmt: skip
    """Run the log in DIR until SIGTERM or Ctrl-C; an empty or missing DIR becomes a new log.

    When it is ready, one line with its URL is printed on standard output.
    """
    bounds = {
        "rate_limit": rate_limit, "max_artifact_bytes": max_artifact_bytes, "max_uploads": max_uploads,
        "max_connections": max_connections, "max_connections_per_address": max_connections_per_address,
    }  # fmt: skip
    fitting = fit_connections(_settings(host, port, is_open, public, tls_cert, tls_key, base_url, access_log, bounds))
    settings = replace(fitting, workers=_worker_count(workers, tls=tls_cert is not None))
    publish = publish_settings(checkpoint_interval, witness_policy, witness_quorum, witness_timeout)
    check_can_listen(host, port)
    check_can_append(access_log)
    check_cluster_flags(data, db, accept_failover, read_db, never_lead=never_lead)
    _prepare(data, origin, iss, mark_file(watermark, db, data), db)
    log = open_served(
        data, db=db, watermark=watermark, accept_failover=accept_failover, never_lead=never_lead, read_db=read_db,
        base_url=base_url, port=port,
    )  # fmt: skip
    path = Folder(data.absolute()).access
    try:
        with storage(path, DAMAGED):
            tokens = TokenStore(path)
            _advise(data, log, tokens, settings)
    except BaseException:
        asyncio.run(log.stop())
        raise

    def ready(url: str) -> None:
        click.echo(base_url or url)

    with closing(tokens):
        collect_rarely()
        try:
            asyncio.run(serve(log, settings, tokens, ready, publish))
        except OSError as error:
            raise cannot_listen(host, port, error) or error from error
    note("stopped; everything that was acknowledged is committed")


def _worker_count(asked: int | None, *, tls: bool) -> int:
    if asked and tls:
        raise CommandError(
            Exit.USAGE, "--workers goes without TLS", "Put a proxy with TLS in front, or leave --workers away."
        )
    if asked is not None:
        return asked
    return 0 if tls else os.cpu_count() or 1


def _settings(
    host: str, port: int, is_open: bool, public: bool, tls_cert: Path | None, tls_key: Path | None,
    base_url: str | None, access_log: str | None, bounds: Mapping[str, int | None],
) -> ServerSettings:  # fmt: skip
    check_tls(tls_cert, tls_key)
    if base_url is not None:
        check_base_url(base_url)
    settings = ServerSettings(
        host=host, port=port, open=is_open, public=public, tls_cert=tls_cert, tls_key=tls_key, base_url=base_url,
        access_log=access_log,
    )  # fmt: skip
    # A limit that may be 0 is lifted by it.
    given: dict[str, Any] = {name: bound or None for name, bound in bounds.items() if bound is not None}
    return replace(settings, **given)


def _prepare(data: Path, origin: str | None, iss: str | None, watermark: Path | None, db: str | None) -> None:
    folder = find_log(data)
    if folder is not None:
        _check_same(Config.read(folder.config), origin, iss)
        return
    check_names(origin, iss)
    refuse_existing_log(data, f"Run it: `transparency serve --data {data}`.")
    _refuse_to_forget(data, watermark)
    created = make_log(data, origin=origin, iss=iss, watermark=watermark, db=db)
    done(f"made a new log in {data}: {created.origin}, with its keys, policy and store")
    note(f"policy key thumbprint, for auditors to pin: {created.policy_thumbprint.hex()}")
    note(f"high-water mark: {created.watermark} (keep it apart from {data}; it detects old copies)")


def _check_same(config: Config, origin: str | None, iss: str | None) -> None:
    """A log keeps its names for ever: a flag that says another one is for another log."""
    for flag, asked, known in (("--origin", origin, config.origin), ("--iss", iss, config.iss)):
        if asked is not None and asked != known:
            raise CommandError(
                Exit.USAGE, f"{flag} {asked!r} is not this log's: it is {known!r}, for ever", f"Leave {flag} away."
            )


def _refuse_to_forget(data: Path, watermark: Path | None) -> None:
    """Where a mark lies and no log, a log was: most likely its disk is not mounted. A new one would take its place."""
    marks = [watermark] if watermark is not None and watermark.exists() else marks_beside(data)
    if marks:
        raise CommandError(
            Exit.NEGATIVE, f"there is no log in {data}, but the high-water mark of one: {marks[0]}",
            "Mount the disk or put the folder back. To start a new log instead, use `transparency init`; "
            "the mark may go once nobody needs the old log.",
        )  # fmt: skip


def _advise(data: Path, log: Log, tokens: TokenStore, settings: ServerSettings) -> None:
    if not log.policy.issuers:
        note(f"nobody may register yet: transparency issuer add --data {data} --iss URI --key issuer.pub.pem")
    if not settings.open and not tokens.list():
        note(f"clients need a token: transparency token create --data {data}   (or serve with --open)")
    warn_of_plain_http(settings)
