"""Typed, immutable views of the Kubernetes objects that scheduling reads."""

from schedcache.model.errors import MalformedObjectError
from schedcache.model.labels import (
    LabelSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Requirement,
    selector_from_labels,
)
from schedcache.model.node import ContainerImage, Node, NodeCondition
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
from schedcache.model.resources import PodRequests, Resource
from schedcache.model.taints import Taint, Toleration

__all__ = [
    "ContainerImage",
    "LabelSelector",
    "MalformedObjectError",
    "Node",
    "NodeCondition",
    "NodeSelectorTerm",
    "OwnerRef",
    "Pod",
    "PodAffinityTerm",
    "PodCondition",
    "PodRequests",
    "PodShape",
    "PodSpec",
    "PreferredSchedulingTerm",
    "QuantityError",
    "Requirement",
    "Resource",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "WeightedPodAffinityTerm",
    "parse_quantity",
    "selector_from_labels",
]
