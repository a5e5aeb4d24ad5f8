"""kube-scheduler's metrics (1.37), under its names, on a registry of our own."""

from collections.abc import Callable, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_MOST_ATTEMPTS_TOLD = 15


def exponential_buckets(start: float, factor: float, count: int) -> Sequence[float]:
    """`count` upper bounds, each `factor` times the one before."""
    return [start * factor**i for i in range(count)]


_ATTEMPT_SECONDS = exponential_buckets(0.001, 2, 15)
_SLI_SECONDS = exponential_buckets(0.01, 2, 20)
_PREEMPTION_SECONDS = exponential_buckets(0.001, 2, 16)
_EVENT_SECONDS = exponential_buckets(0.0001, 2, 12)
_PLUGIN_SECONDS = exponential_buckets(0.00001, 1.5, 20)
_PREEMPTION_LABELS = "preemptor", "result"
_POD = "pod"
"""The only kind of preemptor: kube-scheduler has pod groups as well."""


class PrometheusMetrics:
    """Implements `schedcache.ports.Metrics` and `schedcache.queue.QueueMetrics`.

    States (sizes, ages) are read when scraped: see `schedcache.server.state_metrics`. Children of labelled metrics are
    looked up once and kept, since a look-up costs more than the counting.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        attempts = self._counter("schedule_attempts", "Attempts to schedule a pod, by result.", "result", "profile")
        seconds = self._histogram(
            "scheduling_attempt_duration_seconds",
            "Duration of a scheduling attempt, binding included.",
            _ATTEMPT_SECONDS,
            "result",
            "profile",
        )
        self._attempts = cache(lambda result, profile: attempts.labels(result, profile).inc)
        self._attempt_seconds = cache(lambda result, profile: seconds.labels(result, profile).observe)
        self.scheduling_algorithm: Callable[[float], None] = self._histogram(
            "scheduling_algorithm_duration_seconds", "Duration of the search for a node.", _ATTEMPT_SECONDS
        ).observe
        points = self._histogram(
            "framework_extension_point_duration_seconds",
            "Duration of all plugins of an extension point together.",
            _EVENT_SECONDS,
            "extension_point",
            "status",
            "profile",
        )
        self._points = cache(lambda point, status, profile: points.labels(point, status, profile).observe)
        plugins = self._histogram(
            "plugin_execution_duration_seconds",
            "Duration of one plugin at an extension point, measured in a tenth of the attempts.",
            _PLUGIN_SECONDS,
            "plugin",
            "extension_point",
            "status",
        )
        self._plugins = cache(lambda plugin, point, status: plugins.labels(plugin, point, status).observe)
        sli = self._histogram(
            "pod_scheduling_sli_duration_seconds",
            "Time from a pod's first attempt to its binding, by number of attempts.",
            _SLI_SECONDS,
            "attempts",
        )
        self._sli = cache(lambda attempts: sli.labels(attempts).observe)
        self._pod_attempts = self._histogram(
            "pod_scheduling_attempts", "Number of attempts until a pod was scheduled.", exponential_buckets(1, 2, 5)
        ).observe
        events = self._histogram(
            "event_handling_duration_seconds",
            "Duration of applying an event to cache and queue.",
            _EVENT_SECONDS,
            "event",
        )
        self._events = cache(lambda event: events.labels(event).observe)
        permit = self._histogram(
            "permit_wait_duration_seconds", "Time that pods waited on Permit, by result.", _ATTEMPT_SECONDS, "result"
        )
        self._permit = cache(lambda result: permit.labels(result).observe)
        failed = self._counter(
            "filter_errors", "Attempts in which a filter failed at nodes, which counted as rejected.", "plugin"
        )
        self._failed_filters = cache(lambda plugin: failed.labels(plugin).inc)
        self._define_queue_metrics()
        self._define_extender_metrics()
        self._define_preemption()
        self._define_repairs()

    def _define_queue_metrics(self) -> None:
        incoming = self._counter(
            "queue_incoming_pods", "Pods that entered a queue, by queue and event.", "queue", "event"
        )
        self._incoming = cache(lambda queue, event: incoming.labels(queue, event).inc)
        in_flight = self._gauge(
            "inflight_events", "Events kept for pods in flight; the pods themselves count as PodPopped.", "event"
        )
        self._in_flight = cache(lambda event: in_flight.labels(event).inc)
        hints = self._histogram(
            "queueing_hint_execution_duration_seconds",
            "Duration of a queueing hint, by its answer.",
            _PLUGIN_SECONDS,
            "plugin",
            "event",
            "hint",
        )
        self._hints = cache(lambda plugin, event, hint: hints.labels(plugin, event, hint).observe)
        self._after_flush = self._counter(
            "pod_scheduled_after_flush", "Pods scheduled after only the time limit had woken them: an event was missed."
        ).inc

    def _define_preemption(self) -> None:
        self.preemption_attempt: Callable[[], None] = self._counter(
            "preemption_attempts", "Times that room was to be made for a pod."
        ).inc
        self.preemption_victims: Callable[[int], None] = self._histogram(
            "preemption_victims", "Victims on the node that was chosen.", exponential_buckets(1, 2, 7)
        ).observe
        self._preemptions = self._counter(
            "preemption_goroutines_execution", "Evictions for one pod, by result.", "result"
        )
        self._preemption_seconds = self._histogram(
            "preemption_goroutines_duration_seconds", "Time of the evictions for one pod.", _SLI_SECONDS, "result"
        )
        self._preemption_evaluation = self._histogram(
            "preemption_evaluation_duration_seconds",
            "Time that it took to decide whom to evict.",
            _PREEMPTION_SECONDS,
            *_PREEMPTION_LABELS,
        )
        self._preemption_execution = self._histogram(
            "preemption_execution_duration_seconds",
            "Time of the evictions for one pod.",
            _PREEMPTION_SECONDS,
            *_PREEMPTION_LABELS,
        )
        self.preemption_violations: Callable[[int], None] = (
            self._counter("preemption_pdb_violations", "Victims that break a PodDisruptionBudget.", "preemptor")
            .labels(_POD)
            .inc
        )

    def _define_extender_metrics(self) -> None:
        self._extender_calls = self._counter(
            "extender_calls", "Calls of extenders, by how they ended.", "extender", "verb", "result"
        )
        self._extender_seconds = self._histogram(
            "extender_call_duration_seconds", "Time of calls of extenders.", _ATTEMPT_SECONDS, "extender", "verb"
        )

    def _define_repairs(self) -> None:
        self._volume_faults = self._counter(
            "volume_scheduling_stage_error", "Attempts with an error at a pod's claims, by stage.", "operation"
        )
        self._doubts = self._counter(
            "bind_doubts", "Live reads of pods whose binding was uncertain, by what they showed.", "outcome"
        )
        self._cache_errors = self._counter("cache_errors", "Contradictions between cache and events, by kind.", "kind")
        self._rebuilt = self._counter("cache_rebuilds", "Rebuilds of cache and queue from the API.")
        self._malformed = self._counter("malformed_objects", "Objects left out because they cannot be read.", "kind")

    def schedule_attempt(self, profile: str, result: str, seconds: float) -> None:
        self._attempts(result, profile)()
        self._attempt_seconds(result, profile)(seconds)

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points(point, status, profile)(seconds)

    def plugin_execution(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._plugins(plugin, point, status)(seconds)

    def filter_failed(self, plugin: str) -> None:
        self._failed_filters(plugin)()

    def pod_scheduled(self, attempts: int, sli_seconds: float | None) -> None:
        self._pod_attempts(attempts)
        if sli_seconds is not None:
            self._sli(str(attempts) if attempts < _MOST_ATTEMPTS_TOLD else "15+")(sli_seconds)

    def event_handled(self, event: str, seconds: float) -> None:
        self._events(event)(seconds)

    def permit_wait(self, result: str, seconds: float) -> None:
        self._permit(result)(seconds)

    def preemption_done(self, result: str, seconds: float) -> None:
        self._preemptions.labels(result).inc()
        self._preemption_seconds.labels(result).observe(seconds)
        self._preemption_execution.labels(_POD, result).observe(seconds)

    def preemption_evaluated(self, result: str, seconds: float) -> None:
        self._preemption_evaluation.labels(_POD, result).observe(seconds)

    def volume_stage_failed(self, stage: str) -> None:
        self._volume_faults.labels(stage).inc()

    def bind_doubt(self, outcome: str) -> None:
        self._doubts.labels(outcome).inc()

    def extender_call(self, extender: str, verb: str, result: str, seconds: float) -> None:
        self._extender_calls.labels(extender, verb, result).inc()
        self._extender_seconds.labels(extender, verb).observe(seconds)

    def cache_error(self, kind: str) -> None:
        self._cache_errors.labels(kind).inc()

    def rebuilt(self) -> None:
        self._rebuilt.inc()

    def malformed_object(self, kind: str) -> None:
        self._malformed.labels(kind).inc()

    def queue_incoming_pods(self, queue: str, event: str) -> None:
        self._incoming(queue, event)()

    def inflight_events(self, event: str, delta: int) -> None:
        self._in_flight(event)(delta)

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self._hints(plugin, event, hint)(seconds)

    def pod_scheduled_after_flush(self, profile: str) -> None:
        self._after_flush()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"scheduler_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"scheduler_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"scheduler_{name}", text, labels, registry=self.registry, buckets=buckets)
