"""The HTTP connection: aiohttp's own, except that what it answers by itself is a problem too (API-8).

A request that cannot be parsed never reaches the application: aiohttp's protocol answers it, in plain text, and logs a
traceback. A sender that ends its side early is hung up on. Both happen below any middleware, so both are changed here.
So does the waiting for what a client sends or reads, which is bounded here in time and bytes (server/connections.py).

A client that asks for something and then sends statements over the same connection would have all of them checked by
the owner of the log, while its workers stand idle. So a connection goes to those that register (server/own_desk.py), as
it is and with what was read of it, when a batch begins on it, or the second statement in a row.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from aiohttp.web_request import BaseRequest

from transparency.server.connections import LEAST_BYTES_PER_SECOND, Connections
from transparency.server.lean import MAX_BODY
from transparency.server.lean_head import BEGINNING, END, read_head
from transparency.server.problems import FIRST_ERROR, ProblemError, on_the_wire
from transparency.server.responses import response_of
from transparency.server.unexpected import log_unexpected
from transparency.statements.media_types import PROBLEM

_logger = logging.getLogger("transparency.server")
# How long an answer given before the body was read may take to be noticed by a client that is still sending.
LINGER_SECONDS = 2.0
LINGER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client may take, in seconds, and how much it may send where nothing is to be had for it."""

    head: float
    send: float
    head_bytes: int


@dataclass(slots=True)
class Elsewhere:
    """Who takes connections on which statements come, with what was read of them; nobody, where all is served here."""

    take: Callable[[socket.socket, bytes], None] | None = None


