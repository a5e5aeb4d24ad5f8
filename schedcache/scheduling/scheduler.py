"""The scheduler: puts the parts together, and runs the loop."""

import asyncio
import random
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot
from schedcache.framework import Extenders, Framework
from schedcache.ports import Binder, EventRecorder, Metrics, StatusWriter
from schedcache.queue import QueuedPodInfo, SchedulingQueue
from schedcache.scheduling.binding_cycle import LOOK_AGAIN, MAX_BINDING, BindingCycles, Sleep
from schedcache.scheduling.decision import Decision
from schedcache.scheduling.event_handlers import EventHandlers
from schedcache.scheduling.expiry import AssumedPodExpiry
from schedcache.scheduling.failure import FailureHandler
from schedcache.scheduling.live_read import LiveReader
from schedcache.scheduling.pod_events import PodEvents
from schedcache.scheduling.pod_store import PodStore
from schedcache.scheduling.preemptions import PLUGIN, Preemptions
from schedcache.scheduling.schedule_one import SchedulingCycle
from schedcache.scheduling.state import SchedulingState

HOUSEKEEPING_SECONDS = 1.0
"""The longest sleep. No backoff is shorter, so whatever begins to back off meanwhile is looked at in time."""
# The clock may be a little behind the timer that waits on it.
_SHORTEST_SLEEP = 0.001
# Cycles are short, and a turn of the event loop has a price of its own: some share one.
_SLICE_SECONDS = 0.002
_log = structlog.get_logger(__name__)


