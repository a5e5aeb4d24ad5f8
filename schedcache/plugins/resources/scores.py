"""What the resource scorers share: a resource's columns with the pod on top, and the three strategies (1.37, noderesources).

Every strategy takes one `ResourceUse` for each configured resource and gives a score of 0..100 a row.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from schedcache.config.plugin_args import ResourceSpec
from schedcache.framework import Amounts, RowView, Scores, add_amounts, percent
from schedcache.model import CPU, EPHEMERAL_STORAGE, MEMORY, Pod
from schedcache.model.resources import is_scalar_resource
from schedcache.plugins.resources.shape_score import ScoreByPercent

# More of them do not fit into numpy's integers.
_BITS = 63


class ResourceUse(NamedTuple):
    """One resource on every row. A row with `allocatable` 0 does not have it and leaves it out."""

    allocatable: Amounts
    allocated: Amounts
    """By the pods that are there."""
    asked: int
    weight: int
    everywhere: bool
    """Every row has it."""

    @property
    def requested(self) -> Amounts:
        """With the pod."""
        return add_amounts(self.allocated, self.asked)


def uses(resources: Sequence[ResourceSpec], pod: Pod, view: RowView, *, implied: bool) -> list[ResourceUse]:
    """The resources that count for this pod: of scalar resources only those that it asks for.

    `implied`: containers without a CPU or memory request count as 100m and 200Mi.
    """
    found = []
    for resource in resources:
        name = resource.name
        asked = asked_for(name, pod, implied=implied)
        if not asked and is_scalar_resource(name):
            continue
        counted = view.non_zero_requested if implied and name in (CPU, MEMORY) else view.requested
        capacity = view.allocatable(name)
        everywhere = np.count_nonzero(capacity) == len(capacity)
        found.append(ResourceUse(capacity, counted(name), asked, resource.weight, everywhere))
    return found


def asked_for(name: str, pod: Pod, *, implied: bool) -> int:
    """The pod's request: milli-CPU, bytes or whole units.

    With `implied` neither requests on the pod itself count nor what its status says of a resize: kube-scheduler 1.37 scores
    NodeResourcesFit that way.
    """
    requests = pod.spec.container_requests or pod.spec.requests if implied else pod.requests
    match name:
        case "cpu":
            return requests.non_zero_milli_cpu if implied else requests.resource.milli_cpu
        case "memory":
            return requests.non_zero_memory if implied else requests.resource.memory
        case _ if name == EPHEMERAL_STORAGE:
            return requests.resource.ephemeral_storage
    return requests.resource.scalar.get(name, 0)


def least_allocated(found: Sequence[ResourceUse], size: int) -> Scores:
    """The free share, weighted mean."""

    def score(use: ResourceUse, capacity: Amounts) -> Scores:
        return percent(np.maximum(capacity - use.requested, 0), capacity)

    return _weighted_mean(found, size, score)


def most_allocated(found: Sequence[ResourceUse], size: int) -> Scores:
    """The used share, weighted mean."""

    def score(use: ResourceUse, capacity: Amounts) -> Scores:
        return percent(np.minimum(use.requested, capacity), capacity)

    return _weighted_mean(found, size, score)


def requested_to_capacity_ratio(line: ScoreByPercent) -> Callable[[Sequence[ResourceUse], int], Scores]:
    """The line's score at the used share; resources that score 0 are left out of the mean, which is rounded."""

    def scored(found: Sequence[ResourceUse], size: int) -> Scores:
        total = np.zeros(size, np.int64)
        weights = np.zeros(size, np.int64)
        for use in found:
            capacity = _capacity(use)
            scores = line[percent(np.minimum(use.requested, capacity), capacity)]
            scores = np.where((use.allocatable != 0) & (scores > 0), scores, 0)
            total += scores * use.weight
            weights += np.where(scores > 0, use.weight, 0)
        mean = total / np.maximum(weights, 1)
        # Halves away from zero; nothing here is negative.
        whole = np.floor(mean)
        return (whole + (mean - whole >= 0.5)).astype(np.int64)

    return scored


def bit_type(number: int) -> type[np.int64] | type[object]:
    """For arrays of so many bits; a pod may name hundreds of resources, so these may be more than numpy's integers have."""
    return np.int64 if number <= _BITS else object


def _weighted_mean(found: Sequence[ResourceUse], size: int, score: Callable[[ResourceUse, Amounts], Scores]) -> Scores:
    if found and all(use.everywhere for use in found):
        # Nearly always: every node has every resource, and the weights are the same for all rows.
        mean: Scores = score(found[0], found[0].allocatable) * found[0].weight
        for use in found[1:]:
            mean += score(use, use.allocatable) * use.weight
        mean //= sum(use.weight for use in found)
        return mean
    total, weights = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for use in found:
        has = use.allocatable != 0
        total += np.where(has, score(use, _capacity(use)) * use.weight, 0)
        weights += np.where(has, use.weight, 0)
    return total // np.maximum(weights, 1)


def _capacity(use: ResourceUse) -> Amounts:
    """To divide by: rows without the resource are left out afterwards."""
    return np.where(use.allocatable == 0, 1, use.allocatable)
