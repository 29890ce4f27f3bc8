"""Times as agent records write them: an RFC 3339 string or epoch milliseconds, compared as instants.

The pattern is `date-time-regexp` of draft-birkholz-verifiable-agent-conversations-00: upper-case T and Z,
seconds, an offset. Epoch numbers are milliseconds (formats.md 2.4), and a bool is not a number.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

_PATTERN: Final = re.compile(
    r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):([0-5][0-9]):(60|[0-5][0-9])"
    r"(?:[.]([0-9]+))?(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, as everything here
_EPOCH_DAY: Final = _EPOCH.toordinal()
_LONGEST: Final = 64
_REMEMBERED: Final = 4_096


def is_timestamp(value: object) -> bool:
    """Whether ``value`` has the shape of the draft's abstract-timestamp (-00: RFC 3339 text or uint)."""
    if type(value) is int:
        return 0 <= value < 1 << 64
    return isinstance(value, str) and len(value) <= _LONGEST and _PATTERN.fullmatch(value) is not None


@lru_cache(maxsize=_REMEMBERED)
def rfc3339(milliseconds: float) -> str | None:
    """An instant in UTC with milliseconds; None where it has no date in the calendar (years 1 to 9999)."""
    try:
        moment = _EPOCH + timedelta(milliseconds=math.floor(milliseconds))
    except (OverflowError, ValueError):
        return None
    # isoformat, not strftime: that writes the year 999 with three digits.
    return moment.isoformat(timespec="milliseconds") + "Z"


def instant(value: object) -> int | None:
    """Milliseconds since the epoch, finer digits cut off; None for what names no instant, as 30 February."""
    if type(value) is int:
        return value if is_timestamp(value) else None
    return _instant(value) if isinstance(value, str) and len(value) <= _LONGEST else None


@lru_cache(maxsize=_REMEMBERED)
def _instant(text: str) -> int | None:
    """Remembered, for the same time is read by the converter, the survey, the checks and the search."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    # A leap second is the first moment of the next minute: sums take second 60 as that.
    seconds = days * 86_400 + int(hour) * 3_600 + int(minute) * 60 + int(second)
    if sign:
        offset = int(hours) * 3_600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    return seconds * 1_000 + int(((fraction or "") + "000")[:3])
