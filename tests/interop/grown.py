"""A real log that grows as fast as its store writes, read by the client that was written from the C2SP texts."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from aiohttp import web
from multidict import CIMultiDict

from tests.interop import tlog_client
from tests.interop.tlog_client import Audited, Key, TlogError
from tests.server.served import Served, served
from transparency.errors import NotFoundError
from transparency.log.checkpoints import PublishSettings
from transparency.log.store import Kind, NewEntry
from transparency.server import tiles
from transparency.server.service import SERVICE
from transparency.statements.statement import Entry


class Grown:
    """A real log that grows by whole batches, and publishes when the test says so."""

    def __init__(self, site: Served) -> None:
        self.site = site
        self.publisher = site.service.publisher
        newest = self.publisher.published.newest
        self._notes = {} if newest is None else {newest.checkpoint.size: newest.to_bytes()}
        self.keys = [Key.from_vkey(key.text) for key in self.publisher.vkeys()]

    async def publish(self, size: int) -> None:
        """Grow to *size* as the sequencer would, without the signatures that cost the time, and publish."""
        await self.grow(size)
        assert await self.publisher.publish()
        newest = self.publisher.published.newest
        assert newest is not None
        assert newest.checkpoint.size == size
        self._notes[size] = newest.to_bytes()

    async def grow(self, size: int) -> None:
        appender = self.site.log.opened.appender
        entries = [_entry(index) for index in range(appender.tip.size, size)]
        if entries:
            await self.site.log.sequencer.write(lambda: appender.append(entries, appender.decision_time()))

    def notes(self) -> list[bytes]:
        """Every checkpoint there ever was; the log itself keeps few of them."""
        return list(self._notes.values())

    def audit(self, note: bytes | None = None) -> Audited:
        return tlog_client.audit(self.get, self.keys, note)

    def get(self, path: str) -> bytes:
        """The handlers themselves: of HTTP only the socket is left out."""
        handler = tiles.checkpoint if path == "checkpoint" else tiles.tile
        below = {"path": path.removeprefix("tile/")}
        request = SimpleNamespace(
            app={SERVICE: self.site.service}, match_info=below, headers=CIMultiDict[str](), raw_path=f"/{path}"
        )
        try:
            handler(cast("web.Request", request)).send(None)
        except StopIteration as done:
            body = done.value.body
            assert isinstance(body, bytes)
            return body
        except NotFoundError as error:
            raise TlogError(f"{path}: not found") from error
        raise AssertionError("a tile is answered at once")

    def snapshot(self) -> dict[str, bytes]:
        """All that is published now."""
        return {path: self.get(path) for path in tlog_client.paths_of(self.publisher.published.size)}


@asynccontextmanager
async def grown_log(tmp_path: Path) -> AsyncIterator[Grown]:
    """A log that publishes only when it is told to."""
    async with served(tmp_path, publish=PublishSettings(interval=3600.0)) as site:
        yield Grown(site)


def _entry(index: int) -> NewEntry:
    entry = Entry(hashlib.sha256(b"entry %d" % index).digest())
    return NewEntry(entry, Kind.STATEMENT, 1, b"", b"a statement")
