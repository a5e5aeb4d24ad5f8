"""Pods that were woken, and wait here until their backoff is over.

This is not `schedcache.ports.Backoff`: kube-scheduler's rule uses the number of failures and whole nanoseconds, without jitter, and
the order of pods depends on it.
"""

from collections.abc import Callable

from schedcache.queue.clock import SECOND
from schedcache.queue.heap import KeyedHeap, SortKey
from schedcache.queue.queued_pod import PodKey, QueuedPodInfo

# No backoff needs more doublings than that to reach its maximum; more would only make huge integers.
_MOST_DOUBLINGS = 64


class Backoff:
    """How long a failed pod waits (kube-scheduler 1.37): the initial time, doubled for each further failure, up to the maximum.

    With `windows`, both the end and the clock are truncated to whole seconds, so that pods that may be tried in the same second
    compare by the queue's order (KEP-5142). Times are nanoseconds; a maximum of 0 turns backoff off.
    """

    def __init__(self, initial_ns: int, max_ns: int, *, windows: bool) -> None:
        self._initial = initial_ns
        self._max = max_ns
        self._windows = windows

    def duration(self, failures: int) -> int:
        """The backoff after that many failures, at least one."""
        return min(self._initial << min(failures - 1, _MOST_DOUBLINGS), self._max)

    def until(self, info: QueuedPodInfo) -> int | None:
        """When the pod's backoff ends; None = it has none."""
        failures = info.consecutive_errors or info.unschedulable_count
        if not self._max or not failures:
            return None
        if info.backoff_until_ns is None:
            info.backoff_until_ns = self._align(info.timestamp_ns + self.duration(failures))
        return info.backoff_until_ns

    def is_backing_off(self, info: QueuedPodInfo, now: int) -> bool:
        """Whether the pod has to wait; the end of the backoff, with windows its whole last second, still counts."""
        until = self.until(info)
        return until is not None and until >= self._align(now)

    def over_at(self, until: int) -> int:
        """The first instant at which a backoff that ends at `until` no longer counts."""
        return until + (SECOND if self._windows else 1)

    def _align(self, ns: int) -> int:
        return ns - ns % SECOND if self._windows else ns


class BackoffQueue:
    """Rejected pods, and separately pods whose attempt ended in an error, which are never taken early."""

    def __init__(self, backoff: Backoff, sort_key: Callable[[QueuedPodInfo], SortKey] | None) -> None:
        """`sort_key` orders pods whose backoff ends together; None leaves that to the order in which they came."""
        self._backoff = backoff
        self._sort_key = sort_key
        self.rejected = KeyedHeap()
        self.errors = KeyedHeap()

    def __len__(self) -> int:
        return len(self.rejected) + len(self.errors)

    def __contains__(self, key: PodKey) -> bool:
        return key in self.rejected or key in self.errors

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that name, if it is here."""
        return self.rejected.get(key) or self.errors.get(key)

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod that is backing off, or sort it again."""
        until = self._backoff.until(info)
        if info.key in self.errors or (info.failed_with_error and info.key not in self.rejected):
            self.errors.put(info, (until, info.pod.uid))
        else:
            self.rejected.put(info, (until, None if self._sort_key is None else self._sort_key(info)))

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Remove the pod of that name; None if it is not here."""
        return self.rejected.remove(key) or self.errors.remove(key)

    def pop_completed(self, now: int) -> list[QueuedPodInfo]:
        """Remove all pods whose backoff is over."""
        completed = []
        for heap in (self.rejected, self.errors):
            while (head := heap.peek()) is not None and not self._backoff.is_backing_off(head[1], now):
                heap.remove(head[1].key)
                completed.append(head[1])
        return completed

    def next_completion(self) -> int | None:
        """When `pop_completed` will next return something, in nanoseconds."""
        heads = [head[0][0] for heap in (self.rejected, self.errors) if (head := heap.peek()) is not None]
        return self._backoff.over_at(min(heads)) if heads else None
