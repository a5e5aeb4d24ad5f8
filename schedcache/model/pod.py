"""Pods as the scheduler sees them.

A `Pod` holds what is its own (identity, node, volumes, status); everything that pods of one template share is an
immutable `PodShape`, interned, so that it is stored once and what is computed from it is computed once.
"""

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from schedcache.model.labels import LabelSelector, NodeSelectorTerm, PreferredSchedulingTerm
from schedcache.model.resources import PodRequests
from schedcache.model.taints import Toleration

DEFAULT_SCHEDULER_NAME = "default-scheduler"
SUCCEEDED = "Succeeded"
FAILED = "Failed"


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
    """How far the numbers of matching pods in the domains of `topology_key` may differ.

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

    `node_affinity` None = no required node affinity (an empty tuple matches no node); `priority` 0 where none is given.
    """

    requests: PodRequests
    container_requests: PodRequests | None = None
    """What the containers ask for, where requests on the pod itself replace that in `requests`."""
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    priority: int = 0
    preemption_policy: str = ""
    scheduling_gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = {}
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    preferred_node_affinity: tuple[PreferredSchedulingTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[tuple[str, str, int], ...] = ()
    """(IP, protocol, port), IP 0.0.0.0 where none is given."""
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
    """Names in the node's status.declaredFeatures that the pod cannot do without (KEP-5328)."""


class PodShape(msgspec.Struct, frozen=True, eq=False, weakref=True, dict=True):
    """Namespace, labels and spec of a pod: equal shapes are one object, so `is` compares them.

    What is computed once per shape may be kept in its `__dict__` (functools.cached_property works).
    """

    namespace: str
    labels: Mapping[str, str]
    spec: PodSpec


class Volume(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A volume that scheduling looks at; config maps, secrets, empty directories and the like are left out.

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


class Pod(msgspec.Struct, frozen=True, eq=False, gc=False, kw_only=True):
    """A pod as last seen; immutable, compared by identity.

    `node_name` is "" for a pod without a node. Timestamps are RFC 3339 texts as the API server wrote them, "" = absent.
    """

    uid: str
    name: str
    shape: PodShape
    requests: PodRequests
    """The effective requests: the spec's, or during an in-place resize the largest of spec and status."""
    node_name: str = ""
    resource_version: str = ""
    phase: str = ""
    nominated_node_name: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    start_time: str = ""
    generation: int = 0
    volumes: tuple[Volume, ...] = ()
    conditions: tuple[PodCondition, ...] = ()
    owner: OwnerRef | None = None

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any]) -> "Pod":
        """From the API's JSON as Python values. Raises MalformedObjectError, naming the field."""
        from schedcache.model.pod_decode import pod_from_dict  # noqa: PLC0415  the decoder needs these classes

        return pod_from_dict(obj)

    @classmethod
    def from_json(cls, raw: bytes | memoryview | msgspec.Raw) -> "Pod":
        """From the API's JSON. Raises MalformedObjectError, naming the field."""
        from schedcache.model.pod_decode import pod_from_json  # noqa: PLC0415  the decoder needs these classes

        return pod_from_json(raw)

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        return self.shape.labels

    @property
    def spec(self) -> PodSpec:
        return self.shape.spec

    @property
    def scheduler_name(self) -> str:
        return self.shape.spec.scheduler_name

    @property
    def priority(self) -> int:
        return self.shape.spec.priority

    @property
    def scheduling_gates(self) -> tuple[str, ...]:
        return self.shape.spec.scheduling_gates

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.shape.namespace}/{self.name}"

    @property
    def terminating(self) -> bool:
        """Its deletion has begun."""
        return bool(self.deletion_timestamp)

    @property
    def finished(self) -> bool:
        """Phase Succeeded or Failed: it holds nothing of its node any more."""
        return self.phase in (SUCCEEDED, FAILED)

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type, if it is one that scheduling reads and the pod has it."""
        return next((c for c in self.conditions if c.type == kind), None)

    def claim_names(self) -> tuple[str, ...]:
        """Names of the PersistentVolumeClaims it uses, ephemeral ones included, one for each reference."""
        return tuple(v.claim_name for v in self.volumes if v.claim_name)

    def with_node(self, node_name: str) -> Self:
        """The same pod placed on a node."""
        return msgspec.structs.replace(self, node_name=node_name)
