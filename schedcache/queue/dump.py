"""The pods of the queue as JSON values."""

from collections.abc import Iterable
from typing import Any

from schedcache.queue.queued_pod import QueuedPodInfo

_MILLISECOND = 1_000_000


def uids(infos: Iterable[QueuedPodInfo]) -> list[str]:
    """In the order given."""
    return [info.pod.uid for info in infos]


def histories(waiting: Iterable[QueuedPodInfo], backing_off: Iterable[QueuedPodInfo]) -> dict[str, Any]:
    """UID -> what has become of the pod so far; of one that is backing off also until when."""
    pods = {info.pod.uid: _history(info) for info in waiting}
    for info in backing_off:
        pods[info.pod.uid] = {**_history(info), "backoff_until_ms": _ms(info.backoff_until_ns)}
    return pods


def _history(info: QueuedPodInfo) -> dict[str, Any]:
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
