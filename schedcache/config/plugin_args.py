"""Arguments of the default plugins, with upstream's defaults (kube-scheduler 1.37)."""

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from schedcache.config.duration import Duration
from schedcache.config.v1 import Int32, Int64
from schedcache.model import wire


class _Part(msgspec.Struct, rename="camel", frozen=True):
    """Base of arguments and their parts."""


class Args(_Part, kw_only=True, frozen=True):
    """Base of all arguments; their `apiVersion` and `kind` follow from the plugin's name."""


class ResourceSpec(_Part, frozen=True):
    """A resource and its weight; a weight of 0 counts as 1."""

    name: str = ""
    weight: Int64 = 1

    def __post_init__(self) -> None:
        if not self.weight:
            force_setattr(self, "weight", 1)


CPU_AND_MEMORY = (ResourceSpec("cpu"), ResourceSpec("memory"))


class UtilizationShapePoint(_Part, frozen=True):
    """A point of a piecewise linear function: utilization in percent, score 0..10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(_Part, frozen=True):
    """The function of the strategy RequestedToCapacityRatio."""

    shape: list[UtilizationShapePoint] = []


class ScoringStrategy(_Part, frozen=True):
    """How NodeResourcesFit ranks nodes. A strategy must name its type; without resources, it uses cpu and memory."""

    type: str = ""
    resources: list[ResourceSpec] = []
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        if not self.resources:
            force_setattr(self, "resources", list(CPU_AND_MEMORY))


class NodeResourcesFitArgs(Args, frozen=True):
    """Extended resources that the filter ignores, and the scoring strategy."""

    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = ScoringStrategy("LeastAllocated")


class NodeResourcesBalancedAllocationArgs(Args, frozen=True):
    """The resources to keep in balance; without any, cpu and memory."""

    resources: list[ResourceSpec] = []

    def __post_init__(self) -> None:
        if not self.resources:
            force_setattr(self, "resources", list(CPU_AND_MEMORY))


class NodeAffinityArgs(Args, frozen=True):
    """Node affinity added to every pod of the profile."""

    added_affinity: wire.NodeAffinityWire | None = None


class PodTopologySpreadArgs(Args, frozen=True):
    """Constraints for pods that have none: the system's own, or the list given."""

    default_constraints: list[wire.TopologySpreadConstraintWire] = []
    defaulting_type: str = "System"

    def __post_init__(self) -> None:
        if not self.defaulting_type:
            force_setattr(self, "defaulting_type", "System")


class InterPodAffinityArgs(Args, frozen=True):
    """`hard_pod_affinity_weight`: what an existing pod's required affinity is worth when scoring."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class VolumeBindingArgs(Args, frozen=True):
    """Seconds to wait for volumes to be bound, and the function that turns used capacity into a score."""

    bind_timeout_seconds: Int64 = 600
    shape: list[UtilizationShapePoint] = []

    def __post_init__(self) -> None:
        if not self.shape:
            force_setattr(self, "shape", [UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)])


class DefaultPreemptionArgs(Args, frozen=True):
    """How many candidate nodes to try, as a percentage and as a number."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(Args, frozen=True):
    """How long one filter call may take, 0 for no limit, and how long to wait for devices to be ready."""

    filter_timeout: Duration = Duration.parse("10s")
    binding_timeout: Duration = Duration.parse("10m")


ARGS: dict[str, type[Args]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Plugin name -> type of its arguments; a plugin that is missing here takes none, or is not one of kube-scheduler's."""


def default_args(plugin: str) -> Any:
    """The default arguments of a plugin; None if it takes none."""
    args_type = ARGS.get(plugin)
    return args_type() if args_type else None
