"""Evictions in the background: who has to go, in which order, and what becomes of the pod that they make way for."""

import asyncio

import pytest

from schedcache.cache import Snapshot
from schedcache.plugins.default_preemption import DefaultPreemption
from schedcache.ports import RefusedError
from schedcache.scheduling import schedule_one
from schedcache.testing import World as DefaultWorld
from schedcache.testing import make_node, make_pod
from schedcache.testing.virtual_clock import settle
from tests.scheduling.world import Patience, World, raises

BY_SCHEDULER = ("DisruptionTarget", "True", "PreemptionByScheduler")
PLUGINS = {"DefaultPreemption": DefaultPreemption}


def full_world(low=2, cpu="2", **options):
    """One node, filled by pods of priority 0."""
    world = World(extra={**PLUGINS, **options.pop("extra", {})}, **options)
    world.add_node("n1", "4")
    for i in range(low):
        world.api.create(f"low-{i}", cpu=cpu, node="n1")
    return world


def nominated(world, uid):
    """The nodes that count the pod as running there."""
    queue = world.queue
    found = [n for n in queue.nominated_nodes() if uid in {p.uid for p in queue.nominated_pods_for_node(n)}]
    return found[0] if found else ""


def hold(world, uid=None):
    """The next eviction (of that pod) waits for the future."""
    gate = asyncio.get_running_loop().create_future()

    async def wait(victim, _node):
        if uid in (None, victim.uid):
            await gate

    world.api.before_evict.append(wait)
    return gate


async def test_the_preemptor_is_bound_when_its_victims_have_gone():
    async with full_world() as world:
        world.api.grace = True
        world.api.create("high", cpu="4", priority=10)
        await settle()
        assert world.api.evictions == ["high", "low-0", "low-1"]
        for uid in ("low-0", "low-1"):
            [condition] = world.api.by_uid(uid).conditions
            assert (condition.type, condition.status, condition.reason) == BY_SCHEDULER
            assert condition.message == "schedcache: preempting to accommodate a higher priority pod"
        assert nominated(world, "high") == "n1"
        assert world.api.node_of("high") == ""
        world.api.delete("low-0")
        await world.advance(20)
        assert world.api.node_of("high") == ""
        assert world.api.evictions[3:] == [], "nobody is evicted again while victims are terminating"
        world.api.delete("low-1")
        await world.advance(20)
        assert world.api.node_of("high") == "n1"
        assert world.queue.nominated_nodes() == []
        preempted = [note for uid, reason, note in world.recorder.events if reason == "Preempted"]
        assert preempted == ["Preempted by pod high on node n1"] * 2
        told = [note for uid, reason, note in world.recorder.events if uid == "high" and reason == "FailedScheduling"]
        assert told[0] == (
            "0/1 nodes are available: 1 Insufficient cpu. "
            "preemption: found a potential placement for pod on node n1, preempting 2 victims"
        )
        assert {note.partition("preemption: ")[2] for note in told[1:]} <= {
            "not eligible due to a terminating pod on the nominated node."
        }
        assert world.metrics.preemptions == ["success"]
        assert len(world.preemptions) == 0
        world.check_at_rest()


@pytest.mark.parametrize("point", ["multiPoint", "postFilter"])
async def test_a_profile_without_the_plugin_evicts_nobody(point):
    plugins = {point: {"disabled": [{"name": "DefaultPreemption"}]}}
    config = {"profiles": [{"schedulerName": "schedcache", "plugins": plugins}]}
    async with DefaultWorld(config) as world:
        world.add(make_node("n1", cpu="4"), make_pod("low", cpu="4", node="n1"))
        world.add(make_pod("high", cpu="4", priority=10))
        await settle()
        assert world.api.evictions == []
        assert world.notes("high") == ["0/1 nodes are available: 1 Insufficient cpu."]


async def test_victims_that_are_gone_at_once_bring_the_preemptor_back():
    async with full_world() as world:
        world.api.create("high", cpu="4", priority=10)
        await world.advance(5)
        assert world.api.node_of("high") == "n1"


