"""A pod that waits on Permit hears of everything that makes the wait pointless; else its events would pile up till it times out."""

import pytest
from msgspec.structs import replace

from schedcache.testing import settle
from tests.scheduling.world import Patience, World, make_pod


@pytest.fixture
async def world():
    """A pod waits on Permit, on the only node."""
    async with World(extra={"Patience": Patience}) as world:
        world.add_node("n1")
        world.api.create("a", priority=1)
        await settle()
        assert world.queue.in_flight() == ["a"]
        yield world
        await settle()
        assert world.api.posts == []
        world.check_at_rest()


async def test_bound_by_another_component_to_the_very_node(world):
    world.api.change("a", node_name="n1")
    await settle()
    assert world.queue.in_flight() == []
    assert world.requested("n1") == 100


async def test_handed_to_another_scheduler(world):
    world.api.change("a", shape=make_pod("a", priority=1, scheduler_name="other").shape)
    await settle()
    assert world.queue.in_flight() == []
    assert world.requested("n1") == 0
    world.api.change("a", node_name="n1")


async def test_being_deleted_as_a_rebuild_finds(world):
    deleting = replace(world.api.by_uid("a"), deletion_timestamp="2026-01-01T00:00:00Z", resource_version="2000")
    world.api.pods["default", "a"] = deleting
    nodes = [info.node for info in world.cache.dump().nodes.values()]
    world.scheduler.handlers.on_rebuild({"Pod": [deleting], "Node": nodes})
    await settle()
    assert world.queue.in_flight() == []
    assert world.requested("n1") == 0


async def test_handed_to_another_scheduler_as_a_rebuild_finds(world):
    world.api.create("waits", cpu="64")
    await settle()
    theirs = [
        replace(
            pod,
            shape=make_pod(pod.name, uid=pod.uid, priority=1, scheduler_name="other").shape,
            resource_version="2000",
        )
        for pod in world.api.pods.values()
    ]
    world.api.pods = {(pod.namespace, pod.name): pod for pod in theirs}
    nodes = [info.node for info in world.cache.dump().nodes.values()]
    world.scheduler.handlers.on_rebuild({"Pod": theirs, "Node": nodes})
    await settle()
    assert world.queue.find("default", "waits") is None
    assert world.queue.in_flight() == []
    assert world.requested("n1") == 0


async def test_where_a_pod_is_to_go_is_told_while_it_waits_and_taken_back_when_it_fails():
    """KEP-5278; the object held does not show the nomination yet when the wait ends badly."""
    async with World(extra={"Patience": Patience}) as world:
        world.add_node("n1")
        world.api.create("even")
        world.api.create("waits", priority=1)
        await settle()
        nominations = [(uid, node) for uid, _, node in world.recorder.patches]
        assert nominations == [("waits", "n1")]
        world.scheduler.frameworks["schedcache"].waiting_pods.get("waits").reject("Patience", "no")
        await settle()
        assert [node for uid, _, node in world.recorder.patches if uid == "waits"] == ["n1", ""]
        assert world.queue.nominated_nodes() == []
