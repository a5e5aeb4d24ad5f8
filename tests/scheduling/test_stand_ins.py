"""Pods that no plugin rejected and that still have something to wait for."""

from schedcache.testing import settle
from tests.scheduling.world import World, make_pod

CLAIMS = [{"name": "gpu"}]


async def test_without_nodes_pods_wait_for_one_and_are_not_tried_meanwhile():
    """kube-scheduler tries them again after each backoff, since it records nobody that rejected them."""
    async with World() as world:
        world.api.create("a")
        await world.advance(120)
        assert world.metrics.attempts == ["unschedulable"]
        assert world.queue.unschedulable_reasons() == {("NoNodes", "schedcache"): 1}
        node = world.add_node("n1")
        await world.advance(2)
        assert world.api.node_of("a") == "n1"
        world.delete(node)
        world.api.create("b")
        await settle()
        assert world.queue.find("default", "b")[0] == "unschedulable"


async def test_a_node_that_comes_while_the_pod_is_tried_in_vain_is_not_missed(monkeypatch):
    async with World() as world:
        handle = world.scheduler.cycle._failures.handle

        def node_arrives(*args):
            world.add_node("n1")
            handle(*args)

        monkeypatch.setattr(world.scheduler.cycle._failures, "handle", node_arrives)
        world.api.create("a")
        await settle()
        assert world.api.node_of("a") == "n1"


async def test_a_pod_that_asks_for_what_is_not_supported_wakes_when_it_asks_for_something_else():
    async with World() as world:
        world.add_node("n1")
        world.api.create("a", resourceClaims=CLAIMS)
        await settle()
        world.api.change("a", shape=make_pod("a", labels={"x": "y"}, resourceClaims=CLAIMS).shape)
        world.api.change("a", conditions=())
        world.add_node("n2")
        await world.advance(60)
        assert world.metrics.attempts == ["unschedulable"]

        world.api.change("a", shape=make_pod("a").shape)
        await world.advance(2)
        assert world.api.node_of("a")
