"""The thresholds of the log checks: each with its default and why it is that. TOML, table ``[log]``, read strictly."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from transparency.errors import MalformedError
from transparency.policy.toml import load

_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Every threshold is a whole number (percentages too), so that a report says exactly what it was made with."""

    # L1: how many days an agent that recorded may be silent before it is shown as a gap (a long weekend, not a week).
    max_gap_days: int = 7
    # L2: how far a session may end after its registration before its clock is called wrong (NTP-less laptops).
    clock_skew_seconds: int = 300
    # L2: registration this long after the session's end is late: the shortest reporting clocks are 24 h (NIS2, CRA).
    late_seconds: int = _DAY
    # L2: more late records than this are a warning.
    late_percent: int = 5
    # L3: a key that ends within so many days, with no other key of its issuer, is announced.
    key_end_days: int = 30
    # L4: the draft's "SHOULD be at least 12 months".
    retention_days: int = 365
    # L4: what has to be at hand at once (PCI DSS 10.5.1: three months).
    immediate_days: int = 92
    # L6: how many entries are verified again, end to end.
    sample: int = 32
    # L6, L8: the seed of what is drawn, to repeat a report; 0: a new one each time, which the report names.
    seed: int = 0
    # L8: how long a query may take (milliseconds), and how many are tried.
    drill_ms: int = 5_000
    drill_queries: int = 5
    # L9: sessions of an agent before anything is compared with them; fewer say nothing about what is usual.
    baseline_sessions: int = 10
    # L9: standard deviations (in hundredths) from which tokens or error rates are called unusual.
    unusual_hundredths: int = 300
    # L9: how many of the newest sessions are held against those before (drift).
    recent_sessions: int = 20
    # L9: a deviation is never taken for less than this share of the mean: ten equal sessions are no law.
    least_deviation_percent: int = 10
    # L10: the share of sessions that should show oversight, or be reviewed.
    oversight_percent: int = 90
    # L12: how long the access log may go without a digest while the log grows.
    access_digest_hours: int = 48

    @property
    def unusual(self) -> float:
        return self.unusual_hundredths / 100

    @classmethod
    def from_toml(cls, data: bytes, name: str = "settings") -> LogSettings:
        """The table ``[log]`` of *data*; what it does not name keeps its default."""
        return cls.from_map(load(data, "settings", name).get("log", {}))

    @classmethod
    def from_map(cls, table: object) -> LogSettings:
        if not isinstance(table, dict):
            raise MalformedError("settings: log is a table, [log]")
        names = {each.name.replace("_", "-"): each.name for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in table.items():
            if name not in names:
                raise MalformedError(f"settings: log.{name} is not known; known are {', '.join(sorted(names))}")
            if type(value) is not int or not 0 <= value <= _MOST.get(name, _LARGE):
                raise MalformedError(f"settings: log.{name} is a whole number from 0 to {_MOST.get(name, _LARGE)}")
            values[names[name]] = value
        return cls(**values)


_LARGE: Final = 10**9
# What costs time or memory is bounded.
_MOST: Final = {"sample": 10_000, "drill-queries": 100, "recent-sessions": 1_000}
DEFAULT: Final = LogSettings()
