"""DefaultPreemption: room for a pod of higher priority, at the lowest price (kube-scheduler 1.37)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from schedcache.config.plugin_args import DefaultPreemptionArgs
from schedcache.framework import (
    Code,
    CycleState,
    Diagnosis,
    EventHint,
    Handle,
    NodeStatuses,
    PluginError,
    PreemptionAdvice,
    Status,
    Verdicts,
    unresolvable,
    unschedulable,
)
from schedcache.model import Pod
from schedcache.plugins.preemption.budgets import KIND, Budgets
from schedcache.plugins.preemption.costs import Costs, costs_of
from schedcache.plugins.preemption.dry_run import Hopeless
from schedcache.plugins.preemption.kept_dry_runs import KeptDryRuns
from schedcache.ports import PreemptionExecutor, Victims

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

NEVER = "Never"
"""The preemptionPolicy of pods for which nobody is evicted."""
_NOT_HELPFUL = unresolvable("Preemption is not helpful for scheduling")
_WAITING = unresolvable("waiting for the preemption for this pod to be finished")
_PREFIX = "preemption: "


class DefaultPreemption:
    """Evicts pods of lower priority from one node, nominates the pod to it, and holds it back meanwhile.

    Every node that evictions could help is tried, always: `minCandidateNodesPercentage` and `minCandidateNodesAbsolute` say
    how many must be at least. Where the handle has nothing to evict with, nothing is preempted.
    """

    name = "DefaultPreemption"
    kinds = (KIND,)

    def __init__(self, _args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        self._handle = handle
        self._dry_runs = KeptDryRuns(Budgets(handle.cluster_objects))

    def pre_enqueue(self, pod: Pod) -> Status | None:
        executor = self._handle.preemption
        return _WAITING if executor is not None and executor.is_running(pod.uid) else None

    @staticmethod
    def events_to_register() -> list[EventHint]:
        """None: only the executor can tell when the gate of `pre_enqueue` opens, and whose."""
        return []

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: "Snapshot", rejected: NodeStatuses
    ) -> tuple[str | None, Status]:
        advice, since = state.get(PreemptionAdvice), self._handle.clock()
        if advice is not None:
            since = advice.since = since if advice.since is None else advice.since
        node_name, status = self._preempt(state, pod, snapshot, rejected)
        if advice is None or not advice.is_wanted:
            self._handle.metrics.preemption_evaluated(status.code.label, self._handle.clock() - since)
        told = (_PREFIX + status.message,) if status.message else ()
        return node_name, Status(status.code, told)

    def _preempt(
        self, state: CycleState, pod: Pod, snapshot: "Snapshot", rejected: NodeStatuses
    ) -> tuple[str | None, Status]:
        executor, filters = self._handle.preemption, self._handle.filters
        if executor is None or filters is None:
            return None, unschedulable()
        advice = state.get(PreemptionAdvice)
        if advice is not None and advice.fault:
            return None, Status(Code.ERROR, (advice.fault,))
        if advice is not None and advice.left is not None:
            return self._evict_one(executor, pod, advice.left)
        executor.attempted()
        obstacle = _ineligible(pod, snapshot, rejected)
        if obstacle:
            return None, unschedulable(obstacle)
        rows = rejected.rows_with(Code.UNSCHEDULABLE)
        try:
            candidates, hopeless = self._dry_runs.run(filters, state, pod, snapshot, rows)
        except PluginError as error:
            return None, Status(Code.ERROR, (str(error),))
        if candidates is None:
            fault = _fault(hopeless)
            return (None, fault) if fault is not None else ("", unschedulable(_message(snapshot, hopeless)))
        rows, node_names = candidates.rows.tolist(), snapshot.columns.names
        if advice is not None:
            violations = candidates.costs.violations.tolist()
            advice.candidates = {
                node_names[row]: Victims(candidates.pods(position), violations[position])
                for position, row in enumerate(rows)
            }
            return None, unschedulable()
        position = self._choose(candidates.costs, lambda: [node_names[row] for row in rows])
        victims = Victims(candidates.pods(position), int(candidates.costs.violations[position]))
        return self._evict(executor, pod, node_names[rows[position]], victims)

    def _evict_one(
        self, executor: PreemptionExecutor, pod: Pod, left: Mapping[str, Victims]
    ) -> tuple[str | None, Status]:
        """One of the candidates that extenders have left."""
        if not left:
            return None, unschedulable("no candidate node for preemption")
        names = list(left)
        name = names[self._choose(costs_of(left.values()), lambda: names)]
        return self._evict(executor, pod, name, left[name])

    def _evict(self, executor: PreemptionExecutor, pod: Pod, node_name: str, victims: Victims) -> tuple[str, Status]:
        if victims.pdb_violations > 0:
            self._handle.metrics.preemption_violations(victims.pdb_violations)
        executor.preempt(pod, node_name, victims.pods)
        text = f"found a potential placement for pod on node {node_name}, preempting {len(victims.pods)} victims"
        return node_name, Status(Code.SUCCESS, (text,))

    def _choose(self, costs: Costs, names: Callable[[], Sequence[str]]) -> int:
        best: list[int] = costs.best().tolist()
        if self._handle.chance is not None:
            return self._handle.chance.choice(best)
        return min(best, key=names().__getitem__)


def _ineligible(pod: Pod, snapshot: "Snapshot", rejected: NodeStatuses) -> str:
    """Why the pod may not preempt now, "" where it may (PodEligibleToPreemptOthers)."""
    if pod.spec.preemption_policy == NEVER:
        return "not eligible due to preemptionPolicy=Never."
    info = snapshot.node_info_map.get(pod.nominated_node_name) if pod.nominated_node_name else None
    if info is None:
        return ""
    status = rejected.get(info.name)
    if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    if any(other.priority < pod.priority and _terminates_by_preemption(other) for other in info.pods):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _terminates_by_preemption(pod: Pod) -> bool:
    condition = pod.condition("DisruptionTarget") if pod.terminating else None
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"


def _message(snapshot: "Snapshot", hopeless: Hopeless) -> str:
    order = snapshot.columns.order
    by_row = np.zeros(len(snapshot.columns.generation), np.intp)
    by_row[hopeless.rows] = hopeless.ids
    # What was not tried comes last in the table.
    ids = by_row[order]
    ids[ids == 0] = len(hopeless.table)
    statuses = NodeStatuses(snapshot, order, Verdicts(ids, [*hopeless.table, _NOT_HELPFUL]))
    return Diagnosis(len(order), statuses).message()


def _fault(hopeless: Hopeless) -> Status | None:
    """The errors among what the filters said, as kube-scheduler puts several together."""
    found = {hopeless.table[i] for i in np.unique(hopeless.ids).tolist()}
    errors = sorted({status.message for status in found if status is not None and not status.rejected})
    if not errors:
        return None
    return Status(Code.ERROR, (errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]",))
