"""The unschedulable pool: pods that were rejected, or are gated, and wait for an event.

Pods are filed by who rejected them, then by spec, then by shape, so the cost of an event depends on the number of different
situations, not of pods. 10,000 replicas of one template that lack CPU are one group.
"""

from dataclasses import dataclass, field

from schedcache.model import Pod, PodRequests, PodShape, PodSpec, Resource
from schedcache.queue.heap import KeyedHeap
from schedcache.queue.queued_pod import PodKey, QueuedPodInfo
from schedcache.queue.request_columns import RequestColumns

_SpecKey = tuple[PodSpec, PodRequests]
"""The requests are the spec's unless a resize changed them, so they hardly ever split a spec."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """What keeps a pod in the pool."""

    scheduler_name: str
    unschedulable: frozenset[str]
    pending: frozenset[str]
    gated_by: str


@dataclass(slots=True, eq=False)
class Bucket:
    """All pods kept by the same rejection."""

    rejection: Rejection
    plugins: frozenset[str]
    specs: dict[_SpecKey, "SpecGroup"] = field(default_factory=dict)
    _columns: "RequestColumns[SpecGroup] | None" = None

    def add(self, spec: "SpecGroup") -> None:
        """A spec that is new here."""
        self.specs[spec.key] = spec
        if self._columns is not None:
            self._columns.add(spec, spec.key[1].resource)

    def remove(self, spec: "SpecGroup") -> None:
        """A spec without pods."""
        del self.specs[spec.key]
        if self._columns is not None:
            self._columns.remove(spec)

    def within(self, room: Resource | None) -> list["SpecGroup"]:
        """The specs that ask for no more than `room`; all of them if there is no limit."""
        if room is None:
            return list(self.specs.values())
        if self._columns is None:
            self._columns = RequestColumns()
            for spec in self.specs.values():
                self._columns.add(spec, spec.key[1].resource)
        return self._columns.within(room)


@dataclass(slots=True, eq=False)
class SpecGroup:
    """Pods of one bucket and one spec; a StatefulSet's pods are one such group, although their labels differ."""

    bucket: Bucket
    key: _SpecKey
    shapes: dict[PodShape, "Group"] = field(default_factory=dict)

    def specimen(self) -> Pod:
        """Any of its pods."""
        return next(iter(self.shapes.values())).specimen()


@dataclass(slots=True, eq=False)
class Group:
    """Pods of one spec group and one shape."""

    spec: SpecGroup
    shape: PodShape
    infos: dict[PodKey, QueuedPodInfo] = field(default_factory=dict)

    def specimen(self) -> Pod:
        """Any of its pods."""
        return next(iter(self.infos.values())).pod


class UnschedulablePool:
    """The pods by name, by group, and by the time when their wait is too long."""

    def __init__(self, max_wait_ns: int) -> None:
        self._max_wait = max_wait_ns
        self._groups: dict[PodKey, Group] = {}
        self._buckets: dict[Rejection, Bucket] = {}
        self._deadlines = KeyedHeap()
        self.gated = 0

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._groups

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        group = self._groups.get(key)
        return None if group is None else group.infos[key]

    def infos(self) -> list[QueuedPodInfo]:
        return [group.infos[key] for key, group in self._groups.items()]

    def buckets(self) -> list[Bucket]:
        return list(self._buckets.values())

    def put(self, info: QueuedPodInfo) -> None:
        """Add the pod, or file it again after its object or its rejection changed; another pod of its name is replaced."""
        self.remove(info.key)
        group = self._groups[info.key] = self._group_for(info)
        group.infos[info.key] = info
        self._deadlines.put(info, self._deadline(info))
        self.gated += bool(info.gated_by)

    def _group_for(self, info: QueuedPodInfo) -> Group:
        pod, unschedulable, pending = info.pod, frozenset(info.unschedulable_plugins), frozenset(info.pending_plugins)
        rejection = Rejection(pod.scheduler_name, unschedulable, pending, info.gated_by)
        bucket = self._buckets.get(rejection)
        if bucket is None:
            bucket = self._buckets[rejection] = Bucket(rejection, unschedulable | pending)
        key = (pod.shape.spec, pod.requests)
        spec = bucket.specs.get(key)
        if spec is None:
            spec = SpecGroup(bucket, key)
            bucket.add(spec)
        group = spec.shapes.get(pod.shape)
        if group is None:
            group = spec.shapes[pod.shape] = Group(spec, pod.shape)
        return group

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Remove the pod of that name; None if it is not here."""
        group = self._groups.pop(key, None)
        if group is None:
            return None
        info = group.infos.pop(key)
        self._deadlines.remove(key)
        spec, bucket = group.spec, group.spec.bucket
        self.gated -= bool(bucket.rejection.gated_by)
        if not group.infos:
            del spec.shapes[group.shape]
        if not spec.shapes:
            bucket.remove(spec)
        if not bucket.specs:
            del self._buckets[bucket.rejection]
        return info

    def flush_expired(self, now: int) -> list[QueuedPodInfo]:
        """The pods that have waited longer than the limit; they stay, marked as flushed, and their wait starts over."""
        expired = []
        while (head := self._deadlines.peek()) is not None and head[0] < now:
            info = head[1]
            info.flushed, info.flush_ns = True, now
            self._deadlines.put(info, self._deadline(info))
            expired.append(info)
        return expired

    def next_expiry(self) -> int | None:
        """When the first pod will have waited too long, in nanoseconds."""
        head = self._deadlines.peek()
        return None if head is None else head[0] + 1

    def _deadline(self, info: QueuedPodInfo) -> int:
        return max(info.timestamp_ns, info.flush_ns or info.timestamp_ns) + self._max_wait
