"""The policy over HTTP: what is in force, what was, and the statement that each generation was registered by (REG-7).

Public: whoever submits must be able to know by which rules.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from transparency.cose.cbor import encode
from transparency.errors import NotFoundError
from transparency.log.log import PolicyVersion
from transparency.server import media
from transparency.server.entries import created, require_attached
from transparency.server.problems import unavailable
from transparency.server.service import SERVICE, matches, negotiated, number, query_number

MAX_AT_ONCE: Final = 2
_SHORT: Final = "public, max-age=5"


async def policy(request: web.Request) -> web.StreamResponse:
    """``GET /policy``: the TOML of the policy in force."""
    service = request.app[SERVICE]
    kind = negotiated(request, media.TOML, "text/plain")
    in_force = service.log.policy
    etag = f'"{in_force.generation}-{"t" if kind == media.TOML else "p"}"'
    headers = {"ETag": etag, "Cache-Control": _SHORT, "Vary": "Accept"}
    if matches(request, etag):
        return web.Response(status=304, headers=headers)
    return web.Response(body=service.log.policy_document, headers={**headers, "Content-Type": f"{kind}; charset=utf-8"})


async def history(request: web.Request) -> web.StreamResponse:
    """``GET /policy/history?from=N``: one map per generation from N on, the oldest first; a page of them."""
    first = query_number(request, "from") or 1
    kind = negotiated(request, media.CBOR)
    versions = [
        {
            "generation": version.generation,
            "index": version.index,
            "entry": version.entry_id,
            "policy": version.toml.decode("utf-8"),
        }
        for version in await _history(request, first)
    ]
    return web.Response(body=encode(versions), headers={"Content-Type": kind, "Cache-Control": _SHORT})


async def policy_statement(request: web.Request) -> web.StreamResponse:
    """``GET /policy/{generation}/statement``: the transparent statement by which a generation took effect."""
    service = request.app[SERVICE]
    generation = number(request.match_info["generation"], "generation")
    kind = negotiated(request, media.COSE, media.STATEMENT)
    page = await _history(request, generation)
    if not page or page[0].generation != generation:
        raise NotFoundError(f"There is no generation {generation} of the policy")
    body = service.log.transparent_statement(page[0].index)
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _SHORT, "Vary": "Accept"})


async def _history(request: web.Request, first: int) -> list[PolicyVersion]:
    """Read beside the event loop, for few at once: anybody may ask, and the threads are everybody's."""
    service = request.app[SERVICE]
    if service.histories >= MAX_AT_ONCE:
        raise unavailable("As many readers of the policy's history as are served at once are being served", 1.0)
    service.histories += 1
    try:
        return await asyncio.to_thread(service.log.policy_history, first)
    finally:
        service.histories -= 1


async def update_policy(request: web.Request) -> web.StreamResponse:
    """``POST /policy``: the next generation, signed by the policy key in force; the only way in for one (REG-22)."""
    service = request.app[SERVICE]
    require_attached(request)
    async with service.bodies.body_of(request, service.body_limit) as body:
        result = await service.log.update_policy(body)
    return created(service, request, result)
