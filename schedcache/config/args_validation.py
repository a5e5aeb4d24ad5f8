"""kube-scheduler 1.37's rules for plugin arguments (apis/config/validation/validation_pluginargs.go)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from schedcache.config.duration import Duration
from schedcache.config.plugin_args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from schedcache.config.problems import Path, Problem
from schedcache.model import wire
from schedcache.model.selectors import node_selector_term

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def _default_preemption(args: DefaultPreemptionArgs, at: Path) -> Iterator[Problem]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= percentage <= 100:
        yield Problem((*at, "minCandidateNodesPercentage"), f"{percentage} is not in the range 0 to 100")
    if absolute < 0:
        yield Problem((*at, "minCandidateNodesAbsolute"), f"{absolute} is negative")
    if percentage == 0 and absolute == 0:
        yield Problem(
            (*at, "minCandidateNodesPercentage"), "cannot be zero at the same time as minCandidateNodesAbsolute"
        )


def _dynamic_resources(args: DynamicResourcesArgs, at: Path) -> Iterator[Problem]:
    if args.filter_timeout < Duration():
        yield Problem((*at, "filterTimeout"), f"{args.filter_timeout} is negative")
    if args.binding_timeout < Duration.parse("1s"):
        yield Problem((*at, "bindingTimeout"), f"{args.binding_timeout} is less than 1s")


def _inter_pod_affinity(args: InterPodAffinityArgs, at: Path) -> Iterator[Problem]:
    if not 0 <= args.hard_pod_affinity_weight <= 100:
        yield Problem((*at, "hardPodAffinityWeight"), f"{args.hard_pod_affinity_weight} is not in the range 0 to 100")


def _node_affinity(args: NodeAffinityArgs, at: Path) -> Iterator[Problem]:
    added = args.added_affinity
    if added is None:
        return
    where = (*at, "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for i, term in enumerate((added.required.node_selector_terms if added.required is not None else None) or ()):
        yield from _selector_term(term, (*where, i))
    where = (*at, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    for i, preferred in enumerate(added.preferred or ()):
        # A term without weight counts for nothing, and is not read at all.
        if abs(preferred.weight) >= 2**31:
            yield Problem((*where, i, "weight"), f"{preferred.weight} is not a 32-bit number")
        if preferred.weight:
            yield from _selector_term(preferred.preference, (*where, i, "preference"))


def _selector_term(term: wire.NodeSelectorTermWire | None, at: Path) -> Iterator[Problem]:
    for i, found in enumerate((term.match_expressions if term is not None else None) or ()):
        where = (*at, "matchExpressions", i)
        if not is_qualified_name(found.key or ""):
            yield Problem((*where, "key"), f"{found.key or ''!r} is not a label key")
        problem = node_selector_term(wire.NodeSelectorTermWire(match_expressions=[found])).problem()
        if problem:
            yield Problem(where, problem)
    for i, found in enumerate((term.match_fields if term is not None else None) or ()):
        problem = node_selector_term(wire.NodeSelectorTermWire(match_fields=[found])).problem()
        if problem:
            yield Problem((*at, "matchFields", i), problem)


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, at: Path) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        if resource.name in seen:
            yield Problem((*at, "resources", i, "name"), f"{resource.name!r} is listed twice")
        seen.add(resource.name)
        if resource.weight != 1:
            yield Problem((*at, "resources", i, "weight"), f"{resource.weight} is not 1, the only weight here")


def _resources_fit(args: NodeResourcesFitArgs, at: Path) -> Iterator[Problem]:
    for i, name in enumerate(args.ignored_resources):
        if not is_qualified_name(name):
            yield Problem((*at, "ignoredResources", i), f"{name!r} is not a resource name")
    for i, group in enumerate(args.ignored_resource_groups):
        if "/" in group or not is_qualified_name(group):
            yield Problem(
                (*at, "ignoredResourceGroups", i), f"{group!r} is not the part of a resource name before the slash"
            )
    yield from _scoring_strategy(args.scoring_strategy, (*at, "scoringStrategy"))


def _scoring_strategy(strategy: ScoringStrategy, at: Path) -> Iterator[Problem]:
    if strategy.type not in _STRATEGIES:
        yield Problem((*at, "type"), f"{strategy.type!r} is not one of {', '.join(_STRATEGIES)}")
    yield from _weights(strategy.resources, (*at, "resources"))
    ratio = strategy.requested_to_capacity_ratio
    field = (*at, "requestedToCapacityRatio")
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield Problem(field, "must be given when type is RequestedToCapacityRatio")
        else:
            yield from _shape(ratio.shape, (*field, "shape"))
    elif ratio is not None:
        yield Problem(field, "can only be given when type is RequestedToCapacityRatio")


def _weights(resources: Sequence[ResourceSpec], at: Path) -> Iterator[Problem]:
    for i, resource in enumerate(resources):
        if not 0 < resource.weight <= 100:
            yield Problem((*at, i, "weight"), f"{resource.weight} is not in the range 1 to 100")


def _shape(shape: Sequence[UtilizationShapePoint], at: Path) -> Iterator[Problem]:
    if not shape:
        yield Problem(at, "needs at least one point")
    for i, point in enumerate(shape):
        if i and shape[i - 1].utilization >= point.utilization:
            yield Problem((*at, i, "utilization"), "points must be sorted by utilization, in increasing order")
        if not 0 <= point.utilization <= 100:
            yield Problem((*at, i, "utilization"), f"{point.utilization} is not in the range 0 to 100")
        if not 0 <= point.score <= 10:
            yield Problem((*at, i, "score"), f"{point.score} is not in the range 0 to 10")


def _topology_spread(args: PodTopologySpreadArgs, at: Path) -> Iterator[Problem]:
    if args.defaulting_type not in ("System", "List"):
        yield Problem((*at, "defaultingType"), f"{args.defaulting_type!r} is not one of System, List")
    if args.defaulting_type == "System" and args.default_constraints:
        yield Problem((*at, "defaultingType"), "must be List when there are defaultConstraints")
    seen: set[tuple[str | None, str | None]] = set()
    for i, constraint in enumerate(args.default_constraints):
        where = (*at, "defaultConstraints", i)
        if not 0 < constraint.max_skew < 2**31:
            yield Problem((*where, "maxSkew"), f"{constraint.max_skew} is not in the range 1 to {2**31 - 1}")
        if not is_qualified_name(constraint.topology_key or ""):
            yield Problem((*where, "topologyKey"), f"{constraint.topology_key or ''!r} is not a label key")
        if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            text = f"{constraint.when_unsatisfiable or ''!r} is not one of DoNotSchedule, ScheduleAnyway"
            yield Problem((*where, "whenUnsatisfiable"), text)
        if constraint.label_selector is not None:
            yield Problem(
                (*where, "labelSelector"), "cannot be given: it is derived from each pod's services and owner"
            )
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            yield Problem(where, "another constraint has the same topologyKey and whenUnsatisfiable")
        seen.add(key)


def _volume_binding(args: VolumeBindingArgs, at: Path) -> Iterator[Problem]:
    if args.bind_timeout_seconds < 0:
        yield Problem((*at, "bindTimeoutSeconds"), f"{args.bind_timeout_seconds} is negative")
    yield from _shape(args.shape, (*at, "shape"))


def is_qualified_name(text: str) -> bool:
    """Whether it has the form of label keys and resource names: a name, or prefix/name with a DNS name as the prefix."""
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return False
    return bool(_NAME.fullmatch(name))


VALIDATORS: Mapping[str, Callable[[Any, Path], Iterator[Problem]]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "NodeResourcesFit": _resources_fit,
    "PodTopologySpread": _topology_spread,
    "VolumeBinding": _volume_binding,
}
