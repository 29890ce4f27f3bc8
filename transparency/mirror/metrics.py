"""What a mirror counts beside what a witness counts: how far it has each log, and how it stands with it."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from transparency.mirror.condition import Code, Conditions
from transparency.mirror.mirror import Mirror
from transparency.witness.keeper import Keeper
from transparency.witness.metrics import WitnessMetrics
from transparency.witness.record import Record


class MirrorMetrics(WitnessMetrics):
    def __init__(self, mirror: Mirror, keeper: Keeper, conditions: Conditions) -> None:
        def cosigned() -> dict[str, Record]:
            records = ((origin, mirror.cosigned(origin)) for origin in mirror.origins)
            return {origin: record for origin, record in records if record is not None}

        super().__init__(
            cosigned, lambda: {"evidence": keeper.evidence_count, "logs": len(keeper.logs)}, "mirror"
        )  # fmt: skip
        self.register(_Trees(mirror, conditions))


class _Trees(Collector):
    """Read when scraped."""

    def __init__(self, mirror: Mirror, conditions: Conditions) -> None:
        self._mirror = mirror
        self._conditions = conditions

    def collect(self) -> Iterable[GaugeMetricFamily]:
        pending = GaugeMetricFamily(
            "transparency_mirror_pending_size", "Size of the pending checkpoint", labels=("origin",)
        )
        entries = GaugeMetricFamily("transparency_mirror_entries", "Entries that are here", labels=("origin",))
        for origin in self._mirror.origins:
            known = self._mirror.pending(origin)
            pending.add_metric((origin,), 0 if known is None else known.size)
            entries.add_metric((origin,), self._mirror.next_entry(origin))
        condition = GaugeMetricFamily(
            "transparency_mirror_condition",
            "1 for the condition of a log that is followed or damaged",
            labels=("origin", "code"),
        )
        for origin, found in self._conditions.all.items():
            for code in Code:
                condition.add_metric((origin, str(code)), code is found.code)
        yield from (pending, entries, condition)
