"""Attempts that fail, pods that are skipped, and what is left of them afterwards."""

import pytest
from msgspec.structs import replace

from schedcache.scheduling.failure import Failure, FailureHandler
from schedcache.testing import make_node, settle
from tests.scheduling.world import World, during_attempts, make_pod


async def test_a_pod_that_fits_nowhere_waits_with_the_reason():
    async with World() as world:
        world.add_node("n1", "1")
        world.add_node("n2", "1")
        world.api.create("a", cpu="3")
        await settle()
        (info,) = world.queue.unschedulable_pods()
        assert info.unschedulable_plugins == {"Fit"}
        text = "0/2 nodes are available: 2 Insufficient cpu."
        assert world.recorder.events == [("a", "FailedScheduling", text)]
        ((_, condition, _),) = world.recorder.patches
        assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
        assert condition.message == text
        assert world.metrics.attempts == ["unschedulable"]


async def test_without_nodes_the_message_says_so():
    async with World() as world:
        world.api.create("a")
        await settle()
        assert world.recorder.events == [("a", "FailedScheduling", "no nodes available to schedule pods")]


async def test_nothing_is_written_where_nothing_changed():
    async with World() as world:
        world.add_node("n1", "1")
        text = "0/1 nodes are available: 1 Insufficient cpu."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
        world.api.create("a", cpu="3", status={"conditions": [condition]})
        await settle()
        assert world.recorder.patches == []
        assert len(world.recorder.events) == 1


async def test_a_stale_nomination_is_withdrawn_with_the_condition():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.create("a", cpu="3", status={"nominatedNodeName": "n1"})
        await settle()
        assert world.recorder.patches[0][2] == ""
        assert world.queue.nominated_nodes() == []


async def test_a_node_that_grows_wakes_the_pod():
    async with World() as world:
        node = world.add_node("n1", "1")
        world.api.create("a", cpu="3")
        await settle()
        grown = make_node("n1", cpu="4", resource_version=world.api.version())
        world.update(node, grown)
        await world.advance(3)
        assert world.api.node_of("a") == "n1"


async def test_hopeless_pods_of_high_priority_do_not_starve_a_small_one():
    """kubernetes/kubernetes#106546: heartbeats wake nobody, and the small pod's turn comes in the first round."""
    async with World() as world:
        node = world.add_node("n1", "4")
        for i in range(50):
            world.api.create(f"big-{i}", cpu="64", priority=1000)
        world.api.create("small", cpu="1")
        await settle(200)
        assert world.api.node_of("small") == "n1"
        assert world.metrics.attempts.count("unschedulable") == 50
        for _ in range(60):
            fresh = make_node("n1", cpu="4", resource_version=world.api.version())
            world.update(node, fresh)
            await world.advance(1)
        assert world.metrics.attempts.count("unschedulable") == 50


async def test_a_pod_being_deleted_is_skipped_and_told():
    async with World() as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        pod = make_pod("d", uid="d", resource_version=world.api.version())
        deleting = replace(pod, deletion_timestamp="2026-01-01T00:00:00Z")
        world.scheduler.handlers.on_add("Pod", deleting)
        await settle()
        assert ("d", "FailedScheduling", "skip schedule deleting pod: default/d") in world.recorder.events
        assert world.queue.in_flight() == []
        assert [uid for uid, _ in world.api.posts] == ["a"]


async def test_a_pod_updated_during_its_attempt_is_not_scheduled_twice():
    """kubernetes/kubernetes#118226."""
    async with World() as world:
        world.add_node("n1")
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("a")
        await settle()
        world.api.change("a", shape=make_pod("a", labels={"new": "label"}).shape)
        await settle()
        assert world.queue.find("default", "a") is None
        world.queue.add(world.api.by_uid("a"))  # whoever queues it all the same
        await settle()
        assert world.queue.find("default", "a") is None
        await world.advance(10)
        assert world.api.posts == [("a", "n1")]
        assert world.metrics.attempts == ["scheduled"]
        world.check_at_rest()


async def test_skipped_pods_leave_nothing_in_flight():
    """kubernetes/kubernetes#126962: events are kept for pods in flight only."""
    async with World() as world:
        world.add_node("n1")
        for i in range(20):
            pod = world.api.create(f"p{i}", cpu="64")
            world.api.change(pod.uid, deletion_timestamp="2026-01-01T00:00:00Z")
        await settle(100)
        for i in range(200):
            world.add(make_node(f"m{i}", resource_version=world.api.version()))
        assert world.queue.in_flight() == []
        assert world.queue.in_flight_events() == []


