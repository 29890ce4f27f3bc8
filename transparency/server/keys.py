"""Keys over HTTP: the COSE_KeySet that verifies receipts, one key by its kid, and the admin route that rotates them."""

from __future__ import annotations

from aiohttp import web

from transparency.errors import LogUnusableError
from transparency.server import media
from transparency.server.entries import created, require_attached
from transparency.server.problems import ProblemError
from transparency.server.service import SERVICE, negotiated

# A new key is in use the moment it is registered, so the set is not held for long; one key never changes (KEY-9).
_SET_AGE = "public, max-age=300"
_KEY_AGE = "public, max-age=86400"


async def key_set(request: web.Request) -> web.StreamResponse:
    """``GET /.well-known/scitt-keys`` (KEY-1)."""
    kind = negotiated(request, media.CBOR)
    body = request.app[SERVICE].directory.key_set
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _SET_AGE, "Vary": "Accept"})


async def key(request: web.Request) -> web.StreamResponse:
    """``GET /.well-known/scitt-keys/{kid}``: base64url(kid), or the kid itself where it is a path segment (KEY-5)."""
    kind = negotiated(request, media.CBOR)
    body = request.app[SERVICE].directory.find(request.match_info["kid"])
    if body is None:
        raise ProblemError(404, "No such key", "No key could be found for this kid value")
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _KEY_AGE, "Vary": "Accept"})


async def update_keys(request: web.Request) -> web.StreamResponse:
    """``POST /keys``: the next generation of the service's keys, signed by the policy key."""
    service = request.app[SERVICE]
    require_attached(request)
    async with service.bodies.body_of(request, service.body_limit) as body:
        try:
            result = await service.log.update_keys(body)
        except LogUnusableError:
            # Its message names files of the server, which are none of a client's business.
            detail = (
                "The service does not hold the private half of the new receipts key; put it in its keys folder first"
            )
            raise ProblemError(400, "Rejected", detail) from None
    return created(service, request, result)
