"""QueueSort: what pods are sorted by, and what instead where the plugin cannot say."""

from collections.abc import Callable
from typing import Any

from schedcache.model import Pod
from schedcache.queue.faults import Faults
from schedcache.queue.heap import SortKey
from schedcache.queue.queued_pod import QueuedPodInfo

_WHERE = "QueueSort"


def priority_sort(info: QueuedPodInfo) -> SortKey:
    """PrioritySort: the higher priority first, then whoever has waited longer."""
    return -info.pod.shape.spec.priority, info.timestamp_ns


class GuardedSort:
    """The order of a plugin that may fail, as any foreign code may: no pod is lost for that, and the fault is told once.

    A pod whose key it cannot make comes after all others, among its like in the order of `priority_sort`. Where two keys do not
    compare, that order decides between the two.
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
    """One pod's key; compares with others of its sort, and never raises."""

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
