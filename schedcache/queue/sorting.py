"""QueueSort: what pods are sorted by, and the fallback if the plugin fails."""

from collections.abc import Callable
from typing import Any

from schedcache.model import Pod
from schedcache.queue.faults import Faults
from schedcache.queue.heap import SortKey
from schedcache.queue.queued_pod import QueuedPodInfo

_WHERE = "QueueSort"


def priority_sort(info: QueuedPodInfo) -> SortKey:
    """PrioritySort: the higher priority first, then the one that has waited longer."""
    return -info.pod.shape.spec.priority, info.timestamp_ns


class GuardedSort:
    """The order of a plugin, which may fail: no pod is lost then, and the fault is logged once.

    Pods for which the plugin cannot make a key come after all others, in the order of `priority_sort`. If two keys cannot be
    compared, that order decides between the two.
    """

    def __init__(self, plugin: str, sort_key: Callable[[QueuedPodInfo], Any], faults: Faults) -> None:
        self._plugin = plugin
        self._sort_key = sort_key
        self._faults = faults

    def __call__(self, info: QueuedPodInfo) -> SortKey:
        try:
            return _Key(self, info, self._sort_key(info))
        except Exception as error:  # noqa: BLE001  plugins are foreign code; whatever they raise, the pod must not be lost
            self.report(info.pod, error)
            return _Key(self, info, None, failed=True)

    def report(self, pod: Pod, error: Exception) -> None:
        self._faults.report(self._plugin, _WHERE, pod, error)


class _Key:
    """One pod's key; compares with others of its kind, and never raises."""

    __slots__ = ("_failed", "_instead", "_key", "_pod", "_sort")
    __hash__ = None  # type: ignore[assignment]  # only compared

    def __init__(self, sort: GuardedSort, info: QueuedPodInfo, key: Any, *, failed: bool = False) -> None:
        self._sort = sort
        self._pod = info.pod
        self._key = key
        self._failed = failed
        self._instead = priority_sort(info)

    def __lt__(self, other: "_Key") -> bool:
        if self._failed or other._failed:
            return (self._failed, self._instead) < (other._failed, other._instead)
        try:
            return bool(self._key < other._key)
        except Exception as error:  # noqa: BLE001  keys are a plugin's own, and the queue must stay whole
            self._sort.report(self._pod, error)
            return bool(self._instead < other._instead)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Key):
            return NotImplemented
        if self._failed or other._failed:
            return (self._failed, self._instead) == (other._failed, other._instead)
        try:
            return bool(self._key == other._key)
        except Exception as error:  # noqa: BLE001  as above
            self._sort.report(self._pod, error)
            return bool(self._instead == other._instead)
