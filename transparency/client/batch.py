"""Many statements in one exchange (``POST /entries/batch``): sent as they are made, answered as they are registered.

Results come in the order of the statements. What got a temporary refusal, and what was under way when the connection
was lost, is sent again: a log answers the same statement with the same entry. Only so many are under way at once, so
memory is bounded whatever their number.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import aiohttp

from transparency.client.pinning import looks_like_receipt
from transparency.client.problems import refusal_of
from transparency.client.retry import is_temporary
from transparency.client.transport import Request, Transport, unreachable
from transparency.cose.sequence import item_end
from transparency.errors import MalformedError, ServiceRefusedError, UnreachableError

MAX_UNDER_WAY = 1_024
MAX_BYTES_UNDER_WAY = 8 * 1024 * 1024
MAX_RESULT = 256 * 1024
_SIGN1 = 0xD2
_ARRAY_OF_ONE = 0x81
_MISSING = frozenset({404, 405, 501})


class NoBatchesError(ServiceRefusedError):
    """The log does not take batches: an older one, or another kind."""


class _StrangeError(UnreachableError):
    """What answers is no log: asking again would not make it one."""


@dataclass(frozen=True, slots=True)
class Receipted:
    receipt: bytes
    erased: bool


Result = Receipted | ServiceRefusedError


class BatchExchange:
    """One call of ``submit_batch``. Exchanges follow each other until all is settled or none makes progress."""

    def __init__(self, transport: Transport, request: Request, statements: Iterable[bytes]) -> None:
        """*request* is all but the body."""
        self._transport = transport
        self._request = request
        self._source: Iterator[bytes] | None = iter(statements)
        self._made = 0
        self._given = 0
        # By number: statements without a final result, and results whose turn has not come.
        self._open: dict[int, bytes] = {}
        self._open_bytes = 0
        self._settled: dict[int, Result] = {}
        self._refusals: dict[int, ServiceRefusedError] = {}
        self._room = asyncio.Event()
        # What went wrong where the statements come from.
        self._fault: Exception | None = None

    async def results(self) -> AsyncGenerator[Result, None]:
        attempt = 0
        while self._source is not None or self._open:
            before = self._made - len(self._open)
            failure: UnreachableError | ServiceRefusedError | None = None
            try:
                async with aclosing(self._exchange()) as exchange:
                    async for _ in exchange:
                        for result in self._next():
                            yield result
            except (NoBatchesError, _StrangeError):
                raise
            except (UnreachableError, ServiceRefusedError) as error:
                failure = error
                if isinstance(error, ServiceRefusedError) and not is_temporary(error.status):
                    raise
            attempt = 0 if self._made - len(self._open) > before else attempt + 1
            given_up = attempt > self._transport.backoff.retries
            if given_up:
                self._give_up(failure)
                attempt = 0
            for result in self._next():
                yield result
            if not given_up:
                await self._pause(attempt, failure)
        if self._fault is not None:
            raise self._fault

    async def _pause(self, attempt: int, failure: UnreachableError | ServiceRefusedError | None) -> None:
        minimum = failure.retry_after if isinstance(failure, ServiceRefusedError) else None
        if failure is None and self._refusals:
            minimum = 1.0  # a result has no Retry-After of its own; the least that the header can say
        backoff = self._transport.backoff
        if failure is not None and (minimum or 0.0) > backoff.patience:
            raise failure
        if failure is not None or self._refusals:
            await self._transport.sleep(backoff.delay(attempt, self._transport.random(), minimum))

    def _give_up(self, failure: UnreachableError | ServiceRefusedError | None) -> None:
        """The next one was refused for the time being, again and again: that is its result."""
        number = min(self._open, default=-1)
        refusal = self._refusals.get(number)
        if failure is not None or refusal is None:
            raise failure or _strange(self._request, "it gives no results")
        self._settle(number, refusal)

    def _next(self) -> Iterator[Result]:
        while self._given in self._settled:
            yield self._settled.pop(self._given)
            self._given += 1
            self._room.set()

    # -- one exchange ----------------------------------------------------------------------------------------------

    async def _exchange(self) -> AsyncGenerator[None, None]:
        """Yields whenever results may have come."""
        sent: list[int] = []
        self._refusals.clear()
        try:
            async with self._transport.stream(self._request, self._body(sent)) as response:
                held = bytearray()
                at = 0
                async for piece in response.content.iter_any():
                    held += piece
                    while (end := _item_end(held, self._request)) is not None:
                        if at >= len(sent):
                            raise _strange(self._request, "it gave more results than there were statements")
                        self._heard(sent[at], bytes(held[:end]))
                        del held[:end]
                        at += 1
                    yield
        except ServiceRefusedError as error:
            if error.status in _MISSING:
                raise NoBatchesError(error.status, error.title, error.detail) from error
            raise
        except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
            raise unreachable(self._request.url, error) from error

    async def _body(self, sent: list[int]) -> AsyncIterator[bytes]:
        for again in sorted(self._open):
            sent.append(again)
            yield self._open[again]
        while (number := await self._make()) is not None:
            sent.append(number)
            yield self._open[number]

    async def _make(self) -> int | None:
        """The next new statement, as soon as there is room; None if there is none, or others are to be sent again."""
        while self._source is not None and not self._refusals:
            if self._made - self._given < MAX_UNDER_WAY and self._open_bytes < MAX_BYTES_UNDER_WAY:
                statement = self._taken()
                if statement is None:
                    return None
                number = self._made
                self._made += 1
                self._open[number] = statement
                self._open_bytes += len(statement)
                return number
            self._room.clear()
            await self._room.wait()
        return None

    def _taken(self) -> bytes | None:
        source = self._source
        try:
            statement = None if source is None else next(source, None)
        except Exception as error:  # noqa: BLE001 - raised to our caller; here aiohttp would take it for a lost connection
            self._fault, statement = error, None
        if statement is None:
            self._source = None
        return statement

    def _heard(self, number: int, item: bytes) -> None:
        result = _result(item, self._request)
        if isinstance(result, ServiceRefusedError) and is_temporary(result.status):
            self._refusals[number] = result
            self._room.set()
        else:
            self._settle(number, result)

    def _settle(self, number: int, result: Result) -> None:
        self._open_bytes -= len(self._open.pop(number))
        self._settled[number] = result
        self._room.set()


def _item_end(held: bytearray, request: Request) -> int | None:
    try:
        return item_end(held, 0, MAX_RESULT)
    except MalformedError as error:
        raise _strange(request, f"its results are malformed ({error})") from error


def _result(item: bytes, request: Request) -> Result:
    erased = item[0] == _ARRAY_OF_ONE
    receipt = item[1:] if erased else item
    if receipt[:1] == bytes([_SIGN1]):
        if not looks_like_receipt(receipt):
            raise _strange(request, "a result is not a receipt")
        return Receipted(receipt, erased)
    problem = refusal_of(item)
    if problem is None:
        raise _strange(request, "a result is neither a receipt nor a problem")
    return problem


def _strange(request: Request, reason: str) -> UnreachableError:
    return _StrangeError(f"{request.url.origin()} does not answer as a transparency log does: {reason}")
