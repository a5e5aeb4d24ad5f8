"""What happened while pods were being scheduled.

A pod that fails must not miss an event that would have helped it only because it came during the attempt (KEP-4247).
So pops and events are numbered together, and a failed pod is checked against the events after its own pop.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schedcache.ports import ClusterEvent
from schedcache.queue.metrics import POD_POPPED, QueueMetrics


class RecordedEvent(NamedTuple):
    """A cluster event with the object before and after, None if there is none."""

    event: ClusterEvent
    old: object
    new: object


class InFlight:
    """Pods popped and not done, by UID, and the events that may still matter to one of them."""

    def __init__(self, metrics: QueueMetrics) -> None:
        self._metrics = metrics
        self._popped_at: dict[str, int] = {}
        # The markers once more, oldest first. Those of pods that are done stay until they reach the head: taking the first
        # key of a dict over and over is quadratic.
        self._markers: deque[tuple[int, str]] = deque()
        self._events: deque[tuple[int, RecordedEvent]] = deque()
        self._number = 0

    def __len__(self) -> int:
        return len(self._popped_at)

    def __contains__(self, uid: str) -> bool:
        return uid in self._popped_at

    def uids(self) -> list[str]:
        return list(self._popped_at)

    def start(self, uid: str) -> None:
        """A pod that is not in flight yet was popped."""
        self._number += 1
        self._popped_at[uid] = self._number
        self._markers.append((self._number, uid))
        self._metrics.inflight_events(POD_POPPED, 1)

    def record(self, recorded: RecordedEvent) -> None:
        """Keep an event for the pods in flight, if there are any."""
        if self._popped_at:
            self._number += 1
            self._events.append((self._number, recorded))
            self._metrics.inflight_events(recorded.event.label, 1)

    def events_since_pop(self, uid: str) -> Iterable[RecordedEvent] | None:
        """The events since the pod was popped, oldest first; None = the pod is not in flight."""
        popped_at = self._popped_at.get(uid)
        if popped_at is None:
            return None
        newer: list[RecordedEvent] = []
        for number, recorded in reversed(self._events):
            if number < popped_at:
                break
            newer.append(recorded)
        newer.reverse()
        return newer

    def done(self, uid: str) -> None:
        """The attempt is over; a UID that is not in flight is ignored."""
        if self._popped_at.pop(uid, None) is None:
            return
        self._metrics.inflight_events(POD_POPPED, -1)
        while self._markers and not self._alive(self._markers[0]):
            self._markers.popleft()
        self._prune(self._markers[0][0] if self._markers else self._number + 1)

    def log(self) -> Iterator[tuple[str, str]]:
        """Markers as ("pod", UID) and events as ("event", label), oldest first."""
        entries = [(number, "pod", uid) for number, uid in self._markers if self._alive((number, uid))]
        entries += [(number, "event", recorded.event.label) for number, recorded in self._events]
        return ((kind, what) for _, kind, what in sorted(entries))

    def _alive(self, marker: tuple[int, str]) -> bool:
        return self._popped_at.get(marker[1]) == marker[0]

    def _prune(self, before: int) -> None:
        """Drop the events that matter only to pods that are done."""
        dropped: Counter[str] = Counter()
        while self._events and self._events[0][0] < before:
            dropped[self._events.popleft()[1].event.label] += 1
        for label, count in dropped.items():
            self._metrics.inflight_events(label, -count)
