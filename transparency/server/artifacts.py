"""Artifacts over HTTP: a record goes to disk and back piece by piece, under its SHA-256 (design §5, §6).

Whoever may submit may upload; whoever may read may fetch. The bytes are strangers' and are never interpreted: they
leave as ``application/octet-stream``, to be saved and not shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from transparency.errors import MalformedError, OverloadedError
from transparency.log.artifacts import Incoming, check_digest
from transparency.server import media
from transparency.server.problems import ProblemError
from transparency.server.service import SERVICE, Service, begin, matches, negotiated

_PIECE = 1024 * 1024
# The bytes of a digest never change, but they may be erased: whoever kept them asks again.
_ASK_AGAIN = "private, no-cache"


async def keep(request: web.Request) -> web.StreamResponse:
    """``PUT /artifacts/{digest}``: 201 once it is durable, 200 if it was here; nothing is kept under a wrong name."""
    service = request.app[SERVICE]
    digest = _digest(request)
    with _upload(service):
        # Files are opened, written and synced in threads: a slow disk must not hold up registrations.
        incoming = await asyncio.to_thread(service.artifacts.receive, digest)
        with incoming:
            await _receive(service, request, incoming)
            try:
                new = await asyncio.to_thread(incoming.finish)
            except MalformedError:
                detail = "The SHA-256 of the body is not the one in the path; nothing was kept"
                raise ProblemError(400, "Wrong digest", detail) from None
    headers = {"Location": service.location(request, f"/artifacts/{digest}"), "Content-Length": "0"}
    return web.Response(status=201 if new else 200, headers=headers)


async def fetch(request: web.Request) -> web.StreamResponse:
    """``GET /artifacts/{digest}``: the exact bytes, or 410 once they were erased."""
    service = request.app[SERVICE]
    digest = _digest(request)
    kind = negotiated(request, media.OCTETS)
    size = await asyncio.to_thread(service.artifacts.size, digest)
    headers = {"ETag": f'"{digest}"', "Cache-Control": _ASK_AGAIN, "Vary": "Accept"}
    if matches(request, headers["ETag"]):
        return web.Response(status=304, headers=headers)
    headers |= {
        "Content-Type": kind,
        "Content-Length": str(size),
        "Content-Disposition": "attachment",
        "X-Content-Type-Options": "nosniff",
    }
    if request.method == "HEAD":
        return web.Response(headers=headers)
    return await _send(service, request, digest, web.StreamResponse(headers=headers))


async def _receive(service: Service, request: web.Request, incoming: Incoming) -> None:
    gathered = bytearray()
    async for piece in service.bodies.pieces_of(request, service.artifact_limit(request)):
        gathered += piece
        if len(gathered) >= _PIECE:
            await asyncio.to_thread(incoming.write, bytes(gathered))
            gathered.clear()
    await asyncio.to_thread(incoming.write, bytes(gathered))


async def _send(
    service: Service, request: web.Request, digest: str, response: web.StreamResponse
) -> web.StreamResponse:
    file = await asyncio.to_thread(service.artifacts.open, digest)
    with file:
        await begin(request, response)
        try:
            while piece := await asyncio.to_thread(file.read, _PIECE):
                async with asyncio.timeout(service.settings.body_timeout):
                    await response.write(piece)
            await response.write_eof()
        except (OSError, TimeoutError):
            # The answer is under way, so no problem can be sent: a connection cut short is what is left to say.
            if request.transport is not None:
                request.transport.abort()
    return response


def _digest(request: web.Request) -> str:
    try:
        return check_digest(request.match_info["digest"])
    except MalformedError as error:
        raise ProblemError(400, "Invalid locator", str(error)) from None


@contextmanager
def _upload(service: Service) -> Iterator[None]:
    if service.uploads >= service.settings.max_uploads:
        raise OverloadedError("Too many artifacts are being uploaded at once; nothing was kept", 2.0)
    service.uploads += 1
    try:
        yield
    finally:
        service.uploads -= 1
