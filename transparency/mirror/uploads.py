"""add-entries over HTTP: a body of any length, taken package by package within bounds (C2SP tlog-mirror, M-1, M-2).

What is in memory at one time: for each upload one batch of packages, ``BATCH_BYTES`` and one package beyond that at
most; and there are few uploads at once, of one client fewer. A request may bring ``MOST_PACKAGES``; what it brings
beyond them is not read, and the answer (202) says where to go on. A client must keep up a pace, as all bodies must.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import web

from transparency.errors import NoteError, ProofError
from transparency.mirror.mirror import Mirror, Upload
from transparency.notes.upload import Package, UploadReader
from transparency.server.access_log import CLIENT
from transparency.server.bodies import IDENTITY, Bodies
from transparency.server.problems import ProblemError, unavailable
from transparency.statements.media_types import OCTETS
from transparency.witness.decide import Answer

MOST_AT_ONCE: Final = 8
MOST_OF_ONE_CLIENT: Final = 4
MOST_PACKAGES: Final = 64
"""Clients are told to send 32 in a request at most."""
BATCH_PACKAGES: Final = 32
BATCH_BYTES: Final = 4 * 1024 * 1024
GZIP: Final = ("gzip", "x-gzip")
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_STEP: Final = 256 * 1024
_NO_LIMIT: Final = 1 << 62
_MOST_PADDING: Final = 1024 * 1024
_T = TypeVar("_T")


class Uploads:
    """The uploads under way. Owner: the event loop's thread. What touches the mirror runs in others."""

    def __init__(self, mirror: Mirror, bodies: Bodies, knows: Callable[[str], bool]) -> None:
        self._mirror = mirror
        self._bodies = bodies
        self._knows = knows
        self._clients: Counter[str] = Counter()

    async def add(self, request: web.Request) -> Answer:
        """Take an upload as far as it goes. What is an error and not an answer of M-2 is raised as a problem."""
        if request.content_type != OCTETS:
            raise ProblemError(415, "Unsupported Media Type", f"The request body must be {OCTETS}")
        coding = request.headers.get("Content-Encoding", IDENTITY).lower()
        if coding not in (IDENTITY, *GZIP):
            raise ProblemError(415, "Unsupported Media Type", "The only Content-Encoding that is taken is gzip")
        with self._slot(request[CLIENT]):
            taking = _Taking(self._mirror, self._knows)
            pieces = self._bodies.pieces_of(request, _NO_LIMIT, (IDENTITY, *GZIP))
            try:
                async with aclosing(_unpacked(pieces) if coding in GZIP else pieces) as body:
                    async for piece in body:
                        if await taking.take(piece):
                            break
            except ProblemError as problem:
                # It ended early, or came too slowly. What came is kept, and told.
                taking.problem = problem
            except NoteError as error:
                taking.problem = ProblemError.malformed(str(error))
            return await taking.end()

    @contextmanager
    def _slot(self, client: str) -> Iterator[None]:
        if self._clients.total() >= MOST_AT_ONCE or self._clients[client] >= MOST_OF_ONE_CLIENT:
            raise unavailable("As many uploads as this mirror takes at once are under way; nothing was read", 1.0)
        self._clients[client] += 1
        try:
            yield
        finally:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]


@dataclass(slots=True)
class _Taking:
    """One upload as it comes in."""

    mirror: Mirror
    knows: Callable[[str], bool]
    reader: UploadReader = field(default_factory=UploadReader)
    upload: Upload | None = None
    answer: Answer | None = None
    problem: ProblemError | None = None
    # Read and not yet kept; their bytes; and all that were kept.
    batch: list[Package] = field(default_factory=list)
    held: int = 0
    kept: int = 0

    async def take(self, piece: bytes) -> bool:
        """Whether that is enough."""
        packages = self.reader.feed(piece)
        if self.upload is None and self.reader.head is not None:
            begun = await asyncio.to_thread(self.mirror.begin, self.reader.head, self.knows)
            if isinstance(begun, Answer):
                self.answer = begun
                return True
            self.upload = begun
        self.batch += packages[: MOST_PACKAGES - self.kept - len(self.batch)]
        self.held += len(piece)
        if len(self.batch) >= BATCH_PACKAGES or (self.batch and self.held >= BATCH_BYTES):
            await self.keep()
        return self.answer is not None or self.reader.done or self.kept + len(self.batch) >= MOST_PACKAGES

    async def keep(self) -> None:
        batch, self.batch, self.held = self.batch, [], 0
        if batch and self.upload is not None and self.answer is None:
            try:
                self.kept += await _to_its_end(self.mirror.save, self.upload, batch)
            except ProofError as error:
                self.answer = Answer(422, detail=f"An entry package is not of the tree: {error}")

    async def end(self) -> Answer:
        """The answer to all that came."""
        await self.keep()
        if self.answer is not None:
            return self.answer
        if self.upload is None or not (self.reader.done or self.kept):
            raise self.problem or ProblemError.malformed("The body ended before its first entry package was complete")
        return await _to_its_end(self.mirror.finish, self.upload)


async def _to_its_end(job: Callable[..., _T], *values: object) -> _T:
    """In a thread, and brought to its end though the client goes away: it is not left in the middle."""
    return await asyncio.shield(asyncio.to_thread(job, *values))


async def _unpacked(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The content of a gzip body (RFC 1952, one member or several), never more than a step of it at once.

    Packing makes nothing longer, so what does is padding: empty members, a name without an end. It is read for a while.
    """
    member = zlib.decompressobj(_GZIP_WINDOW)
    padding = 0
    async for piece in pieces:
        data = piece
        padding += len(piece)
        while data:
            try:
                step = member.decompress(data, _STEP)
            except zlib.error as error:
                raise NoteError(f"add-entries: the body is not gzip ({error})") from error
            padding = max(0, padding - 2 * len(step))
            if padding > _MOST_PADDING:
                raise NoteError("add-entries: the body is gzip with next to nothing in it")
            yield step
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, zlib.decompressobj(_GZIP_WINDOW)
            # A small body may become a large one: others have their turn in between.
            await asyncio.sleep(0)
