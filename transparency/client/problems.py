"""Concise problem details (RFC 9290) as a client reads them: strictly, bounded, and never trusted to be printable."""

from __future__ import annotations

from collections.abc import Mapping

from transparency.cose.cbor import decode
from transparency.display import escape_hidden
from transparency.errors import MalformedError, ServiceRefusedError
from transparency.statements.media_types import PROBLEM, PROBLEM_DETAIL, PROBLEM_STATUS, PROBLEM_TITLE

MAX_PROBLEM_BYTES = 64 * 1024
_MAX_WORDS = 500
_ERRORS = range(400, 600)


def refusal(status: int, content_type: str, body: bytes, retry_after: float | None = None) -> ServiceRefusedError:
    """The error a 4xx or 5xx answer stands for. The problem object says what is wrong, the code only its class."""
    title, detail = _words(content_type, body)
    return ServiceRefusedError(status, title or f"HTTP status {status}", detail, retry_after)


def refusal_of(item: bytes) -> ServiceRefusedError | None:
    """A problem among the results of a batch, which carries its status; None if it is no such thing."""
    try:
        problem = decode(item, max_depth=8)
    except MalformedError:
        return None
    if not isinstance(problem, Mapping):
        return None
    status = problem.get(PROBLEM_STATUS)
    if type(status) is not int or status not in _ERRORS:
        return None
    title, detail = _printable(problem.get(PROBLEM_TITLE)), _printable(problem.get(PROBLEM_DETAIL))
    return ServiceRefusedError(status, title or f"HTTP status {status}", detail)


def _words(content_type: str, body: bytes) -> tuple[str, str]:
    if content_type.split(";", 1)[0].strip().lower() != PROBLEM or len(body) > MAX_PROBLEM_BYTES:
        return "", "(no problem details; is this a transparency service?)"
    try:
        problem = decode(body, max_depth=8)
    except MalformedError:
        return "", "(its problem details are malformed)"
    if not isinstance(problem, Mapping):
        return "", "(its problem details are malformed)"
    return _printable(problem.get(PROBLEM_TITLE)), _printable(problem.get(PROBLEM_DETAIL))


def _printable(value: object) -> str:
    """A service's words reach a terminal: no control characters, no escape sequences, no end."""
    if not isinstance(value, str):
        return ""
    return escape_hidden(value[:_MAX_WORDS]) + ("…" if len(value) > _MAX_WORDS else "")
