"""Options of ``serve`` for a log whose tree is in PostgreSQL and whose nodes are several (docs/cluster.md)."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click

from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.folders import find_log
from transparency.cli.mark_options import mark_place
from transparency.cli.passphrases import kept_passphrase
from transparency.log.folder import Config
from transparency.log.log import Log


def cluster_options(function: click.decorators.FC) -> click.decorators.FC:
    function = click.option(
        "--read-db", metavar="URL", help="With --db: a standby of it, to read exports from while it keeps up."
    )(function)
    function = click.option(
        "--never-lead", is_flag=True, help="With --db: only hand statements over to the node that leads."
    )(function)
    function = click.option(
        "--accept-failover", metavar="SIZE:ROOT",
        help="With --db, after a standby was promoted: you checked that nothing was lost, and this is the tree.",
    )(function)  # fmt: skip
    return click.option(
        "--watermark", callback=mark_place, metavar="FILE|URL",
        help="The high-water mark: a file outside DIR, best on another disk, or, with --db, a second database "
        "that all nodes share. Default: a file beside DIR.",
    )(function)  # fmt: skip


def mark_file(watermark: Path | str | None, db: str | None, data: Path) -> Path | None:
    """The file among what --watermark may name; a database goes with a database."""
    if isinstance(watermark, str) and database_of(data, db) is None:
        raise CommandError(
            Exit.USAGE, "--watermark names a database, and the log is in a file", "Name a file, or give --db, too."
        )
    return watermark if isinstance(watermark, Path) else None


def database_of(data: Path, db: str | None) -> str | None:
    folder = find_log(data)
    return db or (Config.read(folder.config).db if folder is not None and folder.config.exists() else None)


def check_cluster_flags(
    data: Path, db: str | None, accept_failover: str | None, read_db: str | None, *, never_lead: bool
) -> None:
    """Before anything is made or opened."""
    if database_of(data, db) is None:
        if accept_failover is not None or never_lead or read_db is not None:
            raise CommandError(
                Exit.USAGE, "--accept-failover, --never-lead and --read-db go with a log in PostgreSQL: --db"
            )
    elif accept_failover is not None:
        from transparency.log.cluster_open import parse_accepted

        if parse_accepted(accept_failover) is None:
            raise CommandError(
                Exit.USAGE,
                "--accept-failover is SIZE:ROOT, as the refusal names them",
                "The root has 64 hexadecimal digits.",
            )


def open_served(
    data: Path,
    *,
    db: str | None,
    watermark: Path | str | None,
    accept_failover: str | None,
    never_lead: bool,
    read_db: str | None,
    base_url: str | None,
    port: int,
) -> Log:
    """The log in *data*: as its owner, or as a node of those that serve it from one database."""
    if database_of(data, db) is None:
        return Log.open(data, watermark=mark_file(watermark, db, data), passphrase=kept_passphrase())
    from transparency.log.cluster_open import open_node, parse_accepted

    accepted = None if accept_failover is None else parse_accepted(accept_failover)
    return open_node(
        data,
        db=db,
        watermark=watermark,
        accepted=accepted,
        name=base_url or f"{socket.gethostname()}:{port or os.getpid()}",
        candidate=not never_lead,
        read_db=read_db,
        passphrase=kept_passphrase(),
    )