async def test_the_preemptor_is_not_tried_while_deletions_are_on_their_way():
    async with full_world(low=3, cpu="1") as world:
        gate = hold(world)
        world.api.create("high", cpu="3", priority=10)
        await settle()
        attempts = world.queue.find("default", "high")[1].attempts
        # Room enough by now, and every event tells so: but the deletions that are on their way would be in vain.
        world.add_node("n2", "8")
        await world.advance(20)
        assert world.queue.find("default", "high")[0] == "gated"
        assert world.queue.find("default", "high")[1].attempts == attempts
        gate.set_result(None)
        await world.advance(20)
        assert world.api.node_of("high")


async def test_a_watch_that_lags_behind_has_nobody_else_evicted():
    async with full_world(low=2, cpu="2") as world:
        world.add_node("n2", "4")
        for i in range(2):
            world.api.create(f"other-{i}", cpu="2", node="n2")
        world.api.grace = True

        def go_blind(_victim, _node):
            world.api.watching = False

        world.api.before_evict.append(go_blind)
        world.api.create("high", cpu="4", priority=10)
        await settle()
        evicted = world.api.evictions[1:]
        assert len(world.preemptions) == 0
        assert len(evicted) == 2
        # The victims look untouched, and something happens that the pod is tried again for.
        world.add_node("n3", "1")
        await world.advance(20)
        assert world.api.evictions[1:] == evicted
        world.api.watching = True
        for uid in evicted:
            world.api.delete(uid)
        await world.advance(20)
        assert world.api.node_of("high") == world.api.posts[-1][1] != ""
        assert world.api.evictions[1:] == evicted


async def test_each_preemptor_is_tried_twice_whoever_else_goes_meanwhile():
    async with World(extra=PLUGINS) as world:
        world.api.grace = True
        for i in range(5):
            world.add_node(f"n{i}", "4")
            for j in range(4):
                world.api.create(f"low-{i}-{j}", cpu="1", node=f"n{i}")
        for i in range(5):
            world.api.create(f"high-{i}", cpu="4", priority=10)
        await settle()
        # Long enough for every preemptor's backoff to be over, not so long that its victims are taken for slow ones.
        await world.advance(0.9)
        for i in range(5):
            for j in range(4):
                world.api.delete(f"low-{i}-{j}")
            await settle()
        await world.advance(20)
        assert {world.api.node_of(f"high-{i}") for i in range(5)} == {f"n{i}" for i in range(5)}
        rejected = [uid for uid, reason, _ in world.recorder.events if reason == "FailedScheduling"]
        assert sorted(rejected) == [f"high-{i}" for i in range(5)]


async def test_a_preemptor_whose_victims_take_their_time_may_go_elsewhere():
    async with full_world(low=2, cpu="2") as world:
        world.api.grace = True
        world.api.create("high", cpu="4", priority=10)
        await world.advance(2)
        assert world.queue.find("default", "high")[0] != "gated"
        world.add_node("n2", "4")
        await world.advance(1)
        assert world.api.node_of("high") == "n2"


async def test_victims_that_had_gone_before_their_turn_came_hold_nobody_back():
    async with full_world(low=2, cpu="2") as world:

        def both_gone(_victim, _node):
            world.api.before_evict.clear()
            world.api.delete("low-0")
            world.api.delete("low-1")

        world.api.before_evict += [lambda *_: None, both_gone]
        world.api.create("high", cpu="4", priority=10)
        await world.advance(5)
        assert world.api.node_of("high") == "n1"


async def test_the_first_preemptor_gets_its_room_first():
    async with World(extra=PLUGINS) as world:
        for i in range(40):
            world.add_node(f"n{i}", "4")
            for j in range(4):
                world.api.create(f"low-{i}-{j}", cpu="1", node=f"n{i}")
        for i in range(40):
            world.api.create(f"high-{i}", cpu="4", priority=10)
        await world.advance(20)
        turns = [uid for uid in world.api.evictions if uid.startswith("high")]
        first, last = turns[0], turns[-1]
        # When the last one's evictions began, those of the first had ended.
        victims = world.api.evictions[: world.api.evictions.index(last)]
        node = next(node for uid, node in world.api.posts if uid == first)
        assert {f"low-{node[1:]}-{j}" for j in range(4)} <= set(victims)


