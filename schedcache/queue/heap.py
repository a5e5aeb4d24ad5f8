"""An ordered queue of pods with removal by name."""

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from schedcache.model import Pod
from schedcache.queue.queued_pod import PodKey, QueuedPodInfo

SortKey = Any
"""Anything that can be compared with `<` to others of its queue."""
_Entry = tuple[SortKey, int, int, QueuedPodInfo]

# Dead entries are removed when they outnumber the living, but not if there are only a few.
_SWEEP_ABOVE = 64


class KeyedHeap:
    """A binary heap over `heapq`: entries that were removed or re-sorted stay, dead, until they surface or are swept.

    Smallest sort key first; ties go by `QueuedPodInfo.sequence`.
    """

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._live: dict[PodKey, _Entry] = {}
        self._pushes = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._live

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that name, if it is here."""
        entry = self._live.get(key)
        return None if entry is None else entry[3]

    def put(self, info: QueuedPodInfo, sort_key: SortKey) -> None:
        """Add the pod, or sort it again; whatever was here under its name is replaced."""
        self._pushes += 1
        entry = (sort_key, info.sequence, self._pushes, info)
        self._live[info.key] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._live) + _SWEEP_ABOVE:
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Remove the pod of that name; None if it is not here."""
        entry = self._live.pop(key, None)
        return None if entry is None else entry[3]

    def peek(self) -> tuple[SortKey, QueuedPodInfo] | None:
        """The first pod and what it is sorted by."""
        heap, live = self._heap, self._live
        while heap:
            entry = heap[0]
            if live.get(entry[3].key) is entry:
                return entry[0], entry[3]
            heapq.heappop(heap)
        return None

    def pop(self) -> QueuedPodInfo | None:
        """Remove the first pod; None if there is none."""
        head = self.peek()
        if head is None:
            return None
        heapq.heappop(self._heap)
        del self._live[head[1].key]
        return head[1]

    def infos(self) -> list[QueuedPodInfo]:
        """All pods in no particular order."""
        return [entry[3] for entry in self._live.values()]

    def entries(self) -> Iterable[_Entry]:
        """All pods with what they are ordered by, in no particular order."""
        return self._live.values()

    def ordered(self) -> list[QueuedPodInfo]:
        """All pods, the next one first."""
        return [entry[3] for entry in sorted(self._live.values())]


class TwoLanes:
    """As one `KeyedHeap`, but the pods that are `slow` are passed by while `slow_lane_open` is False."""

    def __init__(self, slow: Callable[[Pod], bool]) -> None:
        self._slow = slow
        self._lanes = KeyedHeap(), KeyedHeap()
        self.slow_lane_open = True

    def __len__(self) -> int:
        return sum(map(len, self._lanes))

    def __contains__(self, key: PodKey) -> bool:
        return any(key in lane for lane in self._lanes)

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that name, if it is here."""
        return self._lanes[0].get(key) or self._lanes[1].get(key)

    def put(self, info: QueuedPodInfo, sort_key: SortKey) -> None:
        """Add the pod, or sort it again; whatever was here under its name is replaced."""
        slow = self._slow(info.pod)
        self._lanes[not slow].remove(info.key)
        self._lanes[slow].put(info, sort_key)

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Remove the pod of that name; None if it is not here."""
        return self._lanes[0].remove(key) or self._lanes[1].remove(key)

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod that is not passed by; None if there is none."""
        fast, slow = self._lanes
        heads = fast.peek(), slow.peek() if self.slow_lane_open else None
        if heads[0] is None or heads[1] is None:
            return fast.pop() if heads[1] is None else slow.pop()
        return slow.pop() if _order(*heads[1]) < _order(*heads[0]) else fast.pop()

    def passes_by(self, pod: Pod) -> bool:
        """Whether the pod is not to be taken now."""
        return not self.slow_lane_open and self._slow(pod)

    def infos(self) -> list[QueuedPodInfo]:
        """All pods in no particular order."""
        return self._lanes[0].infos() + self._lanes[1].infos()

    def ordered(self) -> list[QueuedPodInfo]:
        """All pods, the next one first."""
        return [entry[3] for entry in sorted([*self._lanes[0].entries(), *self._lanes[1].entries()])]


def _order(sort_key: SortKey, info: QueuedPodInfo) -> tuple[SortKey, int]:
    return sort_key, info.sequence
