"""The problem: the one form every error has on the wire (RFC 9290, SCRAPI §2; API-8).

An answer of 4xx or 5xx is ``{-1: title, -2: detail}`` in CBOR, whoever noticed: a handler, the router, aiohttp's HTTP
parser. Titles are SCRAPI's words, because clients are told to rely on the object and not on the code.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from http import HTTPStatus

from transparency.cose.cbor import encode
from transparency.errors import (
    GoneError,
    JudgementStaleError,
    MalformedError,
    NotFoundError,
    OverloadedError,
    PayloadMissingError,
    RefusedError,
    SignatureInvalidError,
    StoreError,
    TransparencyError,
    UnsupportedAlgorithmError,
)
from transparency.statements.media_types import PROBLEM, PROBLEM_DETAIL, PROBLEM_STATUS, PROBLEM_TITLE

FIRST_ERROR = 400
MAX_DETAIL_CHARS = 1000

# What to say where aiohttp, and not one of our handlers, decided. A client can act on each of these.
_ROUTER_WORDS: Mapping[int, str] = {
    400: "The request could not be parsed",
    404: "There is no such resource on this Transparency Service",
    405: "This resource does not have that method; the Allow header lists what it has",
    408: "The request did not arrive in time",
    413: "The request body is larger than this Transparency Service accepts",
    417: "The only expectation this Transparency Service knows is 100-continue",
    431: "The request header is larger than this Transparency Service accepts",
    500: "The Transparency Service failed to process the request; it has been logged",
    504: "The Transparency Service took too long to process the request",
}
# SCRAPI §2.3.3 gives 400 its own title; the others have none there.
_ROUTER_TITLES: Mapping[int, str] = {400: "Malformed request", 404: "Not Found"}


class ProblemError(TransparencyError):
    """An answer that is an error, raised where it is found."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = dict(headers or {})
        self.close = close

    @classmethod
    def malformed(cls, detail: str, *, close: bool = False) -> ProblemError:
        return cls(400, "Malformed request", detail, close=close)

    @classmethod
    def of_status(cls, status: int, headers: Mapping[str, str] | None = None) -> ProblemError:
        """The problem for an answer that was decided outside our handlers."""
        title = _ROUTER_TITLES.get(status) or _phrase(status)
        return cls(status, title, _ROUTER_WORDS.get(status, title), headers=headers)

    def to_bytes(self) -> bytes:
        return encode({PROBLEM_TITLE: self.title, PROBLEM_DETAIL: self.detail[:MAX_DETAIL_CHARS]})

    def to_result(self) -> bytes:
        """As one of many in an answer: with the status that it would have had by itself (RFC 9290 response-code)."""
        detail = self.detail[:MAX_DETAIL_CHARS]
        return encode({PROBLEM_TITLE: self.title, PROBLEM_DETAIL: detail, PROBLEM_STATUS: self.status})


def problem_of(error: Exception) -> ProblemError:
    """Which problem an exception is for the client. What is not known here is a 500 that says nothing."""
    if isinstance(error, ProblemError):
        return error
    return _of_our_errors(error) or ProblemError.of_status(500)


def _of_our_errors(error: Exception) -> ProblemError | None:  # noqa: PLR0911 - one per error, a table in effect
    match error:
        case MalformedError():
            return ProblemError.malformed(str(error) or _ROUTER_WORDS[400])
        case UnsupportedAlgorithmError():
            words = "Signed Statement contained a non-supported algorithm"
            return ProblemError(400, "Bad Signature Algorithm", _with_reason(words, error))
        case PayloadMissingError():
            return ProblemError(
                400,
                "Payload Missing",
                "Signed Statement payload must be present: send multipart/form-data with the parts 'statement' and "
                "'payload', or register a hash envelope (RFC 9995)",
            )
        case SignatureInvalidError() | RefusedError():
            words = "Signed Statement not accepted by the current Registration Policy"
            return ProblemError(400, "Rejected", _with_reason(words, error))
        case NotFoundError():
            return ProblemError(404, "Not Found", str(error) or _ROUTER_WORDS[404])
        case GoneError():
            return ProblemError(410, "Gone", str(error) or "This was erased; the tree and its proofs stay")
        case OverloadedError():
            detail = str(error) or "The Transparency Service is overloaded; nothing was accepted"
            return unavailable(detail, error.retry_after)
        case JudgementStaleError():
            return unavailable("The policy changed while the request was on its way; nothing was accepted", 1.0)
        case StoreError():
            # It is not known what the store kept (design §4): the same statement may be sent again, it is idempotent.
            return unavailable("The Transparency Service cannot store statements and is stopping", 5.0)
    return None


def on_the_wire(problem: ProblemError, *, close: bool = True) -> bytes:
    """A problem as a whole answer, for connections without an application to give it."""
    body = problem.to_bytes()
    more = "".join(f"{name}: {value}\r\n" for name, value in problem.headers.items())
    ending = "Connection: close\r\n" if close else ""
    head = (
        f"HTTP/1.1 {problem.status} {_phrase(problem.status)}\r\nContent-Type: {PROBLEM}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Cache-Control: no-store\r\n{ending}\r\n"
    )
    return head.encode() + body


def unavailable(detail: str, retry_after: float) -> ProblemError:
    return ProblemError(503, "Service Unavailable", detail, headers={"Retry-After": jittered(retry_after)})


def stopping() -> ProblemError:
    return unavailable("The Transparency Service is stopping; nothing was accepted", 5.0)


def late_body(seconds: float) -> ProblemError:
    words = f"The request body did not arrive within {seconds:g} seconds"
    return ProblemError(408, "Request Timeout", words, close=True)


def jittered(seconds: float) -> str:
    """Retry-After in whole seconds, *seconds* to twice that, so that a crowd turned away does not return as one."""
    least = max(seconds, 0.0)
    return str(max(1, math.ceil(least + random.uniform(0.0, max(least, 1.0)))))  # noqa: S311 - spreads load, hides nothing


def _with_reason(words: str, error: Exception) -> str:
    reason = str(error)
    return f"{words}: {reason}" if reason else words


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