async def test_a_deletion_that_is_seen_before_its_answer_does_not_find_the_gate_shut():
    async with full_world(low=1, cpu="4") as world:
        gate = asyncio.get_running_loop().create_future()

        async def gone_but_unanswered(victim, _node):
            world.api.delete(victim.uid)
            await gate

        world.api.before_evict.append(gone_but_unanswered)
        world.api.create("high", cpu="4", priority=10)
        await world.advance(20)
        assert len(world.preemptions) == 1
        assert world.api.node_of("high") == "n1"
        gate.set_result(None)
        await settle()


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_an_eviction_that_fails_brings_the_preemptor_back_at_once(number):
    async with full_world(low=3, cpu="1") as world:
        world.api.before_evict += [lambda *_: None] * number + [raises(RefusedError("refused", status=403))]
        world.api.create("high", cpu="4", priority=10)
        await world.advance(20)
        assert world.metrics.preemptions[0] == "error"
        assert world.api.node_of("high") == "n1"
        assert [reason for _, reason, _ in world.recorder.events].count("Preempted") == 3


async def test_nobody_is_evicted_for_a_pod_that_has_gone():
    async with full_world() as world:
        world.api.watching = False
        world.api.create("high", cpu="4", priority=10)
        world.api.deliver()
        world.api.delete("high")
        await settle()
        assert world.api.evictions == ["high"]
        world.api.watching = True
        world.api.deliver()
        await settle()
        assert world.queue.nominated_nodes() == []
        assert sorted(pod.uid for pod in world.api.pods.values()) == ["low-0", "low-1"]


@pytest.mark.parametrize("how", ["gone", "terminating", "bound"])
async def test_nobody_is_evicted_for_a_pod_that_needs_no_room_when_its_turn_comes(how, monkeypatch):
    monkeypatch.setattr("schedcache.scheduling.preemptions.AT_ONCE", 1)
    async with full_world(low=1, cpu="4") as world:
        world.add_node("n2", "4")
        world.api.create("other", cpu="4", node="n2", priority=1)
        gate = hold(world, "low-0")
        world.api.create("first", cpu="4", priority=10)
        # As one that was nominated before a restart: no request of its own tells whether it is still there.
        world.api.create("second", cpu="4", priority=10, status={"nominatedNodeName": "n2"})
        await settle()
        assert len(world.preemptions) == 2
        if how == "gone":
            world.api.delete("second")
        elif how == "terminating":
            world.api.change("second", deletion_timestamp="2026-01-05T12:00:00Z")
        else:
            world.api.change("second", node_name="n3")
        gate.set_result(None)
        await world.advance(5)
        assert world.api.node_of("first") == "n1"
        assert world.api.evictions == ["first", "low-0"]


async def test_an_answer_that_comes_late_does_not_end_a_later_preemption():
    async with full_world(low=1, cpu="4") as world:
        late = asyncio.get_running_loop().create_future()

        async def gone_but_unanswered(victim, _node):
            world.api.delete(victim.uid)
            world.api.create("intruder", cpu="4", node="n1", priority=1)
            await late
            raise RefusedError("refused", status=403)

        world.api.before_evict.append(gone_but_unanswered)
        gate = asyncio.get_running_loop().create_future()

        async def wait(_victim, _node):
            await gate

        world.api.before_evict.append(wait)
        world.api.create("high", cpu="4", priority=10)
        await world.advance(20)
        assert world.api.evictions[-1] == "intruder", "its room was taken, so it has begun again"
        assert world.preemptions.is_running("high")
        late.set_result(None)
        await world.advance(20)
        assert world.preemptions.is_running("high")
        assert world.api.evictions.count("intruder") == 1
        gate.set_result(None)
        await world.advance(20)
        assert world.api.node_of("high") == "n1"


async def test_deletions_that_were_undone_hold_nobody_back_for_good():
    """As when etcd is restored from a backup that is older than the deletion."""
    async with full_world(low=1, cpu="4") as world:
        evict = world.api.evict

        async def undone(victim, condition):
            world.api.evict = evict
            return True

        world.api.evict = undone
        world.api.create("high", cpu="4", priority=10)
        await world.advance(80)
        assert world.preemptions.is_running("high")
        await world.advance(30)
        assert world.api.node_of("high") == "n1"
        assert world.api.evictions.count("low-0") == 1


async def test_a_deletion_that_was_seen_and_was_undone_holds_nobody_back():
    """As when etcd is restored from a backup: the victim is read again as it was before it was terminating."""
    async with full_world(low=1, cpu="4") as world:
        world.api.grace = True
        before = world.api.by_uid("low-0")
        world.api.create("high", cpu="4", priority=10)
        await settle()
        assert world.api.by_uid("low-0").terminating
        world.api.pods["default", "low-0"] = before
        pods = list(world.api.pods.values())
        world.scheduler.handlers.on_rebuild({"Pod": pods, "Node": list(world.scheduler.handlers._nodes.values())})
        world.api.grace = False
        await world.advance(5)
        assert world.api.node_of("high") == "n1"
        assert world.api.evictions.count("low-0") == 2


