"""When to ask again: exponential backoff with full jitter and a cap, and ``Retry-After`` as a minimum.

SCRAPI-11 §5.1 makes both a MUST for clients. Pure: the clock and the random number are passed in.
"""

from __future__ import annotations

import email.utils
import re
from dataclasses import dataclass
from datetime import UTC

# RFC 9110 §10.2.3 delay-seconds: digits only. int() would take " 5", "+5", "1_0" and other scripts' digits.
_SECONDS = re.compile(r"[0-9]{1,10}")
_REQUEST_TIMEOUT = 408
_TOO_MANY = 429
_NOT_IMPLEMENTED = 501
_SERVER_ERRORS = range(500, 600)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of random length below ``base`` · 2^attempt, never above ``cap`` seconds."""

    retries: int = 5
    base: float = 0.25
    cap: float = 20.0
    patience: float = 60.0
    """A service that asks for a longer pause than this is given up on: earlier than it asked is not allowed."""

    def delay(self, attempt: int, chance: float, minimum: float | None = None) -> float:
        """Seconds to wait after *attempt* failures (from 0); *chance* is a random number in [0, 1).

        The jitter comes on top of a ``Retry-After``: clients told the same second must not all come back in it.
        """
        jitter = chance * min(self.cap, self.base * 2.0 ** min(attempt, 32))
        return jitter if minimum is None else minimum + min(jitter, 1.0)


def is_temporary(status: int) -> bool:
    """May the same request succeed later? By class where the code is not known (RFC 9110 §15)."""
    return status in (_REQUEST_TIMEOUT, _TOO_MANY) or (status in _SERVER_ERRORS and status != _NOT_IMPLEMENTED)


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait at least: from delay-seconds or an HTTP date (RFC 9110 §10.2.3). None where it says neither."""
    if value is None:
        return None
    text = value.strip(" \t")
    if _SECONDS.fullmatch(text):
        return float(text)
    when = parse_http_date(text)
    return None if when is None else max(0.0, when - now)


def parse_http_date(value: str | None) -> float | None:
    """The POSIX time of an HTTP date in any of its three forms (RFC 9110 §5.6.7), or None."""
    if value is None or not value[:1].isalpha():
        return None
    try:
        parsed = email.utils.parsedate_to_datetime(value)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
