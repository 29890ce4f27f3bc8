"""The application: one log, served. It holds no state of its own that matters; the log does (design §1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from aiohttp import web

from transparency.log.access_log import AccessLog
from transparency.log.artifacts import ArtifactStore
from transparency.log.checkpoints import CheckpointPublisher, PublishSettings
from transparency.log.folder import Folder
from transparency.log.log import Log
from transparency.server.bodies import Bodies, expect_later
from transparency.server.limits import RateLimiter
from transparency.server.metrics import Metrics
from transparency.server.openapi import openapi
from transparency.server.operations import gauges, witness_counts
from transparency.server.recording import Recorder
from transparency.server.service import SERVICE, Service, gate
from transparency.server.settings import ServerSettings
from transparency.server.surface import ENDPOINTS
from transparency.server.tokens import Scope, TokenStore


def create_app(
    log: Log,
    settings: ServerSettings,
    tokens: TokenStore,
    clock: Callable[[], float] = time.monotonic,
    publish: PublishSettings | None = None,
) -> web.Application:
    """Routes and state for an opened log. *clock* measures the rate limit; it need not know the date.

    Its checkpoints are published once the service's publisher has been started.

    Raises :class:`LogUnusableError` if two keys of the log would share a path (KEY-6).
    """
    artifacts = ArtifactStore(Folder(log.data).artifacts)
    artifacts.clear_incoming()
    publisher = CheckpointPublisher(log, publish)
    service = Service(
        log=log,
        settings=settings,
        tokens=tokens,
        bodies=Bodies(timeout=settings.body_timeout, budget=settings.max_body_bytes),
        metrics=Metrics(lambda: gauges(log, publisher), lambda: witness_counts(publisher)),
        limiter=RateLimiter(settings.rate_limit, settings.rate_period, max_clients=settings.max_clients, clock=clock),
        artifacts=artifacts,
        recorder=Recorder(AccessLog(Folder(log.data).access_log, log.origin)),
        publisher=publisher,
        endpoints={endpoint.handler: endpoint for endpoint in ENDPOINTS},
        openapi=openapi(ENDPOINTS, version=_version(), open_scopes=_open_scopes(settings)),
    )
    _ = service.directory  # KEY-6 is checked when it is made
    # The application's own limit is out of the way: Bodies applies the one that the policy in force gives.
    app = web.Application(middlewares=[gate], client_max_size=0)
    app[SERVICE] = service
    for endpoint in ENDPOINTS:
        resource = app.router.add_resource(endpoint.path)
        resource.add_route(endpoint.method, endpoint.handler, expect_handler=expect_later)
        if endpoint.method == "GET":
            resource.add_route("HEAD", endpoint.handler, expect_handler=expect_later)
    return app


def _open_scopes(settings: ServerSettings) -> frozenset[Scope]:
    if settings.open:
        return frozenset({Scope.SUBMIT, Scope.READ})
    return frozenset({Scope.READ}) if settings.public else frozenset()


def _version() -> str:
    try:
        return version("agent-transparency")
    except PackageNotFoundError:
        return "0"
