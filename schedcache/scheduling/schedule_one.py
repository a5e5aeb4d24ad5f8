"""The scheduling cycle: one pod from the queue, to a node in the cache (kube-scheduler's schedule_one.go, 1.37)."""

import asyncio
import random
from collections.abc import Mapping

import structlog

from schedcache.cache import CacheError, Snapshot
from schedcache.framework import (
    Advice,
    Code,
    FitError,
    Framework,
    NoNodesError,
    PreemptionAdvice,
    ScheduleResult,
    SchedulingFailure,
)
from schedcache.model import Pod
from schedcache.ports import ExtenderError, FencedError
from schedcache.queue import QueuedPodInfo
from schedcache.scheduling.decision import Decision
from schedcache.scheduling.failure import UNSCHEDULABLE, Failure, FailureHandler
from schedcache.scheduling.stand_ins import NO_NODES, NOT_SUPPORTED
from schedcache.scheduling.state import SchedulingState

PODS_AT_ONCE = 4096
"""So many pods may be new to the table that preemption needs, for a decision to look at them itself: some milliseconds' work."""
_PODS_A_TURN = 1024
_MOST_POSTPONEMENTS = 3
_log = structlog.get_logger(__name__)


class SchedulingCycle:
    """Decides where a popped pod goes.

    A decision is synchronous: nothing changes under it, so all of it sees one generation. Extenders are asked before it, and if
    preemption has many pods to look at for the first time, it does so before, too.
    """

    def __init__(
        self,
        state: SchedulingState,
        frameworks: Mapping[str, Framework],
        failures: FailureHandler,
        rng: random.Random,
    ) -> None:
        """`frameworks` by scheduler name; `rng` chooses among nodes of equal score."""
        self._state = state
        self._frameworks = frameworks
        self._failures = failures
        self._rng = rng
        self._snapshot = Snapshot()
        self.postponed = False
        """The last `run` has not decided: it would have taken too long at a stretch. The pod is for `run_postponed`."""

    @property
    def snapshot(self) -> Snapshot:
        """What the last decision was made on."""
        return self._snapshot

    def run(self, info: QueuedPodInfo, *, at_any_price: bool = False) -> Decision | None:
        """Assume the pod on the best node, without asking extenders.

        None: it no longer needs a node, it failed and is in the queue again, or, unless `at_any_price`, it is `postponed`.
        """
        self.postponed = False
        framework, started = self._framework_for(info), self._state.clock()
        if framework is None:
            return None
        try:
            return self._attempt(info, framework, started, may_postpone=not at_any_price)
        except Exception as error:  # noqa: BLE001  one pod that trips over a fault of ours must not stop the others
            self._fail(info, error, started)
            return None

    async def run_postponed(self, info: QueuedPodInfo) -> Decision | None:
        """As `run`, for the pod that it has just postponed. Until this has ended, no other pod may be decided."""
        started = self._state.clock()
        try:
            for number in range(1, _MOST_POSTPONEMENTS + 1):
                await self._look_at_pods()
                if not self._still_waits(info):
                    break
                decision = self.run(info, at_any_price=number == _MOST_POSTPONEMENTS)
                if not self.postponed:
                    return decision
        except asyncio.CancelledError:
            # Paused, it may go on in this process, with this pod among those that wait.
            self._failures.handle(info, Failure.of_error(FencedError("paused before it was decided")), started)
            raise
        except Exception as error:  # noqa: BLE001  as in run
            self._fail(info, error, started)
        return None

    async def run_with_extenders(self, info: QueuedPodInfo) -> Decision | None:
        """As `run`, for a pod in which extenders take part.

        They are asked about the nodes that passed the plugins. Then the pod is decided again, on the cluster as it is by then,
        unless it is gone or has got a node meanwhile.
        """
        framework, started = self._framework_for(info), self._state.clock()
        if framework is None:
            return None
        try:
            return await self._attempt_with_extenders(info, framework, started)
        except Exception as error:  # noqa: BLE001  as in run
            self._fail(info, error, started)
            return None

    def _framework_for(self, info: QueuedPodInfo) -> Framework | None:
        """None for a pod that is not to be scheduled; its attempt is over."""
        framework = self._frameworks.get(info.pod.scheduler_name)
        if framework is None or self._is_settled(info.pod):
            self._state.queue.done(info.popped_uid)
            return None
        return framework

    def _is_settled(self, pod: Pod) -> bool:
        """Whether the pod is gone, has a node, or is being deleted (kubernetes/kubernetes#118226)."""
        if pod.terminating:
            self._failures.skip_deleting(pod)
            return True
        newest = self._state.pods.held(pod)
        return newest is None or bool(newest.node_name) or self._state.cached(pod) is not None

    def _fail(self, info: QueuedPodInfo, error: Exception, started: float) -> None:
        if isinstance(error, NoNodesError):
            failure = Failure(reason=UNSCHEDULABLE, message=error.message(), unschedulable_plugins={NO_NODES})
        else:
            failure = Failure.of_error(error)
        if isinstance(error, CacheError):
            self._state.contradicted("scheduling cycle", error)
        elif not isinstance(error, SchedulingFailure | ExtenderError):
            _log.exception("scheduling cycle failed", pod=info.pod.full_name)
        self._failures.handle(info, failure, started)

    def _attempt(
        self, info: QueuedPodInfo, framework: Framework, started: float, *, may_postpone: bool
    ) -> Decision | None:
        if self._refuse(info, framework, started):
            return None
        self._state.cache.update_snapshot(self._snapshot)
        try:
            nominated = self._state.queue.nominated_pods_for_node
            result = framework.schedule(info.pod, self._snapshot, nominated, self._rng)
        except FitError as error:
            self.postponed = may_postpone and self._has_pods_to_look_at(framework, info.pod, error)
            if not self.postponed:
                self._make_room(info, framework, error, started)
            return None
        finally:
            self._state.metrics.scheduling_algorithm(self._state.clock() - started)
        return self._assume(info, framework, result, started)

    def _has_pods_to_look_at(self, framework: Framework, pod: Pod, error: FitError) -> bool:
        """Whether PostFilter would spend long on pods that preemption has not seen yet, or not as they are now."""
        if not framework.points["post_filter"] or self._snapshot.pod_table_behind <= PODS_AT_ONCE:
            return False
        rows = error.diagnosis.statuses.rows_with(Code.UNSCHEDULABLE)
        return len(self._snapshot.columns.with_lower_pods(rows, pod.priority)) > 0

    async def _look_at_pods(self) -> None:
        """Others have their turn in between; the snapshot stays what it is."""
        for _ in self._snapshot.pod_table_in_pieces(_PODS_A_TURN):
            await asyncio.sleep(0)

    async def _attempt_with_extenders(
        self, info: QueuedPodInfo, framework: Framework, started: float
    ) -> Decision | None:
        if self._refuse(info, framework, started):
            return None
        advice = Advice(framework.handle.extenders)
        nominated = self._state.queue.nominated_pods_for_node
        try:
            while True:
                self._state.cache.update_snapshot(self._snapshot)
                found = framework.evaluate(info.pod, self._snapshot, nominated, advice=advice)
                if not advice.unasked:
                    break
                await advice.ask(info.pod)
                if not self._still_waits(info):
                    return None
            result = found.result(self._rng)
        except FitError as error:
            await self._make_room_with_extenders(info, framework, error, started)
            return None
        finally:
            self._state.metrics.scheduling_algorithm(self._state.clock() - started)
        return self._assume(info, framework, result, started)

    def _still_waits(self, info: QueuedPodInfo) -> bool:
        """Go on with the pod as it is now; False if it no longer needs a node from us: then its attempt is over."""
        newest = self._state.pods.held(info.pod)
        if newest is None or not self._state.is_ours(newest) or self._is_settled(newest):
            self._state.queue.done(info.popped_uid)
            return False
        info.pod = newest
        return True

    def _refuse(self, info: QueuedPodInfo, framework: Framework, started: float) -> bool:
        """Whether the pod asks for something that this scheduler does not support; if so, this has been reported."""
        unsupported = framework.unsupported(info.pod)
        if unsupported:
            failure = Failure(reason=UNSCHEDULABLE, message=unsupported, unschedulable_plugins={NOT_SUPPORTED})
            self._failures.handle(info, failure, started)
        return bool(unsupported)

    def _make_room(self, info: QueuedPodInfo, framework: Framework, error: FitError, started: float) -> None:
        """Let PostFilter try to make room; the pod waits in any case."""
        failure = Failure.unfit(error)
        if framework.points["post_filter"]:
            rejected = error.diagnosis.statuses
            nominated, status = framework.run_post_filter(error.state, info.pod, self._snapshot, rejected)
            failure = Failure.unfit(error, post_filter_message=status.message, nominated_node_name=nominated)
        self._failures.handle(info, failure, started)

    async def _make_room_with_extenders(
        self, info: QueuedPodInfo, framework: Framework, error: FitError, started: float
    ) -> None:
        """As `_make_room`; where extenders have a say in whom to evict, they are asked in between."""
        extenders, points = framework.handle.extenders, framework.points
        if self._has_pods_to_look_at(framework, info.pod, error):
            await self._look_at_pods()
            if not self._still_waits(info):
                return
        if not (points["post_filter"] and extenders.preempt(info.pod)):
            self._make_room(info, framework, error, started)
            return
        error.state[PreemptionAdvice] = advice = PreemptionAdvice(extenders)
        rejected = error.diagnosis.statuses
        nominated, status = framework.run_post_filter(error.state, info.pod, self._snapshot, rejected)
        if advice.is_wanted:
            await advice.ask(info.pod, self._snapshot)
            if not self._still_waits(info):
                return
            nominated, status = framework.run_post_filter(error.state, info.pod, self._snapshot, rejected)
        failure = Failure.unfit(error, post_filter_message=status.message, nominated_node_name=nominated)
        self._failures.handle(info, failure, started)

    def _assume(
        self, info: QueuedPodInfo, framework: Framework, result: ScheduleResult, started: float
    ) -> Decision | None:
        """Assume, reserve, permit. If a plugin refuses, everything is undone."""
        pod = info.pod.with_node(result.node_name)
        self._state.cache.assume_pod(pod)
        self._state.queue.delete_nominated_pod(pod)
        try:
            status = framework.run_reserve(result.state, pod, result.node_name)
            if status is None:
                status = framework.run_permit(result.state, pod, result.node_name)
            waiting = status is not None and status.code is Code.WAIT
            if status is None or waiting:
                return Decision(info, pod, framework, result.state, started, waiting)
        except BaseException:
            self._undo(framework, result, pod)
            raise
        self._undo(framework, result, pod)
        self._failures.handle(info, Failure.of_status(status), started)
        return None

    def _undo(self, framework: Framework, result: ScheduleResult, pod: Pod) -> None:
        framework.run_unreserve(result.state, pod, result.node_name)
        self._state.forget(pod)