class Connection(RequestHandler):
    """One connection. Every error it sends is CBOR; nothing of a request gets into the log."""

    __slots__ = (
        "_body_since",
        "_closing_since",
        "_elsewhere",
        "_head_bytes",
        "_head_since",
        "_last_payload",
        "_patience",
        "_registers",
        "_registry",
        "_unread",
        "_unsent_until",
        "_wire",
        "address",
        "admission",
        "begun",
        "served",
    )

    def __init__(
        self,
        manager: web.Server,
        registry: Connections,
        patience: Patience,
        address: str,
        elsewhere: Elsewhere,
        *,
        loop: asyncio.AbstractEventLoop,
        **options: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(manager, loop=loop, **options)
        self._registry = registry
        self._patience = patience
        self.address = address
        self._elsewhere = elsewhere
        # Whether what was asked last was to register a statement.
        self._registers = False
        self.served = False
        # What makes it of an accepted socket, over TLS by a handshake.
        self.admission: asyncio.Task[None] | None = None
        self.begun = b""
        self._wire: asyncio.Transport | None = None
        self._last_payload: StreamReader | None = None
        # Since when the head of a request is awaited: from the connection's beginning, then from a head's first byte.
        self._head_since: float | None = loop.time()
        self._head_bytes = 0
        self._body_since = 0.0
        # Bytes that came of a body after its request was answered.
        self._unread: int | None = None
        self._unsent_until: float | None = None
        self._closing_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        self._head_since = self._loop.time()
        super().connection_made(transport)
        if self.begun:
            self.data_received(self.begun)
            self.begun = b""

    def connection_lost(self, exc: BaseException | None) -> None:
        self._registry.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._force_close or self._close or (self._elsewhere.take is not None and self._leaves(data)):
            return
        arriving = self._last_payload is not None and not self._last_payload.is_eof()
        super().data_received(data)
        if self._messages:
            message, self._last_payload = self._messages[-1]
            if (
                self._head_bytes + len(data) > self._patience.head_bytes
                and _head_size(message) > self._patience.head_bytes
            ):
                self._hang_up(ProblemError.of_status(431))
            self._head_since, self._head_bytes, self._unread = None, 0, None
            self._body_since = self._loop.time()
        elif arriving:
            self._skip(len(data))
        elif data:
            self._await_head(len(data))

    def _leaves(self, data: bytes) -> bool:
        """Whether a request begins with *data* that others should have, and they have the connection now."""
        idle = self._waiter is not None and not self._waiter.done() and not self._head_bytes
        if not idle or not self.served or self._wire is None or self._wire.get_write_buffer_size():
            return False
        end = data.find(END) if data.startswith(BEGINNING) else -1
        head = read_head(data[:end]) if 0 <= end <= self._patience.head_bytes else None
        again, self._registers = self._registers, head is not None
        # Only what they do not send back; and not for a single statement, as of a client that asks in between.
        if head is None or head.close or not (head.batch or (again and (head.length or 0) <= MAX_BODY)):
            return False
        try:
            leaving = socket.socket(fileno=os.dup(self._wire.get_extra_info("socket").fileno()))
        except OSError:  # no file is free
            return False
        cast("Callable[[socket.socket, bytes], None]", self._elsewhere.take)(leaving, data)
        # Only this descriptor is closed: the connection lives on with the other.
        self.force_close()
        return True

    def _await_head(self, count: int) -> None:
        if self._head_since is None:
            self._head_since = self._loop.time()
        self._head_bytes += count
        if self._head_bytes > self._patience.head_bytes:
            self._hang_up(ProblemError.of_status(431))

    def _skip(self, count: int) -> None:
        """Some of a body that nobody wants is read, so that its sender sees the answer; the rest stays where it is."""
        if self._unread is not None:
            self._unread += count
            if self._unread > LINGER_BYTES:
                self._pause_reading_for_buffer()

    def _hang_up(self, problem: ProblemError) -> None:
        if self._wire is not None and self._current_request is None and not self._wire.is_closing():
            self._wire.write(on_the_wire(problem))
        self.force_close()

    # -- what the registry asks -----------------------------------------------------------------------------------

    @property
    def owing_since(self) -> float | None:
        """Since when the client has to send before anything can be done for it; None while something can."""
        if self._head_since is not None:
            return self._head_since
        if self._last_payload is not None and not self._last_payload.is_eof():
            return self._body_since
        return 0.0 if self._waiter is not None and not self._waiter.done() else None

    def cut(self) -> None:
        if self._wire is not None:
            self._wire.abort()
        elif self.admission is not None:
            self.admission.cancel()

    def gone(self) -> None:
        """It ended before it began."""
        self._registry.remove(self)

    def look(self, now: float) -> None:
        """End what has taken too long: a head, the reading of an answer, a close."""
        if self._wire is None:
            return
        if self._wire.is_closing():
            if self._closing_since is None:
                self._closing_since = now
            elif now - self._closing_since > LINGER_SECONDS:
                self._wire.abort()
        elif self._head_since is not None and now - self._head_since > self._patience.head:
            if self._head_bytes:
                self._hang_up(ProblemError.of_status(408))
            else:
                self.force_close()
        elif self._unsent_until is not None and now > self._unsent_until:
            self._wire.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._wire is not None:
            unsent = self._wire.get_write_buffer_size()
            self._unsent_until = self._loop.time() + self._patience.send + unsent / LEAST_BYTES_PER_SECOND
            self._registry.holds(self, unsent)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unsent_until = None
        self._registry.sent(self)

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
        return response_of(problem)

    async def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """The last line: an error that is not a problem by now becomes one (a refused Expect, for instance)."""
        if resp.status >= FIRST_ERROR and resp.content_type != PROBLEM and not resp.prepared:
            allow = resp.headers.get("Allow")
            resp = response_of(ProblemError.of_status(resp.status, {"Allow": allow} if allow else None))
        answered = await super().finish_response(request, resp, start_time)
        self.served = True
        if self._last_payload is not None and not self._last_payload.is_eof():
            self._unread = 0
        return answered

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


def _head_size(message: object) -> int:
    headers = getattr(message, "raw_headers", ())  # none where the parser refused it
    return sum(len(name) + len(value) for name, value in headers) + len(getattr(message, "path", ""))
