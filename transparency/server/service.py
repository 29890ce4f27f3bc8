"""The service: what all handlers of one application share, and the one gate each request goes through."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field

from aiohttp import web

from transparency.errors import LogUnusableError, StoreError, TransparencyError, WorkersError
from transparency.log.artifacts import ArtifactStore
from transparency.log.checkpoints import CheckpointPublisher
from transparency.log.log import Log
from transparency.policy.key_directory import KeyDirectory
from transparency.policy.keyset import ServiceKeys
from transparency.server import media
from transparency.server.access import artifact_limit, authorise, identify
from transparency.server.access_log import CLIENT, TOKEN, method_of, route_of
from transparency.server.bodies import Bodies
from transparency.server.endpoints import Endpoint, Handler
from transparency.server.limits import RateLimiter
from transparency.server.metrics import Metrics
from transparency.server.problems import FIRST_ERROR, ProblemError
from transparency.server.recording import Recorder
from transparency.server.responses import problem_in, response_of
from transparency.server.settings import BODY_MARGIN, ServerSettings
from transparency.server.tokens import TokenStore
from transparency.server.unexpected import log_unexpected

_logger = logging.getLogger("transparency.server")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_SERVER_FAULT = 500
_MAX_NUMBER = 2**63 - 1


@dataclass(slots=True)
class Service:
    """Owner: the event loop's thread."""

    log: Log
    settings: ServerSettings
    tokens: TokenStore
    bodies: Bodies
    metrics: Metrics
    limiter: RateLimiter
    artifacts: ArtifactStore
    recorder: Recorder
    publisher: CheckpointPublisher
    endpoints: dict[Handler, Endpoint] = field(default_factory=dict)
    stopping: bool = False
    # Set when the store failed: the process has to stop rather than guess (design §4).
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: TransparencyError | None = None
    openapi: bytes = b""
    # Registrations that outlive their request because it was answered 202.
    background: set[asyncio.Task[object]] = field(default_factory=set)
    # Artifacts on their way to the disk.
    uploads: int = 0
    # Pages of the export that are being read or sent.
    exports: int = 0
    # Readings of the policy's history that are under way.
    histories: int = 0
    _directory: tuple[ServiceKeys, KeyDirectory] | None = None

    @property
    def directory(self) -> KeyDirectory:
        """The keys in force, looked up anew when they were rotated."""
        keys = self.log.service_keys
        if self._directory is None or self._directory[0] is not keys:
            self._directory = (keys, KeyDirectory.of(keys))
        return self._directory[1]

    @property
    def body_limit(self) -> int:
        return self.log.policy.max_statement_size + BODY_MARGIN

    def artifact_limit(self, request: web.Request) -> int:
        """Bytes of the largest artifact that this client may keep."""
        return artifact_limit(request.get(TOKEN), self.log.policy, self.settings.max_artifact_bytes)

    def stop_for(self, error: BaseException) -> None:
        """There is no going on: say so loudly, once, and have the process stop."""
        if self.failed.is_set():
            return
        if isinstance(error, WorkersError | LogUnusableError):
            self.failure = error
            _logger.critical("%s: the service stops", error)
        else:
            self.failure = error if isinstance(error, StoreError) else StoreError("the log's sequencer failed")
            # Of another error only its kind: its text might carry a payload.
            _logger.critical(
                "the store failed (%s): the service stops; mend the cause (make room, if the disk is full) and start "
                "it again: it reads what was kept",
                error if isinstance(error, StoreError) else type(error).__name__,
            )
        self.failed.set()

    def location(self, request: web.Request, path: str) -> str:
        """The URL of a resource as this client reaches it; the same for every answer about it (API-3, API-14)."""
        if self.settings.base_url is not None:
            return self.settings.base_url.rstrip("/") + path
        host = request.headers.get("Host", "")
        return f"{request.scheme}://{host}{path}" if _HOST.fullmatch(host) else path


SERVICE: web.AppKey[Service] = web.AppKey("service", Service)


