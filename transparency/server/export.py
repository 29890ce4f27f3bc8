"""The export over HTTP: every entry and every head, page by page, for ``transparency audit --log`` (log/export.py).

Statements are in it, so it needs a token that may read. A page is some megabytes: few are made at once, and who comes
meanwhile is asked to come again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from transparency.log.log import Log
from transparency.server import media
from transparency.server.problems import unavailable
from transparency.server.service import SERVICE, begin, negotiated, query_number

MAX_AT_ONCE: Final = 4
_HEADERS: Final = {"Content-Type": media.CBOR_SEQUENCE, "Cache-Control": "private, no-cache"}


async def entries(request: web.Request) -> web.StreamResponse:
    """``GET /export/entries?from=N``: entries from index N on; an empty body when there are no more."""
    return await _page(request, lambda log, start: log.export_entries(start))


async def heads(request: web.Request) -> web.StreamResponse:
    """``GET /export/heads?from=N``: the heads that are larger than N; an empty body when there are no more."""
    return await _page(request, lambda log, start: log.export_heads(start))


async def _page(request: web.Request, read: Callable[[Log, int], bytes]) -> web.StreamResponse:
    service = request.app[SERVICE]
    start = query_number(request, "from") or 0
    negotiated(request, media.CBOR_SEQUENCE)
    if service.exports >= MAX_AT_ONCE:
        raise unavailable("As many exports as this Transparency Service makes at once are under way", 1.0)
    service.exports += 1
    try:
        body = await asyncio.to_thread(read, service.log, start)
        response = web.Response(body=body, headers=_HEADERS)
        # Until the client has it: what is on its way is held in memory.
        await begin(request, response)
        await response.write_eof()
    finally:
        service.exports -= 1
    return response
