"""Typed, immutable views of the Kubernetes objects that scheduling reads, and the rules that belong to a single object.

Promises: an object never changes once it is made, so it may be kept, shared and read by any thread. Equal pod specs, and equal
shapes (spec, namespace and labels), are one object: `is` compares them, and what is computed from one may be kept by
identity. Quantities are exact integers, rounded once, as upstream rounds them. A malformed object raises a
`MalformedObjectError` that names the object and the field, and does not affect any other object.

May touch: nothing. No I/O, no clock, no other package of schedcache.

Start reading with `pod` and `node`, the views themselves; `pod_spec` has what pods of one template share, and `interning` makes it one
object. `wire` is the JSON, field by field; `decode` and `pod_decode` turn it into the views. `labels`, `taints` and `resources` have
the rules; `objects` and `storage` the other kinds, and `kinds` lists them.
"""

from schedcache.model.errors import MalformedObjectError
from schedcache.model.labels import (
    LabelSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Requirement,
    selector_from_labels,
)
from schedcache.model.node import HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL, ContainerImage, Node, NodeCondition
from schedcache.model.objects import (
    ClusterObject,
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from schedcache.model.pod import Pod
from schedcache.model.pod_spec import (
    OwnerRef,
    PodAffinityTerm,
    PodCondition,
    PodShape,
    PodSpec,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
)
from schedcache.model.quantity import QuantityError, parse_quantity
from schedcache.model.resource_version import compare_resource_versions
from schedcache.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PodRequests, Resource
from schedcache.model.storage import (
    BIND_COMPLETED_ANNOTATION,
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    ClaimRef,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    VolumeAttachment,
)
from schedcache.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration, tolerated

__all__ = [
    "BIND_COMPLETED_ANNOTATION",
    "BOUND_BY_CONTROLLER_ANNOTATION",
    "CPU",
    "EPHEMERAL_STORAGE",
    "HOSTNAME_LABEL",
    "MEMORY",
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PREFER_NO_SCHEDULE",
    "REGION_LABEL",
    "SELECTED_NODE_ANNOTATION",
    "ZONE_LABEL",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "ClaimRef",
    "ClusterObject",
    "ContainerImage",
    "LabelSelector",
    "MalformedObjectError",
    "Namespace",
    "Node",
    "NodeCondition",
    "NodeSelectorTerm",
    "OwnerRef",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodAffinityTerm",
    "PodCondition",
    "PodDisruptionBudget",
    "PodRequests",
    "PodShape",
    "PodSpec",
    "PreferredSchedulingTerm",
    "QuantityError",
    "ReplicaSet",
    "ReplicationController",
    "Requirement",
    "Resource",
    "Service",
    "StatefulSet",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeAttachment",
    "WeightedPodAffinityTerm",
    "compare_resource_versions",
    "parse_quantity",
    "selector_from_labels",
    "tolerated",
]
