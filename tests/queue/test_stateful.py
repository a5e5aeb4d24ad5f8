"""Whatever happens in whatever order: no pod is lost, none is in two places, and what can be placed is tried in time.

A little scheduler around the queue: one node that grows and shrinks, pods that fit it or not, attempts that end in every
way there is. It takes its decisions on what it saw when it popped the pod, as the real one does on its snapshot.
"""

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schedcache.model import Node, Pod
from schedcache.queue import EventHint, QueuedPodInfo, SchedulingQueue
from schedcache.queue.events import ASSIGNED_POD_DELETE, NODE_ADD, node_update_events
from schedcache.testing import VirtualClock
from tests.queue.support import Lister, make_node, make_pod

NAMES = ["a", "b", "c", "d", "e", "f"]
GATES = [{"name": "hold"}]
MAX_BACKOFF = 10
LIMIT = 300


def fits(pod: Pod, node: Node) -> bool:
    return pod.requests.resource.milli_cpu <= node.allocatable.milli_cpu


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> bool:
    return fits(pod, new)


@dataclass
class Attempt:
    info: QueuedPodInfo
    node: Node
    """As it was when the pod was popped."""
    place: str = "in flight"
    """Then `waiting` (on Permit, still in flight) or `assumed` (done, being bound)."""


