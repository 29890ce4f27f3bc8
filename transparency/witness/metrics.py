"""What a witness counts, in Prometheus' form. Labels come from its own list: origins, status codes."""

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

    def __init__(self, records: Callable[[], Mapping[str, Record]], gauges: Callable[[], Mapping[str, float]]) -> None:
        self.requests = Metrics(lambda: ())
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "transparency_witness_checkpoints",
            "Checkpoints submitted, by the origin of their log and the answer",
            ("origin", "status"),
            registry=self._registry,
        )
        self._registry.register(_State(records, gauges))

    def answered(self, origin: str, status: int) -> None:
        self._answers.labels(origin or _UNKNOWN, str(status)).inc()

    def exposition(self) -> bytes:
        return self.requests.exposition() + generate_latest(self._registry)


class _State(Collector):
    """Read when scraped."""

    def __init__(self, records: Callable[[], Mapping[str, Record]], gauges: Callable[[], Mapping[str, float]]) -> None:
        self._records = records
        self._gauges = gauges

    def collect(self) -> Iterable[GaugeMetricFamily]:
        size = GaugeMetricFamily("transparency_witness_size", "Size of the last tree cosigned", labels=("origin",))
        time = GaugeMetricFamily(
            "transparency_witness_time_seconds", "Time of the last cosignature", labels=("origin",)
        )
        for origin, record in self._records().items():
            size.add_metric((origin,), record.size)
            time.add_metric((origin,), record.time)
        yield size
        yield time
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"transparency_witness_{name}", name.replace("_", " "), value=value)