async def test_a_pod_recreated_during_its_failing_attempt_leaves_nothing_in_flight(monkeypatch):
    """kubernetes/kubernetes#138316: the attempt ends under the UID that was popped."""
    async with World() as world:
        world.add_node("n1")

        def recreate(pod):
            if pod.uid == "u1":
                world.api.delete("u1")
                world.api.create("u2", "web-0", cpu="64")

        during_attempts(monkeypatch, recreate)
        world.api.create("u1", "web-0", cpu="64")
        await settle(100)
        assert world.queue.in_flight() == []
        assert [info.pod.uid for info in world.queue.unschedulable_pods()] == ["u2"]
        assert world.recorder.reasons("u1") == []


async def test_a_nomination_does_not_outlive_its_pod(monkeypatch):
    """kubernetes/kubernetes#102339: a deleted preemptor must not reserve room."""
    async with World() as world:
        world.add_node("n1", "2")
        during_attempts(monkeypatch, lambda pod: world.api.delete("h") if pod.uid == "h" else None)
        world.api.create("h", cpu="64", priority=10, status={"nominatedNodeName": "n1"})
        await settle()
        assert world.queue.nominated_nodes() == []
        world.api.create("small", cpu="2")
        await settle()
        assert world.api.node_of("small") == "n1"


async def test_a_nominated_pod_keeps_its_room_from_lower_ones_and_its_deletion_wakes_them():
    async with World() as world:
        world.add_node("n1", "2")
        world.api.create("tenant", cpu="1", node="n1")
        h = world.api.create("h", cpu="2", priority=10, status={"nominatedNodeName": "n1"})
        await settle()
        world.queue.add_nominated_pod(h, "n1")
        world.api.create("small", cpu="1")
        await settle()
        assert world.api.node_of("small") == ""
        world.api.delete("h")
        await world.advance(3)
        assert world.api.node_of("small") == "n1"


@pytest.mark.parametrize("spec", [{"resourceClaims": [{"name": "gpu"}]}, {"schedulingGroup": {"podGroupName": "g"}}])
async def test_a_pod_that_needs_what_is_not_there_waits_and_says_why(spec):
    async with World() as world:
        world.add_node("n1")
        world.api.create("a", **spec)
        await settle()
        assert world.api.posts == []
        ((_, condition, _),) = world.recorder.patches
        assert condition.reason == "Unschedulable"
        assert "this scheduler" in condition.message
        await world.advance(120)
        assert world.metrics.attempts == ["unschedulable"]


async def test_gated_pods_wait_until_their_gates_are_gone():
    async with World() as world:
        world.add_node("n1")
        world.api.create("a", schedulingGates=[{"name": "hold"}])
        await settle()
        assert world.queue.find("default", "a")[0] == "gated"
        world.api.change("a", shape=make_pod("a").shape)
        await settle()
        assert world.api.node_of("a") == "n1"


async def test_a_fault_of_ours_in_one_cycle_does_not_stop_the_others(monkeypatch):
    async with World() as world:
        world.add_node("n1")

        def fail(pod):
            if pod.uid == "bad":
                raise ZeroDivisionError("what nobody thought of")

        during_attempts(monkeypatch, fail)
        world.api.create("bad")
        world.api.create("good")
        await settle()
        assert world.api.node_of("good") == "n1"
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["bad"]


async def test_a_pod_that_no_event_wakes_is_tried_again_after_five_minutes():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.create("a", cpu="3")
        await world.advance(290)
        assert world.metrics.attempts == ["unschedulable"]
        await world.advance(60)
        assert world.metrics.attempts == ["unschedulable"] * 2


def test_a_pod_that_the_cache_counts_is_not_queued_again_whatever_the_watch_knows():
    world = World()
    world.add_node("n1")
    pod = world.api.create("a")
    info = world.queue.pop_nowait()
    world.cache.add_pod(pod.with_node("n1"))
    failures = FailureHandler(world.scheduler.state, world.recorder)
    failures.handle(info, Failure.of_error("lost"), world.clock())
    assert world.queue.find("default", "a") is None
    assert world.queue.in_flight() == []
