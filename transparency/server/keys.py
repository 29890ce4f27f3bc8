"""Keys over HTTP: those that verify receipts, together and one by one; the registered key set, and the next one."""

from __future__ import annotations

from aiohttp import web

from transparency.errors import LogUnusableError
from transparency.server import media
from transparency.server.entries import created, require_attached
from transparency.server.problems import ProblemError
from transparency.server.service import SERVICE, matches, negotiated

# A new key may be in use the moment it is registered, and a key be found compromised: nothing is held for long (KEY-9).
_AGE = "public, max-age=300"
_DOCUMENT_AGE = "public, max-age=5"


async def key_set(request: web.Request) -> web.StreamResponse:
    """``GET /.well-known/scitt-keys`` (KEY-1)."""
    kind = negotiated(request, media.CBOR)
    body = request.app[SERVICE].directory.key_set
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _AGE, "Vary": "Accept"})


async def key(request: web.Request) -> web.StreamResponse:
    """``GET /.well-known/scitt-keys/{kid}``: base64url(kid), or the kid itself where it is a path segment (KEY-5)."""
    kind = negotiated(request, media.CBOR)
    body = request.app[SERVICE].directory.find(request.match_info["kid"])
    if body is None:
        raise ProblemError(404, "No such key", "No key could be found for this kid value")
    return web.Response(body=body, headers={"Content-Type": kind, "Cache-Control": _AGE, "Vary": "Accept"})


async def document(request: web.Request) -> web.StreamResponse:
    """``GET /keys``: the key set in force as it is registered: every key of the service, its purpose and its times."""
    service = request.app[SERVICE]
    kind = negotiated(request, media.TOML, "text/plain")
    etag = f'"{service.log.service_keys.generation}-{"t" if kind == media.TOML else "p"}"'
    headers = {"ETag": etag, "Cache-Control": _DOCUMENT_AGE, "Vary": "Accept"}
    if matches(request, etag):
        return web.Response(status=304, headers=headers)
    body = service.log.service_keys_document
    return web.Response(body=body, headers={**headers, "Content-Type": f"{kind}; charset=utf-8"})


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
