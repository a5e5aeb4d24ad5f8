"""All that is known of one node, with its pods added up.

A NodeInfo changes in place only until a snapshot or a dump takes it; from then on it is frozen, and the cache goes on with a
copy. So there is one copy per generation (a further one if the counts of its images have changed since), which all readers
share.
"""

import itertools
from collections.abc import Callable, ValuesView
from typing import TypeVar

from schedcache.cache.errors import PodNotOnNodeError
from schedcache.cache.image_states import NO_IMAGES, ImageRefs
from schedcache.model import Node, Pod, Resource

next_generation: Callable[[], int] = itertools.count(1).__next__
"""One counter for the whole process: a generation never means two contents (kubernetes/kubernetes#63262)."""

K = TypeVar("K")
HostPort = tuple[str, str, int]
"""IP, protocol, port."""


def claims_of(pod: Pod) -> list[str]:
    """`namespace/name` of each claim that the pod's persistentVolumeClaim volumes refer to, once per reference."""
    namespace = pod.shape.namespace
    return [f"{namespace}/{v.claim_name}" for v in pod.volumes if v.claim_name and not v.ephemeral]


class NodeInfo:
    """A node with its pods; `node` None = not (or no longer) known to the API, kept only for its pods.

    `requested` is exact; `non_zero_requested` (milli_cpu and memory) counts 100 milli-CPU and 200 MiB for containers
    without a request. `used_ports` and `pvc_ref_counts` are counted: key -> number of references.
    No pod is of lower priority than `priority_floor`, which need not be that of a pod that is still there.
    `image_states` is as old as `generation`, as in kube-scheduler. `add_pod`, `remove_pod` and the other changing methods
    raise ValueError on a frozen NodeInfo: change a `copy()`.
    """

    __slots__ = (
        "allocatable",
        "frozen",
        "generation",
        "image_refs",
        "image_states",
        "images_version",
        "name",
        "node",
        "non_zero_requested",
        "pods_by_uid",
        "pods_with_affinity_by_uid",
        "pods_with_required_anti_affinity_by_uid",
        "priority_floor",
        "pvc_ref_counts",
        "requested",
        "used_ports",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.allocatable = Resource()
        self.requested = Resource()
        self.non_zero_requested = Resource()
        self.pods_by_uid: dict[str, Pod] = {}
        self.pods_with_affinity_by_uid: dict[str, Pod] = {}
        self.pods_with_required_anti_affinity_by_uid: dict[str, Pod] = {}
        self.priority_floor = 0
        self.used_ports: dict[HostPort, int] = {}
        self.pvc_ref_counts: dict[str, int] = {}
        self.image_states = NO_IMAGES
        self.image_refs: ImageRefs = ()
        self.images_version = 0
        self.generation = next_generation()
        self.frozen = False

    @property
    def pods(self) -> ValuesView[Pod]:
        return self.pods_by_uid.values()

    @property
    def pods_with_affinity(self) -> ValuesView[Pod]:
        """The pods with any podAffinity or podAntiAffinity block, even an empty one."""
        return self.pods_with_affinity_by_uid.values()

    @property
    def pods_with_required_anti_affinity(self) -> ValuesView[Pod]:
        return self.pods_with_required_anti_affinity_by_uid.values()

    def __repr__(self) -> str:
        return f"NodeInfo({self.name!r}, pods={len(self.pods_by_uid)}, generation={self.generation})"

    def copy(self) -> "NodeInfo":
        """An unfrozen copy of the same generation; pods, node and images are shared, aggregates are not."""
        other = NodeInfo.__new__(NodeInfo)
        other.name = self.name
        other.node = self.node
        other.allocatable = self.allocatable
        other.requested = self.requested.copy()
        other.non_zero_requested = Resource(self.non_zero_requested.milli_cpu, self.non_zero_requested.memory)
        other.pods_by_uid = self.pods_by_uid.copy()
        other.pods_with_affinity_by_uid = self.pods_with_affinity_by_uid.copy()
        other.pods_with_required_anti_affinity_by_uid = self.pods_with_required_anti_affinity_by_uid.copy()
        other.priority_floor = self.priority_floor
        other.used_ports = self.used_ports.copy()
        other.pvc_ref_counts = self.pvc_ref_counts.copy()
        other.image_states = self.image_states
        other.image_refs = self.image_refs
        other.images_version = self.images_version
        other.generation = self.generation
        other.frozen = False
        return other

    def add_pod(self, pod: Pod) -> None:
        """Count a pod that is not on this node yet."""
        self.touch()
        self._add_requests(pod)
        uid, spec = pod.uid, pod.shape.spec
        if spec.priority < self.priority_floor or not self.pods_by_uid:
            self.priority_floor = spec.priority
        self.pods_by_uid[uid] = pod
        if spec.has_pod_affinity:
            self.pods_with_affinity_by_uid[uid] = pod
            if spec.pod_anti_affinity:
                self.pods_with_required_anti_affinity_by_uid[uid] = pod
        for port in spec.host_ports:
            self.used_ports[port] = self.used_ports.get(port, 0) + 1
        if pod.volumes:
            for claim in claims_of(pod):
                self.pvc_ref_counts[claim] = self.pvc_ref_counts.get(claim, 0) + 1

    def remove_pod(self, pod: Pod) -> None:
        """Subtract exactly what was counted for the pod of this UID. Raises PodNotOnNodeError."""
        uid = pod.uid
        counted = self.pods_by_uid.get(uid)
        if counted is None:
            raise PodNotOnNodeError(f"pod {uid} ({pod.full_name}) is not counted on node {self.name!r}")
        self.touch()
        del self.pods_by_uid[uid]
        self._subtract_requests(counted)
        spec = counted.shape.spec
        if spec.has_pod_affinity:
            del self.pods_with_affinity_by_uid[uid]
            self.pods_with_required_anti_affinity_by_uid.pop(uid, None)
        for port in spec.host_ports:
            _uncount(self.used_ports, port)
        if counted.volumes:
            for claim in claims_of(counted):
                _uncount(self.pvc_ref_counts, claim)

    def replace_pod(self, old: Pod, new: Pod) -> None:
        """Count `new` in the place of `old`, which has the same UID. Raises PodNotOnNodeError."""
        counted = self.pods_by_uid.get(old.uid)
        if counted is None or not _counts_alike(counted, new):
            self.remove_pod(old)
            self.add_pod(new)
            return
        # Nearly every update: status or labels alone. The aggregates stay as they are.
        self.touch()
        uid, spec = new.uid, new.shape.spec
        self.pods_by_uid[uid] = new
        if spec.has_pod_affinity:
            self.pods_with_affinity_by_uid[uid] = new
            if spec.pod_anti_affinity:
                self.pods_with_required_anti_affinity_by_uid[uid] = new

    def set_node(self, node: Node | None, image_refs: ImageRefs) -> None:
        """Set the node object; None makes a ghost, which keeps the last allocatable and images."""
        self.touch()
        self.node = node
        if node is not None:
            self.allocatable = node.allocatable
            self.image_refs = image_refs
            self.images_version = -1

    def touch(self) -> None:
        """Move to a new generation. Raises ValueError when frozen."""
        if self.frozen:
            raise ValueError(f"{self!r} is shared and must not change: change a copy")
        self.generation = next_generation()

    def _add_requests(self, pod: Pod) -> None:
        asked = pod.requests
        amounts, total, non_zero = asked.resource, self.requested, self.non_zero_requested
        total.milli_cpu += amounts.milli_cpu
        total.memory += amounts.memory
        total.ephemeral_storage += amounts.ephemeral_storage
        for name, amount in amounts.scalar.items():
            total.scalar[name] = total.scalar.get(name, 0) + amount
        non_zero.milli_cpu += asked.non_zero_milli_cpu
        non_zero.memory += asked.non_zero_memory

    def _subtract_requests(self, pod: Pod) -> None:
        asked = pod.requests
        amounts, total, non_zero = asked.resource, self.requested, self.non_zero_requested
        total.milli_cpu -= amounts.milli_cpu
        total.memory -= amounts.memory
        total.ephemeral_storage -= amounts.ephemeral_storage
        for name, amount in amounts.scalar.items():
            left = total.scalar.get(name, 0) - amount
            if left:
                total.scalar[name] = left
            else:
                total.scalar.pop(name, None)
        non_zero.milli_cpu -= asked.non_zero_milli_cpu
        non_zero.memory -= asked.non_zero_memory


def _counts_alike(old: Pod, new: Pod) -> bool:
    return (
        old.requests is new.requests
        and old.shape.spec is new.shape.spec
        and old.volumes == new.volumes
        and (not old.volumes or old.shape.namespace == new.shape.namespace)
    )


def _uncount(counts: dict[K, int], key: K) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
