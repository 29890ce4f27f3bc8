"""The HTTP connection: aiohttp's own, except that what it answers by itself is a problem too (API-8).

A request that cannot be parsed never reaches the application: aiohttp's protocol answers it, in plain text, and logs a
traceback. A sender that ends its side early is hung up on. Both happen below any middleware, so both are changed here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from aiohttp.web_request import BaseRequest

from transparency.server.problems import FIRST_ERROR, ProblemError, jittered, unavailable
from transparency.statements.media_types import PROBLEM

_logger = logging.getLogger("transparency.server")
# How long an answer given before the body was read may take to be noticed by a client that is still sending.
LINGER_SECONDS = 2.0
REFUSED_SECONDS = 1.0


class Connection(RequestHandler):
    """One connection. Every error it sends is CBOR; nothing of a request gets into the log."""

    __slots__ = ("_last_payload",)

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(manager, loop=loop, **options)
        self._last_payload: StreamReader | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages:
            self._last_payload = self._messages[-1][1]

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's words quote the request
    ) -> web.StreamResponse:
        """Answer what the HTTP parser, or a handler behind the middleware's back, made of a request."""
        if status >= 500:
            log_unexpected("a request", exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already; another one cannot be sent")
        problem = ProblemError.of_status(status)
        problem.close = True
        return problem.to_response()

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """The last line: an error that is not a problem by now becomes one (a refused Expect, for instance)."""
        if resp.status >= FIRST_ERROR and resp.content_type != PROBLEM and not resp.prepared:
            allow = resp.headers.get("Allow")
            resp = ProblemError.of_status(resp.status, {"Allow": allow} if allow else None).to_response()
        return await super().finish_response(request, resp, start_time)

    def eof_received(self) -> bool | None:  # type: ignore[override] # aiohttp declares None; asyncio's contract has bool
        """The client will send no more. It may still read, so a request that is under way gets its answer.

        asyncio closes the transport unless True is returned (and over TLS, always).
        """
        idle = self._waiter is not None and not self._waiter.done()
        if idle or self._last_payload is None:
            return None
        if not self._last_payload.is_eof():
            self._last_payload.set_exception(RequestPayloadError("the sender ended the connection inside the body"))
        self._close = True  # after the answer, which close() would cut off where it waits for one more request
        return self.ssl_context is None

    def log_exception(self, *args: Any, **kw: Any) -> None:  # noqa: ANN401 - aiohttp's signature
        """Aiohttp would log a traceback; its last line is free to quote the request."""
        error = kw.get("exc_info")
        if isinstance(error, RequestPayloadError | HttpProcessingError | ConnectionError):
            return  # the client broke off a body that nobody wanted any more: nothing to see to
        log_unexpected(str(args[0]) if args else "the connection", error)


class _Refused(asyncio.Protocol):
    """A connection beyond the limit: told to come back, then closed. It never gets a parser or a task."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        problem = unavailable("Too many connections; nothing was accepted", 1.0)
        body = problem.to_bytes()
        head = (
            f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: {PROBLEM}\r\nContent-Length: {len(body)}\r\n"
            f"Retry-After: {jittered(1.0)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        # Closing with unread data would reset the connection, and the client might never see the answer.
        self._timer = asyncio.get_running_loop().call_later(REFUSED_SECONDS, self._transport.close)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - read and dropped
        self._transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:  # noqa: ARG002 - nothing depends on why
        self._timer.cancel()


class _Server(web.Server):
    """Makes our connections, up to a number."""

    def __init__(self, plain: web.Server, max_connections: int) -> None:
        super().__init__(
            plain.request_handler,
            request_factory=plain.request_factory,
            loop=plain._loop,  # noqa: SLF001 - aiohttp has no way to name another protocol class
            **plain._kwargs,  # noqa: SLF001
        )
        self._max_connections = max_connections

    def __call__(self) -> RequestHandler:
        if len(self._connections) >= self._max_connections:
            return cast("RequestHandler", _Refused())
        return Connection(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """aiohttp's AppRunner with these connections."""

    __slots__ = ("_max_connections",)

    def __init__(
        self,
        app: web.Application,
        *,
        max_connections: int,
        access_log_class: type[AbstractAccessLogger],
        **options: Any,  # noqa: ANN401 - passed on to aiohttp
    ) -> None:
        super().__init__(
            app, access_log_class=access_log_class, auto_decompress=False, lingering_time=LINGER_SECONDS, **options
        )
        self._max_connections = max_connections

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self._max_connections)


def log_unexpected(where: str, error: object) -> None:
    """Log a fault by its type and the places it passed, never by its message: that may hold part of a request."""
    if not isinstance(error, BaseException):
        _logger.error("unexpected fault in %s", where)
        return
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    _logger.error("unexpected %s in %s, at %s", type(error).__name__, where, " < ".join(reversed(places)))
