"""A mirror in a folder, one that answers on a socket, and a log that uploads to it as tlog-mirror says."""

from __future__ import annotations

import io
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.notes.world import ORIGIN
from tests.witness.served import Reply
from tests.witness.trees import Tree, note_of, request, signer_of
from transparency.mirror.folder import MirrorFolder, create_mirror
from transparency.mirror.pull import PullSettings
from transparency.mirror.serve import Running, listening, open_mirror
from transparency.notes.subtree import subtree_path
from transparency.notes.upload import MirrorInfo, Package, Span, UploadHead, spans
from transparency.server.settings import ServerSettings
from transparency.testing import FakeClock
from transparency.witness.logs import KnownLog, changing

NAME = "mirror.example/m1"
OCTETS = {"Content-Type": "application/octet-stream"}
LENGTHS = (0, 1, 31, 32, 33, 255, 1000)


class Uploading:
    """A log with its entries, and what its operator sends to a mirror."""

    def __init__(self, count: int, origin: str = ORIGIN, word: bytes = b"entry") -> None:
        self.origin = origin
        self.entries: list[bytes] = []
        self.tree = Tree()
        self._word = word
        self.grow(count)

    def grow(self, count: int) -> None:
        chance = random.Random(self._word + bytes([count % 256]))
        first = len(self.entries)
        new = [b"%b %d " % (self._word, at) + chance.randbytes(LENGTHS[at % 7]) for at in range(first, first + count)]
        self.entries += new
        self.tree.grow(*new)

    @property
    def size(self) -> int:
        return len(self.entries)

    def checkpoint(self, old: int, size: int | None = None) -> bytes:
        """The body of add-checkpoint."""
        return request(self.tree, old, size, origin=self.origin)

    def note(self, size: int | None = None) -> bytes:
        return note_of(self.tree.checkpoint(size, self.origin))

    def package(self, span: Span, end: int) -> Package:
        path = subtree_path(span.base, span.end, end, self.tree.read)
        return Package(span, tuple(self.entries[span.start : span.end]), tuple(path))

    def upload(self, start: int, end: int, *, ticket: bytes = b"", most: int | None = None) -> bytes:
        """The body of add-entries, with all its packages or the first *most* of them."""
        chosen = list(spans(start, end))[:most]
        head = UploadHead(self.origin.encode(), start, end, ticket).to_bytes()
        return head + b"".join(self.package(span, end).to_bytes() for span in chosen)


class Client:
    def __init__(self, running: Running, session: aiohttp.ClientSession) -> None:
        self.running = running
        self.url = running.url
        self._session = session

    async def point(self, log: Uploading, old: int, size: int | None = None) -> Reply:
        return await self.send("POST", "/add-checkpoint", log.checkpoint(old, size))

    async def upload(self, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        return await self.send("POST", "/add-entries", body, {**OCTETS, **(headers or {})})

    async def mirror(self, log: Uploading, old: int = 0, size: int | None = None) -> Reply:
        """Checkpoint and all entries; the answer must be a cosignature."""
        size = log.size if size is None else size
        pointed = await self.point(log, old, size)
        assert (pointed.status, pointed.body) == (200, b""), pointed
        reply = await self.upload(log.upload(old, size))
        assert reply.status == 200, reply
        return reply

    async def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        url, data = f"{self.url}{path}", None if body is None else io.BytesIO(body)
        async with self._session.request(method, url, data=data, headers=headers) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status, found.get("content-type", ""), await response.read(), found)


def info(reply: Reply) -> MirrorInfo:
    """What an answer of 202 or 409 says."""
    assert reply.content_type == "text/x.tlog.mirror-info", reply
    return MirrorInfo.from_bytes(reply.body)


def make_mirror(path: Path, *origins: str, urls: Sequence[str] = (), per_minute: int | None = None) -> MirrorFolder:
    folder = create_mirror(path, NAME)
    with changing(folder.logs) as logs:
        for at, origin in enumerate(origins or (ORIGIN,)):
            url = urls[at] if at < len(urls) else None
            logs[origin] = KnownLog((signer_of(origin).vkey,), url, per_minute)
    return folder


@asynccontextmanager
async def served(
    folder: MirrorFolder,
    clock: FakeClock | None = None,
    settings: ServerSettings | None = None,
    pull: PullSettings | None = None,
) -> AsyncIterator[Client]:
    clock = clock or FakeClock()
    settings = settings or ServerSettings(port=0, rate_limit=None)
    pull = pull or PullSettings(retries=0)
    with open_mirror(folder, clock=clock) as mirror:
        async with listening(folder, mirror, settings, pull, clock) as running, aiohttp.ClientSession() as session:
            yield Client(running, session)
