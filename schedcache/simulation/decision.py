"""One pod against one snapshot, with everything that can be said about the decision.

Nothing is cut short: it has the verdicts of all filters, and the scores of every feasible node, even of a single one, or
if the pod has a nominated node.
"""

from typing import Any

from schedcache.cache import Snapshot
from schedcache.framework import CycleState, Diagnosis, Evaluation, Framework, PluginError, Scores, Status
from schedcache.framework.plugin_calls import checked_status, failed, rejection
from schedcache.framework.runtime import Nominated
from schedcache.model import Pod
from schedcache.simulation.preemption import Preemption, RecordedPreemption, make_room


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
        self.preemption: Preemption | None = None
        """What PostFilter made of it, where it was asked."""
        self.error = False
        """The attempt ended in an error; see `message`."""
        self.aside = ""
        """An error in what the scheduler would not have asked for; the decision stands."""

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
            "preemption": None if self.preemption is None else self.preemption.want(),
        }

    def _scores_of(self, node: str) -> dict[str, Any]:
        plugins = {plugin: scores[node] for plugin, scores in self.by_plugin.items()}
        return {"plugins": plugins, "total": self.totals[node]}


def decide(
    framework: Framework, pod: Pod, snapshot: Snapshot, nominated: Nominated, evicted: RecordedPreemption
) -> Decision:
    """Try the pod; every outcome is a Decision. `evicted` is what the framework's handle preempts with."""
    decision = Decision()
    try:
        decision.gated = gate(framework, pod)
    except PluginError as error:
        decision.message, decision.error = str(error), True
        return decision
    if decision.gated is None:
        found = framework.evaluate(pod, snapshot, nominated, exhaustive=True)
        _enter(decision, found)
        diagnosis = decision.diagnosis
        if not found.fits and found.error is None and diagnosis is not None and framework.points["post_filter"]:
            decision.preemption = make_room(framework, pod, snapshot, found.state, diagnosis.statuses, evicted)
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


def _enter(decision: Decision, found: Evaluation) -> None:
    """Copy the findings by node name, so that they outlast the snapshot."""
    decision.state = found.state
    decision.error = found.error is not None
    decision.aside = "" if found.aside is None else str(found.aside)
    decision.diagnosis = found.diagnosis()
    if decision.diagnosis is not None:
        decision.diagnosis.statuses.materialize()
    if not found.fits:
        decision.message = found.failure().message()
    if found.feasible is not None:
        decision.feasible = found.feasible.names()
    if found.scores is not None:
        decision.totals = _by_name(decision.feasible, found.scores.total)
        decision.by_plugin = {
            plugin: _by_name(decision.feasible, scores) for plugin, scores in found.scores.by_plugin().items()
        }
    decision.selected = sorted(found.choices())


def _by_name(names: list[str], scores: Scores) -> dict[str, int]:
    return dict(zip(names, scores.tolist(), strict=True))


def _status(status: Status) -> dict[str, Any]:
    return {"plugin": status.plugin, "code": status.code.label, "reasons": sorted(status.reasons)}
