"""The mirror over HTTP: what a log sends it (M-1, M-2), and each log it has, as C2SP tlog-tiles says (M-3).

Submission prefix and monitoring prefix are the same. Below ``<hex SHA-256 of the origin>`` lies the tiled log, up to
the checkpoint that was cosigned. Every error is a problem (RFC 9290), but for 202 and 409, whose bodies the text fixes.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from transparency.mirror.condition import Conditions
from transparency.mirror.metrics import MirrorMetrics
from transparency.mirror.mirror import Mirror
from transparency.mirror.shelf import Shelf
from transparency.mirror.trees import DamagedError
from transparency.mirror.uploads import Uploads
from transparency.notes.checkpoint import origin_hash
from transparency.notes.vkey import VerifierKey
from transparency.server import tiles
from transparency.server.problems import ProblemError
from transparency.server.settings import ServerSettings
from transparency.statements.media_types import OCTETS
from transparency.witness.app import CHECKPOINT, TEXT
from transparency.witness.app import SERVICE as WITNESS
from transparency.witness.app import create_app as witness_app
from transparency.witness.keeper import Keeper

MIRROR_INFO: Final = "text/x.tlog.mirror-info"
_ORIGIN: Final = "/{origin:[0-9a-f]{64}}"
_HEADERS: Final = {"Cache-Control": "no-store", "Accept-Encoding": "gzip"}
_TITLES: Final = {400: "Malformed request", 404: "Not Found", 422: "Unprocessable Entity", 503: "Damaged"}
_OK: Final = 200
_CONFLICT: Final = 409


@dataclass(slots=True)
class MirrorService:
    """Owner: the event loop's thread."""

    mirror: Mirror
    shelf: Shelf
    uploads: Uploads
    conditions: Conditions


SERVICE: Final = web.AppKey("mirror", MirrorService)


def create_app(
    mirror: Mirror,
    keeper: Keeper,
    shelf: Shelf,
    conditions: Conditions,
    settings: ServerSettings,
    clock: Callable[[], float] = time.monotonic,
) -> web.Application:
    """Over a mirror and its keeper, which somebody else starts and stops."""
    routes = (
        ("POST", "/add-entries", _add_entries),
        ("GET", CHECKPOINT, _checkpoint),
        ("GET", f"{_ORIGIN}/tile/{{path:.+}}", _tile),
        ("GET", "/status", _status),
    )

    def keys_of(origin: str) -> Collection[VerifierKey] | None:
        refuse_damaged(mirror, origin)
        return keeper.logs.keys_of(origin)

    app = witness_app(keeper, settings, clock, MirrorMetrics(mirror, keeper, conditions), routes, keys_of)
    uploads = Uploads(mirror, app[WITNESS].bodies, keeper.logs.__contains__)
    app[SERVICE] = MirrorService(mirror, shelf, uploads, conditions)
    return app


async def _add_entries(request: web.Request) -> web.StreamResponse:
    try:
        answer = await request.app[SERVICE].uploads.add(request)
    except ProblemError as problem:
        problem.headers["Accept-Encoding"] = "gzip"
        raise
    if answer.status in _TITLES:
        raise ProblemError(answer.status, _TITLES[answer.status], answer.detail, headers={"Accept-Encoding": "gzip"})
    kind = TEXT if answer.status == _OK else MIRROR_INFO
    response = web.Response(status=answer.status, body=answer.body, headers={**_HEADERS, "Content-Type": kind})
    if answer.status == _CONFLICT:
        # Begun here: an error that is not a problem would be made one on its way out (server/protocol.py).
        await response.prepare(request)
    return response


async def _checkpoint(request: web.Request) -> web.StreamResponse:
    found = request.app[SERVICE].shelf.find(request.match_info["origin"])
    return tiles.answer(request, found.record.note, TEXT, "public, max-age=1")


async def _tile(request: web.Request) -> web.StreamResponse:
    """Read and compressed in a thread: a bundle may have sixteen megabytes, and they take a second."""
    found = request.app[SERVICE].shelf.find(request.match_info["origin"])
    place = tiles.place_of(request)
    try:
        if isinstance(place, tiles.BundlePlace):
            return await asyncio.to_thread(lambda: tiles.compressed(request, found.bundle(*place)))
        return await asyncio.to_thread(lambda: tiles.answer(request, found.tile(*place), OCTETS, tiles.FOR_EVER))
    except DamagedError as error:
        raise _damaged(str(error)) from error


def refuse_damaged(mirror: Mirror, origin: str) -> None:
    words = mirror.damaged.get(origin)  # asked once: a thread may have it mended meanwhile
    if words is not None:
        raise _damaged(words)


def _damaged(words: str) -> ProblemError:
    return ProblemError(503, _TITLES[503], f"What is kept of this log is damaged: {words}")


async def _status(request: web.Request) -> web.StreamResponse:
    """For people: how far each log is, and what keeps it."""
    service = request.app[SERVICE]
    logs = [_row(service, origin) for origin in sorted({*service.mirror.origins, *service.conditions.all})]
    body = json.dumps({"mirror": service.mirror.keys.name, "logs": logs}, ensure_ascii=True).encode() + b"\n"
    return web.Response(body=body, headers={"Cache-Control": "no-store", "Content-Type": "application/json"})


def _row(service: MirrorService, origin: str) -> dict[str, object]:
    pending, cosigned = service.mirror.pending(origin), service.mirror.cosigned(origin)
    condition = service.conditions.of(origin)
    return {
        "origin": origin,
        "path": origin_hash(origin),
        "pending-size": None if pending is None else pending.size,
        "entries": service.mirror.next_entry(origin),
        "cosigned-size": None if cosigned is None else cosigned.size,
        "cosigned-time": None if cosigned is None else cosigned.time,
        "condition": None if condition is None else condition.code,
        "detail": None if condition is None else condition.detail,
    }
