"""NodeResourcesBalancedAllocation: how much more evenly the node's resources are used with the pod than without."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schedcache.config.plugin_args import NodeResourcesBalancedAllocationArgs
from schedcache.framework import MAX_NODE_SCORE, SKIP, Amounts, CycleState, Handle, Locality, RowView, Scores, Status
from schedcache.model import Pod
from schedcache.plugins.resources.scores import ResourceUse, asked_for, bit_type, uses

Floats = npt.NDArray[np.float64]
_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation:
    """Scores 50 to 100, about 75 where the balance stays; skipped for pods that ask for none of the resources."""

    name = "NodeResourcesBalancedAllocation"
    score_locality = Locality.ROW

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, _handle: Handle) -> None:
        self._resources = (args or NodeResourcesBalancedAllocationArgs()).resources

    def pre_score(self, _state: CycleState, pod: Pod, _view: RowView) -> Status | None:
        return None if self._asks(pod) else SKIP

    def score(self, _state: CycleState, pod: Pod, view: RowView) -> Scores:
        """In a profile without this plugin's PreScore the pods that it would skip come here, and score 0."""
        if not self._asks(pod):
            return np.zeros(len(view), np.int64)
        found = uses(self._resources, pod, view, implied=False)
        after = _balance(found, [use.requested for use in found], len(view))
        before = _balance(found, [use.allocated for use in found], len(view))
        return _HALF + (_HALF + after - before) // 2

    def _asks(self, pod: Pod) -> bool:
        return any(asked_for(resource.name, pod, implied=False) for resource in self._resources)


def _balance(found: Sequence[ResourceUse], used: Sequence[Amounts], size: int) -> Scores:
    """100 for equal shares, less the standard deviation of the shares that the row has."""
    if all(use.everywhere for use in found):
        shares = [np.minimum(u / use.allocatable, 1.0) for u, use in zip(used, found, strict=True)]
        return _scores(_deviation(shares, size))
    # Rows are grouped by which resources they have, so that each group is computed as a whole.
    result = np.zeros(size, np.int64)
    kind = bit_type(len(found))
    groups = np.zeros(size, kind)
    for i, use in enumerate(found):
        groups |= (use.allocatable != 0).astype(kind) << i
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(groups == group)
        members = [i for i in range(len(used)) if group >> i & 1]
        shares = [np.minimum(used[i][rows] / found[i].allocatable[rows], 1.0) for i in members]
        result[rows] = _scores(_deviation(shares, len(rows)))
    return result


def _deviation(shares: Sequence[Floats], size: int) -> Floats:
    """The order of the additions is kube-scheduler's, and so is every last bit."""
    if len(shares) < 2:
        return np.zeros(size)
    if len(shares) == 2:
        return np.abs((shares[0] - shares[1]) / 2)
    mean = sum(shares, np.zeros(size)) / len(shares)
    squares = sum(((share - mean) * (share - mean) for share in shares), np.zeros(size))
    return np.sqrt(squares / len(shares))


def _scores(deviation: Floats) -> Scores:
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
