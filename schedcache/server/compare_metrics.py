"""What comparisons found, as metrics."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.ports import KindComparison
from schedcache.server.comparing import Comparer

_GAUGES = {
    "seconds": "Time that the latest comparison took.",
    "objects": "Objects that it compared.",
    "bytes": "Bytes that it read from the API server.",
}


class CompareCollector(Collector):
    """`scheduler_compare_*`, by kind; `cache` is the comparison of the scheduler's own data."""

    def __init__(self, comparer: Comparer) -> None:
        self._comparer = comparer

    def collect(self) -> Iterable[Metric]:
        latest = self._comparer.latest
        times = GaugeMetricFamily(
            "scheduler_compare_last_timestamp_seconds", "When the latest comparison ended.", labels=("kind",)
        )
        differences = GaugeMetricFamily(
            "scheduler_compare_differences", "Objects that differed in the latest comparison.", labels=("kind",)
        )
        for kind, (at, found) in latest.items():
            if not found.problem:
                times.add_metric((kind,), at)
                differences.add_metric((kind,), len(found.differences))
        yield times
        yield differences
        for field, text in _GAUGES.items():
            yield self._gauge(field, text, {kind: found for kind, (_, found) in latest.items()})
        drift = CounterMetricFamily(
            "scheduler_compare_drift", "Differences found, by kind and cause.", labels=("kind", "cause")
        )
        for labels, number in self._comparer.drift.items():
            drift.add_metric(labels, number)
        yield drift

    def _gauge(self, field: str, text: str, found: dict[str, KindComparison]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"scheduler_compare_{field}", text, labels=("kind",))
        for kind, comparison in found.items():
            family.add_metric((kind,), getattr(comparison, field))
        return family
