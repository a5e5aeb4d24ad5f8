"""One pod against one snapshot, with everything that can be told about the decision.

Nothing is cut short: all filters' verdicts, and the scores of every feasible node, a single one and those beside the
pod's own nominated node included.
"""

from typing import Any

from schedcache.cache import Snapshot
from schedcache.framework import CycleState, Diagnosis, Framework, PluginError, Scores, Status
from schedcache.framework.diagnosis import NO_NODES
from schedcache.framework.plugin_calls import checked_status, failed, rejection
from schedcache.framework.pre_filtering import PreFilterOutcome
from schedcache.framework.runtime import Feasibility, Nominated
from schedcache.model import Pod


class Decision:
    """The outcome for a pod: `feasible` and `scores` by node name, `diagnosis` where filters ran or PreFilter rejected."""

    def __init__(self) -> None:
        self.feasible: list[str] = []
        self.totals: dict[str, int] = {}
        self.by_plugin: dict[str, dict[str, int]] = {}
        """Plugin -> node -> final weighted score."""
        self.selected: list[str] = []
        self.message = ""
        self.diagnosis: Diagnosis | None = None
        self.gated: Status | None = None
        self.state = CycleState()
        self.error = False
        """The attempt ended in an error; `message` tells which."""

    @property
    def pre_filter_status(self) -> Status | None:
        return self.diagnosis.pre_filter_status if self.diagnosis is not None else None

    def want(self) -> dict[str, Any]:
        """In the form of `schedcache.simulation.simulate`."""
        stopped = self.gated or self.pre_filter_status
        stage = "PreEnqueue" if self.gated else "PreFilter"
        rejected = {} if stopped or self.diagnosis is None else dict(self.diagnosis.statuses)
        return {
            "feasible": sorted(self.feasible),
            "rejected": {name: _status(status) for name, status in sorted(rejected.items())},
            "preFilterRejected": None if stopped is None else {**_status(stopped), "stage": stage},
            "scores": {name: self._scores_of(name) for name in sorted(self.totals)},
            "selected": self.selected,
            "message": self.message,
            "preemption": None,
        }

    def _scores_of(self, node: str) -> dict[str, Any]:
        plugins = {plugin: scores[node] for plugin, scores in self.by_plugin.items()}
        return {"plugins": plugins, "total": self.totals[node]}


def decide(framework: Framework, pod: Pod, snapshot: Snapshot, nominated: Nominated) -> Decision:
    """Try the pod; every outcome is a Decision."""
    decision = Decision()
    try:
        decision.gated = gate(framework, pod)
        if decision.gated is not None:
            return decision
        if not snapshot.num_nodes:
            decision.message = NO_NODES
            return decision
        _attempt(decision, framework, pod, snapshot, nominated)
    except PluginError as error:
        decision.message, decision.error = str(error), True
    return decision


def gate(framework: Framework, pod: Pod) -> Status | None:
    """What PreEnqueue holds the pod back with. Raises PluginError."""
    for plugin in framework.points["pre_enqueue"]:
        try:
            status = rejection(checked_status(plugin.pre_enqueue(pod)))
        except Exception as error:
            raise failed(pod, plugin.name, "pre_enqueue", error) from error
        if status is not None:
            return Status(status.code, status.reasons, plugin.name)
    return None


def _attempt(decision: Decision, framework: Framework, pod: Pod, snapshot: Snapshot, nominated: Nominated) -> None:
    state = decision.state
    pre_filter = framework.run_pre_filter(state, pod, snapshot)
    found: Feasibility | None = None
    if pre_filter.status is None:
        found = framework.run_filters(state, pod, framework.candidates(snapshot, pre_filter), nominated)
    decision.diagnosis = framework.diagnose(snapshot, pre_filter, found)
    decision.diagnosis.statuses.materialize()
    if found is None:
        decision.message = decision.diagnosis.message()
        return
    own = _own_nominated(framework, state, pod, snapshot, nominated)
    feasible = found.view.take(found.feasible)
    decision.feasible = feasible.names()
    if not own:
        found.check(pod)
    if not decision.feasible:
        decision.message = decision.diagnosis.message()
        return
    table = framework.run_scores(state, pod, feasible)
    decision.totals = _by_name(decision.feasible, table.total)
    decision.by_plugin = {plugin: _by_name(decision.feasible, scores) for plugin, scores in table.by_plugin().items()}
    best = [decision.feasible[i] for i in table.best()]
    decision.selected = [pod.nominated_node_name] if own else sorted(best)


def _own_nominated(framework: Framework, state: CycleState, pod: Pod, snapshot: Snapshot, nominated: Nominated) -> bool:
    """Whether the node that the pod was promised takes it."""
    if pod.nominated_node_name not in snapshot.node_info_map:
        return False
    only = PreFilterOutcome(node_names=frozenset((pod.nominated_node_name,)))
    found = framework.run_filters(state, pod, framework.candidates(snapshot, only), nominated)
    return bool(len(found.feasible))


def _by_name(names: list[str], scores: Scores) -> dict[str, int]:
    return dict(zip(names, scores.tolist(), strict=True))


def _status(status: Status) -> dict[str, Any]:
    return {"plugin": status.plugin, "code": status.code.label, "reasons": sorted(status.reasons)}