async def test_a_victim_that_waits_on_permit_makes_way_and_is_not_deleted():
    world = World(extra={**PLUGINS, "Patience": Patience})
    async with world:
        world.add_node("n1", "4")
        world.api.create("waits", cpu="4", priority=1)
        await settle()
        assert world.cache.dump().assumed_pods == {"waits"}
        world.api.create("high", cpu="4", priority=10)
        await world.advance(2)
        assert world.api.node_of("high") == "n1"
        assert world.api.by_uid("waits").terminating is False
        told = [note for uid, reason, note in world.recorder.events if reason == "Preempted"]
        assert told == ["Preempted by pod high on node n1 (in kube-scheduler memory)."]
        assert "waits" not in world.api.evictions
        assert "preempted" in [note for uid, _, note in world.recorder.events if uid == "waits"]
        assert world.queue.find("default", "waits") is not None


class Preparation:
    """A PreBind plugin that takes its time with pods of priority 0."""

    name = "Preparation"

    def __init__(self, _args, _handle):
        pass

    async def pre_bind(self, _state, pod, _node):
        if pod.priority == 0:
            await asyncio.get_running_loop().create_future()


async def test_a_victim_in_pre_bind_makes_way_and_is_not_deleted():
    async with World(extra={**PLUGINS, "Preparation": Preparation}) as world:
        world.add_node("n1", "4")
        world.api.create("prepares", cpu="4")
        await settle()
        world.api.create("high", cpu="4", priority=10)
        await world.advance(1)
        assert world.api.node_of("high") == "n1"
        assert world.api.posts == [("high", "n1")]
        assert world.api.by_uid("prepares").terminating is False
        assert "preempted by DefaultPreemption" in [n for uid, _, n in world.recorder.events if uid == "prepares"]


async def test_a_victim_whose_bind_fails_before_its_deletion_is_seen_leaves_its_room_to_the_preemptor():
    async with World(extra=PLUGINS) as world:
        world.add_node("n1", "4")
        on_its_way = asyncio.get_running_loop().create_future()
        world.api.before_bind.append(lambda _pod, _node: on_its_way)
        world.api.create("low", cpu="4")
        await settle()
        world.api.create("high", cpu="4", priority=10)
        world.api.watching = False
        await settle()
        assert world.api.evictions == ["high", "low"]
        on_its_way.set_result(None)
        await settle()
        assert world.api.posts == [("low", "n1")], "the room is free, but the preemptor waits for the deletion"
        world.api.watching = True
        world.api.deliver()
        await world.advance(10)
        assert world.api.node_of("high") == "n1"


async def test_nominations_of_lower_priority_are_withdrawn():
    async with full_world() as world:
        world.api.grace = True
        world.api.create("middle", cpu="4", priority=5)
        await settle()
        assert nominated(world, "middle") == "n1"
        # The room that middle waits for is taken from it, and what keeps it from coming back with another node is gone.
        world.api.create("low-2", cpu="100m", node="n1")
        world.api.create("high", cpu="4", priority=10)
        await settle()
        assert nominated(world, "high") == "n1"
        assert nominated(world, "middle") == ""
        assert ("middle", None, "") in world.recorder.patches
        world.api.change("middle", nominated_node_name="")
        await world.advance(10)
        assert nominated(world, "middle") == ""


async def test_two_preemptors_in_turn_do_not_share_the_room_of_one():
    async with full_world(low=4, cpu="1") as world:
        world.add_node("n2", "4")
        for i in range(4):
            world.api.create(f"other-{i}", cpu="1", node="n2")
        world.api.grace = True
        world.api.create("high-1", cpu="3", priority=10)
        world.api.create("high-2", cpu="3", priority=10)
        await settle()
        evicted = set(world.api.evictions) - {"high-1", "high-2"}
        assert {nominated(world, "high-1"), nominated(world, "high-2")} == {"n1", "n2"}
        assert len(evicted) == 6
        for uid in evicted:
            world.api.delete(uid)
        await world.advance(20)
        assert {world.api.node_of("high-1"), world.api.node_of("high-2")} == {"n1", "n2"}
        assert set(world.api.evictions) - {"high-1", "high-2"} == evicted


