"""The metrics, in Prometheus' form. Each application has its own registry: two logs in one process do not mix."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from transparency.server.tally import BUCKETS, Tally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Gauges = Callable[[], Iterable[tuple[str, str, float]]]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A count by labels: its name, what it says, the labels, and for each of their values how many."""

    name: str
    words: str
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


Counts = Callable[[], Iterable[Labelled]]


class Metrics:
    """Counted in a :class:`Tally`, which costs a tenth of what the client library's own counters cost an answer."""

    def __init__(self, gauges: Gauges, counts: Counts = tuple) -> None:
        self._registry = CollectorRegistry()
        self.tally = Tally()
        self.answered = self.tally.answered
        self.refused = self.tally.refused
        self._registry.register(_Tallied(self.tally))
        self._registry.register(_Gauges(gauges))
        self._registry.register(_Counts(counts))

    def exposition(self) -> bytes:
        return generate_latest(self._registry)


class _Tallied(Collector):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        tally = self._tally
        requests = CounterMetricFamily(
            "transparency_requests", "Requests answered", labels=("route", "method", "status")
        )
        for (route, method, status), count in tally.answers.items():
            requests.add_metric((route, method, str(status)), count)
        yield requests
        durations = HistogramMetricFamily(
            "transparency_request_seconds", "Time from a request's header to its answer", labels=("route",)
        )
        for route, counts in tally.durations.items():
            bounds = [*(str(bucket) for bucket in BUCKETS), "+Inf"]
            durations.add_metric(
                (route,), list(zip(bounds, itertools.accumulate(counts), strict=True)), tally.seconds[route]
            )
        yield durations
        refusals = CounterMetricFamily(
            "transparency_refusals", "Statements not registered, by the title of the problem", labels=("title",)
        )
        for title, count in tally.refusals.items():
            refusals.add_metric((title,), count)
        yield refusals


class _Gauges(Collector):
    """Read when scraped, so that a gauge is never older than the answer that shows it."""

    def __init__(self, gauges: Gauges) -> None:
        self._read = gauges

    def collect(self) -> Iterable[GaugeMetricFamily]:
        for name, words, value in self._read():
            yield GaugeMetricFamily(f"transparency_{name}", words, value=value)


class _Counts(Collector):
    """Counted elsewhere, read when scraped."""

    def __init__(self, counts: Counts) -> None:
        self._read = counts

    def collect(self) -> Iterable[CounterMetricFamily]:
        for each in self._read():
            family = CounterMetricFamily(f"transparency_{each.name}", each.words, labels=each.labels)
            for labels, value in each.values:
                family.add_metric(labels, value)
            yield family
