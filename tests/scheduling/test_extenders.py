"""Extenders take part in decisions: what their words do, and what goes on while they are asked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from schedcache import testing
from schedcache.cache import Snapshot
from schedcache.framework import Advice, Code, Extenders, Status
from schedcache.model import Node, Pod
from schedcache.plugins.default_preemption import DefaultPreemption
from schedcache.ports import ExtenderError, ExtenderResult, FilterAnswer, MetaVictims, Victims
from schedcache.scheduling import schedule_one
from schedcache.server.metrics import PrometheusMetrics
from schedcache.testing import make_node, settle
from tests.scheduling.world import Api, Fit, World, make_pod

FAULT = ExtenderError("extender 'gpu': it is broken", ExtenderResult.STATUS)


class Peer:
    """An extender that answers as it is told, at once or when it is let go; interested in pods of a priority over 100."""

    def __init__(
        self,
        name: str = "gpu",
        *,
        refuses: Mapping[str, str] = {},
        forever: Mapping[str, str] = {},
        silently: Sequence[str] = (),
        scores: Sequence[tuple[str, int]] | None = None,
        fails: Sequence[str] = (),
        binder: Any = None,
        weight: int = 1,
        ignorable: bool = False,
        wants: Callable[[Pod], bool] = lambda pod: pod.priority > 100,
    ) -> None:
        self.name, self.weight, self.ignorable = name, weight, ignorable
        self.filters, self.prioritizes = True, scores is not None
        self.preempts, self.binds = False, binder is not None
        self.refuses, self.forever, self.silently, self.fails = dict(refuses), forever, silently, set(fails)
        self.scores, self.binder, self.is_interested = scores or (), binder, wants
        self.asked: list[tuple[str, str, list[str]]] = []
        self.free = asyncio.Event()
        self.free.set()

    async def _answer(self, verb: str, pod: Pod, names: list[str]) -> None:
        self.asked.append((verb, pod.name, names))
        await self.free.wait()
        if verb in self.fails:
            raise FAULT

    async def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterAnswer:
        names = [node.name for node in nodes]
        await self._answer("filter", pod, names)
        out = {*self.refuses, *self.forever, *self.silently}
        return FilterAnswer([name for name in names if name not in out], self.refuses, self.forever)

    async def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        await self._answer("prioritize", pod, [node.name for node in nodes])
        return self.scores

    async def process_preemption(self, pod: Pod, candidates: Mapping[str, Victims]) -> Mapping[str, MetaVictims]:
        raise NotImplementedError

    async def bind(self, pod: Pod, node_name: str) -> None:
        await self._answer("bind", pod, [node_name])
        await self.binder(pod, node_name)


def message_of(world: World, uid: str) -> str:
    return world.recorder.notes(uid)[-1]


async def test_one_extender_after_the_other_is_asked_about_what_is_left():
    one = Peer("one", refuses={"a": "no a"}, scores=[])
    two = Peer("two", refuses={"b": "no b"}, scores=[], ignorable=True)
    async with World(extenders=[two, one]) as world:
        for name in "abcd":
            world.add_node(name)
        world.api.create("p", priority=200)
        await settle()
        assert one.asked == [("filter", "p", ["a", "b", "c", "d"]), ("prioritize", "p", ["c", "d"])]
        assert two.asked == [("filter", "p", ["b", "c", "d"]), ("prioritize", "p", ["c", "d"])]
        assert world.api.node_of("p") in "cd"
        assert ("one", "filter", "success") in world.metrics.calls


async def test_scores_of_extenders_are_added_up_and_names_of_strangers_do_not_matter():
    one = Peer("one", scores=[("a", 10), ("b", 4), ("nowhere", 10)], weight=1)
    two = Peer("two", scores=[("b", 3), ("b", 1), ("c", 9)], weight=2)
    broken = Peer("three", scores=[("c", 10)], weight=100, fails=["prioritize"])
    async with World(extenders=[one, two, broken]) as world:
        for name in "abc":
            world.add_node(name)
        world.api.create("p", priority=200)
        await settle()
        # a: 10, b: 4 + 2 * 4, c: 2 * 9
        assert world.api.node_of("p") == "c"
        two.scores = [("b", 4)]
        world.api.create("q", priority=200)
        await settle()
        assert world.api.node_of("q") == "b"
        assert ("three", "prioritize", "status") in world.metrics.calls


async def test_a_single_node_is_not_scored_and_none_is_not_asked_about():
    peer = Peer(scores=[])
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        world.api.create("huge", cpu="100", priority=200)
        await settle()
        assert peer.asked == [("filter", "p", ["a"])]
        assert message_of(world, "huge") == "0/1 nodes are available: 1 Insufficient cpu."


async def test_rejections_are_told_and_any_event_brings_the_pod_back():
    peer = Peer(refuses={"a": "no licence", "b": "both"}, forever={"b": "wrong model"}, silently=["c"])
    async with World(extenders=[peer]) as world:
        for name in "abc":
            world.add_node(name)
        world.add_node("full", cpu="0")
        world.api.create("p", priority=200)
        await settle()
        assert message_of(world, "p") == (
            "0/4 nodes are available: 1 Insufficient cpu, 1 no licence, 1 node(s) were left out by extender gpu, 1 wrong model."
        )
        [info] = world.queue.unschedulable_pods()
        assert info.unschedulable_plugins == {"Extender", "Fit"}
        peer.refuses = {}
        # Nothing that a plugin waits for.
        world.scheduler.handlers.on_add("Pod", make_pod("other", "full", scheduler_name="else"))
        await world.advance(3)
        assert world.api.node_of("p") == "a"


def test_what_eviction_may_help_is_told_from_what_it_may_not():
    peer = Peer(refuses={"a": "busy", "b": "busy"}, forever={"b": "never"}, silently=["c"])
    world = World(extenders=[peer])
    for name in "abc":
        world.add_node(name)
    statuses = asyncio.run(rejections(world, make_pod("p", uid="p", priority=200)))
    assert statuses == {
        "a": Status(Code.UNSCHEDULABLE, ("busy",), "Extender"),
        "b": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("never",), "Extender"),
        "c": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) were left out by extender gpu",), "Extender"),
    }


async def rejections(world: World, pod: Pod) -> dict[str, Status]:
    framework = world.scheduler.frameworks["schedcache"]
    snapshot, advice = world.snapshot(), Advice(framework.handle.extenders)
    assert not framework.evaluate(pod, snapshot, lambda _: (), advice=advice).fits
    await advice.ask(pod)
    diagnosis = framework.evaluate(pod, snapshot, lambda _: (), advice=advice).diagnosis()
    return dict(diagnosis.statuses)


async def test_a_broken_extender_is_an_error_and_the_pod_is_tried_again():
    peer = Peer(fails=["filter"])
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        world.api.create("other")
        await settle()
        assert message_of(world, "p") == "extender 'gpu': it is broken"
        _, condition, _ = world.recorder.patches[-1]
        assert (condition.reason, condition.message) == ("SchedulerError", "extender 'gpu': it is broken")
        assert world.api.node_of("other") == "a"
        assert world.metrics.calls == [("gpu", "filter", "status")]
        peer.fails = set()
        await world.advance(3)
        assert world.api.node_of("p") == "a"


async def test_a_broken_extender_that_is_ignorable_is_done_without():
    peer = Peer(fails=["filter"], ignorable=True)
    other = Peer("other", refuses={"a": "no"})
    async with World(extenders=[peer, other]) as world:
        world.add_node("a")
        world.add_node("b")
        world.api.create("p", priority=200)
        await settle()
        assert world.api.node_of("p") == "b"


async def test_others_are_decided_and_bound_while_an_extender_takes_its_time():
    peer = Peer(wants=lambda pod: pod.priority > 100)
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        peer.free.clear()
        world.api.create("p", priority=200)
        await settle()
        world.api.create("next", priority=300)
        await settle()
        for number in range(20):
            world.api.create(f"other-{number}")
        await settle()
        assert [world.api.node_of(f"other-{n}") for n in range(20)] == ["a"] * 20
        # One attempt with extenders at a time; the second waits in the queue, where it can be seen, deleted and overtaken.
        assert [name for _, name, _ in peer.asked] == ["p"]
        assert world.queue.pending_counts()["active"] == 1
        world.api.create("first", priority=400)
        peer.free.set()
        await settle()
        assert [name for _, name, _ in peer.asked] == ["p", "first", "next"]
        world.check_at_rest()


async def test_others_have_a_turn_before_and_after_an_extender_is_asked():
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    advice = Advice(Extenders([Peer()]))
    advice.unasked = [make_node("a")]
    await advice.ask(make_pod("p", priority=200))
    others.cancel()
    assert turns == 2


async def test_pods_whose_backoff_runs_do_not_slip_past_the_lane():
    peer = Peer(refuses={"a": "no"})
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        await settle()
        peer.refuses = {}
        peer.free.clear()
        world.api.create("q", priority=200)
        await settle()
        # An event that wakes p into its backoff, from which pods are taken when nothing else is to be done.
        world.add_node("b")
        await settle()
        assert [name for _, name, _ in peer.asked] == ["p", "q"]
        peer.free.set()
        await settle()
        assert [name for _, name, _ in peer.asked] == ["p", "q", "p"]


async def test_a_pod_that_is_gone_when_the_extender_answers_is_dropped():
    peer = Peer()
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        for end in ("deleted", "terminating", "bound"):
            peer.free.clear()
            world.api.create(end, priority=200)
            await settle()
            if end == "deleted":
                world.api.delete(end)
            elif end == "terminating":
                world.api.change(end, deletion_timestamp="2026-01-01T00:00:00Z")
            else:
                world.api.change(end, node_name="a")
            peer.free.set()
            await settle()
        assert world.api.posts == []
        assert world.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
        assert message_of(world, "terminating") == "skip schedule deleting pod: default/terminating"
        world.api.delete("terminating")
        world.check_at_rest()


async def test_the_decision_is_made_on_the_cluster_as_it_is_when_the_extender_has_answered():
    peer = Peer(scores=[("a", 10), ("b", 9), ("c", 8)])
    async with World(extenders=[peer]) as world:
        nodes = {name: world.add_node(name, cpu="1") for name in "abc"}
        peer.free.clear()
        world.api.create("p", cpu="800m", priority=200)
        await settle()
        # The best node goes, the second one fills up.
        world.scheduler.handlers.on_delete("Node", nodes["a"], missed=False)
        world.api.create("other", cpu="500m", node="b", scheduler_name="else")
        peer.free.set()
        await settle()
        assert world.api.node_of("p") == "c"
        assert world.requested("b") == 500


async def test_nodes_that_fit_only_since_are_asked_about_once_where_no_other_is_left():
    peer = Peer()
    async with World(extenders=[peer]) as world:
        node = world.add_node("a", cpu="1")
        peer.free.clear()
        world.api.create("p", cpu="800m", priority=200)
        await settle()
        world.scheduler.handlers.on_delete("Node", node, missed=False)
        world.add_node("b", cpu="1")
        peer.free.set()
        await settle()
        assert [names for _, _, names in peer.asked] == [["a"], ["b"]]
        assert world.api.node_of("p") == "b"


async def test_a_pod_that_changed_meanwhile_is_placed_as_it_is_now():
    peer = Peer(scores=[("a", 10)])
    async with World(extenders=[peer]) as world:
        world.add_node("a", cpu="1")
        world.add_node("b", cpu="4")
        peer.free.clear()
        world.api.create("p", cpu="800m", priority=200)
        await settle()
        grown = make_pod("p", uid="p", cpu="2", priority=200)
        world.api.change("p", shape=grown.shape, requests=grown.requests)
        peer.free.set()
        await settle()
        assert (world.api.node_of("p"), world.requested("b")) == ("b", 2000)


async def test_it_is_asked_about_the_nodes_of_the_pods_turn_alone_though_others_take_turns_meanwhile():
    peer = Peer(refuses={f"n{i:03}": "no" for i in range(100)})
    profile = {"schedulerName": "schedcache", "percentageOfNodesToScore": 40}
    config = {"profiles": [profile], "percentageOfNodesToScore": 80}
    async with testing.World(config, extenders=[peer]) as world:
        world.add(*(make_node(f"n{i:03}", cpu="4") for i in range(250)))
        peer.free.clear()
        world.add(make_pod("asks", priority=200))
        await settle()
        world.add(make_pod("other"))
        await settle()
        assert "n100" <= world.node_of("other") <= "n199"
        peer.free.set()
        await settle()
        assert peer.asked[0] == ("filter", "asks", sorted(peer.refuses))
        assert world.notes("asks")[0].startswith("0/250 nodes are available: 100 no.")
        # The binding of the other has brought it back: now its turn is from n200 on.
        assert not "n050" <= world.node_of("asks") <= "n199"


async def test_the_nominated_node_is_asked_about_alone():
    peer = Peer(refuses={"a": "no"})
    async with World(extenders=[peer]) as world:
        for name in "abc":
            world.add_node(name)
        world.api.create("p", priority=200, nominated="b")
        world.api.create("q", priority=200, nominated="a")
        await settle()
        assert [names for _, _, names in peer.asked] == [["b"], ["a"], ["b", "c"]]
        assert world.api.node_of("p") == "b"
        assert world.api.node_of("q") in "bc"


async def test_a_scheduler_that_stops_while_it_asks_leaves_nothing_behind():
    peer = Peer()
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        peer.free.clear()
        world.api.create("p", priority=200)
        await settle()
    assert world.cache.dump().assumed_pods == frozenset()


async def test_reasons_of_any_length_do_not_make_a_status_too_long_to_be_written():
    async with World(extenders=[Peer(refuses={"a": "y" * 3_000_000})]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        await settle()
        _, condition, _ = world.recorder.patches[-1]
        assert condition.message.startswith("0/1 nodes are available: 1 yyy")
        assert condition.message.endswith("yyy ...")
        assert len(condition.message) == 32_768


@pytest.mark.parametrize("turns", range(6))
async def test_a_scheduler_that_stops_at_any_moment_leaves_nothing_behind(turns):
    async with World(extenders=[Peer()]) as world:
        world.add_node("n1")
        world.api.create("p", priority=200)
        for _ in range(turns):
            await asyncio.sleep(0)
    world.check_at_rest()


async def test_a_fault_of_ours_in_asking_stops_nobody(capsys):
    peer = Peer()

    async def filter_(pod, nodes):
        raise RuntimeError("a bug")

    peer.filter = filter_
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        world.api.create("q", priority=200)
        world.api.create("other")
        await settle()
        assert [message_of(world, uid) for uid in "pq"] == ["a bug", "a bug"]
        assert world.api.node_of("other") == "a"
    assert "scheduling cycle failed" in capsys.readouterr().out


# ---- binding


async def test_the_first_interested_binder_binds_in_place_of_the_plugins():
    api = Api()
    peer = Peer(binder=api_bind(api))
    async with World(extenders=[peer], api=api) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        world.api.create("other")
        await settle()
        assert (world.api.node_of("p"), world.api.node_of("other")) == ("a", "a")
        assert world.api.posts == [("other", "a")]
        assert ("bind", "p", ["a"]) in peer.asked
        world.check_at_rest()


def api_bind(api: Api, error: ExtenderError | None = None):
    async def bind(pod: Pod, node_name: str) -> None:
        api.change(pod.uid, node_name=node_name)
        if error is not None:
            raise error

    return bind


@pytest.mark.parametrize("result", [ExtenderResult.TIMEOUT, ExtenderResult.ERROR, ExtenderResult.DISCONNECTED])
async def test_whether_a_binder_that_failed_has_bound_the_pod_is_looked_up(result):
    api = Api()
    peer = Peer(binder=api_bind(api, ExtenderError("no answer", result)))
    async with World(extenders=[peer], api=api) as world:
        api.watching = False
        world.scheduler.handlers.on_add("Node", make_node("a"))
        pod = world.api.create("p", priority=200)
        api.deliver()
        await settle()
        assert (api.reads, world.metrics.doubts) == (1, ["bound"])
        assert world.recorder.reasons(pod.uid) == ["Scheduled"]
        api.deliver()
        world.check_at_rest()


async def test_a_binder_that_failed_without_binding_is_told_and_the_pod_tried_again():
    peer = Peer(fails=["bind"], binder=lambda *_: None)
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        await settle()
        assert message_of(world, "p") == "extender 'gpu': it is broken"
        assert world.requested("a") == 0
        peer.fails, peer.binder = set(), api_bind(world.api)
        await world.advance(3)
        assert world.api.node_of("p") == "a"


async def test_an_ignorable_binder_that_fails_leaves_the_pod_to_the_plugins():
    peer = Peer(fails=["bind"], binder=lambda *_: None, ignorable=True)
    async with World(extenders=[peer]) as world:
        world.add_node("a")
        world.api.create("p", priority=200)
        await settle()
        assert world.api.posts == [("p", "a")]


# ---- preemption


class Preemptor(Peer):
    """Answers with what it is given."""

    def __init__(self, answer: Any, **options: Any) -> None:
        super().__init__(**options)
        self.preempts = True
        self.answer = answer

    async def process_preemption(self, pod: Pod, candidates: Mapping[str, Victims]) -> Mapping[str, MetaVictims]:
        await self._answer("preempt", pod, sorted(candidates))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


RUNNING = {"a": [make_pod("a1", uid="a1"), make_pod("a2", uid="a2")], "b": [make_pod("b1", uid="b1")]}
CANDIDATES = {"a": Victims(RUNNING["a"][:1], 0), "b": Victims(RUNNING["b"], 1)}


async def left_by(*extenders: Peer) -> dict[str, tuple[list[str], int]]:
    preemptor = make_pod("p", uid="p", priority=200)
    found = await Extenders(extenders).process_preemption(preemptor, CANDIDATES, RUNNING.get)
    return {name: ([pod.name for pod in pods], violations) for name, (pods, violations) in found.items()}


async def test_extenders_drop_candidates_and_change_victims_each_seeing_what_those_before_left():
    one = Preemptor({"a": MetaVictims(["a2", "a1"], 3)})
    two = Preemptor({"a": MetaVictims(["a2"], 0)}, ignorable=True)
    idle = Peer("idle")
    assert await left_by(idle, two, one) == {"a": (["a2"], 0)}
    assert (one.asked, two.asked) == ([("preempt", "p", ["a", "b"])], [("preempt", "p", ["a"])])
    assert await left_by(Preemptor({}), two) == {}
    assert len(two.asked) == 1


async def test_what_an_extender_says_of_victims_is_checked():
    for answer, said in (
        ({"a": MetaVictims([], 0)}, "expected at least one victim pod on node 'a'"),
        ({"a": MetaVictims(["b1"], 0)}, "a victim on node 'a' that is not there: b1"),
        ({"x": MetaVictims(["b1"], 0)}, "a victim on node 'x' that is not there: b1"),
        (FAULT, "it is broken"),
    ):
        with pytest.raises(ExtenderError, match=said):
            await left_by(Preemptor(answer))
    dropped = Preemptor({"a": MetaVictims([], 0), "b": MetaVictims(["b1"], 1)}, ignorable=True)
    assert await left_by(dropped) == {"b": (["b1"], 1)}
    assert sorted(await left_by(Preemptor(FAULT, ignorable=True))) == ["a", "b"]


def full_world(*extenders: Peer) -> World:
    """Two nodes, each filled by one pod of priority 0; the one on node a is cheaper to evict."""
    world = World(extra={"DefaultPreemption": DefaultPreemption}, extenders=extenders)
    for name, victims in (("a", ["a1"]), ("b", ["b1", "b2"])):
        world.add_node(name)
        for victim in victims:
            world.api.create(victim, cpu=f"{4 // len(victims)}", node=name)
    return world


async def test_an_extender_says_where_and_whom_to_evict():
    peer = Preemptor({"b": MetaVictims(["b2", "b1"], 0)})
    peer.free.clear()
    async with full_world(peer) as world:
        world.api.create("p", cpu="4", priority=200)
        await world.advance(2)
        peer.free.set()
        await world.advance(3)
        assert world.metrics.evaluations == [("Success", 2.0)], "the time that the extender took is a part of it"
        assert peer.asked == [("preempt", "p", ["a", "b"]), ("filter", "p", ["b"])]
        assert world.api.node_of("p") == "b"
        assert ("gpu", "preempt", "success") in world.metrics.calls
        assert "found a potential placement for pod on node b, preempting 2 victims" in world.recorder.notes("p")[0]


@pytest.mark.parametrize("deleted", [False, True])
async def test_pods_that_are_new_to_preemption_are_looked_at_before_extenders_are_asked_whom_to_evict(
    monkeypatch, deleted
):
    monkeypatch.setattr(schedule_one, "PODS_AT_ONCE", 0)
    monkeypatch.setattr(schedule_one, "_PODS_A_TURN", 1)
    looked_at, begun = [], asyncio.Event()
    in_pieces = Snapshot.pod_table_in_pieces

    def watched(snapshot, size):
        for piece in in_pieces(snapshot, size):
            looked_at.append(size)
            begun.set()
            yield piece

    monkeypatch.setattr(Snapshot, "pod_table_in_pieces", watched)
    peer = Preemptor({"b": MetaVictims(["b2", "b1"], 0)})
    async with full_world(peer) as world:
        world.api.create("p", cpu="4", priority=200)
        await begun.wait()
        if deleted:
            world.api.delete("p")
        await world.advance(3)
        assert looked_at == [1, 1]
        assert [verb for verb, *_ in peer.asked] == ([] if deleted else ["preempt", "filter"])


async def test_victims_that_an_extender_has_added_count_in_the_choice():
    both = Preemptor({"a": MetaVictims(["a1"], 1), "b": MetaVictims(["b1", "b2"], 0)})
    async with full_world(both) as world:
        world.api.create("p", cpu="4", priority=200)
        await world.advance(3)
        assert world.api.node_of("p") == "b", "a budget would be violated on the other"


@pytest.mark.parametrize(
    ("answer", "ignorable", "result", "said"),
    [
        ({}, False, "Unschedulable", "preemption: no candidate node for preemption"),
        (FAULT, False, "Error", "preemption: extender 'gpu': it is broken"),
        (
            {"a": MetaVictims([], 0)},
            False,
            "Error",
            "preemption: extender 'gpu': expected at least one victim pod on node 'a'",
        ),
        (FAULT, True, "Success", "preemption: found a potential placement for pod on node a, preempting 1 victims"),
    ],
)
async def test_an_extender_that_leaves_no_candidate_or_is_broken_stops_preemption_unless_it_is_ignorable(
    answer, ignorable, result, said
):
    peer = Preemptor(answer, ignorable=ignorable)
    peer.free.clear()
    async with full_world(peer) as world:
        world.api.create("p", cpu="4", priority=200)
        await settle()
        await world.advance(2)
        peer.free.set()
        await settle()
        assert world.metrics.evaluations == [(result, 2.0)], "the time that the extender took is a part of it"
        assert world.recorder.notes("p")[0] == f"0/2 nodes are available: 2 Insufficient cpu. {said}"
        evicted = {uid for uid in ("a1", "b1", "b2") if ("default", uid) not in world.api.pods}
        assert evicted == ({"a1"} if ignorable else set())


async def test_nobody_is_evicted_for_a_pod_that_goes_while_the_extender_is_asked():
    peer = Preemptor({"a": MetaVictims(["a1"], 0)})
    async with full_world(peer) as world:
        peer.free.clear()
        world.api.create("p", cpu="4", priority=200)
        await settle()
        world.api.create("small", cpu="0")
        await settle()
        assert world.api.node_of("small"), "others do not wait"
        world.api.delete("p")
        peer.free.set()
        await settle()
        assert world.api.evictions == []
        world.check_at_rest()


class FailsAtA(Fit):
    """Fails at the node a."""

    name = "FailsAtA"

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        return Status(Code.ERROR, ("broken disk",)) if node_info.name == "a" else None


@pytest.mark.parametrize("refuses", [{}, {"b": "no b"}])
async def test_a_node_that_a_filter_fails_at_is_not_asked_about(refuses: dict[str, str]):
    """Where extenders leave no other, the attempt ends with that error."""
    peer = Peer(refuses=refuses)
    async with World(extenders=[peer], extra={"FailsAtA": FailsAtA}) as world:
        world.add_node("a")
        world.add_node("b")
        world.api.create("p", priority=200)
        await settle()
        assert peer.asked == [("filter", "p", ["b"])]
        if refuses:
            assert message_of(world, "p") == 'running "FailsAtA" filter plugin: broken disk (on node a)'
        else:
            assert world.api.node_of("p") == "b"


def test_the_metrics_of_extenders_are_served():
    registry = CollectorRegistry()
    PrometheusMetrics(registry).extender_call("http://x", "filter", ExtenderResult.TIMEOUT, 5.0)
    text = generate_latest(registry).decode()
    assert 'scheduler_extender_calls_total{extender="http://x",result="timeout",verb="filter"} 1.0' in text
    assert 'scheduler_extender_call_duration_seconds_sum{extender="http://x",verb="filter"} 5.0' in text
