"""The access log: one JSON object a line for every answer, without payloads, tokens or query strings (design §12)."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.web_request import BaseRequest

from transparency.server.tokens import Token

UNMATCHED = "unmatched"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE"})

CLIENT = web.RequestKey("client", str)
ENTRY = web.RequestKey("entry", str)
TOKEN = web.RequestKey("token", Token)


class JsonAccessLogger(AbstractAccessLogger):
    """What aiohttp calls after each answer, also after those its parser gave."""

    def log(self, request: BaseRequest, response: web.StreamResponse, time_taken: float) -> None:
        now = datetime.fromtimestamp(time.time(), UTC)
        line: dict[str, object] = {
            "time": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "method": method_of(request),
            "route": route_of(request),
            "status": response.status,
            "ms": round(time_taken * 1000, 3),
            "bytes": response.body_length if response.prepared else 0,
            "client": request.get(CLIENT) or "unknown",
        }
        entry = request.get(ENTRY)
        if entry is not None:
            line["entry"] = entry
        self.logger.info(json.dumps(line, separators=(",", ":")))

    @property
    def enabled(self) -> bool:
        return self.logger.isEnabledFor(logging.INFO)


def route_of(request: BaseRequest) -> str:
    """The template of the route, never the path: what a client invents must not fill logs or label sets."""
    # None for what the parser refused; the public attribute asserts that it is not.
    match = request._match_info if isinstance(request, web.Request) else None  # noqa: SLF001
    resource = match.route.resource if match is not None else None
    return resource.canonical if resource is not None else UNMATCHED


def method_of(request: BaseRequest) -> str:
    return request.method if request.method in _METHODS else "other"
