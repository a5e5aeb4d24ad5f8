"""A cache that is found to be wrong is told, counted and rebuilt, and no pod is lost over it."""

from schedcache.testing import settle
from tests.scheduling.world import World


async def test_what_a_canary_finds_cuts_nothing_short_and_is_told_once():
    async with World(canary=True) as world:
        world.add_node("n1")
        world.cache.nodes["n1"].requested.milli_cpu = 500
        for uid in "abc":
            world.api.create(uid)
        await settle()
        assert world.metrics.errors == ["corruption"]
        assert world.rebuilds == ["cache error: corruption"]
        assert [world.api.node_of(uid) for uid in "abc"] == ["n1"] * 3
        nodes = [info.node for info in world.cache.nodes.values()]
        world.scheduler.handlers.on_rebuild({"Pod": list(world.api.pods.values()), "Node": nodes})
        await settle()
        assert world.requested("n1") == 300
        world.check_at_rest()


async def test_a_cycle_that_finds_the_cache_wrong_asks_for_a_rebuild_and_tries_its_pod_again():
    async with World() as world:
        world.add_node("n1")
        await settle()
        world.cache.node_tree.set("nobody", "")
        world.cache.validate = False
        world.api.create("a")
        await settle()
        assert world.metrics.errors == ["inconsistent_snapshot"]
        assert world.rebuilds == ["cache error: inconsistent_snapshot"]
        assert world.queue.find("default", "a")[0] == "backoff"
        await world.advance(2)
        assert world.api.node_of("a") == "n1"
