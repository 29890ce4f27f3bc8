"""The compliance witness over HTTP: the checkpoint it cosigned, for everybody; its findings, for those on its machine.

It serves no add-checkpoint: nobody tells it what to cosign. The monitoring endpoint is that of every witness (C2SP
tlog-witness, W-4), so monitors, and whoever builds a proof to a cosigned checkpoint, read it there. Findings name
entries and issuers: they are for loopback only, unless the operator says otherwise. Errors are problems (RFC 9290).
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from transparency.compliance.examined import AVAILABILITIES
from transparency.compliance.finding import Verdict
from transparency.notes.checkpoint import origin_hash
from transparency.server.bodies import Bodies, expect_later
from transparency.server.endpoints import Handler
from transparency.server.limits import RateLimiter
from transparency.server.metrics import CONTENT_TYPE, Metrics
from transparency.server.problems import ProblemError, unavailable
from transparency.server.responses import problem_in
from transparency.server.settings import ServerSettings
from transparency.statements.media_types import COSE
from transparency.witness.app import TEXT
from transparency.witness.findings_pages import MAX_PAGE, FindingsPages
from transparency.witness.follow import Follower
from transparency.witness.gate import GATE, Gate, through_gate

_NO_STORE: Final = {"Cache-Control": "no-store"}
_JSON: Final = {**_NO_STORE, "Content-Type": "application/json"}
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_CHECK: Final = re.compile(r"[RL][0-9]{1,2}(\.[0-9]{1,2})?")
_PAGE: Final = 100


@dataclass(slots=True)
class FollowerService:
    """Owner: the event loop's thread."""

    follower: Follower
    pages: FindingsPages
    bodies: Bodies
    limiter: RateLimiter
    metrics: Metrics
    public: bool
    stopping: bool = False


SERVICE: Final = web.AppKey("follower", FollowerService)


def create_app(follower: Follower, pages: FindingsPages, settings: ServerSettings, *, public: bool) -> web.Application:
    """*public*: findings are for everybody who can reach it."""
    service = FollowerService(
        follower,
        pages,
        Bodies(timeout=settings.body_timeout, budget=settings.max_body_bytes, words="nothing is sent to this witness"),
        RateLimiter(settings.rate_limit, settings.rate_period, max_clients=settings.max_clients, clock=time.monotonic),
        Metrics(lambda: _gauges(follower, pages)),
        public,
    )
    app = web.Application(middlewares=[through_gate], client_max_size=0)
    app[SERVICE] = service
    app[GATE] = Gate(service.limiter, service.metrics.answered, problem_in)
    for path, handler in (
        ("/{origin:[0-9a-f]{64}}/checkpoint", _checkpoint),
        ("/status", _status),
        ("/findings", _private(_findings)),
        ("/misbehaviour", _private(_misbehaviour)),
        ("/entries", _private(_entries)),
        ("/entries/{index}", _private(_entry)),
        ("/periods", _private(_periods)),
        ("/periods/{number}", _private(_period)),
        ("/healthz", _healthz),
        ("/readyz", _readyz),
        ("/metrics", _metrics),
    ):
        resource = app.router.add_resource(path)
        for method in ("GET", "HEAD"):
            resource.add_route(method, handler, expect_handler=expect_later)
    return app


def _private(handler: Handler) -> Handler:
    async def guarded(request: web.Request) -> web.StreamResponse:
        if not request.app[SERVICE].public and not _is_loopback(request.remote):
            raise ProblemError(403, "Forbidden", "The findings of this witness are read on its own machine")
        return await handler(request)

    return guarded


def _is_loopback(remote: str | None) -> bool:
    try:
        return ipaddress.ip_address(remote or "").is_loopback
    except ValueError:
        return False


# -- what everybody may read -------------------------------------------------------------------------------------------


async def _checkpoint(request: web.Request) -> web.StreamResponse:
    hashed = request.match_info["origin"]
    shown = request.app[SERVICE].follower.shown
    note = next((record.note for origin, record in shown.items() if origin_hash(origin) == hashed), None)
    if note is None:
        raise ProblemError(404, "Not Found", "This witness has not cosigned a checkpoint of a log with this origin")
    return web.Response(body=note, headers={"Cache-Control": "max-age=1", "Content-Type": TEXT})


async def _status(request: web.Request) -> web.StreamResponse:
    follower = request.app[SERVICE].follower
    recorded, observed = follower.recorded, follower.observed
    return _json({
        "log": follower.origin or None,
        "witness": follower.keys.name,
        "vkeys": [key.text for key in follower.keys.vkeys],
        "replayed": follower.replay.size,
        "observed": None if observed is None else observed.checkpoint.size,
        "cosigned": None if recorded is None else {"size": recorded.size, "time": recorded.time},
        "last": follower.last.what,
    })  # fmt: skip


