"""The scheduling queue."""

import time
from collections.abc import Callable, Iterable

from schedcache.model import Pod
from schedcache.ports import ClusterEvent
from schedcache.queue import events
from schedcache.queue.backoff import Backoff, BackoffQueue
from schedcache.queue.clock import to_ns, to_seconds
from schedcache.queue.dump import QueueDump, histories, uids
from schedcache.queue.errors import QueueError
from schedcache.queue.faults import Faults
from schedcache.queue.gates import Gates, PreEnqueue
from schedcache.queue.heap import KeyedHeap, SortKey, TwoLanes
from schedcache.queue.hints import HintTable, Registrations, Strategy
from schedcache.queue.in_flight import InFlight, RecordedEvent
from schedcache.queue.judge import Judge, PreCheck
from schedcache.queue.metrics import NoMetrics, QueueMetrics
from schedcache.queue.nominator import Nominator, PodLister
from schedcache.queue.pool import UnschedulablePool
from schedcache.queue.queued_pod import QueuedPodInfo, pod_key
from schedcache.queue.sorting import GuardedSort, priority_sort
from schedcache.queue.waiters import Waiters


class SchedulingQueue:
    """Where pods without a node wait; see the package's docstring for the states. For one thread, that of the event loop.

    There are no timers: call `flush_backoff_completed` and `flush_unschedulable_leftover` at `next_flush_at`.
    """

    def __init__(  # noqa: PLR0913  the knobs of kube-scheduler's queue, all by keyword
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        pop_from_backoff: bool = True,
        hints: Registrations = (),
        pre_enqueue: PreEnqueue = (),
        nominator: Nominator | None = None,
        pod_lister: PodLister | None = None,
        queue_sort: Callable[[QueuedPodInfo], SortKey] = priority_sort,
        queue_sort_plugin: str = "QueueSort",
        slow: Callable[[Pod], bool] | None = None,
        metrics: QueueMetrics | None = None,
    ) -> None:
        """Times are in seconds, of a monotonic `clock`. A `max_backoff` of 0 turns backoff off.

        `hints` and `pre_enqueue`: for all scheduler names, or a mapping by scheduler name; a pod whose name has no hints in
        the mapping is retried on every event. `nominator` is the one that plugins read. Without it, the queue makes its own
        with `pod_lister`, which says whether a pod still waits (None trusts the caller). `queue_sort` gives the key that pods
        are sorted by, the smallest first; it may use only what does not change while the pod waits. If it fails, the queue
        does without it (see `GuardedSort`) and names `queue_sort_plugin`. `slow` says which pods have slow attempts, see
        `open_slow_lane`. Raises ValueError for a negative time or a registration for an action that does not exist.
        """
        limits = (("initial_backoff", initial_backoff), ("max_backoff", max_backoff))
        for name, seconds in (*limits, ("max_in_unschedulable", max_in_unschedulable)):
            if seconds < 0:
                raise ValueError(f"{name}: expected seconds, 0 or more, got {seconds}")
        self._clock = clock
        self._metrics = metrics or NoMetrics()
        self._pop_from_backoff = pop_from_backoff
        faults = Faults()
        # Our own cannot fail, and keys without a guard compare faster.
        trusted = queue_sort is priority_sort
        self._queue_sort = queue_sort if trusted else GuardedSort(queue_sort_plugin, queue_sort, faults)
        self._judge = Judge(HintTable(hints, clock, self._metrics, faults))
        self._gates = Gates(pre_enqueue, faults)
        self._nominator = nominator or Nominator(pod_lister)
        self._lanes = None if slow is None else TwoLanes(slow)
        self._active: KeyedHeap | TwoLanes = KeyedHeap() if self._lanes is None else self._lanes
        self._backoff = Backoff(to_ns(initial_backoff), to_ns(max_backoff), windows=pop_from_backoff)
        self._backing_off = BackoffQueue(self._backoff, self._queue_sort if pop_from_backoff else None)
        self._pool = UnschedulablePool(to_ns(max_in_unschedulable))
        self._in_flight = InFlight(self._metrics)
        self._waiters = Waiters()
        self._sequence = 0
        self.scheduling_cycle = 0

    # ---- pods come and go

    def add(self, pod: Pod) -> None:
        """A new pod without a node. Replaces whatever waits under its name."""
        now = self._now()
        info = QueuedPodInfo(pod, now, now, self._next_sequence())
        self._nominator.add(pod, None)
        self._remove(info)
        self._to_active(info, events.UNSCHEDULED_POD_ADD.label)

    def update(self, old: Pod, new: Pod) -> None:
        """A pod without a node changed. For one in flight this is only recorded; a pod that the queue does not know is added.

        Another UID means that a deletion and a creation were merged on the way.
        """
        if old.uid != new.uid:
            self.delete(old)
            self.add(new)
            return
        changes = events.pod_update_events(old, new, target=True)
        if new.uid in self._in_flight:
            for event in changes:
                self._in_flight.record(RecordedEvent(event, old, new))
            return
        key = pod_key(old)
        if (info := self._active.get(key)) is not None:
            info.pod = new
            self._active.put(info, self._queue_sort(info))
        elif (info := self._backing_off.get(key)) is not None:
            info.pod = new
            self._backing_off.put(info)
        elif (info := self._pool.get(key)) is not None:
            info.pod = new
            self._pool.put(info)
            self._wake_updated(info, [RecordedEvent(event, old, new) for event in changes])
        else:
            self.add(new)
            return
        self._nominator.update(old, new)

    def _wake_updated(self, info: QueuedPodInfo, changes: list[RecordedEvent]) -> None:
        for change in changes:
            strategy = self._judge.worth_requeuing(info, change)
            if strategy is not Strategy.SKIP and self._requeue(info, strategy, change.event.label):
                return

    def delete(self, pod: Pod) -> None:
        """The pod is gone, or has a node. A pod in flight stays so until `done`; a successor of the same name is not touched."""
        self._nominator.delete(pod)
        found = self.find(pod.namespace, pod.name)
        if found is not None and found[1].pod.uid == pod.uid:
            self._remove(found[1])

    # ---- attempts

    def pop_nowait(self) -> QueuedPodInfo | None:
        """Take the next pod for an attempt; None if `pop` would wait. The attempt has to end in `done`."""
        while True:
            info = self._active.pop()
            if info is None and self._pop_from_backoff and (info := self._pop_backing_off()) is not None:
                self._metrics.queue_incoming_pods("active", events.POP_FROM_BACKOFF)
            if info is None:
                return None
            info.attempts += 1
            # Two attempts for one pod at the same time would bind it twice; the running one sees its changes as events.
            if info.pod.uid not in self._in_flight:
                return self._start(info)

    def _pop_backing_off(self) -> QueuedPodInfo | None:
        """The first one, or none where that is to be passed by: those behind it will not have to wait for long."""
        rejected = self._backing_off.rejected
        head = rejected.peek()
        if self._lanes is not None and head is not None and self._lanes.passes_by(head[1].pod):
            return None
        return rejected.pop()

    def open_slow_lane(self, *, is_open: bool) -> None:
        """While it is not open, pods that are `slow` stay where they are, and others are taken before them."""
        if self._lanes is None:
            raise ValueError("no pods are slow")
        self._lanes.slow_lane_open = is_open
        if is_open:
            self._waiters.wake()

    def _start(self, info: QueuedPodInfo) -> QueuedPodInfo:
        info.popped_uid = info.pod.uid
        self._in_flight.start(info.popped_uid)
        info.unschedulable_plugins, info.pending_plugins = set(), set()
        self.scheduling_cycle += 1
        return info

    async def pop(self) -> QueuedPodInfo:
        """Take the next pod, waiting for one. Cancelling the wait loses no pod."""
        while (info := self.pop_nowait()) is None:
            await self._waiters.wait()
        return info

    def add_unschedulable(self, info: QueuedPodInfo) -> None:
        """The attempt failed: return the pod to a queue that depends on who rejected it and what has happened since it was popped.

        The attempt ends in any case, in one step with the return. The caller makes sure that the pod still exists and still
        has no node. Raises QueueError `already_queued` if its name is in a queue, for example because of a successor.
        """
        key = info.key = pod_key(info.pod)
        if key in self._active or key in self._backing_off or key in self._pool:
            self.done(info.popped_uid)
            raise QueueError("already_queued", f"pod {info.pod.full_name} is already in the queue")
        if info.failed_with_error:
            info.consecutive_errors += 1
        else:
            info.unschedulable_count += 1
            info.consecutive_errors = 0
        info.timestamp_ns, info.sequence = self._now(), self._next_sequence()
        info.backoff_until_ns = info.flush_ns = None
        info.flushed = False
        strategy = self._judge.after_attempt(info, self._in_flight.events_since_pop(info.popped_uid))
        self.done(info.popped_uid)
        self._requeue(info, strategy, events.SCHEDULE_ATTEMPT_FAILURE)

    def done(self, uid: str) -> None:
        """The attempt for the pod popped under that UID is over, however it ended. Calling it again does nothing."""
        self._in_flight.done(uid)

    def scheduled(self, info: QueuedPodInfo) -> None:
        """The attempt ended in a bound pod: as `done`, and counts those that only the pool's time limit had woken."""
        self.done(info.popped_uid)
        if info.flushed:
            self._metrics.pod_scheduled_after_flush(info.pod.scheduler_name)

    # ---- waking pods

    def move_all(
        self,
        resource: str,
        actions: tuple[str, ...],
        old: object = None,
        new: object = None,
        *,
        label: str | None = None,
        pre_check: PreCheck | None = None,
    ) -> None:
        """`move` for an event given by its parts."""
        self.move(ClusterEvent(resource, actions, label or ""), old, new, pre_check)

    def move(
        self, event: ClusterEvent, old: object = None, new: object = None, pre_check: PreCheck | None = None
    ) -> None:
        """Something changed in the cluster: wake the pods of the pool that it may help, and record it for those in flight.

        `old` and `new` are the object before and after, None if there is none. Pods for which `pre_check` is False are left out.
        Raises ValueError for an action that does not exist.
        """
        change = RecordedEvent(event, old, new)
        if not self._judge.of_interest(event):
            return
        for info, strategy in self._judge.woken(self._pool.buckets(), change, pre_check):
            self._requeue(info, strategy, event.label)
        self._in_flight.record(change)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods to the active queue at once, in spite of backoff. For a pod in flight this is recorded as an event.

        A plugin that activates a pod that it rejects itself has to do so while the pod is in flight: it then waits for its
        backoff like any other, instead of starving pods of lower priority.
        """
        for pod in pods:
            key = pod_key(pod)
            if (info := self._pool.get(key)) is not None:
                self._to_active(info, events.FORCE_ACTIVATE.label)
            elif (info := self._backing_off.remove(key)) is not None:
                self._to_active(info, events.FORCE_ACTIVATE.label, ask_gates=not self._pop_from_backoff)
            elif pod.uid in self._in_flight:
                self._in_flight.record(RecordedEvent(events.FORCE_ACTIVATE, None, pod))

    def ask_gates(self, pod: Pod) -> None:
        """The gate that holds the pod may have opened: if none holds it now, it waits for events like a rejected one."""
        info = self._pool.get(pod_key(pod))
        if info is not None and info.gated_by and not self._gates.hold(info):
            self._pool.put(info)

    def flush_backoff_completed(self) -> None:
        """Move the pods whose backoff is over to the active queue."""
        for info in self._backing_off.pop_completed(self._now()):
            # With pop from backoff, the gates were asked on the way in.
            self._to_active(info, events.BACKOFF_COMPLETE, ask_gates=not self._pop_from_backoff)

    def flush_unschedulable_leftover(self) -> None:
        """Wake the pods that have been in the pool too long, in case an event was missed."""
        change = RecordedEvent(events.UNSCHEDULABLE_TIMEOUT, None, None)
        expired = self._pool.flush_expired(self._now())
        for info in expired:
            self._requeue(info, Strategy.AFTER_BACKOFF, change.event.label)
        if expired:
            self._in_flight.record(change)

    def next_flush_at(self) -> float | None:
        """When, in seconds of the clock, a flush will next find something; None = never, as things are now."""
        instants = [t for t in (self._backing_off.next_completion(), self._pool.next_expiry()) if t is not None]
        return to_seconds(min(instants)) if instants else None

    # ---- nominations: as kube-scheduler's queue, this one is called for them too; its recorded answers are replayed here

    def add_nominated_pod(self, pod: Pod, node_name: str | None = None) -> None:
        """Nominate the pod for a node. None: as its status says; "": withdraw. Refused for a pod that no longer waits."""
        self._nominator.add(pod, node_name)

    def update_nominated_pod(self, old: Pod, new: Pod) -> None:
        """Apply an update of a pod that may be nominated."""
        self._nominator.update(old, new)

    def delete_nominated_pod(self, pod: Pod) -> None:
        """Withdraw the pod's nomination, if it has one."""
        self._nominator.delete(pod)

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """The pods nominated for that node, the first nominated first."""
        return self._nominator.nominated_pods_for_node(node_name)

    def nominated_nodes(self) -> list[str]:
        """The nodes that have nominated pods."""
        return self._nominator.nominated_nodes()

    # ---- looking inside

    def active_pods(self) -> list[QueuedPodInfo]:
        """The active queue, the next to be popped first."""
        return self._active.ordered()

    def backoff_pods(self) -> list[QueuedPodInfo]:
        """Rejected pods that are backing off, in the order in which they will leave."""
        return self._backing_off.rejected.ordered()

    def error_backoff_pods(self) -> list[QueuedPodInfo]:
        """Pods that are backing off after an error, by time and then UID."""
        return self._backing_off.errors.ordered()

    def unschedulable_pods(self) -> list[QueuedPodInfo]:
        """The pool, gated pods included, in no particular order."""
        return self._pool.infos()

    def in_flight(self) -> list[str]:
        """UIDs of the pods popped and not done."""
        return self._in_flight.uids()

    def in_flight_events(self) -> list[tuple[str, str]]:
        """("pod", UID) for each pod in flight and ("event", label) for each event kept for them, oldest first."""
        return list(self._in_flight.log())

    def pending_counts(self) -> dict[str, int]:
        """pending_pods by queue: active, backoff, unschedulable and gated."""
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off),
            "unschedulable": len(self._pool) - self._pool.gated,
            "gated": self._pool.gated,
        }

    def oldest_pending_age(self) -> float:
        """The age of the oldest pod in a queue, in seconds since the queue first saw it; 0 without any."""
        first = min((info.enqueued_ns for info in self._queued()), default=None)
        return 0.0 if first is None else to_seconds(self._now() - first)

    def unschedulable_reasons(self) -> dict[tuple[str, str], int]:
        """unschedulable_pods: (plugin, scheduler name) -> pods in a queue that the plugin rejected last or gates."""
        reasons: dict[tuple[str, str], int] = {}
        for info in self._queued():
            for plugin in info.unschedulable_plugins | info.pending_plugins:
                reason = (plugin, info.pod.scheduler_name)
                reasons[reason] = reasons.get(reason, 0) + 1
        return reasons

    def find(self, namespace: str, name: str) -> tuple[str, QueuedPodInfo] | None:
        """The queue (active, backoff, unschedulable or gated) that holds the pod of that name, and its entry."""
        key = (namespace, name)
        if (info := self._active.get(key)) is not None:
            return "active", info
        if (info := self._backing_off.get(key)) is not None:
            return "backoff", info
        if (info := self._pool.get(key)) is not None:
            return ("gated" if info.gated_by else "unschedulable"), info
        return None

    def dump(self) -> QueueDump:
        """Everything, at this moment; later changes do not show in it. Takes some microseconds per pod."""
        active, pool = self.active_pods(), self.unschedulable_pods()
        backoff, errors = self.backoff_pods(), self.error_backoff_pods()
        return QueueDump(
            active=uids(active),
            backoff=uids(backoff),
            error_backoff=uids(errors),
            unschedulable=tuple(sorted(uids(pool))),
            in_flight=tuple(sorted(self.in_flight())),
            in_flight_events=tuple(self.in_flight_events()),
            scheduling_cycle=self.scheduling_cycle,
            nominated={
                node: tuple([pod.uid for pod in self.nominated_pods_for_node(node)]) for node in self.nominated_nodes()
            },
            pods=histories(active + pool, backoff + errors),
        )

    # ---- inside

    def _now(self) -> int:
        return to_ns(self._clock())

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _queued(self) -> list[QueuedPodInfo]:
        backing_off = self._backing_off.rejected.infos() + self._backing_off.errors.infos()
        return self._active.infos() + backing_off + self._pool.infos()

    def _remove(self, info: QueuedPodInfo) -> None:
        self._active.remove(info.key)
        self._backing_off.remove(info.key)
        self._pool.remove(info.key)

    def _requeue(self, info: QueuedPodInfo, strategy: Strategy, label: str) -> bool:
        """Put a pod where the strategy says, if the gates permit. True = it is in the active or the backoff queue."""
        if strategy is Strategy.SKIP:
            self._to_pool(info, label)
            return False
        if strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(info, self._now()):
            return self._to_backoff(info, label)
        return self._to_active(info, label)

    def _to_active(self, info: QueuedPodInfo, label: str, *, ask_gates: bool = True) -> bool:
        if ask_gates and self._gates.hold(info):
            info.flushed = False
            self._to_pool(info, label)
            return False
        if info.initial_attempt_ns is None:
            info.initial_attempt_ns = self._now()
        self._pool.remove(info.key)
        self._active.put(info, self._queue_sort(info))
        self._metrics.queue_incoming_pods("active", label)
        self._waiters.wake()
        return True

    def _to_backoff(self, info: QueuedPodInfo, label: str) -> bool:
        if self._pop_from_backoff and self._gates.hold(info):
            info.flushed = False
            self._to_pool(info, label)
            return False
        self._pool.remove(info.key)
        self._backing_off.put(info)
        self._metrics.queue_incoming_pods("backoff", label)
        if self._pop_from_backoff:
            self._waiters.wake()
        return True

    def _to_pool(self, info: QueuedPodInfo, label: str) -> None:
        if info.key not in self._pool:
            self._metrics.queue_incoming_pods("unschedulable", label)
        self._pool.put(info)
