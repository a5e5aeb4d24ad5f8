"""Arguments of the default plugins, with upstream's defaults (kube-scheduler 1.37)."""

from typing import Any

import msgspec

from schedcache.model import wire


class Args(msgspec.Struct, rename="camel", kw_only=True):
    """Base of all arguments; `apiVersion` and `kind` may be written and say nothing new."""

    api_version: str | None = None
    kind: str | None = None


class ResourceSpec(msgspec.Struct, rename="camel"):
    """A resource and its weight; a weight of 0 counts as 1."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        self.weight = self.weight or 1


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec("cpu"), ResourceSpec("memory")]


class UtilizationShapePoint(msgspec.Struct, rename="camel"):
    """A point of a broken line: utilization in percent, score 0..10."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatioParam(msgspec.Struct, rename="camel"):
    """The broken line of the strategy of that name."""

    shape: list[UtilizationShapePoint] = []


class ScoringStrategy(msgspec.Struct, rename="camel"):
    """How NodeResourcesFit ranks nodes."""

    type: str = "LeastAllocated"
    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()


class NodeResourcesFitArgs(Args):
    """Extended resources that the filter does not look at, and the scoring strategy."""

    ignored_resources: list[str] = []
    ignored_resource_groups: list[str] = []
    scoring_strategy: ScoringStrategy = msgspec.field(default_factory=ScoringStrategy)


class NodeResourcesBalancedAllocationArgs(Args):
    """The resources to keep in balance."""

    resources: list[ResourceSpec] = msgspec.field(default_factory=_cpu_and_memory)

    def __post_init__(self) -> None:
        self.resources = self.resources or _cpu_and_memory()


class NodeAffinityArgs(Args):
    """Node affinity added to every pod of the profile."""

    added_affinity: wire.NodeAffinityWire | None = None


class PodTopologySpreadArgs(Args):
    """Constraints for pods that have none: the system's own, or the list given."""

    default_constraints: list[wire.TopologySpreadConstraintWire] = []
    defaulting_type: str = "System"


class InterPodAffinityArgs(Args):
    """`hard_pod_affinity_weight`: what an existing pod's required affinity is worth when scoring."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class VolumeBindingArgs(Args):
    """Seconds to wait for volumes to be bound, and the line that turns used capacity into a score."""

    bind_timeout_seconds: int = 600
    shape: list[UtilizationShapePoint] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape = self.shape or [UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0)]


class DefaultPreemptionArgs(Args):
    """How many candidate nodes to try, as a share of all and as a number."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class DynamicResourcesArgs(Args):
    """Go durations, as texts."""

    filter_timeout: str = "10s"
    binding_timeout: str = "600s"


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
    """The arguments of a plugin that none were given for: None where it takes none."""
    args_type = ARGS.get(plugin)
    return args_type() if args_type else None
