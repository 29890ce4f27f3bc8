"""The witness over HTTP: add-checkpoint, sign-subtree and the monitoring endpoint of C2SP tlog-witness (W-2, W-4).

Submission prefix and monitoring prefix are the same. Every error is a problem (RFC 9290), but for 409, whose body the
text fixes: the recorded size, as ``text/x.tlog.size``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from transparency.errors import StoreError
from transparency.notes.numbers import MAX_BYTES
from transparency.server.bodies import Bodies, expect_later
from transparency.server.endpoints import Handler
from transparency.server.limits import RateLimiter
from transparency.server.metrics import CONTENT_TYPE
from transparency.server.problems import ProblemError, unavailable
from transparency.server.responses import problem_in
from transparency.server.settings import ServerSettings
from transparency.witness.decide import Answer, KeysOf
from transparency.witness.gate import GATE, Gate, through_gate
from transparency.witness.keeper import Keeper
from transparency.witness.metrics import WitnessMetrics
from transparency.witness.subtrees import answer_subtree

TEXT: Final = "text/plain; charset=utf-8"
TLOG_SIZE: Final = "text/x.tlog.size"
CHECKPOINT: Final = "/{origin:[0-9a-f]{64}}/checkpoint"
_NO_STORE: Final = {"Cache-Control": "no-store"}
_TITLES: Final = {400: "Malformed request", 403: "Forbidden", 404: "Not Found", 422: "Unprocessable Entity"}
_CONFLICT: Final = 409
_OK: Final = 200


@dataclass(slots=True)
class WitnessService:
    """Owner: the event loop's thread."""

    keeper: Keeper
    keys_of: KeysOf
    settings: ServerSettings
    bodies: Bodies
    metrics: WitnessMetrics
    limiter: RateLimiter
    stopping: bool = False


SERVICE: Final = web.AppKey("witness", WitnessService)


def create_app(
    keeper: Keeper,
    settings: ServerSettings,
    clock: Callable[[], float] = time.monotonic,
    metrics: WitnessMetrics | None = None,
    routes: Iterable[tuple[str, str, Handler]] | None = None,
    keys_of: KeysOf | None = None,
) -> web.Application:
    """Routes and state over a keeper that somebody else starts and stops. *clock* measures the rate limit.

    A mirror brings *metrics* of its own, *routes* in the place of the monitoring endpoint, and *keys_of*, by which
    sign-subtree knows a log: it signs none that is damaged there.
    """
    service = WitnessService(
        keeper=keeper,
        keys_of=keys_of or keeper.logs.keys_of,
        settings=settings,
        bodies=Bodies(
            timeout=settings.body_timeout, budget=settings.max_body_bytes, words="a checkpoint and its proof are small"
        ),
        metrics=metrics
        or WitnessMetrics(
            lambda: keeper.records, lambda: {"evidence": keeper.evidence_count, "logs": len(keeper.logs)}
        ),
        limiter=RateLimiter(settings.rate_limit, settings.rate_period, max_clients=settings.max_clients, clock=clock),
    )
    app = web.Application(middlewares=[through_gate], client_max_size=0)
    app[SERVICE] = service
    app[GATE] = Gate(service.limiter, service.metrics.requests.answered, _problem)
    for method, path, handler in (
        ("POST", "/add-checkpoint", _add_checkpoint),
        ("POST", "/sign-subtree", _sign_subtree),
        ("GET", "/healthz", _healthz),
        ("GET", "/readyz", _readyz),
        ("GET", "/metrics", _metrics),
        *([("GET", CHECKPOINT, _checkpoint)] if routes is None else routes),
    ):
        resource = app.router.add_resource(path)
        resource.add_route(method, handler, expect_handler=expect_later)
        if method == "GET":
            resource.add_route("HEAD", handler, expect_handler=expect_later)
    return app


def _problem(error: Exception) -> ProblemError:
    if isinstance(error, web.HTTPNotFound):
        return ProblemError(404, "Not Found", "There is no such resource here")
    if isinstance(error, StoreError):
        return unavailable("What would be cosigned cannot be stored; this service is stopping", 5.0)
    return problem_in(error)


async def _add_checkpoint(request: web.Request) -> web.StreamResponse:
    service = request.app[SERVICE]
    async with service.bodies.body_of(request, MAX_BYTES) as body:
        try:
            answer = await service.keeper.add(body)
        except Exception as error:
            service.metrics.answered("", _problem(error).status)
            raise
    service.metrics.answered(answer.origin, answer.status)
    return await _respond(request, answer)


async def _sign_subtree(request: web.Request) -> web.StreamResponse:
    service = request.app[SERVICE]
    async with service.bodies.body_of(request, MAX_BYTES) as body:
        # In a thread: two signatures of ML-DSA-44 would hold up everybody else.
        answer = await asyncio.to_thread(answer_subtree, body, service.keys_of, service.keeper.keys)
    return await _respond(request, answer)


async def _respond(request: web.Request, answer: Answer) -> web.StreamResponse:
    if answer.status == _OK:
        return web.Response(body=answer.body, headers={**_NO_STORE, "Content-Type": TEXT})
    if answer.status != _CONFLICT:
        raise ProblemError(answer.status, _TITLES[answer.status], answer.detail)
    response = web.Response(status=_CONFLICT, body=answer.body, headers={**_NO_STORE, "Content-Type": TLOG_SIZE})
    # Begun here: an error that is not a problem would be made one on its way out (server/protocol.py).
    await response.prepare(request)
    return response


async def _checkpoint(request: web.Request) -> web.StreamResponse:
    note = request.app[SERVICE].keeper.note_of(request.match_info["origin"])
    if note is None:
        raise ProblemError(404, "Not Found", "This witness has not cosigned a checkpoint of a log with this origin")
    return web.Response(body=note, headers={"Cache-Control": "max-age=1", "Content-Type": TEXT})


async def _healthz(request: web.Request) -> web.StreamResponse:  # noqa: ARG001 - the process answers: that is all
    return web.Response(body=b'{"status":"ok"}', headers={**_NO_STORE, "Content-Type": "application/json"})


async def _readyz(request: web.Request) -> web.StreamResponse:
    service = request.app[SERVICE]
    if service.stopping or service.keeper.failure is not None:
        raise unavailable("This service is stopping", 5.0)
    return await _healthz(request)


async def _metrics(request: web.Request) -> web.StreamResponse:
    return web.Response(
        body=request.app[SERVICE].metrics.exposition(), headers={**_NO_STORE, "Content-Type": CONTENT_TYPE}
    )
