"""One HTTP exchange with a log, repeated while that may help. Everything sent through here is idempotent.

Registration is (the same statement gives the same Location and receipt, SCRAPI-11 §2.3.1), and the rest are GETs, so
a request whose answer was lost may be sent again. Answers are bounded in size and time; redirects are not followed,
because a token would follow them.
"""

from __future__ import annotations

import asyncio
import io
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

from transparency.client.problems import refusal
from transparency.client.retry import Backoff, is_temporary, parse_retry_after
from transparency.errors import AnswerTooLargeError, RedirectedError, ServiceRefusedError, UnreachableError

_CHUNK = 64 * 1024
_CLIENT_ERRORS = 400
_OK = range(200, 300)
CHANCE = secrets.SystemRandom().random


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: URL
    headers: Mapping[str, str]
    body: bytes | None = None
    most: int = 1024 * 1024
    """No answer to this request is larger; more is refused while it is being read."""
    patience: float = 0.0
    """Seconds this exchange may take beyond the usual: for bodies that are large on purpose."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    retry_after: float | None

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "").split(";", 1)[0].strip().lower()


class Transport:
    """Owns the session (unless one was given), the pauses and the number of attempts."""

    def __init__(
        self,
        *,
        session: aiohttp.ClientSession | None = None,
        timeout: float = 30.0,
        backoff: Backoff | None = None,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = CHANCE,
    ) -> None:
        self._given = session
        self._session = session
        self._timeout = timeout
        self._tls = tls
        self.backoff = backoff or Backoff()
        self.clock = clock
        self.sleep = sleep
        self.random = random

    async def close(self) -> None:
        if self._session is not None and self._given is None:
            await self._session.close()
            self._session = None

    async def send(self, request: Request) -> Answer:
        """The answer if it is 2xx; else ServiceRefusedError with the log's words, or UnreachableError."""
        attempt = 0
        while True:
            minimum: float | None = None
            try:
                answer = await self._once(request)
            except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
                failure: UnreachableError | ServiceRefusedError = unreachable(request.url, error)
                again = not isinstance(error, aiohttp.ClientSSLError | aiohttp.InvalidURL | ssl.SSLError)
            else:
                if answer.status in _OK:
                    return answer
                failure = _refused(request.url, answer)
                minimum, again = answer.retry_after, is_temporary(answer.status)
            if not again or attempt >= self.backoff.retries or (minimum or 0) > self.backoff.patience:
                raise failure
            await self.sleep(self.backoff.delay(attempt, self.random(), minimum))
            attempt += 1

    @asynccontextmanager
    async def stream(self, request: Request, body: AsyncIterator[bytes]) -> AsyncIterator[aiohttp.ClientResponse]:
        """One exchange in which both sides talk at once, tried once; what is not 2xx is raised as :meth:`send` does.

        It may take as long as there is something to say: each piece of the answer has the usual time.
        """
        async with self._connection().request(
            request.method,
            request.url,
            headers={"Accept-Encoding": "identity", **request.headers},
            data=body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=self._timeout),
            ssl=self._tls if self._tls is not None else True,
        ) as response:
            if response.status not in _OK:
                minimum = parse_retry_after(response.headers.get("Retry-After"), self.clock())
                answer = Answer(response.status, response.headers, await _read(response, request.most), minimum)
                raise _refused(request.url, answer)
            yield response

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Neither cookies nor netrc: nothing is sent to a log that the caller did not give us.
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)
        return self._session

    async def _once(self, request: Request) -> Answer:
        async with self._connection().request(
            request.method,
            request.url,
            headers={"Accept-Encoding": "identity", **request.headers},
            data=None if request.body is None else io.BytesIO(request.body),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout + request.patience),
            ssl=self._tls if self._tls is not None else True,
        ) as response:
            body = await _read(response, request.most)
            minimum = parse_retry_after(response.headers.get("Retry-After"), self.clock())
            return Answer(response.status, response.headers, body, minimum)


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > most:
            msg = f"{response.url.origin()} answered with more than {most} bytes, which no such answer has"
            raise AnswerTooLargeError(msg)
        parts.append(chunk)
    return b"".join(parts)


def _refused(url: URL, answer: Answer) -> UnreachableError | ServiceRefusedError:
    if answer.status < _CLIENT_ERRORS:
        # SCRAPI-11 uses neither 1xx nor 3xx (API-16); following one would send the token elsewhere.
        return RedirectedError(f"{url.origin()} answered {answer.status}, which is not followed; check the log's URL")
    return refusal(answer.status, answer.content_type, answer.body, answer.retry_after)


def unreachable(url: URL, error: Exception) -> UnreachableError:
    if isinstance(error, TimeoutError):
        reason = "no answer in time"
    elif isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = "its TLS certificate is not trusted here (a private CA has to be named)"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        reason = "there is no such host"
    elif isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        reason = "connection refused"
    elif isinstance(error, OSError) and error.strerror and not isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        reason = error.strerror
    else:
        reason = type(error).__name__
    failure = UnreachableError(f"{url.origin()} cannot be reached: {reason}")
    failure.__cause__ = error
    return failure


class Connected:
    """What a client of any kind is besides: used as ``async with``, and closed with its transport."""

    _transport: Transport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()
