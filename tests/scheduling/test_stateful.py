"""Whatever happens in whatever order, each live pod of ours is in exactly one place, and in the end every pod that fits is bound.

The scheduler is the real one. Around it: binds that succeed, fail, are lost or take long; events that come late or not at
all and are made up for by a relist; pods that are replaced under their names, resized, taken by others; nodes that come and go.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from schedcache.framework import WaitingPod
from schedcache.model import Node, Pod
from schedcache.ports import ConflictError, NotFoundError, OutcomeUnknownError, RefusedError, UnavailableError
from schedcache.testing import make_node, settle
from tests.scheduling.world import Api, Patience, World, make_pod

NAMES = ["web-0", "web-1", "db-0", "job"]
NODES = ["n1", "n2"]
OURS = "schedcache"
LONGEST_BIND = 45.0
BACKOFF = 10.0
HEALED = 200.0
"""Seconds in which everything that was under way must have an outcome: the longest bind, its reads, the expiry, the backoff."""

ERRORS: dict[str, Exception] = {
    "refused": RefusedError("forbidden", status=403),
    "conflict": ConflictError("conflict", status=409),
    "not found": NotFoundError("not found", status=404),
    "unknown": OutcomeUnknownError("no answer"),
}
GATES = [{"name": "hold"}]


class UnreliableApi(Api):
    """Its watch can lose what it has not yet told. No pod may be on its way to a node twice at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._under_way: set[str] = set()

    async def bind(self, pod: Pod, node_name: str) -> None:
        assert pod.uid not in self._under_way, f"{pod.full_name} is being bound twice at a time"
        self._under_way.add(pod.uid)
        try:
            await super().bind(pod, node_name)
        finally:
            self._under_way.discard(pod.uid)

    def lose(self) -> None:
        self._pending.clear()


class LivingCluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.api = UnreliableApi()
        self.world = World(extra={"Patience": Patience}, api=self.api)
        self.nodes: dict[str, Node] = {}
        self.uids = 0
        self.disturbed: set[str] = set()
        """Nodes on which others act, or which shrank: they may hold more than they have."""
        self.lost_events = False
        self.preemption = False
        self.run(self.world.__aenter__())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def now(self, change: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Make a change and let the scheduler do all that it can do without time."""

        async def act() -> None:
            change(*args, **kwargs)
            await settle()

        self.run(act())

    def _pick(self, number: int) -> Pod:
        """One of the pods that have not finished."""
        pods = self._unfinished()
        return pods[number % len(pods)]

    def _unfinished(self) -> list[Pod]:
        return [pod for _, pod in sorted(self.api.pods.items()) if not pod.finished]

    def _change(self, pod: Pod, **changes: Any) -> None:
        self.now(self.api.change, pod.uid, **changes)

    # ---- pods

    @initialize(cpu=st.sampled_from(["2", "4"]))
    def begin(self, cpu: str) -> None:
        self.add_or_change_node("n1", cpu)
        for name, gated in zip(NAMES, (False, False, True), strict=False):
            self.create(name=name, cpu="1", priority=0, gated=gated, scheduler=OURS)

    @rule(
        name=st.sampled_from(NAMES),
        cpu=st.sampled_from(["500m", "1", "2", "3"]),
        priority=st.integers(0, 3),
        gated=st.booleans(),
        scheduler=st.sampled_from([OURS, OURS, OURS, "other"]),
    )
    def create(self, name: str, cpu: str, priority: int, gated: bool, scheduler: str) -> None:
        """Under a name that is in use: as a controller that replaces the pod at once."""
        held = self.api.pods.get(("default", name))
        self.uids += 1
        gates = {"schedulingGates": GATES} if gated else {}

        def replace() -> None:
            if held is not None:
                self.api.delete(held.uid)
            self.api.create(f"u{self.uids}", name, cpu=cpu, priority=priority, scheduler_name=scheduler, **gates)

        self.now(replace)

    @rule(name=st.sampled_from(NAMES), cpu=st.sampled_from(["500m", "1", "2"]), priority=st.integers(0, 1))
    def create_another(self, name: str, cpu: str, priority: int) -> None:
        self.create(name=name, cpu=cpu, priority=priority, gated=False, scheduler=OURS)

    @precondition(_unfinished)
    @rule(number=st.integers(0, 3), how=st.sampled_from(["deleted", "deleted gracefully", "Succeeded", "Failed"]))
    def end(self, number: int, how: str) -> None:
        pod = self._pick(number)
        if how == "deleted":
            self.now(self.api.delete, pod.uid)
        elif how == "deleted gracefully":
            self._change(pod, deletion_timestamp="2026-01-01T00:00:00Z")
        else:
            self._change(pod, phase=how)

    @precondition(_unfinished)
    @rule(number=st.integers(0, 3), what=st.sampled_from(["ungate", "label", "hand over", "take over"]))
    def edit(self, number: int, what: str) -> None:
        """Changes that the API server allows, and another scheduler's name, which it does not, as happens to stored objects."""
        pod = self._pick(number)
        gated = pod.scheduling_gates and what != "ungate"
        gates = {"schedulingGates": GATES} if gated else {}
        scheduler = {"hand over": "other", "take over": OURS}.get(what, pod.scheduler_name)
        labels = {"version": pod.resource_version}
        cpu = f"{pod.spec.requests.resource.milli_cpu}m"
        like = make_pod("x", cpu=cpu, labels=labels, priority=pod.priority, scheduler_name=scheduler, **gates)
        self._change(pod, shape=like.shape)

    @precondition(_unfinished)
    @rule(number=st.integers(0, 3), cpu=st.sampled_from(["250m", "1500m", "4"]))
    def resize(self, number: int, cpu: str) -> None:
        self.disturbed |= set(NODES)
        self._change(self._pick(number), requests=make_pod("x", cpu=cpu).requests)

    @precondition(_unfinished)
    @rule(number=st.integers(0, 3), node=st.sampled_from(NODES))
    def bound_by_somebody_else(self, number: int, node: str) -> None:
        pod = self._pick(number)
        if not pod.node_name and not pod.scheduling_gates:
            self.disturbed.add(node)
            self._change(pod, node_name=node)

    # ---- nodes

    @rule(name=st.sampled_from(NODES), cpu=st.sampled_from(["1", "2", "4", "6"]))
    def add_or_change_node(self, name: str, cpu: str) -> None:
        node = make_node(name, cpu=cpu, resource_version=self.api.version())
        held = self.nodes.get(name)
        self.nodes[name] = node
        if held is None:
            self.now(self.api.handlers.on_add, "Node", node)
            return
        if node.allocatable.milli_cpu < held.allocatable.milli_cpu:
            self.disturbed.add(name)
        self.now(self.api.handlers.on_update, "Node", held, node)

    @precondition(lambda self: len(self.nodes) > 1)
    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.disturbed.add(name)
        self.now(self.api.handlers.on_delete, "Node", self.nodes.pop(name), missed=False)

    # ---- what goes wrong

    @rule(
        delay=st.sampled_from([0.0, 3.0, LONGEST_BIND]),
        error=st.sampled_from([None, *ERRORS]),
        done=st.booleans(),
    )
    def next_bind_goes_wrong(self, delay: float, error: str | None, done: bool) -> None:
        """It takes long, fails, or both; `done`: the server has carried it out all the same."""

        async def act(pod: Pod, node: str) -> None:
            if delay:
                await self.world.clock.sleep(delay)
            if error is not None:
                raise ERRORS[error]

        (self.api.after_bind if done else self.api.before_bind).append(act)

    @rule(times=st.integers(1, 4))
    def reads_fail(self, times: int) -> None:
        self.api.on_get += [UnavailableError("down", status=503)] * times

    @rule(what=st.sampled_from(["late", "told", "lost", "relist", "relist, deletions first", "rebuild"]))
    def watch(self, what: str) -> None:
        """Events come late from now on, or are told now, or are lost: then nothing is told until everything is read again."""
        if what == "late":
            self.api.watching = False
        elif what == "lost" and not self.api.watching:
            self.api.lose()
            self.lost_events = True
        elif what == "told" and not self.lost_events:
            self.now(self.api.deliver)
            self.api.watching = True
        elif what in ("relist", "relist, deletions first", "rebuild"):
            self.api.lose()
            self.lost_events, self.api.watching = False, True
            self.now(self._rebuild if what == "rebuild" else self._relist, what != "relist")

    def _relist(self, deletions_first: bool) -> None:
        """What a source does after a gap: everything is compared with what was told last, by UID."""
        handlers, told = self.api.handlers, {pod.uid: pod for pod in self.world.pods.values()}
        current = {pod.uid: pod for pod in self.api.pods.values()}
        gone = [partial(handlers.on_delete, "Pod", pod, missed=True) for uid, pod in told.items() if uid not in current]
        there = [
            partial(handlers.on_update, "Pod", told[uid], pod) if uid in told else partial(handlers.on_add, "Pod", pod)
            for uid, pod in current.items()
        ]
        for tell in gone + there if deletions_first else there + gone:
            tell()

    def _rebuild(self, _deletions_first: bool) -> None:
        self.api.handlers.on_rebuild({"Pod": list(self.api.pods.values()), "Node": list(self.nodes.values())})

    # ---- what the scheduler's own parts and its plugins do

    def _waiting(self) -> list[WaitingPod]:
        return list(self.world.scheduler.frameworks[OURS].waiting_pods)

    @precondition(_waiting)
    @rule(number=st.integers(0, 3), allow=st.booleans())
    def permit(self, number: int, allow: bool) -> None:
        waiting = self._waiting()[number % len(self._waiting())]
        if allow:
            self.now(waiting.allow, "Patience")
        else:
            self.now(waiting.reject, "Patience", "not today")

    @rule(name=st.sampled_from(NAMES), node=st.sampled_from(NODES), activate=st.booleans())
    def preempt_for(self, name: str, node: str, activate: bool) -> None:
        pod = self.world.pods.get("default", name)
        if pod is not None and pod.scheduler_name == OURS and self.world.scheduler.state.cached(pod) is None:
            self.preemption = True
            self.now(self.world.queue.add_nominated_pod, pod, node)
            if activate:
                self.now(self.world.queue.activate, [pod])

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5, 11.0, 31.0, 310.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.run(self.world.advance(seconds))

    # ---- what must hold after every step

    def _told(self) -> dict[str, Pod]:
        """The pods of ours that the scheduler has been told of, but for those that are being deleted without a node."""
        return {
            pod.uid: pod
            for pod in self.world.pods.values()
            if pod.scheduler_name == OURS and (pod.node_name or not pod.terminating)
        }

    def _places(self) -> dict[str, list[str]]:
        world, queue = self.world, self.world.queue
        places: dict[str, list[str]] = {}
        queues = {
            "active": queue.active_pods(),
            "backoff": queue.backoff_pods() + queue.error_backoff_pods(),
            "unschedulable": [info for info in queue.unschedulable_pods() if not info.gated_by],
            "gated": [info for info in queue.unschedulable_pods() if info.gated_by],
        }
        for name, infos in queues.items():
            for info in infos:
                places.setdefault(info.pod.uid, []).append(name)
        dump = world.cache.dump()
        waiting = {w.pod.uid for w in world.scheduler.frameworks[OURS].waiting_pods}
        counted = {uid for info in dump.nodes.values() for uid in info.pods_by_uid}
        for uid in counted:
            assumed = "waiting" if uid in waiting else "assumed"
            places.setdefault(uid, []).append(assumed if uid in dump.assumed_pods else "bound")
        for uid in set(queue.in_flight()) - counted:
            places.setdefault(uid, []).append("in flight")
        return places

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        places = self._places()
        for uid, pod in self._told().items():
            found = places.get(uid, [])
            assert len(found) == 1, f"{pod.full_name} {uid}: {found}"
            assert (found == ["bound"]) == bool(pod.node_name), f"{pod.full_name} {uid}: {found}, on {pod.node_name!r}"

    @invariant()
    def nothing_else_is_anywhere(self) -> None:
        """Neither deleted pods nor those of others, which are counted on their nodes and nowhere else."""
        known = {pod.uid: pod for pod in self.world.pods.values()}
        for uid, found in self._places().items():
            assert uid in known, f"a ghost: {uid} {found}"
            pod = known[uid]
            if pod.scheduler_name != OURS:
                # One that changed hands while it was being bound keeps its room until that has an outcome.
                assert found in (["bound"], ["assumed"], ["waiting"]), (
                    f"{pod.full_name} of {pod.scheduler_name}: {found}"
                )

    @invariant()
    def the_queue_holds_the_newest_objects(self) -> None:
        queue = self.world.queue
        for info in (
            *queue.active_pods(),
            *queue.backoff_pods(),
            *queue.error_backoff_pods(),
            *queue.unschedulable_pods(),
        ):
            assert info.pod is self.world.pods.held(info.pod), info.pod.full_name
            assert not info.gated_by or info.pod.scheduling_gates, f"{info.pod.full_name} has no gates and is held back"

    @invariant()
    def what_is_in_flight_has_a_cycle_that_runs(self) -> None:
        flying = set(self.world.queue.in_flight())
        assert flying <= set(self.world.scheduler.bindings._latest)
        if not flying:
            assert self.world.queue.in_flight_events() == []

    @invariant()
    def no_node_holds_more_than_it_has(self) -> None:
        for name, info in self.world.cache.dump().nodes.items():
            if name not in self.disturbed:
                assert info.requested.milli_cpu <= info.allocatable.milli_cpu, name

    @invariant()
    def no_pod_sleeps_that_could_be_placed(self) -> None:
        """But for those that keep out of the room that others are nominated for."""
        if self.preemption:
            return
        infos = [info for info in self.world.cache.dump().nodes.values() if info.node is not None]
        free = [info.allocatable.milli_cpu - info.requested.milli_cpu for info in infos]
        for info in self.world.queue.unschedulable_pods():
            if info.unschedulable_plugins == {"Fit"}:
                needs = info.pod.requests.resource.milli_cpu
                assert all(needs > room for room in free), f"{info.pod.full_name} fits and nobody woke it"

    @invariant()
    def cache_and_events_never_contradict_each_other(self) -> None:
        assert self.world.rebuilds == []

    @invariant()
    def only_waiting_pods_are_nominated(self) -> None:
        queue = self.world.queue
        nominated = [pod.uid for node in queue.nominated_nodes() for pod in queue.nominated_pods_for_node(node)]
        assert len(nominated) == len(set(nominated))
        waiting = {pod.uid for pod in self.world.pods.values() if not pod.node_name}
        assert set(nominated) <= waiting

    # ---- in the end

    def teardown(self) -> None:
        try:
            self._heal()
        finally:
            self.run(self.world.__aexit__())
            self.loop.close()

    def _let_pass_and_permit(self, seconds: float) -> None:
        for _ in range(int(seconds / 2)):
            self.run(self.world.advance(2.0))
            while self._waiting():
                self.permit(number=0, allow=True)

    def _heal(self) -> None:
        """Faults end, gaps close: what was under way comes to an end. Then there is room, and every pod finds it in time."""
        self.api.before_bind.clear()
        self.api.after_bind.clear()
        self.api.on_get.clear()
        self.watch(what="relist")
        self._let_pass_and_permit(HEALED)
        self.every_pod_is_in_exactly_one_place()
        self.world.check_at_rest()
        self.add_or_change_node("n1", "1000")
        self._let_pass_and_permit(BACKOFF + 2.0)
        self.world.check_at_rest()
        waiting = [
            pod.full_name
            for pod in self.api.pods.values()
            if pod.scheduler_name == OURS
            and not pod.node_name
            and not (pod.scheduling_gates or pod.terminating)
            and not pod.finished
        ]
        assert waiting == [], f"fits and was not bound: {waiting}"


LivingCluster.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLivingCluster = LivingCluster.TestCase
