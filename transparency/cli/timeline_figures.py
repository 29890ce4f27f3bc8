"""The figures of a timeline: tokens and cost added up, times and spans as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from transparency.records.timestamps import instant

TOKENS: Final = ("input", "output", "cached", "reasoning")


def total(entries: Any) -> dict[str, float]:  # noqa: ANN401 - any iterable of entries
    sums: dict[str, float] = {}
    for entry in entries:
        usage = entry.get("token-usage")
        if not isinstance(usage, Mapping):
            continue
        for name in (*TOKENS, "total", "cost"):
            value = usage.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
                sums[name] = sums.get(name, 0) + value
    return sums


def usage(sums: Mapping[str, float]) -> str:
    names = {"input": "in", "output": "out", "cached": "cached", "reasoning": "reasoning"}
    parts = [f"{int(sums[name]):,} {word}" for name, word in names.items() if sums.get(name)]
    if not parts and sums.get("total"):
        parts = [f"{int(sums['total']):,} tokens"]
    if sums.get("cost"):
        parts.append(f"cost {sums['cost']:.4f}")
    return ", ".join(parts)


def moment(value: object) -> datetime | None:
    return _parsed(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


@lru_cache(maxsize=16)
def _parsed(value: str | int) -> datetime | None:
    """Each time is asked for twice, for its day and its clock, and neighbours often share it."""
    milliseconds = instant(value)
    if milliseconds is None:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def clock(value: object) -> str:
    at = moment(value)
    return at.strftime("%H:%M:%S") if at is not None else ""


def span(start: object, end: object) -> str:
    first, last = moment(start), moment(end)
    if first is None:
        return ""
    text = first.strftime("%Y-%m-%d %H:%M:%S")
    if last is None:
        return f"{text} UTC"
    same_day = first.date() == last.date()
    seconds = int((last - first).total_seconds())
    hours, minutes = divmod(seconds // 60, 60)
    took = f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"
    return f"{text} to {last.strftime('%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S')} UTC ({took})"
