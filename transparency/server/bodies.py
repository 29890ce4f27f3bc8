"""The body of a request: read within a size, a time and a share of memory, whoever sends it (design §12).

A limit is applied while reading and not after it. What all requests hold together is bounded too, because a thousand
connections that may each send four megabytes are four gigabytes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestPayloadError

from transparency.errors import OverloadedError
from transparency.server.connections import LEAST_BYTES_PER_SECOND
from transparency.server.problems import ProblemError, late_body, stopping

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_HTTP_1_1 = (1, 1)
_POLL_SECONDS = 0.01
# What each body may hold whatever others do: the number of connections bounds it. A crowd that sends large bodies
# thereby sheds its own kind, and not the small statements of others.
SMALL_BODY = 64 * 1024


def _beyond_small(size: int) -> int:
    return max(0, size - SMALL_BODY)


IDENTITY = "identity"
_STATEMENT_WORDS = "register a large record as a hash envelope (RFC 9995)"
_ARTIFACT_WORDS = "a larger record can be registered without the log keeping it"


class Bodies:
    """All bodies being read or held by handlers, ``held`` without the first of each. Owner: the event loop's thread."""

    def __init__(self, *, timeout: float, budget: int, words: str = _STATEMENT_WORDS) -> None:
        """*words* tell whoever sends too much what to do instead."""
        self._timeout = timeout
        self._budget = budget
        self._words = words
        self._reading: set[asyncio.Timeout] = set()
        self._stopping = False
        self.held = 0

    async def stop(self, grace: float) -> None:
        """The server goes down: bodies still arriving get *grace* seconds, the late ones an answer of 503."""
        self._stopping = True
        deadline = asyncio.get_running_loop().time() + grace
        for timeout in self._reading:
            when = timeout.when()
            if when is not None and when > deadline:
                timeout.reschedule(deadline)
        while self._reading:  # noqa: ASYNC110 - once in a server's life; an event would be kept up for every request
            await asyncio.sleep(_POLL_SECONDS)

    @asynccontextmanager
    async def body_of(self, request: web.Request, limit: int) -> AsyncIterator[bytes]:
        """The whole body, which counts as held until the block is left."""
        _check_head(request, limit, self._words)
        await _continue(request)
        body = bytearray()
        counted = 0
        try:
            await self._read(request, limit, body)
            whole, counted = bytes(body), len(body)
            body.clear()
            yield whole
        finally:
            self.held -= _beyond_small(counted or len(body))

    async def stream_of(self, request: web.Request) -> AsyncGenerator[bytes, None]:
        """The body piece by piece, for a handler that takes each when it can: however long it is, however slow we."""
        _check_head(request, None, self._words)
        await _continue(request)
        while piece := await self._piece(request, math.inf):
            yield piece

    async def pieces_of(
        self, request: web.Request, limit: int, codings: Collection[str] = (IDENTITY,)
    ) -> AsyncGenerator[bytes, None]:
        """The body piece by piece, for a handler that keeps none of it; the limit is on all of it, 413 beyond.

        *codings*: what the handler undoes itself, within limits of its own.
        """
        _check_head(request, limit, _ARTIFACT_WORDS, codings)
        await _continue(request)
        started = asyncio.get_running_loop().time()
        size = 0
        while True:
            # It is not held but passed on, so it may be large; it still has to come at some speed.
            late = started + self._timeout + size / LEAST_BYTES_PER_SECOND
            piece = await self._piece(request, late)
            if not piece:
                return
            size += len(piece)
            if size > limit:
                raise too_large(limit, _ARTIFACT_WORDS)
            yield piece

    async def _piece(self, request: web.Request, late: float) -> bytes:
        with self._problems(request):
            if self._stopping:
                raise TimeoutError
            async with asyncio.timeout(self._timeout) as timeout:
                if late < (timeout.when() or late):
                    timeout.reschedule(late)
                self._reading.add(timeout)
                try:
                    return await request.content.readany()
                finally:
                    self._reading.discard(timeout)

    async def _read(self, request: web.Request, limit: int, body: bytearray) -> None:
        content = request.content
        with self._problems(request):
            if content.is_eof():
                # The whole request came in one piece, as small ones do: no timer is needed.
                self._hold(content.read_nowait(), body, limit)
                return
            async with asyncio.timeout(self._timeout) as timeout:
                self._reading.add(timeout)
                try:
                    while chunk := await content.readany():
                        self._hold(chunk, body, limit)
                finally:
                    self._reading.discard(timeout)

    @contextmanager
    def _problems(self, request: web.Request) -> Iterator[None]:
        """What can go wrong while a body arrives, in the client's words."""
        try:
            yield
        except TimeoutError:
            if self._stopping:
                raise stopping() from None
            raise late_body(self._timeout) from None
        except (RequestPayloadError, HttpProcessingError, ConnectionError):
            raise _ended_early() from None
        except RuntimeError:
            # So aiohttp says that the connection was lost before its body was asked for.
            if request.transport is not None:
                raise
            raise _ended_early() from None

    def _hold(self, chunk: bytes, body: bytearray, limit: int) -> None:
        before = _beyond_small(len(body))
        body += chunk
        self.held += _beyond_small(len(body)) - before
        if len(body) > limit:
            raise too_large(limit, self._words)
        if self.held > self._budget:
            raise OverloadedError("Too many large requests at once; nothing was accepted")


def _ended_early() -> ProblemError:
    return ProblemError.malformed("The request body ended early or is badly framed", close=True)


def too_large(limit: int, words: str = _STATEMENT_WORDS) -> ProblemError:
    detail = f"The request body may have up to {limit} bytes; {words}"
    return ProblemError(413, "Content Too Large", detail, close=True)


def _check_head(request: web.Request, limit: int | None, words: str, codings: Collection[str] = (IDENTITY,)) -> None:
    """What the header alone tells is answered before a byte of the body is asked for."""
    length = request.content_length
    if length is None and "Transfer-Encoding" not in request.headers:
        raise ProblemError(411, "Length Required", "The request needs a body with a Content-Length or chunked framing")
    if request.headers.get("Transfer-Encoding", "chunked").lower() != "chunked":
        # RFC 9112 §6.1. The parser passes over what stands before "chunked".
        raise ProblemError(501, "Not Implemented", "The only Transfer-Encoding here is chunked", close=True)
    if length is not None and limit is not None and length > limit:
        raise too_large(limit, words)
    encoding = request.headers.get("Content-Encoding", IDENTITY)
    if encoding.lower() not in codings:
        # Decompressing would let a small request become a large one; statements are small and signed as they are.
        raise ProblemError(415, "Unsupported Media Type", "The request body must not have a Content-Encoding")


async def _continue(request: web.Request) -> None:
    expect = request.headers.get("Expect")
    if expect is None or request.version < _HTTP_1_1:
        return
    if expect.lower() != "100-continue":
        raise ProblemError.of_status(417)
    await request.writer.write(_CONTINUE)
    # aiohttp takes output for the beginning of the answer, after which no error could be sent.
    request.writer.output_size = 0


async def expect_later(request: web.Request) -> None:
    """Route option ``expect_handler``: say 100 Continue when the body is wanted, not before the client is known."""
