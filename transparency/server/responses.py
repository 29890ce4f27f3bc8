"""Problems and aiohttp: what its own exceptions are, and how it sends one. Workers do without aiohttp."""

from __future__ import annotations

from aiohttp import web

from transparency.server.problems import ProblemError, problem_of
from transparency.statements.media_types import PROBLEM


def problem_in(error: Exception) -> ProblemError:
    """Which problem an exception is that came out of a handler, aiohttp's own among them."""
    if isinstance(error, web.HTTPException):
        allow = error.headers.get("Allow")
        return ProblemError.of_status(error.status, {"Allow": allow} if allow else None)
    return problem_of(error)


def response_of(problem: ProblemError) -> web.Response:
    headers = {"Cache-Control": "no-store", **problem.headers, "Content-Type": PROBLEM}
    response = web.Response(status=problem.status, body=problem.to_bytes(), headers=headers)
    if problem.close:
        response.force_close()
    return response
