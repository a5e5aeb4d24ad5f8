"""What the queue holds at one moment, as immutable data."""

from collections.abc import Iterable, Mapping

import msgspec

from schedcache.queue.queued_pod import QueuedPodInfo


class QueuedPodHistory(msgspec.Struct, frozen=True, gc=False):
    """The history of a waiting pod; the fields are those of QueuedPodInfo, times in seconds of the queue's clock.

    `name` is `namespace/name`, plugins are sorted. `backoff_until` None = the pod is in neither of the backoff queues.
    """

    name: str
    attempts: int
    unschedulable_count: int
    consecutive_errors: int
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    gated_by: str
    timestamp: float
    initial_attempt: float | None
    flushed: bool
    resource_version: str
    backoff_until: float | None


class QueueDump(msgspec.Struct, frozen=True):
    """The whole queue. Pods are UIDs: `active` and both backoffs in their order, `unschedulable` and `in_flight` sorted.

    `in_flight_events` has ("pod", UID) for each pod in flight and ("event", label) for each event kept for them, oldest
    first; `nominated` the pods of each node, first nominated first; `pods` those in a queue, by UID.
    """

    active: tuple[str, ...]
    backoff: tuple[str, ...]
    error_backoff: tuple[str, ...]
    unschedulable: tuple[str, ...]
    in_flight: tuple[str, ...]
    in_flight_events: tuple[tuple[str, str], ...]
    scheduling_cycle: int
    nominated: Mapping[str, tuple[str, ...]]
    pods: Mapping[str, QueuedPodHistory]


def uids(infos: Iterable[QueuedPodInfo]) -> tuple[str, ...]:
    """In the order given."""
    return tuple([info.pod.uid for info in infos])


def histories(waiting: Iterable[QueuedPodInfo], backing_off: Iterable[QueuedPodInfo]) -> Mapping[str, QueuedPodHistory]:
    """Histories by UID; for those that are backing off, with the end of the backoff."""
    pods = {info.pod.uid: _history(info, None) for info in waiting}
    pods.update((info.pod.uid, _history(info, info.backoff_until)) for info in backing_off)
    return pods


def _history(info: QueuedPodInfo, backoff_until: float | None) -> QueuedPodHistory:
    return QueuedPodHistory(
        info.pod.full_name,
        info.attempts,
        info.unschedulable_count,
        info.consecutive_errors,
        tuple(sorted(info.unschedulable_plugins)),
        tuple(sorted(info.pending_plugins)),
        info.gated_by,
        info.timestamp,
        info.initial_attempt,
        info.flushed,
        info.pod.resource_version,
        backoff_until,
    )