@pytest.fixture
def few_at_once(monkeypatch):
    """Preemption gets to know pods one in a turn."""
    monkeypatch.setattr(schedule_one, "PODS_AT_ONCE", 0)
    monkeypatch.setattr(schedule_one, "_PODS_A_TURN", 1)


async def turns_until(condition):
    for turn in range(1000):
        if condition():
            return turn
        await asyncio.sleep(0)
    raise AssertionError("it has not come true")


def nodes_full(world, number):
    for i in range(number):
        world.add_node(f"m{i}", "4")
        world.api.create(f"other-{i}", cpu="4", priority=5, node=f"m{i}")


@pytest.mark.usefixtures("few_at_once")
async def test_many_pods_that_are_new_to_preemption_are_looked_at_in_pieces():
    async with full_world() as world:
        nodes_full(world, 50)
        await settle()
        world.api.create("high", cpu="4", priority=10)
        assert await turns_until(lambda: world.api.evictions) >= 50
        await settle()
        assert world.api.evictions == ["high", "low-0", "low-1"]
        await world.advance(20)
        assert world.api.node_of("high") == "n1"
        world.check_at_rest()


@pytest.mark.usefixtures("few_at_once")
async def test_for_a_pod_of_the_lowest_priority_the_others_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(Snapshot, "pod_table_in_pieces", raises(AssertionError("looked at")))
    monkeypatch.setattr(Snapshot, "pod_table", property(raises(AssertionError("looked at"))))
    async with full_world() as world:
        nodes_full(world, 5)
        await settle()
        world.api.create("low", cpu="4")
        await settle()
        [note] = world.recorder.notes("low")
        assert note == (
            "0/6 nodes are available: 6 Insufficient cpu. "
            "preemption: 0/6 nodes are available: 6 No preemption victims found for incoming pod."
        )
        world.check_at_rest()


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize(
    ("change", "node"),
    [
        (lambda api: api.delete("high"), ""),
        (lambda api: api.delete("other-7"), "m7"),
        (lambda api: api.change("high", requests=make_pod("high", cpu="1").requests), "n2"),
    ],
    ids=["deleted", "room", "smaller"],
)
async def test_what_has_changed_while_pods_were_looked_at_counts(change, node):
    async with full_world() as world:
        nodes_full(world, 50)
        world.add_node("n2", "1")
        await settle()
        world.api.create("high", cpu="4", priority=10)
        await turns_until(lambda: world.scheduler.cycle.postponed)
        change(world.api)
        await world.advance(20)
        assert world.api.evictions == []
        assert not node or world.api.node_of("high") == node
        world.check_at_rest()


@pytest.mark.usefixtures("few_at_once")
async def test_a_fault_while_pods_are_looked_at_fails_that_pod_alone(monkeypatch):
    async with full_world() as world:
        world.add_node("n2", "1")
        await settle()
        with monkeypatch.context() as broken:
            broken.setattr(Snapshot, "pod_table_in_pieces", raises(RuntimeError("out of order")))
            world.api.create("high", cpu="4", priority=10)
            await settle()
            assert world.api.evictions == []
            world.api.create("small", cpu="1")
            await settle()
            assert world.api.node_of("small") == "n2"
        await world.advance(20)
        assert world.api.evictions == ["high", "low-0", "low-1"]


@pytest.mark.usefixtures("few_at_once")
async def test_a_pod_is_not_lost_when_the_scheduler_is_paused_while_pods_are_looked_at():
    async with full_world() as world:
        nodes_full(world, 50)
        await settle()
        world.api.create("high", cpu="4", priority=10)
        await turns_until(lambda: world.scheduler.cycle.postponed)
        world.scheduler.pause()
        await settle()
        assert world.queue.in_flight() == []
        assert world.api.evictions == []
        assert world.recorder.reasons("high") == []
        world.scheduler.resume()
        await world.advance(20)
        assert world.api.node_of("high") == "n1"
        world.check_at_rest()


async def test_evictions_under_way_are_ended_with_the_scheduler():
    async with full_world() as world:
        hold(world)
        world.api.create("high", cpu="4", priority=10)
        await settle()
        assert len(world.preemptions) == 1
    assert len(world.preemptions) == 0
