"""NodeResourcesFit: room for the pod's requests, and how full the node would be."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from schedcache.config.plugin_args import NodeResourcesFitArgs, ScoringStrategy
from schedcache.framework import (
    Code,
    CycleState,
    EventHint,
    Handle,
    Locality,
    RowView,
    Scores,
    Status,
    Verdicts,
    failing,
    passing,
)
from schedcache.model import CPU, EPHEMERAL_STORAGE, MEMORY, Node, Pod, PodSpec, Resource
from schedcache.model.resources import is_extended_resource
from schedcache.plugins.resources.scores import (
    ResourceUse,
    bit_type,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
    uses,
)
from schedcache.plugins.resources.shape_score import broken_line

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_STATE_KEY = "PreFilterNodeResourcesFit"
_TOO_MANY_PODS = "Too many pods"
Mask = npt.NDArray[np.bool_]
Strategy = Callable[[Sequence[ResourceUse], int], Scores]


class NodeResourcesFit:
    """Filters by exact requests, scores with 100m and 200Mi for containers that ask for nothing."""

    name = "NodeResourcesFit"
    filter_locality = Locality.ROW
    score_locality = Locality.ROW

    def __init__(self, args: NodeResourcesFitArgs | None, _handle: Handle) -> None:
        args = args or NodeResourcesFitArgs()
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = args.scoring_strategy.resources
        self._strategy = _strategy(args.scoring_strategy)

    @staticmethod
    def pre_filter(state: CycleState, _pod: Pod, _snapshot: "Snapshot") -> Status | None:
        state[_STATE_KEY] = True
        return None

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        """One bit a reason, one more for "not even on an empty node". Without its PreFilter it fails, as upstream's does."""
        if _STATE_KEY not in state:
            return failing(len(view), f'error reading "{_STATE_KEY}" from cycleState: not found')
        checks = [(_TOO_MANY_PODS, view.pod_count() >= view.allowed_pods())]
        beyond = np.zeros(len(view), np.bool_)
        for name, amount in requested(pod.spec):
            if self._ignores(name):
                continue
            capacity = view.allocatable(name)
            lacking = capacity - view.requested(name) < amount
            if np.count_nonzero(lacking):
                checks.append((f"Insufficient {name}", lacking))
                beyond |= lacking & (capacity < amount)
        return _verdicts(checks, beyond)

    @staticmethod
    def explain(_state: CycleState, pod: Pod, view: RowView) -> str:
        """What is missing on the only row of the view, in figures."""
        lacks = []
        for name, amount in requested(pod.spec):
            capacity, used = int(view.allocatable(name)[0]), int(view.requested(name)[0])
            if capacity - used < amount:
                lacks.append(
                    f"{name}: asks {_text(name, amount)}, {_text(name, capacity - used)} of {_text(name, capacity)} free"
                )
        if view.pod_count()[0] >= view.allowed_pods()[0]:
            lacks.append(f"pods: {view.pod_count()[0]} of {view.allowed_pods()[0]}")
        return "; ".join(lacks)

    @staticmethod
    def pre_score(_state: CycleState, _pod: Pod, _view: RowView) -> Status | None:
        """Nothing to prepare; upstream's plugin takes part in PreScore, so profiles may name it there."""
        return None

    def score(self, _state: CycleState, pod: Pod, view: RowView) -> Scores:
        return self._strategy(uses(self._resources, pod, view, implied=True), len(view))

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint("AssignedPod", ("Delete",), _was_placed, by_spec=True),
            EventHint("Node", ("Add", "UpdateNodeAllocatable"), _may_fit_node, by_spec=True, room=_whole_node),
            EventHint("AssignedPod", ("UpdatePodScaleDown",), _frees_what_is_asked, by_spec=True),
            EventHint("TargetPod", ("UpdatePodScaleDown",)),
        ]

    def _ignores(self, name: str) -> bool:
        group = name.partition("/")[0]
        return is_extended_resource(name) and (name in self._ignored or group in self._ignored_groups)


def requested(spec: PodSpec) -> Iterator[tuple[str, int]]:
    """The resources that a pod asks for and how much, zeros left out."""
    return ((name, amount) for name, amount in spec.requests.resource.amounts() if amount > 0)


def _text(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if name in (MEMORY, EPHEMERAL_STORAGE) and amount and amount % 2**20 == 0:
        return f"{amount // 2**20}Mi"
    return str(amount)


def _verdicts(checks: Sequence[tuple[str, Mask]], beyond: Mask) -> Verdicts:
    size = len(beyond)
    if len(checks) == 1 and not np.count_nonzero(checks[0][1]):
        return passing(size)
    kind = bit_type(len(checks) + 1)
    bits = beyond.astype(kind)
    for i, (_, lacking) in enumerate(checks, 1):
        bits |= lacking.astype(kind) << i
    failed = np.flatnonzero(bits)
    codes = np.zeros(size, np.int16)
    kinds, numbers = np.unique(bits[failed], return_inverse=True)
    codes[failed] = numbers + 1
    table: list[Status | None] = [None]
    for found in kinds.tolist():
        reasons = tuple(reason for i, (reason, _) in enumerate(checks, 1) if found >> i & 1)
        table.append(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE if found & 1 else Code.UNSCHEDULABLE, reasons))
    return Verdicts(codes, table)


def _strategy(strategy: ScoringStrategy) -> Strategy:
    match strategy.type:
        case "LeastAllocated":
            return least_allocated
        case "MostAllocated":
            return most_allocated
        case "RequestedToCapacityRatio" if strategy.requested_to_capacity_ratio is not None:
            return requested_to_capacity_ratio(broken_line(strategy.requested_to_capacity_ratio.shape))
    raise ValueError(f"NodeResourcesFit: no scoring strategy {strategy.type!r}")


def _was_placed(_pod: Pod, deleted: Pod, _new: Pod | None) -> bool:
    return bool(deleted.node_name or deleted.nominated_node_name)


def _whole_node(_old: Node | None, new: Node) -> Resource:
    return new.allocatable


def _may_fit_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Whether the pod fits on the node were it empty, and the node has more of something than it had."""
    room = dict(new.allocatable.amounts())
    asked = list(requested(pod.spec))
    if new.allocatable.allowed_pod_number < 1 or any(room.get(name, 0) < amount for name, amount in asked):
        return False
    if old is None or new.allocatable.allowed_pod_number > old.allocatable.allowed_pod_number:
        return True
    before = dict(old.allocatable.amounts())
    return any(room.get(name, 0) > before.get(name, 0) for name, _ in asked)


def _frees_what_is_asked(pod: Pod, old: Pod, new: Pod) -> bool:
    if not new.node_name:
        return False
    before, after = dict(old.requests.resource.amounts()), dict(new.requests.resource.amounts())
    return any(before.get(name, 0) > after.get(name, 0) for name, _ in requested(pod.spec))
