"""A folder of a log in PostgreSQL, opened as a node: what its configuration and the command line say together."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import replace
from pathlib import Path

from transparency.errors import LogUnusableError
from transparency.log import stores
from transparency.log.cluster import ClusterLog
from transparency.log.cluster_lead import READS_ONLY, Accepted, ClusterSettings, Vouching
from transparency.log.folder import Config, Folder, Passphrase
from transparency.log.mark_postgres import SAME_SERVER
from transparency.log.postgres import PostgresStore
from transparency.log.store import Store

_ACCEPTED = re.compile(r"(0|[1-9][0-9]{0,18}):([0-9a-f]{64})")


def open_store(url: str, name: str) -> Store:
    """As a node needs it (``cluster_lead.OpenStore``)."""
    return PostgresStore.for_reading(url, name) if name == READS_ONLY else PostgresStore(url, name)


def open_node(
    data: Path,
    *,
    db: str | None = None,
    watermark: Path | str | None = None,
    accepted: Accepted | None = None,
    name: str = "",
    candidate: bool = True,
    read_db: str | None = None,
    passphrase: Passphrase | None = None,
) -> ClusterLog:
    """What is given takes the place of what config.toml says, from now on: whoever moved something says so once.

    *watermark* is a file, or the URL of a second database.
    """
    folder = Folder(data.absolute())
    said = Config.read(folder.config)
    mark_url = watermark if isinstance(watermark, str) else None
    file = watermark.absolute() if isinstance(watermark, Path) else said.watermark
    config = replace(
        said,
        db=stores.named(db) or said.db,
        watermark=file,
        watermark_db=stores.named(mark_url) or said.watermark_db,
    )
    url = db or config.db
    if url is None:
        raise LogUnusableError(f"{data} does not name a database; give it with --db")
    if config.watermark_db is not None and config.watermark_db == config.db:
        raise LogUnusableError(SAME_SERVER)
    vouching = Vouching(file, mark_url or config.watermark_db, accepted)
    settings = ClusterSettings(url, vouching, name or f"{socket.gethostname()}:{os.getpid()}", candidate, read_db)
    log = ClusterLog.join(data, settings, open_store, passphrase=passphrase)
    if config != said:
        config.write(folder.config)
    return log


def parse_accepted(text: str) -> Accepted | None:
    """SIZE:ROOT as the refusal names them; None if it is something else."""
    found = _ACCEPTED.fullmatch(text)
    return None if found is None else Accepted(int(found[1]), bytes.fromhex(found[2]))
