"""Typed, immutable views of the Kubernetes objects that scheduling reads."""

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
from schedcache.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PodRequests, Resource
from schedcache.model.storage import (
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
    "CPU",
    "EPHEMERAL_STORAGE",
    "HOSTNAME_LABEL",
    "MEMORY",
    "NO_EXECUTE",
    "NO_SCHEDULE",
    "PREFER_NO_SCHEDULE",
    "REGION_LABEL",
    "ZONE_LABEL",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
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
    "parse_quantity",
    "selector_from_labels",
    "tolerated",
]
