"""A framework that reports how long each extension point took, and in a tenth of the attempts each plugin.

kube-scheduler's framework_extension_point_duration_seconds and plugin_execution_duration_seconds (1.37).
"""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from schedcache.framework import SKIP, Code, CycleState, Framework, RowView, Status
from schedcache.framework.diagnosis import NodeStatuses
from schedcache.framework.filtering import Feasibility
from schedcache.framework.plugin_timer import PluginTimer
from schedcache.framework.pre_filtering import PreFilterOutcome
from schedcache.framework.runtime import Nominated
from schedcache.framework.scoring import ScoreTable
from schedcache.model import Pod
from schedcache.ports import Metrics
from schedcache.scheduling.node_errors import NodeErrors

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

SAMPLED = 0.1
"""The share of attempts, and of pods on their way into the queue, whose plugins are timed (pluginMetricsSamplePercent)."""
_ERROR = Code.ERROR.label


class MeasuredFramework(Framework):
    """A point's time is that of all its plugins together. A point without plugins is left out.

    Filter is one measurement for all nodes; so is kube-scheduler's, over its parallel workers.
    """

    def __init__(self, *args: Any, metrics: Metrics, clock: Callable[[], float]) -> None:
        super().__init__(*args)
        self._metrics = metrics
        self._clock = clock
        self._node_errors = NodeErrors(metrics)
        self._timer = PluginTimer(clock, metrics.plugin_execution)
        # At random and not every tenth, so that periodic attempts are sampled too. The seed does not matter.
        self._chance = random.Random(0)

    def sample(self) -> PluginTimer | None:
        return self._timer if self._chance.random() < SAMPLED else None

    def tell_errors(self, found: Feasibility) -> None:
        if found.faulty:
            self._node_errors.tell(found.errors())

    def _tell(self, point: str, started: float, status: str) -> None:
        self._metrics.extension_point(point, status, self.scheduler_name, self._clock() - started)

    def run_pre_filter(self, state: CycleState, pod: Pod, snapshot: "Snapshot") -> PreFilterOutcome:
        started, status = self._clock(), _ERROR
        try:
            outcome = super().run_pre_filter(state, pod, snapshot)
            status = _label(outcome.status)
            return outcome
        finally:
            self._tell("PreFilter", started, status)

    def run_filters(self, state: CycleState, pod: Pod, view: RowView, nominated: Nominated) -> Feasibility:
        started, status = self._clock(), _ERROR
        try:
            found = super().run_filters(state, pod, view, nominated)
            rejected = Code.ERROR if found.faulty else Code.UNSCHEDULABLE
            status = (Code.SUCCESS if len(found.feasible) else rejected).label
            return found
        finally:
            self._tell("Filter", started, status)

    def run_pre_score(self, state: CycleState, pod: Pod, view: RowView) -> None:
        if not self.points["pre_score"]:
            return
        started, status = self._clock(), _ERROR
        try:
            super().run_pre_score(state, pod, view)
            status = Code.SUCCESS.label
        finally:
            self._tell("PreScore", started, status)

    def run_score(self, state: CycleState, pod: Pod, view: RowView, *, keep_raw: bool = False) -> ScoreTable:
        started, status = self._clock(), _ERROR
        try:
            scores = super().run_score(state, pod, view, keep_raw=keep_raw)
            status = Code.SUCCESS.label
            return scores
        finally:
            self._tell("Score", started, status)

    def run_post_filter(
        self, state: CycleState, pod: Pod, snapshot: "Snapshot", rejected: NodeStatuses
    ) -> tuple[str | None, Status]:
        started = self._clock()
        nominated, status = super().run_post_filter(state, pod, snapshot, rejected)
        self._tell("PostFilter", started, status.code.label)
        return nominated, status

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.points["reserve"]:
            return None
        started = self._clock()
        status = super().run_reserve(state, pod, node_name)
        self._tell("Reserve", started, _label(status))
        return status

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.points["permit"]:
            return None
        started = self._clock()
        status = super().run_permit(state, pod, node_name)
        self._tell("Permit", started, _label(status))
        return status

    def run_pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.points["pre_bind"]:
            return SKIP
        started = self._clock()
        status = super().run_pre_bind_pre_flight(state, pod, node_name)
        self._tell("PreBindPreFlight", started, _label(status))
        return status

    async def run_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        started, label = self._clock(), _ERROR
        try:
            status = await super().run_pre_bind(state, pod, node_name)
            label = _label(status)
            return status
        finally:
            self._tell("PreBind", started, label)

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        started, label = self._clock(), _ERROR
        try:
            status = await super().run_bind(state, pod, node_name)
            label = _label(status)
            return status
        finally:
            self._tell("Bind", started, label)

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self.points["post_bind"]:
            return None
        started = self._clock()
        fault = super().run_post_bind(state, pod, node_name)
        self._tell("PostBind", started, _label(fault))
        return fault


def _label(status: Status | None) -> str:
    return Code.SUCCESS.label if status is None else status.code.label
