"""The queue's state as JSON values."""

from typing import TYPE_CHECKING, Any

from schedcache.queue.queued_pod import QueuedPodInfo

if TYPE_CHECKING:
    from schedcache.queue.scheduling_queue import SchedulingQueue

_MILLISECOND = 1_000_000


def state(queue: "SchedulingQueue") -> dict[str, Any]:
    """UIDs by queue in their order, what is in flight, nominations, and `pods` with the history of each queued pod."""
    active, pool = queue.active_pods(), queue.unschedulable_pods()
    backoff, errors = queue.backoff_pods(), queue.error_backoff_pods()
    pods = {info.pod.uid: _pod(info) for info in active + pool}
    pods |= {info.pod.uid: {**_pod(info), "backoff_until_ms": _ms(info.backoff_until_ns)} for info in backoff + errors}
    return {
        "active": _uids(active),
        "backoff": _uids(backoff),
        "error_backoff": _uids(errors),
        "unschedulable": sorted(_uids(pool)),
        "in_flight": sorted(queue.in_flight()),
        "in_flight_events": [{kind: what} for kind, what in queue.in_flight_events()],
        "scheduling_cycle": queue.scheduling_cycle,
        "nominated": {node: [p.uid for p in queue.nominated_pods_for_node(node)] for node in queue.nominated_nodes()},
        "pods": pods,
    }


def _uids(infos: list[QueuedPodInfo]) -> list[str]:
    return [info.pod.uid for info in infos]


def _pod(info: QueuedPodInfo) -> dict[str, Any]:
    return {
        "name": info.pod.full_name,
        "attempts": info.attempts,
        "unschedulable_count": info.unschedulable_count,
        "consecutive_errors": info.consecutive_errors,
        "unschedulable_plugins": sorted(info.unschedulable_plugins),
        "pending_plugins": sorted(info.pending_plugins),
        "gated_by": info.gated_by,
        "timestamp_ms": _ms(info.timestamp_ns),
        "initial_attempt_ms": _ms(info.initial_attempt_ns),
        "flushed": info.flushed,
        "resource_version": info.pod.resource_version,
    }


def _ms(ns: int | None) -> int | None:
    return None if ns is None else (ns + _MILLISECOND // 2) // _MILLISECOND
