"""The tally: what was answered, counted in plain numbers, so that one process can count for another."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Final

# From well under one disk flush to well over slow_after.
BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Tally:
    """Answers by route, method and status; their durations by route; refused statements by the problem's title.

    Keys come from our own tables only: route templates, known methods, titles of problems. So it is bounded.
    """

    __slots__ = ("answers", "durations", "refusals", "seconds")

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str, int], int] = {}
        # How many took at most this long, for each bucket and beyond the last; not added up.
        self.durations: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = {}
        self.refusals: dict[str, int] = {}

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        self.answers[key] = self.answers.get(key, 0) + 1
        durations = self.durations.get(route)
        if durations is None:
            durations = self.durations[route] = [0] * (len(BUCKETS) + 1)
            self.seconds[route] = 0.0
        durations[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[route] += seconds

    def refused(self, title: str) -> None:
        self.refusals[title] = self.refusals.get(title, 0) + 1

    def take(self) -> list[Any]:
        """What was counted since the last time, for :meth:`add` elsewhere."""
        told = [
            [[*key, count] for key, count in self.answers.items()],
            [[route, counts, self.seconds[route]] for route, counts in self.durations.items()],
            self.refusals,
        ]
        self.__init__()  # type: ignore[misc] # begun anew
        return told

    def add(self, told: list[Any]) -> None:
        answers, durations, refusals = told
        for route, method, status, count in answers:
            key = (route, method, status)
            self.answers[key] = self.answers.get(key, 0) + count
        for route, counts, seconds in durations:
            mine = self.durations.get(route, [0] * len(counts))
            self.durations[route] = [one + other for one, other in zip(mine, counts, strict=True)]
            self.seconds[route] = self.seconds.get(route, 0.0) + seconds
        for title, count in refusals.items():
            self.refusals[title] = self.refusals.get(title, 0) + count