@web.middleware
async def gate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Identify, limit, authorise, handle, record; turn whatever is raised into a problem; count the answer."""
    service = request.app[SERVICE]
    started = time.perf_counter()
    try:
        _admit(service, request)
        response = await _handle(service, request, handler)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
        response = response_of(_answer(service, request, error))
    service.metrics.answered(route_of(request), method_of(request), response.status, time.perf_counter() - started)
    return response


def _admit(service: Service, request: web.Request) -> None:
    client = identify(request, service.tokens)
    request[CLIENT] = client.name
    endpoint = service.endpoints.get(request.match_info.handler)
    if client.token is not None:
        request[TOKEN] = client.token
    if endpoint is None or endpoint.limited:
        service.limiter.admit(client.name, client.token.rate if client.token is not None else None)
    if endpoint is not None:
        authorise(client, endpoint.scopes, service.settings)


async def _handle(service: Service, request: web.Request, handler: Handler) -> web.StreamResponse:
    endpoint = service.endpoints.get(request.match_info.handler)
    if endpoint is None or not endpoint.action:
        return await handler(request)
    try:
        response = await handler(request)
    except TransparencyError as error:
        await service.recorder.record(request, endpoint, problem_in(error).status)
        raise
    await service.recorder.record(request, endpoint, response.status)
    return response


async def begin(request: web.Request, response: web.StreamResponse) -> None:
    """For a handler that sends by itself: record the use, then send the head of the answer."""
    service = request.app[SERVICE]
    await service.recorder.record(request, service.endpoints[request.match_info.handler], response.status)
    await response.prepare(request)


def _answer(service: Service, request: web.Request, error: Exception) -> ProblemError:
    problem = problem_in(error)
    if isinstance(error, StoreError):
        service.stop_for(error)
    elif problem.status == _SERVER_FAULT:
        log_unexpected(f"{method_of(request)} {route_of(request)}", error)
    endpoint = service.endpoints.get(request.match_info.handler)
    if endpoint is not None and endpoint.accepts and problem.status >= FIRST_ERROR:
        service.metrics.refused(problem.title)
    return problem


def negotiated(request: web.Request, *offers: str) -> str:
    """The form of an answer, or 406."""
    chosen = media.choose(_accept(request), offers)
    if chosen is None:
        raise ProblemError(406, "Not Acceptable", f"This resource comes as {' or '.join(offers)}")
    return chosen


def preferred(request: web.Request, *offers: str) -> str:
    """As :func:`negotiated`, but for answers to a POST: no header stops a registration (REG-15)."""
    return media.choose(_accept(request), offers) or offers[0]


def _accept(request: web.Request) -> str | None:
    values = request.headers.getall("Accept", ())
    return ", ".join(values) if values else None


def number(text: str, name: str) -> int:
    """A number as this API writes it: ``int()`` alone takes spaces, underscores, signs and other scripts' digits."""
    if not _NUMBER.fullmatch(text) or int(text) > _MAX_NUMBER:
        raise ProblemError.malformed(f"'{name}' is not a number below 2^63 without sign or leading zeros")
    return int(text)


def query_number(request: web.Request, name: str) -> int | None:
    values = request.query.getall(name, ())
    if not values:
        return None
    if len(values) > 1:
        raise ProblemError.malformed(f"'{name}' is there more than once")
    return number(values[0], name)


def matches(request: web.Request, etag: str) -> bool:
    """Whether If-None-Match names this ETag (RFC 9110 §13.1.2)."""
    values: Iterable[str] = request.headers.getall("If-None-Match", ())
    tags = [tag.strip() for value in values for tag in value.split(",")]
    return any(tag in ("*", etag, f"W/{etag}") for tag in tags)


async def finish(service: Service, work: Awaitable[object]) -> None:
    """Wait for background work; its error, if any, has been told to nobody and goes to the log by its kind."""
    try:
        await work
    except StoreError as error:
        service.stop_for(error)
    except Exception as error:  # noqa: BLE001 - the client was answered 202 long ago
        _logger.info("a registration that was answered 202 ended with %s", type(error).__name__)
