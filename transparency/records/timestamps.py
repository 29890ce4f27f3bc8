"""Times as agent records write them: an RFC 3339 string or epoch milliseconds, compared as instants.

The pattern is `date-time-regexp` of draft-birkholz-verifiable-agent-conversations-00: upper-case T and Z,
seconds, an offset. Epoch numbers are milliseconds (formats.md 2.4), and a bool is not a number.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final

_PATTERN: Final = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):([0-5][0-9]):(60|[0-5][0-9])"
    r"(?:[.]([0-9]+))?(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST: Final = 64
_MILLISECOND: Final = timedelta(milliseconds=1)
_LEAP_SECOND: Final = 60


def is_timestamp(value: object) -> bool:
    """Whether ``value`` has the shape of the draft's abstract-timestamp (-00: RFC 3339 text or uint)."""
    if type(value) is int:
        return 0 <= value < 1 << 64
    return isinstance(value, str) and len(value) <= _LONGEST and _PATTERN.fullmatch(value) is not None


def rfc3339(milliseconds: float) -> str | None:
    """An instant in UTC with milliseconds; None where it has no date in the calendar (years 1 to 9999)."""
    try:
        moment = _EPOCH + timedelta(milliseconds=math.floor(milliseconds))
    except (OverflowError, ValueError):
        return None
    # isoformat, not strftime: that writes the year 999 with three digits.
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def instant(value: object) -> int | None:
    """Milliseconds since the epoch, finer digits cut off; None for what names no instant, as 30 February."""
    if type(value) is int:
        return value if is_timestamp(value) else None
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    match = _PATTERN.fullmatch(value)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match.group(number)) for number in range(1, 7))
    # A leap second is the first moment of the next minute: datetime knows no second 60.
    leap = second == _LEAP_SECOND
    try:
        moment = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=UTC)
    except ValueError:
        return None
    offset = timedelta(0)
    if match.group(8):
        offset = timedelta(hours=int(match.group(9)), minutes=int(match.group(10)))
        offset = -offset if match.group(8) == "-" else offset
    fraction = int(((match.group(7) or "") + "000")[:3])
    return (moment - _EPOCH - offset + timedelta(seconds=leap)) // _MILLISECOND + fraction
