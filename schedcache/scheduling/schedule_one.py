"""The scheduling cycle: one pod from the queue, to a node in the cache (kube-scheduler's schedule_one.go, 1.37)."""

import random
from collections.abc import Mapping

import structlog

from schedcache.cache import CacheError, Snapshot
from schedcache.framework import Code, FitError, Framework, NoNodesError, PluginError, ScheduleResult
from schedcache.model import Pod
from schedcache.queue import QueuedPodInfo
from schedcache.scheduling.decision import Decision
from schedcache.scheduling.failure import UNSCHEDULABLE, Failure, FailureHandler
from schedcache.scheduling.stand_ins import NO_NODES, NOT_SUPPORTED
from schedcache.scheduling.state import SchedulingState

_log = structlog.get_logger(__name__)


class SchedulingCycle:
    """Decides where a popped pod goes. Synchronous: nothing changes under a cycle, so all of it sees one generation."""

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

    def run(self, info: QueuedPodInfo) -> Decision | None:
        """Assume the pod on the best node. None: it needs no node any more, or it failed and is in the queue again."""
        pod, started = info.pod, self._state.clock()
        framework = self._frameworks.get(pod.scheduler_name)
        if framework is None or self._is_settled(pod):
            self._state.queue.done(info.popped_uid)
            return None
        try:
            return self._attempt(info, framework, started)
        except NoNodesError as error:
            failure = Failure(reason=UNSCHEDULABLE, message=error.message(), unschedulable_plugins={NO_NODES})
        except CacheError as error:
            self._state.contradicted("scheduling cycle", error)
            failure = Failure.of_error(error)
        except PluginError as error:
            failure = Failure.of_error(error)
        except Exception as error:  # noqa: BLE001  one pod that trips over a fault of ours must not stop the others
            _log.exception("scheduling cycle failed", pod=pod.full_name)
            failure = Failure.of_error(error)
        self._failures.handle(info, failure, started)
        return None

    def _is_settled(self, pod: Pod) -> bool:
        """Whether the pod is gone, has a node, or is being deleted (kubernetes/kubernetes#118226)."""
        if pod.terminating:
            self._failures.skip_deleting(pod)
            return True
        newest = self._state.pods.held(pod)
        return newest is None or bool(newest.node_name) or self._state.cached(pod) is not None

    def _attempt(self, info: QueuedPodInfo, framework: Framework, started: float) -> Decision | None:
        unsupported = framework.unsupported(info.pod)
        if unsupported:
            failure = Failure(reason=UNSCHEDULABLE, message=unsupported, unschedulable_plugins={NOT_SUPPORTED})
            self._failures.handle(info, failure, started)
            return None
        self._state.cache.update_snapshot(self._snapshot)
        try:
            nominated = self._state.queue.nominated_pods_for_node
            result = framework.schedule(info.pod, self._snapshot, nominated, self._rng)
        except FitError as error:
            self._make_room(info, framework, error, started)
            return None
        finally:
            self._state.metrics.scheduling_algorithm(self._state.clock() - started)
        return self._assume(info, framework, result, started)

    def _make_room(self, info: QueuedPodInfo, framework: Framework, error: FitError, started: float) -> None:
        """Let PostFilter try to make room; the pod waits in any case."""
        failure = Failure.unfit(error)
        if framework.points["post_filter"]:
            rejected = error.diagnosis.statuses
            nominated, status = framework.run_post_filter(error.state, info.pod, self._snapshot, rejected)
            failure = Failure.unfit(error, post_filter_message=status.message, nominated_node_name=nominated)
        self._failures.handle(info, failure, started)

    def _assume(
        self, info: QueuedPodInfo, framework: Framework, result: ScheduleResult, started: float
    ) -> Decision | None:
        """Assume, reserve, permit. A plugin that says no takes all of it back."""
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
