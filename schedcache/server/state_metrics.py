"""Metrics that are a state, read when scraped: nothing is counted twice, and nothing can drift."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from schedcache.scheduling import Scheduler


class StateCollector(Collector):
    """Cache, queue and bindings of a scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterable[Metric]:
        cache, queue = self._scheduler.state.cache, self._scheduler.state.queue
        sizes = {"nodes": cache.node_count(), "pods": cache.pod_count(), "assumed_pods": len(cache.assumed_pods)}
        yield _by_label("scheduler_cache_size", "Nodes, pods and assumed pods in the cache.", "type", sizes)
        yield _by_label("scheduler_pending_pods", "Pending pods, by queue.", "queue", queue.pending_counts())
        rejected = GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "Unschedulable pods, by the plugin that rejected them.",
            labels=("plugin", "profile"),
        )
        for labels, number in queue.unschedulable_reasons().items():
            rejected.add_metric(labels, number)
        yield rejected
        yield GaugeMetricFamily(
            "scheduler_oldest_pending_pod_age_seconds",
            "Age of the oldest pending pod.",
            queue.oldest_pending_age(),
        )
        evaluations = CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "Evaluations of a pod by a plugin that did not skip it; Filter and Score count all nodes of an attempt as one.",
            labels=("plugin", "extension_point", "profile"),
        )
        for name, framework in self._scheduler.frameworks.items():
            for point, counts in framework.evaluations().items():
                for plugin, number in counts.items():
                    evaluations.add_metric((plugin, point, name), number)
        yield evaluations
        yield _by_label(
            "scheduler_goroutines",
            "Running tasks, by what they do; the name is kube-scheduler's.",
            "operation",
            {
                "binding": len(self._scheduler.bindings),
                "prioritizing_extender": self._scheduler.extenders.prioritizing,
            },
        )


def _by_label(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family


def counter_by_label(name: str, text: str, label: str, values: Mapping[str, float]) -> CounterMetricFamily:
    """A counter whose values are kept elsewhere."""
    family = CounterMetricFamily(name, text, labels=(label,))
    for value, number in values.items():
        family.add_metric((value,), number)
    return family
