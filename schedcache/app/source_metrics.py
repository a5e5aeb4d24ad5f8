"""Metrics of the watch path, read from the event source when scraped."""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.kube.watch.stats import KindStats, SourceStats
from schedcache.ports import Outage
from schedcache.server.state_metrics import counter_by_label

_COUNTERS = {
    "lists": ("lists", "Lists read to their end."),
    "list_pages": ("list_pages", "Pages that lists came in."),
    "decode_seconds": ("decode_seconds", "Time spent on decoding objects."),
    "apply_seconds": ("apply_seconds", "Time spent on applying events to cache and queue."),
    "missed_deletes": ("missed_delete_repairs", "Deletions that no event reported."),
    "sink_errors": ("sink_errors", "Events that could not be applied."),
    "crashes": ("watch_crashes", "Watches that ended by a fault in this program."),
    "sweeps": ("sweeps", "Comparisons with the API server."),
}
_BY_REASON = {
    "relists": ("relists", "reason", "Lists after the first one."),
    "list_failures": ("list_failures", "reason", "Lists that were given up."),
    "watch_events": ("watch_events", "type", "Events that watches delivered."),
    "watch_restarts": ("watch_restarts", "reason", "Watches that ended."),
    "repaired": ("drift_repairs", "problem", "Objects that a comparison put right."),
}


class WatchedSource(Protocol):
    """What both event sources tell about themselves."""

    stats: SourceStats

    def ages(self) -> Mapping[str, float]: ...

    def outages(self) -> Mapping[str, Outage]: ...


class SourceCollector(Collector):
    """`scheduler_informer_*`, by kind."""

    def __init__(self, source: WatchedSource) -> None:
        self._source = source

    def collect(self) -> Iterable[Metric]:
        kinds = self._source.stats.kinds
        for field, (name, text) in _COUNTERS.items():
            values = {kind: float(getattr(stats, field)) for kind, stats in kinds.items()}
            yield counter_by_label(f"scheduler_informer_{name}", text, "kind", values)
        for field, (name, label, text) in _BY_REASON.items():
            yield _by_kind_and(f"scheduler_informer_{name}", text, label, kinds, field)
        yield self._ages()
        yield self._outages()
        rebuilds = self._source.stats.rebuilds
        yield counter_by_label("scheduler_informer_rebuilds", "Requests to read everything again.", "reason", rebuilds)
        restarts = self._source.stats.source_restarts
        yield counter_by_label(
            "scheduler_informer_source_restarts", "Restarts of the event source.", "reason", restarts
        )

    def _ages(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "scheduler_informer_last_heard_seconds", "How long the API server has been silent.", labels=("kind",)
        )
        for kind, age in self._source.ages().items():
            if math.isfinite(age):
                family.add_metric((kind,), age)
        return family

    def _outages(self) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "scheduler_informer_disconnected_seconds",
            "How long there has been no open watch; 0 while there is one.",
            labels=("kind",),
        )
        outages = self._source.outages()
        for kind in self._source.stats.kinds:
            outage = outages.get(kind)
            family.add_metric((kind,), 0.0 if outage is None else outage.seconds)
        return family


def _by_kind_and(name: str, text: str, label: str, kinds: Mapping[str, KindStats], field: str) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=("kind", label))
    for kind, stats in kinds.items():
        for value, number in getattr(stats, field).items():
            family.add_metric((kind, value), number)
    return family
