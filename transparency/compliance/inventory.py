"""The inventory: which agents an operator says record, and how often (L1). TOML, read strictly.

```toml
[[expect]]
iss = "https://agents.example"
agent = "claude-code"        # left out: any agent of this issuer
sessions-per-day = 1         # at least so many on each of its days
days = ["mon", "tue", "wed", "thu", "fri"]   # left out: every day
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from transparency.policy.toml import Table, load

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_EXPECTED: Final = 1_000
_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Expected:
    iss: str
    agent: str = ""
    sessions_per_day: int = 1
    days: tuple[str, ...] = DAYS

    def is_due(self, day: int) -> bool:
        """Whether anything is expected on *day* (days since 1970, which began on a Thursday)."""
        return DAYS[(day + 3) % len(DAYS)] in self.days


@dataclass(frozen=True, slots=True)
class Inventory:
    expected: tuple[Expected, ...] = ()

    @classmethod
    def from_toml(cls, data: bytes, name: str = "inventory") -> Inventory:
        top = Table(load(data, "inventory", name), "inventory")
        tables = top.tables("expect")
        if not 1 <= len(tables) <= MAX_EXPECTED:
            raise top.fault("expect", f"is 1 to {MAX_EXPECTED} tables: what is expected of whom")
        expected = tuple(_expected(table) for table in tables)
        top.done()
        return cls(expected)


def _expected(table: Table) -> Expected:
    iss = table.text("iss")
    if not iss:
        raise table.fault("iss", "is empty")
    days = table.texts("days") if "days" in table else DAYS
    if not days or any(day not in DAYS for day in days):
        raise table.fault("days", f"is a list of {', '.join(DAYS)}")
    least = table.number("sessions-per-day", 1)
    if not 1 <= least <= _MOST:
        raise table.fault("sessions-per-day", f"is 1 to {_MOST}")
    expected = Expected(iss, table.optional_text("agent") or "", least, tuple(days))
    table.done()
    return expected
