"""The tree over HTTP: checkpoint, tiles and entries, as C2SP tlog-tiles says (TL-1 to TL-8). Public, like the receipts.

What is under the newest published checkpoint is served; the rest does not exist yet. A tile or bundle never changes,
so caches may keep it for ever; the checkpoint is the one thing that a client asks for again.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from typing import Final, NamedTuple

from aiohttp import web

from transparency.errors import MalformedError, NotFoundError
from transparency.notes.paths import parse_entries_path, parse_tile_path
from transparency.server import media
from transparency.server.problems import unavailable
from transparency.server.service import SERVICE, matches

TEXT: Final = "text/plain; charset=utf-8"
FOR_EVER: Final = "public, max-age=31536000, immutable"
_LONGEST_AGE: Final = 5
_ENTRIES: Final = "entries/"
_CODING: Final = re.compile(r"(gzip|x-gzip|\*)[ \t]*(?:;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?", re.IGNORECASE)


async def checkpoint(request: web.Request) -> web.StreamResponse:
    """``GET /checkpoint``: the newest that is published, with what witnesses signed (TL-1)."""
    publisher = request.app[SERVICE].publisher
    newest = publisher.published.newest
    if newest is None:
        raise unavailable("No checkpoint is published yet: it waits for its witnesses", 1.0)
    age = min(max(math.ceil(publisher.settings.interval), 1), _LONGEST_AGE)
    return answer(request, newest.to_bytes(), TEXT, f"public, max-age={age}")


async def tile(request: web.Request) -> web.StreamResponse:
    """``GET /tile/<L>/<N>[.p/<W>]`` and ``GET /tile/entries/<N>[.p/<W>]`` (TL-2, TL-5)."""
    place = place_of(request)
    published = request.app[SERVICE].publisher.published
    if isinstance(place, BundlePlace):
        return compressed(request, published.bundle(*place))
    return answer(request, published.tile(*place), media.OCTETS, FOR_EVER)


class TilePlace(NamedTuple):
    level: int
    number: int
    width: int


class BundlePlace(NamedTuple):
    number: int
    width: int


def place_of(request: web.Request) -> TilePlace | BundlePlace:
    """Which tile or bundle the rest of the path names; raises NotFoundError."""
    path = request.match_info["path"]
    if "%" in request.raw_path.partition("?")[0]:
        raise NotFoundError("a tile has one path, in which nothing is escaped")
    try:
        if path.startswith(_ENTRIES):
            return BundlePlace(*parse_entries_path(f"tile/{path}"))
        return TilePlace(*parse_tile_path(f"tile/{path}"))
    except MalformedError as error:
        # A tile has one path (TL-2); what is no path of a tile is no resource.
        raise NotFoundError(str(error)) from error


def compressed(request: web.Request, body: bytes) -> web.Response:
    """Entries "SHOULD be compressed at the HTTP layer": for whoever says that it can read it."""
    headers = {"Vary": "Accept-Encoding"}
    if _takes_gzip(",".join(request.headers.getall("Accept-Encoding", ()))):
        body = gzip.compress(body, compresslevel=6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return answer(request, body, media.OCTETS, FOR_EVER, headers)


def _takes_gzip(offered: str) -> bool:
    """RFC 9110 §12.5.3: a weight of 0 refuses, and ``*`` is about what is not named."""
    found = [match for part in offered.split(",") if (match := _CODING.fullmatch(part.strip(" \t")))]
    weights = {match[1].lower().removeprefix("x-"): float(match[2] or 1) for match in found}
    return weights.get("gzip", weights.get("*", 0)) > 0


def answer(
    request: web.Request, body: bytes, kind: str, caching: str, more: dict[str, str] | None = None
) -> web.Response:
    """200, or 304 for who has these very bytes; their ETag says which they are."""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": caching, **(more or {})}
    if matches(request, etag):
        headers.pop("Content-Encoding", None)
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers={**headers, "Content-Type": kind})
