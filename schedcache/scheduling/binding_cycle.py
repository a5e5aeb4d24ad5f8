"""The binding cycle: from an assumed pod to a bound one (kube-scheduler's bindingCycle, 1.37), beside the scheduling of others."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import structlog

from schedcache.framework import SKIP, Code, Status
from schedcache.ports import Backoff, EventRecorder, OutcomeUnknownError, RefusedError, UnavailableError
from schedcache.scheduling.decision import Decision
from schedcache.scheduling.failure import Failure, FailureHandler
from schedcache.scheduling.live_read import LiveReader, Truth
from schedcache.scheduling.state import SchedulingState

Sleep = Callable[[float], Awaitable[object]]

MAX_BINDING = 128
"""Pods on their way to be bound, beyond which no further one is scheduled: bind requests would only queue up."""
LOOK_AGAIN = Backoff(first=1.0, limit=10.0)
"""Between two reads of a pod about which the API server has not answered: as the queue's backoff, so that these pods do not wait longer
than others once it is back."""
SENDINGS = 5
"""Of a bind that nobody answers: at 15 s each, longer than an API server works on a request (`--request-timeout`, a minute)."""
_UNANSWERED = (0, 504)
_ABANDONED = Status(Code.ERROR, ("the pod changed between the decision and its binding",))
_log = structlog.get_logger(__name__)


class _Running:
    """A binding cycle under way."""

    __slots__ = ("abandoned", "announced", "on_permit", "pre_bind", "stopped", "task")

    task: asyncio.Task[None]

    def __init__(self, *, on_permit: bool) -> None:
        self.on_permit = on_permit
        self.pre_bind: asyncio.Task[Status | None] | None = None
        self.abandoned = False
        self.announced = ""
        """The node that was written as nominated."""
        self.stopped = ""
        """Why its PreBind was stopped."""


class BindingCycles:
    """Runs binding cycles as tasks, a bounded number at a time; pods that wait on Permit or in PreBind do not count."""

    def __init__(
        self,
        state: SchedulingState,
        failures: FailureHandler,
        recorder: EventRecorder,
        reader: LiveReader,
        *,
        sleep: Sleep,
        max_binding: int = MAX_BINDING,
    ) -> None:
        self._state = state
        self._failures = failures
        self._recorder = recorder
        self._reader = reader
        self._sleep = sleep
        # Bound once: the lazy logger of a module is bound again by each call, even one that logs nothing.
        self._log = structlog.get_logger(__name__).bind()
        self._max_binding = max_binding
        self._binding = 0
        self._room = asyncio.Event()
        self._room.set()
        self._cycles: dict[_Running, None] = {}
        self._latest: dict[str, _Running] = {}
        """By the pod's UID. Two cycles may run for one pod if it was deleted while it was being bound, and a restored backup has it."""

    def __len__(self) -> int:
        return len(self._cycles)

    def has_room(self) -> bool:
        """Whether another pod may be sent on its way."""
        return self._binding < self._max_binding

    async def room(self) -> None:
        """Wait until another pod may be sent on its way."""
        await self._room.wait()

    def start(self, decision: Decision) -> None:
        """Bind the decided pod in the background. However that ends, cache and queue are updated."""
        self._enter()
        self.abandon(decision.pod.uid)
        running = self._latest[decision.pod.uid] = _Running(on_permit=decision.waiting)
        self._cycles[running] = None
        running.task = asyncio.get_running_loop().create_task(self._cycle(decision, running))

    def abandon(self, uid: str) -> bool:
        """Do not bind the pod unless the request has been sent, and end its PreBind; False if no cycle runs for it."""
        running = self._latest.get(uid)
        if running is None:
            return False
        running.abandoned = True
        if running.pre_bind is not None:
            running.pre_bind.cancel()
        return True

    def stop_pre_bind(self, uid: str, why: str) -> bool:
        """End the pod's PreBind, and do not bind it; False if it is not in PreBind."""
        running = self._latest.get(uid)
        if running is None or running.pre_bind is None or running.pre_bind.done():
            return False
        running.stopped = why
        running.pre_bind.cancel()
        return True

    async def ended(self, uid: str) -> None:
        """Wait until no cycle runs for the pod any more."""
        running = self._latest.get(uid)
        if running is not None:
            await asyncio.wait([running.task])

    async def drain(self, seconds: float) -> int:
        """Give the bindings under way some time to end, then end them; those without an outcome by then are forgotten here.

        Pods that still wait on Permit or in PreBind are forgotten at once and without an event, since nothing is wrong with them.
        Returns how many had no outcome in time.
        """
        for running in self._cycles:
            if running.on_permit or running.pre_bind is not None:
                running.task.cancel()
        tasks = [running.task for running in self._cycles]
        if not tasks:
            return 0
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return len(late)

    async def _cycle(self, d: Decision, running: _Running) -> None:
        try:
            await self._conclude(d, running)
        except asyncio.CancelledError:
            self._undo(d, running)
            raise
        except Exception:  # noqa: BLE001  as in _conclude
            # A fault of ours after the request was sent: the pod may be bound. It keeps its room until expiry has read it.
            _log.exception("binding cycle failed; the API server will be asked about the pod", pod=d.pod.full_name)
            self._state.cache.finish_binding(d.pod)
        finally:
            self._leave()
            del self._cycles[running]
            if self._is_latest(d, running):
                self._state.queue.done(d.info.popped_uid)
                del self._latest[d.pod.uid]

    def _is_latest(self, d: Decision, running: _Running) -> bool:
        """Whether what is assumed and queued of the pod is due to this decision. If not, a later one answers for it."""
        return self._latest.get(d.pod.uid) is running

    async def _conclude(self, d: Decision, running: _Running, sendings: int = 1) -> None:
        try:
            status = await (self._steps(d, running) if sendings == 1 else self._send(d))
        except OutcomeUnknownError as error:
            await self._resolve(d, running, error, sendings)
        except (RefusedError, UnavailableError) as error:
            self._fail(d, running, Failure.of_error(error))
        except Exception as error:  # noqa: BLE001  a fault of ours in one pod's cycle must neither leak its room nor stop others
            _log.exception("binding cycle failed", pod=d.pod.full_name)
            self._fail(d, running, Failure.of_error(error))
        else:
            if status is None:
                self._bound(d, running)
            else:
                self._fail(d, running, Failure.of_status(status))

    async def _steps(self, d: Decision, running: _Running) -> Status | None:
        pre_flight = d.framework.run_pre_bind_pre_flight(d.cycle_state, d.pod, d.node_name)
        if pre_flight not in (None, SKIP):
            return pre_flight
        if d.waiting or pre_flight is None:
            self._announce(d, running)
        if d.waiting:
            status = await self._wait_on_permit(d, running)
            if status is not None:
                return status
        # From here on no event can help the pod: a failure is an error, and is retried after backoff whatever happened.
        self._state.queue.done(d.info.popped_uid)
        if pre_flight is None:
            status = await self._pre_bind(d, running)
            if status is not None:
                return status
        if running.abandoned:
            return _ABANDONED
        return await self._send(d)

    async def _send(self, d: Decision) -> Status | None:
        if await d.framework.handle.extenders.bind(d.pod, d.node_name):
            return None
        return await d.framework.run_bind(d.cycle_state, d.pod, d.node_name)

    def _announce(self, d: Decision, running: _Running) -> None:
        """Binding may take long: tell autoscalers, and ourselves after a restart, where the pod is to go (KEP-5278)."""
        pod = self._state.pods.held(d.pod) or d.pod
        running.announced = d.node_name
        self._state.status_writer.patch_status(pod, None, d.node_name)

    async def _wait_on_permit(self, d: Decision, running: _Running) -> Status | None:
        since = self._state.clock()
        with self._aside():
            status = await d.framework.wait_on_permit(d.pod)
        running.on_permit = False
        result = "Success" if status is None else status.code.label
        self._state.metrics.permit_wait(result, self._state.clock() - since)
        return status

    async def _pre_bind(self, d: Decision, running: _Running) -> Status | None:
        """May last minutes; it ends at once when the pod is not to be bound any more."""
        if running.abandoned:
            return _ABANDONED
        work = asyncio.create_task(d.framework.run_pre_bind(d.cycle_state, d.pod, d.node_name))
        running.pre_bind = work
        with self._aside():
            try:
                await asyncio.wait([work])
            finally:
                running.pre_bind = None
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
        if running.stopped:
            return Status(Code.ERROR, (running.stopped,))
        return _ABANDONED if work.cancelled() else work.result()

    def _enter(self) -> None:
        self._binding += 1
        if not self.has_room():
            self._room.clear()

    def _leave(self) -> None:
        self._binding -= 1
        self._room.set()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """A wait during which the pod does not count against the limit, since it may last minutes."""
        self._leave()
        try:
            yield
        finally:
            self._enter()

    def _bound(self, d: Decision, running: _Running) -> None:
        if not self._is_latest(d, running):
            return
        state, info, pod = self._state, d.info, d.pod
        state.cache.finish_binding(pod)
        self._recorder.event(
            pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.full_name} to {pod.node_name}"
        )
        now = state.clock()
        state.metrics.schedule_attempt(pod.scheduler_name, "scheduled", now - d.started)
        first = info.initial_attempt
        state.metrics.pod_scheduled(info.attempts, None if first is None else now - first)
        state.queue.scheduled(info)
        fault = d.framework.run_post_bind(d.cycle_state, pod, pod.node_name)
        if fault is not None:
            _log.error("PostBind failed", pod=pod.full_name, error=fault.message)
        self._log.debug("bound", pod=pod.full_name, node=pod.node_name)

    async def _resolve(self, d: Decision, running: _Running, error: OutcomeUnknownError, sendings: int) -> None:
        """The bind may have succeeded: only the API server knows. Until it answers, the pod keeps its room.

        A request without an answer may still be on its way when the pod is found unbound. If its room were given to another pod
        then, both would be there once it arrives (kubernetes/kubernetes#106361). So the same is sent again: whichever of the two
        comes first, the pod is where its room is kept.
        """
        pauses = iter(LOOK_AGAIN)
        while (truth := await self._reader.look(d.pod)) is Truth.NO_ANSWER and not self._reader.is_settled(d.pod):
            with self._aside():
                await self._sleep(next(pauses))
        if truth is Truth.BOUND or self._is_ours_now(d):
            self._bound(d, running)
        elif truth is Truth.UNBOUND and error.status in _UNANSWERED and sendings < SENDINGS and not running.abandoned:
            await self._conclude(d, running, sendings + 1)
        else:
            self._fail(d, running, Failure.of_error(error))

    def _is_ours_now(self, d: Decision) -> bool:
        cached = self._state.cached(d.pod)
        return cached is not None and cached.node_name == d.node_name and not self._state.cache.is_assumed_pod(cached)

    def _undo(self, d: Decision, running: _Running) -> bool:
        fault = d.framework.run_unreserve(d.cycle_state, d.pod, d.node_name)
        if fault is not None:
            _log.error("Unreserve failed", pod=d.pod.full_name, error=fault.message)
        return self._is_latest(d, running) and self._state.forget(d.pod)

    def _fail(self, d: Decision, running: _Running, failure: Failure) -> None:
        """Undo, requeue, and wake the pods that the room may help (kubernetes/kubernetes#122444).

        The pod itself is requeued first and left out, so that its own leaving does not wake it.
        """
        forgotten = self._undo(d, running)
        if not self._is_latest(d, running):
            return
        self._failures.handle(d.info, failure, d.started, announced=running.announced)
        if forgotten:
            uid = d.pod.uid
            self._state.room_freed(d.pod, lambda pod: pod.uid != uid)
