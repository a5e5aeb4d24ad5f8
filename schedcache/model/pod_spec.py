"""What pods are made of: the spec and labels that pods of one template share, volumes, conditions, the owner."""

from collections.abc import Mapping
from functools import cached_property
from weakref import WeakValueDictionary

import msgspec

from schedcache.model.interning import Interned
from schedcache.model.labels import LabelSelector, NodeSelectorTerm, PreferredSchedulingTerm
from schedcache.model.resources import PodRequests
from schedcache.model.taints import Toleration

DEFAULT_SCHEDULER_NAME = "default-scheduler"


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """One required (anti-)affinity term as written; see `PodShape` for the pod's own namespace.

    `namespaces` empty and `namespace_selector` None together mean the pod's own namespace. A `selector` of None matches no pod.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, gc=False):
    """A preferred (anti-)affinity term worth `weight` (1..100) for each match."""

    weight: int
    term: PodAffinityTerm


class TopologySpreadConstraint(msgspec.Struct, frozen=True, gc=False):
    """By how much the numbers of matching pods in the domains of `topology_key` may differ.

    `min_domains` None = 1; the policies are `Honor` or `Ignore`.
    """

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    selector: LabelSelector | None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"


class PodSpec(msgspec.Struct, frozen=True, eq=False, weakref=True, dict=True, kw_only=True):
    """What a pod asks of nodes, without labels and identity: equal specs are one object, so `is` compares them.

    `node_affinity` None = no required node affinity (an empty tuple matches no node); `priority` 0 if none is given.
    """

    requests: PodRequests
    container_requests: PodRequests | None = None
    """What the containers ask for, if requests on the pod itself replace that in `requests`."""
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    priority: int = 0
    preemption_policy: str = ""
    scheduling_gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = {}
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    preferred_node_affinity: tuple[PreferredSchedulingTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    """(IP, protocol, port); IP 0.0.0.0 if none is given."""
    images: tuple[str, ...] = ()
    """Images of init containers, containers and image volumes, as written."""
    has_pod_affinity: bool = False
    """Any podAffinity or podAntiAffinity block, even an empty one."""
    pod_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_pod_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    topology_spread: tuple[TopologySpreadConstraint, ...] = ()
    resource_claims: tuple[str, ...] = ()
    has_scheduling_group: bool = False
    """The pod belongs to a gang (spec.schedulingGroup, or spec.workloadRef of Kubernetes 1.35)."""
    container_count: int = 0
    image_count: int = 0
    """Containers, init containers and image volumes: what ImageLocality divides by."""
    required_features: frozenset[str] = frozenset()
    """Names that must be in the node's status.declaredFeatures (KEP-5328)."""

    @cached_property
    def reported_requests(self) -> Interned[PodRequests]:
        """The effective requests of pods of this spec, by what the kubelet reports of their resources."""
        # Two threads that ask first must get the same table: cached_property alone would let each make its own.
        table: Interned[PodRequests] = self.__dict__.setdefault("reported_requests", WeakValueDictionary())
        return table


class PodShape(msgspec.Struct, frozen=True, eq=False, weakref=True, dict=True):
    """Namespace, labels and spec of a pod: equal shapes are one object, so `is` compares them.

    What is computed once per shape may be kept in its `__dict__` (functools.cached_property works).
    """

    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec


class Volume(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A volume that matters to scheduling; config maps, secrets, empty directories and the like are left out.

    `claim_name` is set for `persistentVolumeClaim` and, with `ephemeral`, for generic ephemeral volumes.
    `source` is the identity of a volume of an in-tree type, `source_kind` its field name in the API.
    """

    name: str
    claim_name: str = ""
    ephemeral: bool = False
    read_only: bool = False
    source_kind: str = ""
    source: tuple[str, ...] = ()


class PodCondition(msgspec.Struct, frozen=True, gc=False):
    """One of the conditions that scheduling reads or writes."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class OwnerRef(msgspec.Struct, frozen=True, gc=False):
    """The controller that a pod belongs to."""

    kind: str
    name: str
    uid: str