class LittleScheduler(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.api = Lister()
        self.node = make_node(cpu="2")
        self.attempts: dict[str, Attempt] = {}
        self.bound: set[str] = set()
        self.uids = 0
        self.versions = 1

    @initialize(early=st.booleans(), cpus=st.lists(st.integers(1, 6), min_size=len(NAMES), max_size=len(NAMES)))
    def start(self, early: bool, cpus: list[int]) -> None:
        self.window = 1 if early else 0.001
        hints = [
            EventHint("Node", ("Add", "UpdateNodeAllocatable"), _after_node_change, by_shape=True, plugin="Fit"),
            EventHint("TargetPod", ("UpdatePodScaleDown",), lambda pod, old, new: fits(new, self.node), plugin="Fit"),
            EventHint("TargetPod", ("UpdatePodSchedulingGatesEliminated",), plugin="Gate"),
            EventHint("AssignedPod", ("Add",), plugin="Partner"),
            EventHint("AssignedPod", ("Delete",), plugin="Room"),
        ]
        self.queue = SchedulingQueue(
            clock=self.clock,
            max_backoff=MAX_BACKOFF,
            max_in_unschedulable=LIMIT,
            pop_from_backoff=early,
            hints=hints,
            pre_enqueue=[("Gate", lambda pod: bool(pod.scheduling_gates))],
            pod_lister=self.api,
        )
        for name, cpu in zip(NAMES, cpus, strict=True):
            self.create(name, cpu, priority=0, gated=False)

    # ---- what users and the cluster do

    def _waiting(self, name: str) -> Pod | None:
        """The pod of that name if the scheduler has not placed it."""
        pod = self.api("default", name)
        if pod is None or pod.node_name or (pod.uid in self.attempts and self.attempts[pod.uid].place == "assumed"):
            return None
        return pod

    def create(self, name: str, cpu: int, priority: int, gated: bool) -> None:
        self.uids += 1
        pod = make_pod(
            name, uid=f"u{self.uids}", cpu=str(cpu), priority=priority, schedulingGates=GATES if gated else []
        )
        self.queue.add(self.api.hold(pod))

    @rule(name=st.sampled_from(NAMES), cpu=st.integers(1, 6), open_gate=st.booleans(), label=st.booleans())
    def change(self, name: str, cpu: int, open_gate: bool, label: bool) -> None:
        old = self._waiting(name)
        if old is not None:
            self.versions += 1
            gates = [] if open_gate or not old.scheduling_gates else GATES
            labels = {"label": str(self.versions)} if label else dict(old.labels)
            new = make_pod(
                name, uid=old.uid, cpu=str(cpu), priority=old.priority, schedulingGates=gates, labels=labels,
                resource_version=self.versions,
            )  # fmt: skip
            self.queue.update(old, self.api.hold(new))

    @rule(name=st.sampled_from(NAMES), cpu=st.integers(1, 6), priority=st.integers(0, 2), gated=st.booleans())
    def remove_or_create(self, name: str, cpu: int, priority: int, gated: bool) -> None:
        pod = self.api("default", name)
        if pod is None:
            self.create(name, cpu, priority, gated)
            return
        self.api.drop(pod)
        self.queue.delete(pod)
        if pod.uid in self.bound:
            self.bound.discard(pod.uid)
            self.queue.move(ASSIGNED_POD_DELETE, pod)

    @rule(cpu=st.integers(1, 6))
    def resize_node(self, cpu: int) -> None:
        old, self.node = self.node, make_node(cpu=str(cpu))
        for event in node_update_events(old, self.node) or [NODE_ADD]:
            self.queue.move(event, old, self.node)

    @rule(seconds=st.sampled_from([0.001, 0.5, 1, 3, 11, 299, 301]))
    def let_time_pass(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while (instant := self.queue.next_flush_at()) is not None and instant <= end:
            self.clock.now = max(self.clock.now, instant)
            self.queue.flush_backoff_completed()
            self.queue.flush_unschedulable_leftover()
        self.clock.now = end

    # ---- what the scheduler does

    @rule(count=st.integers(1, 3))
    def pop(self, count: int) -> None:
        for _ in range(count):
            info = self.queue.pop_nowait()
            if info is None:
                return
            assert info.pod.uid not in self.attempts, "tried twice at a time"
            assert not info.pod.scheduling_gates, "a gated pod was tried"
            self.attempts[info.pod.uid] = Attempt(info, self.node)

    @rule()
    def schedule(self) -> None:
        """Whole cycles, nothing in between: until nothing can be popped or a pod is assumed."""
        while (info := self.queue.pop_nowait()) is not None:
            attempt = self.attempts[info.pod.uid] = Attempt(info, self.node)
            if fits(info.pod, self.node):
                attempt.place = "assumed"
                self.queue.scheduled(info)
                return
            self._fail(attempt, "verdict")

    def _attempt(self, data: st.DataObject, *places: str) -> Attempt:
        candidates = [uid for uid, attempt in self.attempts.items() if attempt.place in places]
        return self.attempts[data.draw(st.sampled_from(sorted(candidates)))]

    def _any(self, *places: str) -> bool:
        return any(attempt.place in places for attempt in self.attempts.values())

    @precondition(lambda self: self._any("in flight", "waiting", "assumed"))
    @rule(
        data=st.data(),
        how=st.sampled_from(["verdict", "verdict", "verdict", "partner", "room", "error"]),
        activate=st.booleans(),
    )
    def fail(self, data: st.DataObject, how: str, activate: bool) -> None:
        attempt = self._attempt(data, "in flight", "waiting", "assumed")
        if activate:
            self.queue.activate([attempt.info.pod])
        self._fail(attempt, how)

    def _fail(self, attempt: Attempt, how: str) -> None:
        info, uid = attempt.info, attempt.info.popped_uid
        del self.attempts[uid]
        newest = self.api("default", info.pod.name)
        if newest is None or newest.uid != uid:
            self.queue.done(uid)
            return
        rejected = {"verdict": set() if fits(info.pod, attempt.node) else {"Fit"}, "room": {"Room"}}
        info.unschedulable_plugins = rejected.get(how, set())
        info.pending_plugins = {"Partner"} if how == "partner" else set()
        info.pod = newest
        self.queue.add_unschedulable(info)
        if attempt.place == "assumed":
            self.queue.move(ASSIGNED_POD_DELETE, newest)

    @precondition(lambda self: self._any("in flight"))
    @rule(data=st.data())
    def wait_on_permit(self, data: st.DataObject) -> None:
        self._attempt(data, "in flight").place = "waiting"

    @precondition(lambda self: self._any("in flight", "waiting"))
    @rule(data=st.data())
    def assume(self, data: st.DataObject) -> None:
        attempt = self._attempt(data, "in flight", "waiting")
        attempt.place = "assumed"
        self.queue.scheduled(attempt.info)

    @precondition(lambda self: self._any("assumed"))
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        attempt = self._attempt(data, "assumed")
        uid = attempt.info.popped_uid
        del self.attempts[uid]
        held = self.api("default", attempt.info.pod.name)
        if held is not None and held.uid == uid:
            self.bound.add(uid)
            self.api.hold(held.with_node("n1"))
            self.queue.delete(held)

    @rule(name=st.sampled_from(NAMES), node=st.sampled_from(["n1", "n2", "", None]), activate=st.booleans())
    def preempt_for(self, name: str, node: str | None, activate: bool) -> None:
        pod = self.api("default", name)
        if pod is not None:
            self.queue.add_nominated_pod(pod, node)
        if activate and (waiting := self._waiting(name)) is not None:
            self.queue.activate([waiting])

    # ---- what must hold after every step

    def _places(self) -> dict[str, list[str]]:
        places: dict[str, list[str]] = {}
        for state, infos in (
            ("active", self.queue.active_pods()),
            ("backoff", self.queue.backoff_pods() + self.queue.error_backoff_pods()),
            ("pool", self.queue.unschedulable_pods()),
        ):
            for info in infos:
                places.setdefault(info.pod.uid, []).append(state)
        for uid, attempt in self.attempts.items():
            places.setdefault(uid, []).append(attempt.place)
        for uid in self.bound:
            places.setdefault(uid, []).append("bound")
        return places

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        places = self._places()
        for pod in self.api.values():
            assert len(places.get(pod.uid, [])) == 1, f"{pod.full_name} {pod.uid}: {places.get(pod.uid)}"
        alive = {pod.uid for pod in self.api.values()}
        ghosts = {uid for uid in places if uid not in alive and uid not in self.attempts}
        assert not ghosts, f"deleted, and still queued: {ghosts}"

    @invariant()
    def what_is_in_flight_is_known_and_nothing_else_is_kept(self) -> None:
        flying = {uid for uid, attempt in self.attempts.items() if attempt.place != "assumed"}
        assert set(self.queue.in_flight()) == flying
        if not flying:
            assert self.queue.in_flight_events() == []

    @invariant()
    def no_pod_sleeps_that_could_be_placed(self) -> None:
        for info in self.queue.unschedulable_pods():
            if info.gated_by:
                assert info.pod.scheduling_gates
            elif info.unschedulable_plugins == {"Fit"} and not info.pending_plugins:
                assert not fits(info.pod, self.node), f"{info.pod.name} fits and nobody woke it"

    @invariant()
    def nobody_backs_off_for_too_long(self) -> None:
        for info in self.queue.backoff_pods() + self.queue.error_backoff_pods():
            assert info.backoff_until <= info.timestamp + MAX_BACKOFF
            assert self.clock.now <= info.backoff_until + self.window
        for info in self.queue.unschedulable_pods():
            waited_since = max(info.timestamp_ns, info.flush_ns or 0) / 1e9
            assert self.clock.now - waited_since <= LIMIT + 0.001

    @invariant()
    def only_waiting_pods_are_nominated(self) -> None:
        nominated = [
            pod.uid for node in self.queue.nominated_nodes() for pod in self.queue.nominated_pods_for_node(node)
        ]
        assert len(nominated) == len(set(nominated))
        waiting = {pod.uid for pod in self.api.values() if not pod.node_name}
        assert set(nominated) <= waiting

    @invariant()
    def figures_agree_with_what_is_there(self) -> None:
        pool = self.queue.unschedulable_pods()
        assert self.queue.pending_counts() == {
            "active": len(self.queue.active_pods()),
            "backoff": len(self.queue.backoff_pods()) + len(self.queue.error_backoff_pods()),
            "unschedulable": sum(not info.gated_by for info in pool),
            "gated": sum(bool(info.gated_by) for info in pool),
        }

    def teardown(self) -> None:
        """In the end the node grows large enough for everybody: each pod that is not gated gets its attempt in time."""
        for uid in list(self.attempts):
            self.queue.done(uid)
            del self.attempts[uid]
        wanted = {pod.uid for pod in self.api.values() if not pod.node_name and not pod.scheduling_gates}
        wanted &= {info.pod.uid for info in self.queue.unschedulable_pods() if "Fit" in info.unschedulable_plugins}
        old, self.node = self.node, make_node(cpu="100")
        for event in node_update_events(old, self.node):
            self.queue.move(event, old, self.node)
        self.let_time_pass(MAX_BACKOFF + 1)
        tried = set()
        while (info := self.queue.pop_nowait()) is not None:
            tried.add(info.pod.uid)
        assert wanted <= tried


LittleScheduler.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestLittleScheduler = LittleScheduler.TestCase
