"""Resource vectors and the effective requests of a pod.

The formula is that of `k8s.io/component-helpers/resource` 1.37 (KEP-753 sidecars, KEP-2837 pod-level resources,
KEP-1287 in-place resize). Amounts are added exactly, in nanos, and rounded up once per pod and resource.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from schedcache.model.quantity import to_milli, to_units

ResourceList = dict[str, int]
"""Resource name -> nanos."""

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
_NATIVE_DOMAIN = "kubernetes.io/"
HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
# What a container without a request counts for when nodes are scored, though never when they are filtered
# (kube-scheduler's DefaultMilliCPURequest and DefaultMemoryRequest).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
_IMPLIED: ResourceList = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}


class Resource:
    """A vector of amounts: milli-CPU, bytes, a number of pods, and whole units of any other ("scalar") resource."""

    __slots__ = ("allowed_pod_number", "ephemeral_storage", "memory", "milli_cpu", "scalar")

    def __init__(
        self,
        milli_cpu: int = 0,
        memory: int = 0,
        ephemeral_storage: int = 0,
        allowed_pod_number: int = 0,
        scalar: dict[str, int] | None = None,
    ) -> None:
        self.milli_cpu = milli_cpu
        self.memory = memory
        self.ephemeral_storage = ephemeral_storage
        self.allowed_pod_number = allowed_pod_number
        self.scalar: dict[str, int] = {} if scalar is None else scalar

    @classmethod
    def from_list(cls, amounts: Mapping[str, int]) -> "Resource":
        """From a resource list in nanos; names that are not schedulable resources are left out."""
        scalar = {n: to_units(v) for n, v in amounts.items() if is_scalar_resource(n)}
        return cls(
            milli_cpu=to_milli(amounts.get(CPU, 0)),
            memory=to_units(amounts.get(MEMORY, 0)),
            ephemeral_storage=to_units(amounts.get(EPHEMERAL_STORAGE, 0)),
            allowed_pod_number=to_units(amounts.get(PODS, 0)),
            scalar=scalar,
        )

    def amounts(self) -> Iterator[tuple[str, int]]:
        """Every amount by resource name, except the number of pods."""
        yield CPU, self.milli_cpu
        yield MEMORY, self.memory
        yield EPHEMERAL_STORAGE, self.ephemeral_storage
        yield from self.scalar.items()

    def copy(self) -> "Resource":
        return Resource(self.milli_cpu, self.memory, self.ephemeral_storage, self.allowed_pod_number, dict(self.scalar))

    def __eq__(self, other: object) -> bool:
        """Equal amounts; a scalar of zero is the same as none."""
        if not isinstance(other, Resource):
            return NotImplemented
        return self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]  # mutable: aggregates are updated in place

    def _key(self) -> tuple[int, int, int, int, dict[str, int]]:
        scalar = {name: amount for name, amount in self.scalar.items() if amount}
        return self.milli_cpu, self.memory, self.ephemeral_storage, self.allowed_pod_number, scalar

    def __repr__(self) -> str:
        return (
            f"Resource(milli_cpu={self.milli_cpu}, memory={self.memory}, ephemeral_storage={self.ephemeral_storage}, "
            f"allowed_pod_number={self.allowed_pod_number}, scalar={self.scalar})"
        )


class PodRequests(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What one pod asks of a node: `resource` for filters, the non-zero pair (milli-CPU, bytes) for scores.

    `named`: the resources that it has a request for, even one of 0.
    """

    resource: Resource
    non_zero_milli_cpu: int
    non_zero_memory: int
    named: frozenset[str]

    def same_as(self, other: "PodRequests") -> bool:
        """Whether both ask for the same of the same resources."""
        mine = self.resource, self.non_zero_milli_cpu, self.non_zero_memory, self.named
        return mine == (other.resource, other.non_zero_milli_cpu, other.non_zero_memory, other.named)


class ContainerRequests(msgspec.Struct, frozen=True):
    """One container's amounts in nanos: as specified, as allocated and as actuated by the kubelet (None = not given)."""

    requests: ResourceList
    restartable_init: bool = False
    allocated: ResourceList | None = None
    actuated: ResourceList | None = None


class PodResources(msgspec.Struct, frozen=True):
    """Everything that the effective requests of a pod depend on; amounts in nanos."""

    containers: tuple[ContainerRequests, ...]
    init_containers: tuple[ContainerRequests, ...] = ()
    overhead: ResourceList = {}
    pod_requests: ResourceList = {}
    pod_allocated: ResourceList | None = None
    pod_actuated: ResourceList | None = None
    pod_reported: bool = False
    """The kubelet reports resources of the pod itself (status.resources), even if only limits."""
    resize_infeasible: bool = False


