"""What happens to a pod whose attempt failed: it is requeued, nominated, and its status and an event say why."""

from collections.abc import Set as AbstractSet

import msgspec
import structlog
from msgspec.structs import replace

from schedcache.framework import Code, FitError, Status
from schedcache.model import Pod, PodCondition
from schedcache.model.error_text import error_text
from schedcache.ports import EventRecorder, FencedError
from schedcache.queue import QueuedPodInfo, QueueError
from schedcache.scheduling.state import SchedulingState

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
MESSAGE_CHARACTERS = 32_768
"""As much as the API lets the message of a metav1.Condition have. What plugins and extenders say, node by node, may be megabytes."""
_log = structlog.get_logger(__name__)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt did not end in a bound pod.

    `reason` is that of the PodScheduled condition. No plugin at all: an error, after which the pod is retried with backoff
    whatever happens. `nominated_node_name` None leaves the pod's nomination alone, "" withdraws it. `silent`: nobody is told, since
    whoever leads by now will tell.
    """

    reason: str
    message: str
    unschedulable_plugins: AbstractSet[str] = frozenset()
    pending_plugins: AbstractSet[str] = frozenset()
    nominated_node_name: str | None = ""
    silent: bool = False

    @classmethod
    def unfit(
        cls, error: FitError, *, post_filter_message: str = "", nominated_node_name: str | None = ""
    ) -> "Failure":
        """The pod fits nowhere, or not where it was to go."""
        text = error.message()
        return cls(
            reason=UNSCHEDULABLE,
            message=f"{text} {post_filter_message}" if post_filter_message else text,
            unschedulable_plugins=error.diagnosis.unschedulable_plugins,
            pending_plugins=error.diagnosis.pending_plugins,
            nominated_node_name=nominated_node_name,
        )

    @classmethod
    def of_status(cls, status: Status) -> "Failure":
        """A plugin turned the pod down on the node chosen for it, or failed there."""
        if not status.rejected:
            return cls.of_error(status.message)
        reasons = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
        plugins = frozenset({status.plugin} - {""})
        pending = status.code is Code.PENDING
        return cls(
            reason=UNSCHEDULABLE,
            message=f"0/1 nodes are available: {reasons}.",
            unschedulable_plugins=frozenset() if pending else plugins,
            pending_plugins=plugins if pending else frozenset(),
        )

    @classmethod
    def of_error(cls, error: BaseException | str) -> "Failure":
        """Something went wrong that does not depend on pod or nodes."""
        silent = isinstance(error, FencedError)
        # Its nomination cannot be withdrawn from the API by then, so it must not be forgotten here alone.
        nominated = None if silent else ""
        text = error_text(error) or type(error).__name__
        return cls(reason=SCHEDULER_ERROR, message=text, nominated_node_name=nominated, silent=silent)


class FailureHandler:
    """kube-scheduler's handleSchedulingFailure (1.37)."""

    def __init__(self, state: SchedulingState, recorder: EventRecorder) -> None:
        self._state = state
        self._recorder = recorder

    def handle(self, info: QueuedPodInfo, failure: Failure, started: float, *, announced: str = "") -> None:
        """Return the popped pod to the queue, unless it is gone, was replaced under its name, or got a node meanwhile.

        `started`: when its attempt began, on the state's clock. `announced`: the node that was written as its nominated one in
        this attempt, which the object held may not show yet.
        """
        state, pod = self._state, info.pod
        if len(failure.message) > MESSAGE_CHARACTERS:
            failure = replace(failure, message=failure.message[: MESSAGE_CHARACTERS - 4] + " ...")
        result = "unschedulable" if failure.reason == UNSCHEDULABLE else "error"
        state.metrics.schedule_attempt(pod.scheduler_name, result, state.clock() - started)
        newest = state.pods.held(pod)
        # The queue knows the attempt by the UID it was popped under, whatever has that name now
        # (kubernetes/kubernetes#138316).
        if newest is None or not self._still_waits(newest):
            state.queue.done(info.popped_uid)
            return
        if result == "error" and not failure.silent:
            self._log_error(info, failure.message)
        info.pod = newest
        info.unschedulable_plugins = set(failure.unschedulable_plugins)
        info.pending_plugins = set(failure.pending_plugins)
        try:
            state.queue.add_unschedulable(info)
        except QueueError as error:
            _log.debug("not queued again", pod=newest.full_name, reason=str(error))
        state.queue.add_nominated_pod(newest, failure.nominated_node_name)
        if not failure.silent:
            self._tell(replace(newest, nominated_node_name=announced) if announced else newest, failure)

    def _log_error(self, info: QueuedPodInfo, message: str) -> None:
        """A warning only once: a pod that is refused may be refused again after each backoff, for hours."""
        tell = _log.debug if message == info.last_error else _log.warning
        info.last_error = message
        tell("scheduling failed; retrying", pod=info.pod.full_name, error=message)

    def _still_waits(self, newest: Pod) -> bool:
        if newest.node_name or newest.terminating or not self._state.is_ours(newest):
            return False
        return self._state.cached(newest) is None

    def skip_deleting(self, pod: Pod) -> None:
        """Say why a pod that is being deleted is no longer scheduled."""
        self._record(pod, f"skip schedule deleting pod: {pod.full_name}")

    def _record(self, pod: Pod, note: str) -> None:
        self._recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", note)

    def _tell(self, pod: Pod, failure: Failure) -> None:
        """The event each time (the recorder merges repetitions); the status only if it changes."""
        self._record(pod, failure.message)
        condition = PodCondition(POD_SCHEDULED, "False", failure.reason, failure.message, pod.generation)
        nominated = failure.nominated_node_name
        new_condition = None if pod.says(condition) else condition
        new_nomination = None if nominated in (None, pod.nominated_node_name) else nominated
        if new_condition is not None or new_nomination is not None:
            self._state.status_writer.patch_status(pod, new_condition, new_nomination)
