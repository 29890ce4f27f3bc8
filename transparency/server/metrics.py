"""The metrics, in Prometheus' form. Each application has its own registry: two logs in one process do not mix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From well under one disk flush to well over slow_after.
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

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
    """Label values come from our own tables only: route templates, known methods, titles of problems."""

    def __init__(self, gauges: Gauges, counts: Counts = tuple) -> None:
        self._registry = CollectorRegistry()
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._requests = Counter(
            "transparency_requests",
            "Requests answered",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "transparency_request_seconds",
            "Time from a request's header to its answer",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "transparency_refusals",
            "Statements not registered, by the title of the problem",
            ("title",),
            registry=self._registry,
        )
        self._registry.register(_Gauges(gauges))
        self._registry.register(_Counts(counts))

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method, status)
        children = self._children.get(key)
        if children is None:
            # Bounded as the labels are; looking them up by name each time would cost more than counting.
            children = (self._requests.labels(route, method, str(status)), self._durations.labels(route))
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    def refused(self, title: str) -> None:
        self._refusals.labels(title).inc()

    def exposition(self) -> bytes:
        return generate_latest(self._registry)


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
