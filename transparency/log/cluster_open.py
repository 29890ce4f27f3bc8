"""A folder of a log in PostgreSQL, opened as a node: what its configuration and the command line say together."""

from __future__ import annotations

import os
import re
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

from transparency.errors import LogUnusableError, NotLeadingError
from transparency.log import stores
from transparency.log.cluster import ClusterLog
from transparency.log.cluster_lead import READS_ONLY, Accepted, ClusterSettings, Leading, Vouching, begin_file
from transparency.log.folder import Config, Folder, Passphrase
from transparency.log.mark import Mark, MarkValue
from transparency.log.mark_named import NamedMark, check_file, check_same, remember
from transparency.log.mark_postgres import SAME_SERVER, PostgresMark
from transparency.log.opening import check_mark, refuse_file
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
    if isinstance(watermark, Path):
        refuse_file(said)
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
    before: Path | str = said.watermark_db or said.watermark
    leaving = None if before == (config.watermark_db or config.watermark) else before
    vouching = Vouching(file, mark_url or config.watermark_db, accepted, leaving)
    settings = ClusterSettings(url, vouching, name or f"{socket.gethostname()}:{os.getpid()}", candidate, read_db)
    log = cast("ServedNode", ServedNode.join(data, settings, open_store, passphrase=passphrase))
    try:
        named = log.named_mark()
        if candidate or watermark is not None:
            log.check_mark(vouching, named)
    except BaseException:
        log.leave()
        raise
    log.moved = None if config == said else config
    return log


class ServedNode(ClusterLog):
    """A node that ``serve`` made: what it was told stands in config.toml as soon as it runs with it, and not before."""

    moved: Config | None = None
    # Whether the mark it was told of is the one in force. Else it is when this node leads with it, and not before.
    proven = True

    def named_mark(self) -> NamedMark | None:
        """The mark that all nodes share, if they do: remembered, be it that this one only hands over today."""
        return remember(self._parts.folder, cast("PostgresStore", self._store).named_mark())

    def check_mark(self, vouching: Vouching, named: NamedMark | None) -> None:
        """What can be known of the mark before this node leads. Found out then, it would stop amid its work."""
        store, config = self._store, self._parts.config
        if vouching.url is None:
            check_file(named)
            begin_file(self._parts.folder, config, store, store.tip(), vouching)
            Mark.open(vouching.file, config.origin).close()
            return
        here = cast("PostgresStore", store).place()
        with closing(PostgresMark.reach(vouching.url, config.origin, 0, here)) as mark:
            tip = store.tip()
            if mark.exists:
                check_mark(store, tip, mark.value, config.origin)
            self.proven = named is not None and named.id == mark.id
            if mark.moved is None and vouching.accepted is None and not self._may_move(vouching):
                check_same(named, [mark.id], mark.name, MarkValue(tip.size, tip.root))

    def _may_move(self, vouching: Vouching) -> bool:
        """Whether it may be about to take the shared mark elsewhere: who leads does, and another one leads, or not."""
        if not isinstance(vouching.leaving, str):
            return False
        try:
            cast("PostgresStore", self._store).check_nobody_leads()
        except NotLeadingError:
            return False
        return True

    def leave(self) -> None:
        """Instead of a start."""
        self._listener.stop(0)
        self._scans.close()
        self._opened.close()

    async def start(self, *, drain: bool = True, manifests: bool = False, in_place: bool = False) -> None:
        await super().start(drain=drain, manifests=manifests, in_place=in_place)
        if self.proven:
            self._write_moved()

    async def _lead(self, leading: Leading) -> None:
        await super()._lead(leading)
        if self.leads:
            self._write_moved()

    def _write_moved(self) -> None:
        if self.moved is not None:
            self.moved.write(self._parts.folder.config)
            self.moved = None


def parse_accepted(text: str) -> Accepted | None:
    """SIZE:ROOT as the refusal names them; None if it is something else."""
    found = _ACCEPTED.fullmatch(text)
    return None if found is None else Accepted(int(found[1]), bytes.fromhex(found[2]))
