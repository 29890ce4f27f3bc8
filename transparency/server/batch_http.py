"""Batches over aiohttp: for connections that no worker serves (TLS, no workers, framings that they do not read)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from transparency.errors import RefusedError
from transparency.server import media
from transparency.server.access import Client, check_issuer
from transparency.server.access_log import CLIENT, TOKEN
from transparency.server.batch import Batch
from transparency.server.outcome import Answered, Receipted, refusal_of
from transparency.server.problems import ProblemError
from transparency.server.service import SERVICE, Service
from transparency.statements.statement import Statement


async def register_batch(request: web.Request) -> web.StreamResponse:
    """``POST /entries/batch``: a CBOR sequence of statements in, one of results out, both as they come."""
    service = request.app[SERVICE]
    kind = media.MediaType.parse(request.headers.get("Content-Type", ""))
    if kind is None or kind.name != media.CBOR_SEQUENCE:
        raise ProblemError(
            415,
            "Unsupported Media Type",
            f"A batch of Signed Statements is sent as {media.CBOR_SEQUENCE}",
            headers={"Accept-Post": media.CBOR_SEQUENCE},
        )
    client = Client(request[CLIENT], request.get(TOKEN))
    exchange = _Exchange(service, request, client)
    try:
        return await exchange.run()
    finally:
        await exchange.close()


class LocalRegistrar:
    """This process owns the log. For batches, which wait for their receipts."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def body_limit(self) -> int:
        return self._service.body_limit

    def submit(self, data: bytes, client: Client, answered: Answered, *, patient: bool) -> None:
        del patient
        statement = Statement.from_bytes(data)
        check_issuer(client.token, statement)
        task = asyncio.ensure_future(self._register(statement, answered))
        self._service.background.add(task)
        task.add_done_callback(self._service.background.discard)

    def no_more(self) -> None:
        """Nobody waits for others here."""

    async def _register(self, statement: Statement, answered: Answered) -> None:
        log = self._service.log
        try:
            registered = await log.register(statement)
            erased = not registered.new and log.stored(registered.index).erased
        except RefusedError as error:
            answered(refusal_of(error, statement, log.policy.max_statement_size))
        except Exception as error:  # noqa: BLE001 - API-8: every error is answered with a problem
            answered(error)
        else:
            answered(Receipted(registered.entry, registered.receipt, erased))


class _Exchange:
    """One request: reads while there is room, sends as results come."""

    def __init__(self, service: Service, request: web.Request, client: Client) -> None:
        rate = None if client.token is None else client.token.rate
        self._request = request
        self._came = asyncio.Event()
        self._batch = Batch(
            LocalRegistrar(service),
            client,
            lambda: service.limiter.admit(client.name, rate),
            self._came.set,
            lambda problem: service.metrics.refused(problem.title),
        )
        self._pieces = service.bodies.stream_of(request)
        self._complete = False
        self._why: ProblemError | None = None
        self._reading: asyncio.Future[bytes] | None = None
        self._response = web.StreamResponse(headers={"Content-Type": media.CBOR_SEQUENCE})

    async def run(self) -> web.StreamResponse:
        # What can be said of the head alone is an answer of its own; so is a body that never begins.
        self._take(await _next(self._pieces))
        await self._response.prepare(self._request)
        while not self._batch.done:
            await self._turn()
        await self._response.write_eof()
        return self._response

    async def close(self) -> None:
        """Whether it ended or its client went away."""
        self._batch.abandon()
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, ProblemError):
                await self._reading
        await self._pieces.aclose()

    async def _turn(self) -> None:
        batch = self._batch
        self._came.clear()
        more = batch.advance()
        if results := batch.results():
            await self._response.write(results)
        if more:
            await asyncio.sleep(0)
            return
        if self._complete and not batch.full:
            batch.end(self._why, whole=self._why is None)
        if not batch.done and not self._came.is_set():
            await self._wait()

    async def _wait(self) -> None:
        """For the next result, or the next piece of the body where there is room for it."""
        if self._reading is None and not self._complete and not self._batch.full:
            self._reading = asyncio.ensure_future(_next(self._pieces))
        came = asyncio.ensure_future(self._came.wait())
        waiting: set[asyncio.Future[Any]] = {came}
        if self._reading is not None:
            waiting.add(self._reading)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        came.cancel()
        if self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            try:
                self._take(reading.result())
            except ProblemError as error:
                # The body broke off. What came is answered, and the connection ends.
                self._complete, self._why = True, error
                self._response.force_close()

    def _take(self, piece: bytes) -> None:
        self._batch.feed(piece)
        self._complete = not piece


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces, b"")