async def _healthz(request: web.Request) -> web.StreamResponse:  # noqa: ARG001 - the process answers: that is all
    return _json({"status": "ok"})


async def _readyz(request: web.Request) -> web.StreamResponse:
    if request.app[SERVICE].stopping:
        raise unavailable("The witness is stopping", 5.0)
    return _json({"status": "ok"})


async def _metrics(request: web.Request) -> web.StreamResponse:
    body = await asyncio.to_thread(request.app[SERVICE].metrics.exposition)
    return web.Response(body=body, headers={**_NO_STORE, "Content-Type": CONTENT_TYPE})


def _gauges(follower: Follower, pages: FindingsPages) -> Iterable[tuple[str, str, float]]:
    counts, recorded, observed = pages.counts(), follower.recorded, follower.observed
    yield "follower_replayed", "Entries replayed and examined", follower.replay.size
    yield (
        "follower_observed",
        "Size of the last checkpoint that was replayed",
        (0 if observed is None else observed.checkpoint.size),
    )
    yield "follower_cosigned", "Size of the last checkpoint that was cosigned", 0 if recorded is None else recorded.size
    yield "follower_cosigned_time_seconds", "Time of the last cosignature", 0 if recorded is None else recorded.time
    yield "follower_findings", "Findings about records: checks that warn or fail", counts["findings"]
    yield (
        "follower_misbehaviours",
        "Findings about the log that stand: while any does, nothing is cosigned",
        (counts["misbehaviours"]),
    )
    yield "follower_periods", "Attestations made", counts["periods"]
    yield "follower_periods_registered", "Attestations that stand on the followed log", counts["registered"]


# -- findings ----------------------------------------------------------------------------------------------------------


async def _findings(request: web.Request) -> web.StreamResponse:
    check, verdict = request.query.get("check"), request.query.get("verdict")
    if check is not None and not _CHECK.fullmatch(check):
        raise ProblemError.malformed("check is the id of a check, such as R2.3")
    if verdict is not None and verdict not in (Verdict.WARN, Verdict.FAIL):
        raise ProblemError.malformed("verdict is warn or fail: what passes is only counted")
    after, limit = _place(request, "check", "verdict")
    said = None if verdict is None else Verdict(verdict)
    return await _read(request.app[SERVICE].pages.findings, after, limit, check, said)


async def _misbehaviour(request: web.Request) -> web.StreamResponse:
    return await _read(request.app[SERVICE].pages.misbehaviour, *_place(request))


async def _entries(request: web.Request) -> web.StreamResponse:
    availability = request.query.get("availability")
    if availability is not None and availability not in AVAILABILITIES:
        raise ProblemError.malformed(f"availability is one of {', '.join(AVAILABILITIES)}")
    after, limit = _place(request, "availability")
    after = after if "after" in request.query else -1
    return await _read(request.app[SERVICE].pages.entries, after, limit, availability)


async def _entry(request: web.Request) -> web.StreamResponse:
    index = _number(request.match_info["index"], "the index of an entry")
    found = await asyncio.to_thread(request.app[SERVICE].pages.entry, index)
    if found is None:
        raise ProblemError(404, "Not Found", "This entry has not been looked at")
    return _json(found)


async def _periods(request: web.Request) -> web.StreamResponse:
    return await _read(request.app[SERVICE].pages.periods, *_place(request))


async def _period(request: web.Request) -> web.StreamResponse:
    number = _number(request.match_info["number"], "the number of a period")
    statement = await asyncio.to_thread(request.app[SERVICE].pages.statement, number)
    if statement is None:
        raise ProblemError(404, "Not Found", "There is no attestation with this number")
    return web.Response(body=statement, headers={**_NO_STORE, "Content-Type": COSE})


async def _read(page: Callable[..., dict[str, Any]], *values: object) -> web.StreamResponse:
    return _json(await asyncio.to_thread(page, *values))


def _place(request: web.Request, *others: str) -> tuple[int, int]:
    unknown = set(request.query) - {"after", "limit", *others}
    if unknown or len(request.query) != len(set(request.query)):
        raise ProblemError.malformed(f"the parameters are {', '.join(('after', 'limit', *others))}, each once")
    limit = _number(request.query.get("limit", str(_PAGE)), "limit")
    if not 1 <= limit <= MAX_PAGE:
        raise ProblemError.malformed(f"limit is 1 to {MAX_PAGE}")
    return _number(request.query.get("after", "0"), "after"), limit


def _number(text: str, what: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ProblemError.malformed(f"{what} is a whole number")
    return int(text)


def _json(value: object) -> web.Response:
    body = json.dumps(value, ensure_ascii=True).encode() + b"\n"
    return web.Response(body=body, headers=_JSON)