class Scheduler:
    """Cache, queue, profiles and the loop. An event source feeds `handlers`; `run` schedules until cancelled.

    Without `frameworks` it only observes: it follows the cluster, and neither queues nor writes anything.
    """

    def __init__(  # noqa: PLR0913  the one place where the outside world comes in, all by keyword
        self,
        *,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        pods: PodStore,
        objects: ClusterObjects,
        frameworks: Mapping[str, Framework],
        binder: Binder,
        status_writer: StatusWriter,
        recorder: EventRecorder,
        metrics: Metrics,
        clock: Callable[[], float],
        sleep: Sleep,
        rng: random.Random,
        request_rebuild: Callable[[str], None],
        preemptions: Preemptions | None = None,
        max_binding: int = MAX_BINDING,
    ) -> None:
        """`frameworks` by scheduler name, made to preempt through `preemptions`. `clock` in seconds; `sleep` waits on it.

        `request_rebuild(why)` makes the event source read everything again.
        """
        self.frameworks = frameworks
        self.state = SchedulingState(
            cache, queue, pods, frozenset(frameworks), status_writer, metrics, clock, request_rebuild
        )
        self._sleep = sleep
        pod_events = PodEvents(
            self.state,
            reject_waiting=self._reject_waiting,
            abandon=self._abandon,
            deletion_seen=preemptions.deletion_seen if preemptions is not None else lambda _uid: (),
        )
        self.handlers = EventHandlers(self.state, pod_events, objects)
        self.live_reader = LiveReader(self.state, binder, self.handlers)
        failures = FailureHandler(self.state, recorder)
        self.cycle = SchedulingCycle(self.state, frameworks, failures, rng)
        self.extenders = next((framework.handle.extenders for framework in frameworks.values()), Extenders())
        # With a snapshot of its own: other pods are decided while extenders are asked.
        self._asking_cycle = SchedulingCycle(self.state, frameworks, failures, rng)
        self.bindings = BindingCycles(
            self.state, failures, recorder, self.live_reader, sleep=sleep, max_binding=max_binding
        )
        self.expiry = AssumedPodExpiry(self.state, self.live_reader)
        self._preemptions = preemptions
        if preemptions is not None:
            preemptions.serve(self.state, self._preempt_here)
        self._may_schedule = asyncio.Event()
        self._may_schedule.set()
        self._scheduling: asyncio.Task[None] | None = None
        self.last_housekeeping: float | None = None
        """When housekeeping last began, on the clock: if the loop is alive, that was a moment ago."""

    @property
    def snapshots(self) -> tuple[Snapshot, Snapshot]:
        """What decisions are made on, without extenders and with them."""
        return self.cycle.snapshot, self._asking_cycle.snapshot

    async def run(self) -> None:
        """Schedule until cancelled. Raises whatever ends one of its tasks: a scheduler must not go on without its loop."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._schedule_where_allowed(tasks))
            tasks.create_task(self._keep_house())
            tasks.create_task(self._expire())

    def pause(self) -> None:
        """Decide about no further pod until `resume`. Cache and queue are kept up to date; bindings under way go on."""
        self._may_schedule.clear()
        if self._scheduling is not None:
            self._scheduling.cancel()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._may_schedule.set()

    async def drain(self, seconds: float) -> int:
        """After `run`: let bindings and evictions under way end; bindings that have no outcome in time are forgotten.

        Returns how many had to be ended: requests of theirs may still arrive.
        """
        preemptions = self._preemptions
        evictions = preemptions.drain(seconds) if preemptions is not None else asyncio.sleep(0, 0)
        return sum(await asyncio.gather(self.bindings.drain(seconds), evictions))

    async def _schedule_where_allowed(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            # Not once: by the turn in which the wait ends, it may be paused again.
            while not self._may_schedule.is_set():
                await self._may_schedule.wait()
            # A task of its own: cancelled, it has decided about all pods that it has popped, or put them back.
            self._scheduling = tasks.create_task(self._schedule(tasks))
            await asyncio.wait([self._scheduling])
            if not self._scheduling.cancelled():
                return  # it has failed, which ends them all

    async def _schedule(self, tasks: asyncio.TaskGroup) -> None:
        queue, clock, bindings = self.state.queue, self.state.clock, self.bindings
        takes_part = self.extenders.take_part if self.extenders else None
        while True:
            if not bindings.has_room():
                await bindings.room()
            info: QueuedPodInfo | None = await queue.pop()
            until = clock() + _SLICE_SECONDS
            while info is not None:
                if takes_part is not None and takes_part(info.pod):
                    queue.open_slow_lane(is_open=False)
                    asking = tasks.create_task(self._ask_and_schedule(info))
                    asking.add_done_callback(partial(self._asked, info))
                else:
                    decision = self.cycle.run(info)
                    self._bind(await self.cycle.run_postponed(info) if self.cycle.postponed else decision)
                if clock() >= until or not bindings.has_room():
                    break
                info = queue.pop_nowait()
            await asyncio.sleep(0)

    async def _ask_and_schedule(self, info: QueuedPodInfo) -> None:
        """One pod at a time, in the order of the queue; pods in which no extender takes part do not wait for it."""
        self._bind(await self._asking_cycle.run_with_extenders(info))

    def _asked(self, info: QueuedPodInfo, asking: asyncio.Task[None]) -> None:
        """Not a part of the task, which may be cancelled before it begins."""
        if asking.cancelled():
            self.state.queue.done(info.popped_uid)
        self.state.queue.open_slow_lane(is_open=True)

    def _bind(self, decision: Decision | None) -> None:
        if decision is not None:
            self.bindings.start(decision)

    async def _keep_house(self) -> None:
        """Wake pods at the moment when their backoff, or their time in the pool, is over."""
        queue, clock = self.state.queue, self.state.clock
        while True:
            self.last_housekeeping = clock()
            if self._preemptions is not None:
                self._preemptions.look_after()
            queue.flush_backoff_completed()
            queue.flush_unschedulable_leftover()
            due = queue.next_flush_at()
            until_due = HOUSEKEEPING_SECONDS if due is None else due - clock()
            await self._sleep(min(HOUSEKEEPING_SECONDS, max(_SHORTEST_SLEEP, until_due)))

    async def _expire(self) -> None:
        """Separate from the other housekeeping: an API server that does not answer must not delay the backoff."""
        pauses = iter(LOOK_AGAIN)
        while True:
            if await self.expiry.run_once():
                pauses = iter(LOOK_AGAIN)
                await self._sleep(HOUSEKEEPING_SECONDS)
            else:
                await self._sleep(next(pauses))

    def _abandon(self, uid: str) -> bool:
        return self.bindings.abandon(uid)

    def _reject_waiting(self, uid: str, why: str) -> bool:
        found = (framework.waiting_pods.get(uid) for framework in self.frameworks.values())
        return any(waiting.reject("", why) for waiting in found if waiting is not None)

    async def _preempt_here(self, uid: str) -> bool:
        """A pod that is not bound yet makes way without being deleted; False where its bind may be under way."""
        found = (framework.waiting_pods.get(uid) for framework in self.frameworks.values())
        waiting = [pod for pod in found if pod is not None]
        if waiting:
            stopped = any(pod.preempt(PLUGIN, "preempted") for pod in waiting)
        else:
            stopped = self.bindings.stop_pre_bind(uid, f"preempted by {PLUGIN}")
        if stopped:
            await self.bindings.ended(uid)
        return stopped
