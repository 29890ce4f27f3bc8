"""What a witness or a mirror counts, in Prometheus' form. Labels come from its own list: origins, status codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from transparency.server.metrics import Metrics
from transparency.witness.record import Record

_UNKNOWN = "unknown"


class WitnessMetrics:
    """Requests by route as every server here counts them, and checkpoints by log and answer."""

    def __init__(
        self,
        records: Callable[[], Mapping[str, Record]],
        gauges: Callable[[], Mapping[str, float]],
        kind: str = "witness",
    ) -> None:
        """*kind* is in the name of everything that is counted."""
        self.requests = Metrics(lambda: ())
        self._registry = CollectorRegistry()
        self._answers = Counter(
            f"transparency_{kind}_checkpoints",
            "Checkpoints submitted, by the origin of their log and the answer",
            ("origin", "status"),
            registry=self._registry,
        )
        self._registry.register(_State(records, gauges, kind))

    def register(self, collector: Collector) -> None:
        self._registry.register(collector)

    def answered(self, origin: str, status: int) -> None:
        self._answers.labels(origin or _UNKNOWN, str(status)).inc()

    def exposition(self) -> bytes:
        return self.requests.exposition() + generate_latest(self._registry)


class _State(Collector):
    """Read when scraped."""

    def __init__(
        self, records: Callable[[], Mapping[str, Record]], gauges: Callable[[], Mapping[str, float]], kind: str
    ) -> None:
        self._records = records
        self._gauges = gauges
        self._prefix = f"transparency_{kind}"

    def collect(self) -> Iterable[GaugeMetricFamily]:
        size = GaugeMetricFamily(f"{self._prefix}_size", "Size of the last tree cosigned", labels=("origin",))
        time = GaugeMetricFamily(f"{self._prefix}_time_seconds", "Time of the last cosignature", labels=("origin",))
        for origin, record in self._records().items():
            size.add_metric((origin,), record.size)
            time.add_metric((origin,), record.time)
        yield size
        yield time
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"{self._prefix}_{name}", name.replace("_", " "), value=value)
