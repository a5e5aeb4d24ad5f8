"""Random histories against a naive model: 10,000 calls and more, validation on, the time virtual."""

from itertools import islice
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from schedcache.cache import CacheError, NodeInfo, SchedulerCache, Snapshot, Stories
from schedcache.model import Node, Pod
from schedcache.testing import VirtualClock, make_node, make_pod
from tests.cache.naive import NaiveCache
from tests.cache.support import run_histories

NODES = [f"n{i}" for i in range(5)]
SHAPES: list[dict[str, Any]] = [
    {},
    {"requests": {"cpu": "100m", "memory": "1Gi"}},
    {"requests": {"cpu": "1", "example.com/gpu": "2", "ephemeral-storage": "1Gi"}},
    {"anti_affinity": {"app": "x"}},
    {"affinity": {"podAffinity": {}}, "requests": {"cpu": "1"}},
    {"host_ports": [80, 443]},
    {"host_ports": [80], "claims": ["data", "data", "logs"]},
    {"claims": ["logs"]},
]
IMAGES = [(["a:1", "a@x"], 100), (["b:1"], 200), (["a:1"], 300)]

uids = st.integers(0, 7).map(lambda i: f"u{i}")
node_names = st.sampled_from(NODES)
now_and_then = st.integers(0, 9).map(lambda i: i == 0)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    uid = "" if draw(now_and_then) and draw(now_and_then) else draw(uids)
    node = "" if draw(now_and_then) else draw(node_names)
    more = {
        **draw(st.sampled_from(SHAPES)),
        "resource_version": draw(st.integers(1, 9)),
        "namespace": draw(st.sampled_from("ab")),
    }
    return make_pod(uid or "nameless", node, uid=uid, **more)


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    return make_node(
        draw(node_names),
        zone=draw(st.sampled_from([None, "a", "b"])),
        capacity={"cpu": str(draw(st.integers(1, 3))), "example.com/gpu": draw(st.sampled_from(["0", "4"]))},
        labels=draw(st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd"}])),
        taints=draw(st.sampled_from([[], [{"key": "k", "effect": "NoSchedule"}]])),
        unschedulable=draw(st.booleans()),
        images=draw(st.lists(st.sampled_from(IMAGES), max_size=2)),
    )


def shown(info: NodeInfo) -> dict[str, Any]:
    amounts = info.requested
    requested = {
        "cpu": amounts.milli_cpu,
        "memory": amounts.memory,
        "disk": amounts.ephemeral_storage,
        **amounts.scalar,
    }
    return {
        "node": info.node,
        "pods": {id(pod) for pod in info.pods},
        "affinity": {pod.uid for pod in info.pods_with_affinity},
        "anti-affinity": {pod.uid for pod in info.pods_with_required_anti_affinity},
        "requested": {key: amount for key, amount in requested.items() if amount},
        "non-zero": (info.non_zero_requested.milli_cpu, info.non_zero_requested.memory),
        "ports": info.used_ports,
        "claims": info.pvc_ref_counts,
    }


def picture(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a snapshot shows, in values that later changes cannot reach."""
    columns = snapshot.columns
    return {
        "order": [info.name for info in snapshot.node_info_list],
        "affinity": {info.name for info in snapshot.have_pods_with_affinity_list},
        "anti-affinity": {info.name for info in snapshot.have_pods_with_required_anti_affinity_list},
        "claims": dict(snapshot.claim_node_counts),
        "nodes": {
            name: {
                **{key: repr(value) for key, value in shown(info).items()},
                "images": repr(info.image_states),
                "cpu": int(columns.requested[0, columns.row_of[name]]),
                "free": int(columns.allocatable[0, columns.row_of[name]]),
            }
            for name, info in snapshot.node_info_map.items()
        },
    }


class CacheMachine(RuleBasedStateMachine):
    steps = 0

    @initialize(ttl=st.sampled_from([0.0, 30.0]))
    def start(self, ttl: float) -> None:
        self.clock = VirtualClock()
        self.cache = SchedulerCache(ttl, self.clock, validate=True, stories=Stories())
        self.naive = NaiveCache(ttl)
        self.snapshots = [Snapshot(), Snapshot()]
        self.pictures = [picture(snapshot) for snapshot in self.snapshots]
        self.generation = 0

    def call(self, method: str, *arguments: Any) -> str | None:
        try:
            getattr(self.cache, method)(*arguments)
        except CacheError as error:
            return error.kind
        return None

    @rule(pod=pods())
    def assume(self, pod: Pod) -> None:
        assert self.call("assume_pod", pod) == self.naive.assume_pod(pod)

    @rule(pod=pods())
    def finish(self, pod: Pod) -> None:
        assert self.call("finish_binding", pod) == self.naive.finish_binding(pod, self.clock.now)

    @rule(pod=pods())
    def forget(self, pod: Pod) -> None:
        assert self.call("forget_pod", pod) == self.naive.forget_pod(pod)

    @rule(pod=pods())
    def add(self, pod: Pod) -> None:
        assert self.call("add_pod", pod) == self.naive.add_pod(pod)

    @rule(old=pods(), new=pods(), same=st.booleans())
    def update(self, old: Pod, new: Pod, same: bool) -> None:
        if same and old.uid in self.naive.pods:
            new = make_pod(old.uid, self.naive.pods[old.uid].node_name, uid=old.uid, claims=["data"])
        assert self.call("update_pod", old, new) == self.naive.update_pod(old, new)

    @rule(pod=pods())
    def remove(self, pod: Pod) -> None:
        assert self.call("remove_pod", pod) == self.naive.remove_pod(pod)

    @rule(uid=uids, method=st.sampled_from(["forget_pod", "remove_pod", "add_pod", "finish_binding"]))
    def act_on_a_cached_pod(self, uid: str, method: str) -> None:
        pod = self.naive.pods.get(uid)
        if pod is None:
            return
        arguments = (pod, self.clock.now) if method == "finish_binding" else (pod,)
        assert self.call(method, pod) == getattr(self.naive, method)(*arguments)

    @rule(seconds=st.sampled_from([1.0, 29.0, 30.0, 31.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        assert {pod.uid for pod in self.cache.expired_pods(self.clock.now)} == self.naive.expired(self.clock.now)

    @rule(uid=uids)
    def expire(self, uid: str) -> None:
        pod = make_pod("p", "n0", uid=uid)
        assert self.call("expire_pod", pod) == self.naive.expire_pod(pod, self.clock.now)

    @rule()
    def clean_up(self) -> None:
        expired = self.naive.expired(self.clock.now)
        order = [pod.uid for pod in self.cache.cleanup_expired(self.clock.now)]
        assert set(order) == expired
        for uid in order:
            assert self.naive.expire_pod(make_pod("p", uid=uid), self.clock.now) is None

    @rule(node=nodes(), update=st.booleans())
    def set_node(self, node: Node, update: bool) -> None:
        old = self.naive.nodes.get(node.name)
        assert self.call("update_node", old, node) is None if update else self.call("add_node", node) is None
        self.naive.set_node(node)

    @rule(node=nodes())
    def remove_node(self, node: Node) -> None:
        assert self.call("remove_node", node) == self.naive.remove_node(node.name)

    @rule(keep=st.lists(uids, max_size=4, unique=True), sure=now_and_then)
    def reset(self, keep: list[str], sure: bool) -> None:
        if sure:
            self.cache.reset(keep)
            self.naive.reset(keep)

    @rule(which=st.integers(0, 1), pieces=st.sampled_from([0, 1, 2, 99]))
    def update_snapshot(self, which: int, pieces: int) -> None:
        snapshot = self.snapshots[which]
        before = snapshot.generation
        for _ in islice(self.cache.update_snapshot_in_pieces(snapshot, size=1), pieces):
            """Some updates are left half done: the next one makes up for it."""
        self.cache.update_snapshot(snapshot)
        assert snapshot.generation >= before
        self.pictures[which] = picture(snapshot)
        assert {name: shown(info) for name, info in snapshot.node_info_map.items()} == {
            name: self.naive.view(name) for name in self.naive.nodes
        }
        assert set(snapshot.used_pvcs) == self.naive.used_pvcs()
        fresh = Snapshot()
        self.cache.update_snapshot(fresh)
        scratch = picture(fresh)
        assert sorted(self.pictures[which]["order"]) == sorted(scratch["order"])
        for part in ("affinity", "anti-affinity", "claims"):
            assert self.pictures[which][part] == scratch[part]

    @rule(which=st.integers(0, 1), pod=pods(), end=st.sampled_from(["forget", "forget_all", "next update"]))
    def think(self, which: int, pod: Pod, end: str) -> None:
        snapshot = self.snapshots[which]
        known = pod.uid and pod.node_name in snapshot.node_info_map
        if not known or any(pod.uid in (p.uid for p in info.pods) for info in snapshot.node_info_list):
            return
        snapshot.assume(pod)
        assert pod in snapshot.get(pod.node_name).pods
        if end == "forget":
            snapshot.forget(pod)
        elif end == "forget_all":
            snapshot.forget_all()
        else:
            self.pictures[which] = picture(snapshot)

    @invariant()
    def counts(self) -> None:
        CacheMachine.steps += 1

    @invariant()
    def agrees_with_the_naive_model(self) -> None:
        dump = self.cache.dump()
        assert list(dump.nodes) == self.naive.recent_first
        assert {name: shown(info) for name, info in dump.nodes.items()} == {
            name: self.naive.view(name) for name in self.naive.recent_first
        }
        assert dump.assumed_pods == self.naive.assumed
        assert (self.cache.node_count(), self.cache.pod_count()) == (len(dump.nodes), len(self.naive.pods))
        assert set(self.cache.node_tree.list()) == self.naive.nodes.keys()

    @invariant()
    def snapshots_show_what_they_showed(self) -> None:
        assert [picture(snapshot) for snapshot in self.snapshots] == self.pictures

    @invariant()
    def generations_fall_along_the_list(self) -> None:
        generations = [info.generation for info in self.cache.nodes.values()]
        assert generations == sorted(generations, reverse=True)
        assert len(set(generations)) == len(generations)


@pytest.mark.slow
def test_random_histories():
    CacheMachine.steps = 0
    run_histories(CacheMachine, 300)
    assert CacheMachine.steps > 10_000
