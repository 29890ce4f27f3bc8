"""The desk: what all connections of one worker share, and what an answer looks like on the wire."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache

from transparency.errors import StoreError
from transparency.log.answers import Accepted
from transparency.server import media
from transparency.server.access import Client, authorise, identify_by
from transparency.server.balance import Shared
from transparency.server.connections import Connections
from transparency.server.limits import RateLimiter
from transparency.server.outcome import Receipted
from transparency.server.problems import FIRST_ERROR, ProblemError, jittered, on_the_wire, problem_of
from transparency.server.registrar import Registrar
from transparency.server.settings import BODY_GRACE_SECONDS, ServerSettings
from transparency.server.tally import Tally
from transparency.server.tokens import Scope, TokenStore
from transparency.server.unexpected import log_unexpected
from transparency.statements.statement import entry_id

ROUTE = "/entries"
BATCH_ROUTE = "/entries/batch"
_METHOD = "POST"
_SERVER_FAULT = 500
_SUBMIT = (Scope.SUBMIT,)
# Too many requests, or too much to do. Who is told so and comes back must not be pushed back further for it.
_OWNERS = frozenset({429, 503})
_CREATED = f"\r\nContent-Type: {media.COSE}\r\nVary: Accept\r\nContent-Length: ".encode()
# Of 32 bytes, without the padding (LEAF-6).
_ENTRY_ID_CHARS = 43


@dataclass(slots=True)
class Desk:
    """Owner: the worker's event loop."""

    registrar: Registrar
    settings: ServerSettings
    tokens: TokenStore
    limiter: RateLimiter
    connections: Connections
    # Takes a socket with what was read of it to the owner of the log, or to the worker of a place; False where that is
    # not possible.
    hand_over: Callable[[int, bytes, int], bool]
    share: Shared
    lines: logging.Logger | None = None
    tally: Tally = field(default_factory=Tally)
    # Whether the limiter is the owner's, which counts for all.
    counts_for_all: bool = False
    # Otherwise, requests that were refused here, by client and its own rate: the owner counts them too.
    spent: dict[tuple[str, int | None], int] = field(default_factory=dict)
    # Bytes of bodies that are not complete, of all connections.
    held: int = 0
    stopping: bool = False
    # Who is still sending when the server stops has had its time.
    grace_over: bool = False

    def identify(self, authorization: str | None, address: str) -> Client:
        """Who asks, if it may submit; raises 401, 403 or 429."""
        if authorization is None and self.settings.open:
            client = _anonymous(address)
            self.admit(client)
            return client
        client = identify_by(() if authorization is None else (authorization,), address, self.tokens)
        self.admit(client)
        authorise(client, _SUBMIT, self.settings)
        return client

    def admit(self, client: Client) -> None:
        """Count one request. Each worker counts for itself, and the owner for all: so a flood costs nobody else."""
        self.limiter.admit(client.name, _rate(client))

    def refused(self, client: Client, status: int) -> None:
        """A request was refused. Unless the owner did so itself, and has counted it, it is told later."""
        rate = _rate(client)
        if not self.counts_for_all and status not in _OWNERS and self.limiter.limits(rate):
            key = (client.name, rate)
            self.spent[key] = self.spent.get(key, 0) + 1

    def answer(self, host: str, outcome: Receipted | Accepted, *, close: bool) -> tuple[int, bytes]:
        """Status and bytes of the answer to a registration."""
        if isinstance(outcome, Accepted):
            ending = "Connection: close\r\n\r\n" if close else "\r\n"
            location = _location(self.settings.base_url, host) + entry_id(outcome.entry)
            wait = jittered(self.settings.retry_after)
            head = (
                f"HTTP/1.1 202 Accepted\r\nLocation: {location}\r\nRetry-After: {wait}\r\nContent-Length: 0\r\n"
                f"Date: {http_date(int(time.time()))}\r\n{ending}"
            )
            return 202, head.encode()
        receipt = outcome.receipt
        # One join of what is known: this is done for every statement, and a text would have to be encoded.
        answer = (
            _opening(self.settings.base_url, host),
            urlsafe_b64encode(outcome.entry)[:_ENTRY_ID_CHARS],
            _CREATED,
            b"%d" % len(receipt),
            _dated(int(time.time())),
            b"Statement-Erased: ?1\r\n" if outcome.erased else b"",
            b"Connection: close\r\n\r\n" if close else b"\r\n",
            receipt,
        )
        return 201, b"".join(answer)

    def problem(self, error: BaseException, *, close: bool) -> tuple[int, bytes]:
        problem = problem_of(error) if isinstance(error, Exception) else ProblemError.of_status(_SERVER_FAULT)
        if problem.status == _SERVER_FAULT and not isinstance(error, StoreError):
            log_unexpected(f"{_METHOD} {ROUTE}", error)
        self.tally.refused(problem.title)
        problem.headers.setdefault("Date", http_date(int(time.time())))
        return problem.status, on_the_wire(problem, close=close or problem.close)

    def count(
        self, route: str, status: int, seconds: float, size: int, client: str, entry: bytes | None = None
    ) -> None:
        """One request was answered."""
        self.tally.answered(route, _METHOD, status, seconds)
        if self.lines is not None:
            now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = {
                "time": now,
                "method": _METHOD,
                "route": route,
                "status": status,
                "ms": round(seconds * 1000, 3),
                "bytes": size,
                "client": client,
            }
            if entry is not None and status < FIRST_ERROR:
                line["entry"] = entry_id(entry)
            self.lines.info(json.dumps(line, separators=(",", ":")))


async def drained(desk: Desk, within: float, more: Callable[[], bool] = lambda: False) -> None:
    """Who waits for an answer gets it; who is still sending has a moment. *more*: there is more to wait for."""
    desk.stopping = True
    clock = asyncio.get_running_loop().time
    begun = now = clock()
    while (desk.connections.total or more()) and now < begun + within:
        desk.grace_over = now >= begun + BODY_GRACE_SECONDS
        desk.connections.look()
        now = clock()
        await asyncio.sleep(0.02)


@lru_cache(maxsize=4096)
def _anonymous(address: str) -> Client:
    """On an open log nothing more is to be known of a client without a token."""
    return Client(address, None)


def _rate(client: Client) -> int | None:
    return None if client.token is None else client.token.rate


def _location(base: str | None, host: str) -> str:
    """Where entries are, up to their ids."""
    return f"{base.rstrip('/') if base is not None else f'http://{host}'}{ROUTE}/"


@lru_cache(maxsize=256)
def _opening(base: str | None, host: str) -> bytes:
    return f"HTTP/1.1 201 Created\r\nLocation: {_location(base, host)}".encode()


@lru_cache(maxsize=2)
def http_date(now: int) -> str:
    return formatdate(now, usegmt=True)


@lru_cache(maxsize=2)
def _dated(now: int) -> bytes:
    return f"\r\nDate: {http_date(now)}\r\n".encode()
