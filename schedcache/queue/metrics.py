"""What the queue reports while it works; the names are kube-scheduler's without the prefix `scheduler_`."""

from typing import Protocol

POD_POPPED = "PodPopped"
"""The label under which pods in flight are counted among the in-flight events."""


class QueueMetrics(Protocol):
    """Called synchronously inside queue operations: must be quick, and must not call the queue."""

    def queue_incoming_pods(self, queue: str, event: str) -> None:
        """queue_incoming_pods_total: a pod entered `active`, `backoff` or `unschedulable` because of that event."""

    def inflight_events(self, event: str, delta: int) -> None:
        """inflight_events: recorded events of that label increased by `delta`; `PodPopped` stands for pods in flight."""

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """queueing_hint_execution_duration_seconds: a hint answered `Queue`, `QueueSkip` or `Error`."""

    def pod_scheduled_after_flush(self, profile: str) -> None:
        """pod_scheduled_after_flush_total: only the pool's time limit woke the pod, so an event was missed."""


class NoMetrics:
    """Counts nothing."""

    def queue_incoming_pods(self, queue: str, event: str) -> None:
        """See QueueMetrics."""

    def inflight_events(self, event: str, delta: int) -> None:
        """See QueueMetrics."""

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """See QueueMetrics."""

    def pod_scheduled_after_flush(self, profile: str) -> None:
        """See QueueMetrics."""
