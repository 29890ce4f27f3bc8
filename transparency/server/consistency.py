"""Consistency over HTTP: a receipt that one stored tree head is a prefix of another (RFC 9942 §5.3; AMB-7)."""

from __future__ import annotations

from aiohttp import web

from transparency.server import media
from transparency.server.problems import ProblemError
from transparency.server.service import SERVICE, negotiated, query_number

_SHORT = "public, max-age=5"
_FOR_EVER = "public, max-age=31536000, immutable"


async def consistency(request: web.Request) -> web.StreamResponse:
    """``GET /consistency?from=&to=``: without ``to``, up to the newest head."""
    service = request.app[SERVICE]
    old = query_number(request, "from")
    new = query_number(request, "to")
    kind = negotiated(request, media.COSE, media.RECEIPT)
    if old is None:
        raise ProblemError.malformed("'from' is missing: the size of the older tree head")
    if new is not None and new <= old:
        raise ProblemError.malformed("'to' is not larger than 'from'")
    body = service.log.consistency(old, new)
    headers = {"Content-Type": kind, "Cache-Control": _SHORT if new is None else _FOR_EVER, "Vary": "Accept"}
    return web.Response(body=body, headers=headers)
