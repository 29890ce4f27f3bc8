"""The limits on one client: a token bucket for each, in a table that cannot grow without bound (API-9, API-10).

And the one that the system sets: how many files, hence connections, a process may have open.
"""

from __future__ import annotations

import ipaddress
import math
import resource
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from transparency.server.problems import ProblemError

_PERIODS = {1.0: "second", 60.0: "minute", 3600.0: "hour", 86400.0: "day"}
_MINUTE = 60.0
IPV6_CLIENT_BITS = 64
# Open files beside the connections: store, artifacts on their way, connections being refused, the interpreter's own.
RESERVED_FILES = 512


class RateLimiter:
    """Every client may send *number* requests per *period* seconds; unused allowance does not add up beyond that.

    None lifts that; a client may still have a number of its own. The table holds at most *max_clients* buckets and
    forgets the one not seen for longest. A client that is forgotten starts with a full bucket: whoever commands that
    many addresses gains nothing from it that the addresses do not give already.
    """

    def __init__(self, number: int | None, period: float, *, max_clients: int, clock: Callable[[], float]) -> None:
        self._number = number
        self._period = period
        self._max_clients = max_clients
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(self, client: str, per_minute: int | None = None) -> None:
        """Take one request from the client's bucket, or raise 429 with the time at which the next one fits.

        *per_minute* is what this client may send, instead of what everybody may.
        """
        number, period = (self._number, self._period) if per_minute is None else (per_minute, _MINUTE)
        if number is None:
            return
        rate = number / period
        left = self._left(client, float(number), rate)
        allowed = left >= 1.0
        if allowed:
            self._keep(client, left - 1.0)
        else:
            wait = math.ceil((1.0 - left) / rate)
            detail = f"Only {number} requests per {period_name(period)} are allowed."
            raise ProblemError(429, "Too Many Requests", detail, headers={"Retry-After": str(max(1, wait))})

    def limits(self, per_minute: int | None) -> bool:
        """Whether a client with this number of its own is limited at all."""
        return self._number is not None or per_minute is not None

    def spend(self, client: str, count: int, per_minute: int | None = None) -> None:
        """Take *count* requests that another process answered, as far as there are any left."""
        number, period = (self._number, self._period) if per_minute is None else (per_minute, _MINUTE)
        if number is not None:
            self._keep(client, max(0.0, self._left(client, float(number), number / period) - count))

    def _left(self, client: str, most: float, rate: float) -> float:
        now = self._clock()
        left, seen = self._buckets.get(client, (most, now))
        # max: a clock that steps back must not take allowance away.
        left = min(most, left + max(0.0, now - seen) * rate)
        self._keep(client, left)
        return left

    def _keep(self, client: str, left: float) -> None:
        self._buckets[client] = (left, self._clock())
        self._buckets.move_to_end(client)
        if len(self._buckets) > self._max_clients:
            self._buckets.popitem(last=False)


def period_name(seconds: float) -> str:
    return _PERIODS.get(seconds) or f"{seconds:g} seconds"


@lru_cache(maxsize=4096)
def client_of_address(address: str | None) -> str:
    """The name of an anonymous client. One IPv6 customer has a whole /64, so that is what counts as one client."""
    if not address:
        return "unknown"
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if ip.version == 4:
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, IPV6_CLIENT_BITS), strict=False))


def allow_files(wanted: int) -> int:
    """How many files this process may have open; raised towards *wanted* as far as that is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        raised = wanted if hard == unlimited else min(wanted, hard)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    return wanted if soft == unlimited else soft