# Nearly all pods name the same few resources.
_names = lru_cache(maxsize=1024)(frozenset[str])
_Reading = Callable[[ContainerRequests, bool], ResourceList]


def is_scalar_resource(name: str) -> bool:
    """Whether kube-scheduler treats the resource as a scalar: extended, huge pages, attachable volumes, native."""
    native = name.startswith((HUGEPAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX)) or _NATIVE_DOMAIN in name
    return native or is_extended_resource(name)


def is_extended_resource(name: str) -> bool:
    """Whether it is an extended resource, one that is not defined by Kubernetes itself (IsExtendedResourceName)."""
    return "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")


def is_pod_level_resource(name: str) -> bool:
    """Whether a request on the pod itself replaces the containers' (KEP-2837)."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def pod_requests(pod: PodResources) -> PodRequests:
    """The effective requests of a pod."""
    asks_itself = any(map(is_pod_level_resource, pod.pod_requests))
    pod_level = _effective_pod_level(pod) if asks_itself else {}
    amounts = _total(pod, {}, pod_level)
    # A pod-level request covers all containers, so none of theirs is filled in for that resource.
    implied = {n: v for n, v in _IMPLIED.items() if not (asks_itself and n in amounts)}
    non_zero = _total(pod, implied, pod_level)
    return PodRequests(
        resource=Resource.from_list({n: v for n, v in amounts.items() if n != PODS}),
        non_zero_milli_cpu=to_milli(non_zero.get(CPU, 0)),
        non_zero_memory=to_units(non_zero.get(MEMORY, 0)),
        named=_names(tuple(amounts)),
    )


def _total(pod: PodResources, implied: ResourceList, pod_level: ResourceList) -> ResourceList:
    total = _container_requests(pod, implied)
    total.update(pod_level)
    _add(total, pod.overhead)
    return total


def _effective_pod_level(pod: PodResources) -> ResourceList:
    """For a pod with pod-level requests; infeasible ones no longer count, even if the kubelet reports no others."""
    effective = pod.pod_requests
    if pod.pod_reported:
        candidates = [pod.pod_actuated or {}, pod.pod_allocated or {}]
        effective = _maximum(candidates if pod.resize_infeasible else [pod.pod_requests, *candidates])
    return {name: amount for name, amount in effective.items() if is_pod_level_resource(name)}


def _container_requests(pod: PodResources, implied: ResourceList) -> ResourceList:
    """The containers' sum; during a resize, the largest of what is specified, allocated and actuated."""
    specified = _aggregate(pod, implied, _specified)
    if pod.pod_allocated is not None and pod.pod_actuated is not None:
        candidates = [pod.pod_allocated, pod.pod_actuated]  # the kubelet's totals include every container
    elif pod.resize_infeasible or any(
        c.allocated is not None or c.actuated is not None for c in pod.containers + pod.init_containers
    ):
        candidates = [_aggregate(pod, implied, _allocated), _aggregate(pod, implied, _actuated)]
    else:
        return specified
    return _maximum(candidates if pod.resize_infeasible else [specified, *candidates])


def _specified(container: ContainerRequests, infeasible: bool) -> ResourceList:  # noqa: ARG001  one signature for three readings of a container
    return container.requests


def _allocated(container: ContainerRequests, infeasible: bool) -> ResourceList:
    if container.allocated is not None:
        return container.allocated
    return {} if infeasible else container.requests


def _actuated(container: ContainerRequests, infeasible: bool) -> ResourceList:
    if container.actuated is not None:
        return container.actuated
    return _allocated(container, infeasible)


def _aggregate(pod: PodResources, implied: ResourceList, reading: _Reading) -> ResourceList:
    """Containers and sidecars added up, or, if larger, an init container on top of the sidecars before it."""
    total: ResourceList = {}
    for container in pod.containers:
        _add(total, _filled(reading(container, pod.resize_infeasible), implied))
    sidecars: ResourceList = {}
    peak: ResourceList = {}
    for container in pod.init_containers:
        amounts = _filled(reading(container, pod.resize_infeasible), implied)
        if container.restartable_init:
            _add(total, amounts)
            _add(sidecars, amounts)
            peak = _maximum([peak, sidecars])
        else:
            running = dict(sidecars)
            _add(running, amounts)
            peak = _maximum([peak, running])
    return _maximum([total, peak])


def _filled(amounts: ResourceList, implied: ResourceList) -> ResourceList:
    """A missing key is filled in; an explicit zero stays zero."""
    return {**implied, **amounts} if implied else amounts


def _add(total: ResourceList, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _maximum(lists: Iterable[ResourceList]) -> ResourceList:
    result: ResourceList = {}
    for amounts in lists:
        for name, amount in amounts.items():
            if name not in result or amount > result[name]:
                result[name] = amount
    return result
