"""A log with things to find, for the tests of the search index: records, envelopes, a clock that moves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transparency.log.artifacts import ArtifactStore
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.log.search import SearchIndex
from transparency.log.search_entry import Kind, Term
from transparency.log.search_query import Page, Query, search
from transparency.log.store import Store
from transparency.log.stores import open_for_reading
from transparency.statements.statement import sign_envelope
from transparency.testing import FakeClock, SampleIssuer, make_log, running

ISS = "https://issuer.example"
START = 1_700_000_000


def session(
    name: str, *, model: str = "m-1", tool: str = "Edit", path: str = "/home/a/src/x.py", cwd: str = "/home/a"
) -> bytes:
    """A Claude Code session of one line that edits one file."""
    block = {"type": "tool_use", "name": tool, "input": {"file_path": path}}
    line: dict[str, Any] = {"type": "assistant", "sessionId": name, "version": "2.1.0", "cwd": "/home/a"}
    line |= {"timestamp": "2026-03-02T10:00:00.000Z", "message": {"model": model, "content": [block]}}
    return json.dumps(line).encode() + b"\n"


def term(kind: str, value: str) -> Term:
    return Term(Kind[kind.upper()], value)


@dataclass
class Found:
    """A log that was filled and closed, its store, and its index."""

    data: Path
    store: Store
    artifacts: ArtifactStore
    index: SearchIndex
    issuer: SampleIssuer

    def catch_up(self) -> int:
        return self.index.catch_up(self.store, self.artifacts)

    def page(self, *terms: Term, **options: Any) -> Page:
        return search(self.index, Query(terms, **options))

    def hits(self, *terms: Term, **options: Any) -> list[int]:
        """The indexes of every page."""
        page = self.page(*terms, **options)
        found = [hit.index for hit in page.hits]
        while page.after is not None:
            page = self.page(*terms, **{**options, "size": page.size, "after": page.after})
            found += [hit.index for hit in page.hits]
        return found


@dataclass
class Filler:
    """Registers statements one by one, a minute apart."""

    log: Log
    issuer: SampleIssuer
    clock: FakeClock
    data: Path
    placed: list[int] = field(default_factory=list)

    async def statement(self, data: bytes) -> int:
        self.clock.advance(60)
        index = (await self.log.register(data)).index
        self.placed.append(index)
        return index

    async def record(self, payload: bytes, sub: str = "sample") -> int:
        return await self.statement(self.issuer.sign(payload, sub=sub))

    async def envelope(self, record: bytes, *, upload: bool = True) -> int:
        if upload:
            put(self.data, record)
        digest = hashlib.sha256(record).digest()
        return await self.statement(sign_envelope(digest, self.issuer.key, iss=self.issuer.iss, sub="envelope"))


def put(data: Path, record: bytes) -> str:
    digest = hashlib.sha256(record).hexdigest()
    with ArtifactStore(Folder(data).artifacts, reserve=0).receive(digest) as incoming:
        incoming.write(record)
        incoming.finish()
    return digest


@asynccontextmanager
async def filling(tmp_path: Path) -> AsyncIterator[Filler]:
    """A log, running, that can be filled."""
    clock = FakeClock(START)
    made = make_log(tmp_path / "log", clock=clock)
    async with running(made) as log:
        yield Filler(log, made.issuer, clock, made.data)


@contextmanager
def indexed(data: Path, issuer: SampleIssuer | None = None) -> Iterator[Found]:
    """The index of the log in *data*, caught up."""
    folder = Folder(data)
    store = open_for_reading(folder)
    index = SearchIndex(folder.search)
    found = Found(data, store, ArtifactStore(folder.artifacts), index, issuer or SampleIssuer())
    try:
        found.catch_up()
        yield found
    finally:
        index.close()
        store.close()
