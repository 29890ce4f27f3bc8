"""Baselines: what is usual for one agent, from its earlier sessions on the log, and what departs from it (R9.4, L9).

Three things are compared, each by a rule that can be said in one sentence and recomputed by hand:

* a **tool** is new when none of at least ``baseline-sessions`` earlier sessions of that agent called it;
* a session's **tokens** are unusual when they are ``unusual`` standard deviations from the mean of the earlier ones;
* **drift** is when the newest ``recent-sessions`` sessions, taken together, differ from all before by as much: of the
  mean for tokens, of a share of failed calls (binomial) for errors.

A history holds a few numbers, at most MAX_TOOLS tools and MAX_MODELS models; there are at most MAX_AGENTS histories.
Agents beyond are counted, and have none: memory is bounded whatever a log holds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from transparency.compliance.examined import SessionFigures
from transparency.compliance.log_settings import DEFAULT, LogSettings

MAX_AGENTS: Final = 1_000
MAX_TOOLS: Final = 1_024
MAX_MODELS: Final = 256
_LEAST_CALLS: Final = 20

What = Literal["new-tool", "tokens", "token-drift", "error-drift"]
AgentKey = tuple[str, str]
"""(iss, agent): the same program run by two issuers has two histories."""


class Departure(NamedTuple):
    """One thing that was not as before. ``score`` in standard deviations, 0.0 for a new tool."""

    what: What
    detail: str
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenBaseline:
    """What R9.4 compares with: plain numbers, to be handed to another process."""

    count: int
    mean: float
    deviation: float


@dataclass(slots=True)
class Running:
    """Mean and deviation of numbers seen one by one (Welford), without keeping them."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        change = value - self.mean
        self.mean += change / self.count
        self.squares += change * (value - self.mean)

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / (self.count - 1)) if self.count > 1 else 0.0

    def score(self, value: float, settings: LogSettings, *, of: int = 1) -> float:
        """How many deviations *value*, the mean of *of* numbers, is away; 0.0 where there is nothing to compare."""
        least = abs(self.mean) * settings.least_deviation_percent / 100
        deviation = max(self.deviation, least) / math.sqrt(of)
        return (value - self.mean) / deviation if self.count and deviation else 0.0


@dataclass(slots=True)
class History:
    """One agent's sessions so far. The newest are kept apart, so that they can be held against those before."""

    settings: LogSettings = DEFAULT
    sessions: int = 0
    tokens: Running = field(default_factory=Running)
    tools: set[str] = field(default_factory=set)
    models: dict[str, None] = field(default_factory=dict)
    complete: bool = True
    _older: Running = field(default_factory=Running)
    _older_calls: int = 0
    _older_errors: int = 0
    _recent: deque[tuple[int, int, int]] = field(default_factory=deque)

    def see(self, session: SessionFigures) -> list[Departure]:
        """What departs in *session* from all before it; then it is part of the history."""
        found = self.compare(session)
        self.sessions += 1
        if session.tokens:
            self.tokens.add(session.tokens)
        for tool in session.tools:
            if len(self.tools) < MAX_TOOLS:
                self.tools.add(tool)
            else:
                self.complete = False
        for model in session.models:
            if len(self.models) < MAX_MODELS:
                self.models[model] = None
        self._recent.append((session.tokens, session.calls, session.errors))
        if len(self._recent) > self.settings.recent_sessions:
            tokens, calls, errors = self._recent.popleft()
            if tokens:
                self._older.add(tokens)
            self._older_calls += calls
            self._older_errors += errors
        return found

    def compare(self, session: SessionFigures) -> list[Departure]:
        found: list[Departure] = []
        if self.sessions < self.settings.baseline_sessions:
            return found
        if self.complete:
            found += [Departure("new-tool", tool) for tool in session.tools if tool not in self.tools]
        if session.tokens and self.tokens.count >= self.settings.baseline_sessions:
            score = self.tokens.score(session.tokens, self.settings)
            if abs(score) >= self.settings.unusual:
                usual = f"{self.tokens.mean:.0f} ± {self.tokens.deviation:.0f}"
                found.append(Departure("tokens", f"{session.tokens} tokens, usual are {usual}", score))
        return found

    def drift(self) -> list[Departure]:
        """The newest sessions together against all before them."""
        found: list[Departure] = []
        spent = [tokens for tokens, _, _ in self._recent if tokens]
        if spent and self._older.count >= self.settings.baseline_sessions:
            mean = sum(spent) / len(spent)
            score = self._older.score(mean, self.settings, of=len(spent))
            if abs(score) >= self.settings.unusual:
                found.append(
                    Departure("token-drift", f"{mean:.0f} tokens a session, before {self._older.mean:.0f}", score)
                )
        calls = sum(calls for _, calls, _ in self._recent)
        errors = sum(errors for _, _, errors in self._recent)
        if calls >= _LEAST_CALLS and self._older_calls >= _LEAST_CALLS:
            score = binomial_score(errors, calls, self._older_errors, self._older_calls)
            if abs(score) >= self.settings.unusual:
                shares = (100 * errors / calls, 100 * self._older_errors / self._older_calls)
                found.append(
                    Departure("error-drift", "{:.1f} % of calls failed, before {:.1f} %".format(*shares), score)
                )
        return found


def binomial_score(errors: int, calls: int, before_errors: int, before_calls: int) -> float:
    """How far a share is from an earlier one, in standard deviations of the pooled share."""
    # One failure and one success added: no history is free of chance, and a share of 0 has no deviation.
    share = (before_errors + errors + 1) / (before_calls + calls + 2)
    deviation = math.sqrt(share * (1 - share) * (1 / calls + 1 / before_calls))
    return (errors / calls - before_errors / before_calls) / deviation


class Baselines:
    """The histories of a log's agents."""

    def __init__(self, settings: LogSettings = DEFAULT) -> None:
        self._settings = settings
        self._histories: dict[AgentKey, History] = {}
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._histories)

    def see(self, iss: str, session: SessionFigures) -> list[Departure]:
        history = self._histories.get((iss, session.agent))
        if history is None:
            if len(self._histories) >= MAX_AGENTS:
                self.left_out += 1
                return []
            history = self._histories[iss, session.agent] = History(self._settings)
        return history.see(session)

    def histories(self) -> Mapping[AgentKey, History]:
        return self._histories

    def tokens(self) -> dict[AgentKey, TokenBaseline]:
        """What is usual of every agent that has a history long enough."""
        return {
            key: TokenBaseline(each.tokens.count, each.tokens.mean, each.tokens.deviation)
            for key, each in self._histories.items()
            if each.tokens.count >= self._settings.baseline_sessions
        }
