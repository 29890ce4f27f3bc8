"""What the events of an AgentLog amount to, beside what ``metrics`` claims: both figures, and no verdict.

The specification does not say what counts as a tool call: only ``toolCall`` events, or commands, searches and file
operations too. A figure that either reading gives is not reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from transparency.records.timestamps import instant

_TOOLS: Final = frozenset(("toolCall", "terminalCommand", "search", "fileOperation"))
_TOKENS: Final = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
_MINUTE: Final = 60_000
# Sums of money are of decimals written in binary.
_CENT_FRACTION: Final = 1e-6
_MOST: Final = 1e15


@dataclass(slots=True)
class Tally:
    """Counted event by event, so that a log of any length needs no second pass."""

    kinds: Counter[str] = field(default_factory=Counter)
    paths: set[str] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)
    tokens: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0
    costs: int = 0
    _last: int | None = None
    _disorder: list[int] = field(default_factory=list)
    _parents: dict[str, int] = field(default_factory=dict)

    def event(self, index: int, event: object) -> None:
        if not isinstance(event, dict):
            return
        kind = event.get("type")
        if isinstance(kind, str):
            self.kinds[kind] += 1
        self._order(index, event.get("timestamp"))
        parent = event.get("parentId")
        if isinstance(parent, str):
            self._parents.setdefault(parent, index)
        if kind == "fileOperation" and isinstance(event.get("path"), str):
            self.paths.add(event["path"])
        name = event.get({"toolCall": "name", "search": "tool"}.get(str(kind), ""))
        if isinstance(name, str):
            self.tools.add(name)
        self.tokens.update(dict(_tokens(event.get("tokenUsage"))))
        cost = _amount(event.get("estimatedCostUsd"))
        if cost is not None:
            self.cost += cost
            self.costs += 1

    def _order(self, index: int, timestamp: object) -> None:
        moment = instant(timestamp) if isinstance(timestamp, str) else None
        if moment is None:
            return
        if self._last is not None and moment < self._last:
            self._disorder.append(index)
        self._last = moment

    def disorder(self) -> Iterator[tuple[str, str]]:
        """Events that stand after a later one, though §3 says they are in order of time."""
        for index in self._disorder:
            yield f"/events/{index}/timestamp", "earlier than the event before it: events are ordered by time"

    def orphans(self, known: set[str]) -> Iterator[tuple[str, str]]:
        for parent, index in self._parents.items():
            if parent not in known:
                yield f"/events/{index}/parentId", "no event of this session has this id"

    def disagreements(self, root: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Each claim of ``metrics`` that no reading of the events gives."""
        metrics = root.get("metrics")
        if not isinstance(metrics, dict):
            return
        calls, all_calls = self.kinds["toolCall"], sum(self.kinds[kind] for kind in _TOOLS)
        yield from _differ(metrics, "messageCount", (self.kinds["message"],), "messages")
        yield from _differ(
            metrics, "toolCallCount", (calls, all_calls), "toolCall events; with commands, searches and files"
        )
        yield from _differ(metrics, "filesTouchedCount", (len(self.paths),), "paths in file operations")
        yield from self._names(metrics)
        yield from self._spent(metrics)
        yield from _duration(metrics, root)

    def _names(self, metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        files, tools = metrics.get("filesTouched"), metrics.get("toolsUsed")
        if isinstance(files, list) and (named := _texts(files)) != self.paths:
            both = len(named & self.paths)
            yield "/metrics/filesTouched", f"names {len(named)} files, the events {len(self.paths)}; {both} are in both"
        # Commands and file operations do not say which tool ran them, so more tools may be named than are seen.
        if isinstance(tools, list) and (missing := self.tools - _texts(tools)):
            yield (
                "/metrics/toolsUsed",
                f"names {len(_texts(tools))} tools, {len(missing)} of the events' tools are missing",
            )

    def _spent(self, metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for member, claimed in _tokens(metrics.get("tokenUsage")) if self.tokens else ():
            if claimed != self.tokens[member]:
                yield f"/metrics/tokenUsage/{member}", f"says {claimed}, the events add up to {self.tokens[member]}"
        cost = _amount(metrics.get("estimatedCostUsd"))
        if self.costs and cost is not None and abs(cost - self.cost) > _CENT_FRACTION * max(1, abs(self.cost)):
            yield "/metrics/estimatedCostUsd", f"says {cost}, the events add up to {self.cost:.6f}"


def _tokens(usage: object) -> Iterator[tuple[str, int]]:
    """The figures of a tokenUsage that are counts."""
    for name, count in usage.items() if isinstance(usage, dict) else ():
        if name in _TOKENS and type(count) is int:
            yield name, count


def _amount(value: object) -> float | None:
    """A number of 400 digits is JSON, but no sum of money."""
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _MOST:
        return None
    return float(value)


def _differ(metrics: Mapping[str, Any], name: str, counted: tuple[int, ...], what: str) -> Iterator[tuple[str, str]]:
    claimed = metrics.get(name)
    if type(claimed) is int and claimed not in counted:
        figures = " or ".join(str(figure) for figure in dict.fromkeys(counted))
        yield f"/metrics/{name}", f"says {claimed}, the events hold {figures} ({what})"


def _duration(metrics: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    claimed = metrics.get("durationMinutes")
    start, end = (
        instant(root.get(name)) if isinstance(root.get(name), str) else None for name in ("startTime", "endTime")
    )
    if type(claimed) is not int or start is None or end is None:
        return
    # Rounded up, down or to the nearest: all are in use.
    if not (end - start) // _MINUTE <= claimed <= -((start - end) // _MINUTE):
        yield (
            "/metrics/durationMinutes",
            f"says {claimed}, startTime and endTime are {(end - start) / _MINUTE:.1f} apart",
        )


def _texts(items: list[Any]) -> set[str]:
    return {item for item in items if isinstance(item, str)}
