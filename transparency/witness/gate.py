"""The gate of a witness' application: limit, handle, count; whatever is raised becomes a problem (RFC 9290)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from transparency.server.access_log import CLIENT, method_of, route_of
from transparency.server.endpoints import Handler
from transparency.server.limits import RateLimiter, client_of_address
from transparency.server.problems import ProblemError
from transparency.server.responses import response_of
from transparency.server.unexpected import log_unexpected

_FAULT: Final = 500


@dataclass(frozen=True, slots=True)
class Gate:
    """What the applications of plain and compliance witnesses bring along."""

    limiter: RateLimiter
    answered: Callable[[str, str, int, float], None]
    problem: Callable[[Exception], ProblemError]


GATE: Final = web.AppKey("gate", Gate)


@web.middleware
async def through_gate(request: web.Request, handler: Handler) -> web.StreamResponse:
    gate = request.app[GATE]
    started = time.perf_counter()
    try:
        client = request[CLIENT] = client_of_address(request.remote)
        gate.limiter.admit(client)
        response = await handler(request)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - every error is answered with a problem
        problem = gate.problem(error)
        if problem.status == _FAULT:
            log_unexpected(f"{method_of(request)} {route_of(request)}", error)
        response = response_of(problem)
    seconds = time.perf_counter() - started
    gate.answered(route_of(request), method_of(request), response.status, seconds)
    return response
