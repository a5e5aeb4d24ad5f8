"""The live expiry rule: a deadline is when to ask, never a reason to let go (kubernetes/kubernetes#106361)."""

from schedcache.ports import UnavailableError
from schedcache.testing import settle
from tests.scheduling.world import World


async def slow_watch(world, uid="a"):
    """A pod is bound, and the watch says nothing."""
    world.add_node("n1", "1")
    world.api.watching = False
    world.api.create(uid, cpu="1")
    world.api.deliver()
    await settle()
    assert world.cache.dump().assumed_pods == {uid}


async def test_bound_with_a_late_event_is_never_released():
    async with World() as world:
        await slow_watch(world)
        for _ in range(60):
            await world.advance(10)
            assert world.requested("n1") == 1000
        assert world.metrics.doubts == ["bound"]
        assert world.cache.dump().assumed_pods == frozenset()
        world.api.watching = True
        world.api.create("b", cpu="1")
        await world.advance(10)
        assert world.api.node_of("b") == ""
        assert world.api.posts == [("a", "n1")]


async def test_before_the_deadline_nobody_asks():
    async with World() as world:
        await slow_watch(world)
        await world.advance(29)
        assert world.api.reads == 0


async def test_deleted_is_released_and_wakes_who_waits_for_the_room():
    async with World() as world:
        await slow_watch(world)
        world.api.delete("a")
        world.api.handlers.on_add("Pod", waiting := world.api.create("b", cpu="1"))
        await settle()
        assert [info.pod.uid for info in world.queue.unschedulable_pods()] == [waiting.uid]
        await world.advance(40)
        assert world.metrics.doubts[0] == "gone"
        assert ("b", "n1") in world.api.posts


async def test_unbound_is_released_and_queued_again():
    async with World() as world:
        await slow_watch(world)
        world.api.change("a", node_name="")  # as after a restore of etcd
        await world.advance(40)
        assert world.metrics.doubts[0] == "unbound"
        assert world.api.posts == [("a", "n1"), ("a", "n1")]


async def test_room_that_is_released_wakes_who_waits_for_it():
    async with World() as world:
        await slow_watch(world)
        world.api.change("a", node_name="", nominated_node_name="")
        world.api.handlers.on_add("Pod", world.api.create("b", cpu="1", priority=5))
        await settle()
        assert [info.pod.uid for info in world.queue.unschedulable_pods()] == ["b"]
        await world.advance(40)
        assert world.api.posts[1] == ("b", "n1")


async def test_elsewhere_moves_the_pod_there():
    async with World() as world:
        await slow_watch(world)
        world.api.change("a", node_name="n2")
        await world.advance(40)
        assert world.metrics.doubts == ["elsewhere"]
        assert (world.requested("n1"), world.requested("n2")) == (0, 1000)


async def test_without_an_answer_it_is_kept_and_asked_about_again():
    async with World() as world:
        await slow_watch(world)
        world.api.on_get = [UnavailableError("down", status=503) for _ in range(100)]
        await world.advance(60)
        assert world.requested("n1") == 1000
        assert world.cache.dump().assumed_pods == {"a"}
        world.api.on_get.clear()
        await world.advance(10)
        assert world.metrics.doubts[-1] == "bound"
        assert world.requested("n1") == 1000


async def test_an_api_server_that_does_not_answer_is_asked_less_and_less_and_told_of_once(capsys):
    """For all pods alike: 40 that are past their deadline are no reason for 40 requests and lines a second."""
    async with World() as world:
        world.add_node("n1", "64")
        world.api.watching = False
        for number in range(40):
            world.api.create(f"p{number}", cpu="1")
        world.api.deliver()
        await settle()
        world.api.on_get = [UnavailableError("down", status=503) for _ in range(10_000)]
        await world.advance(31)
        assert world.api.reads == 16
        await world.advance(300)
        assert 16 * 25 <= world.api.reads <= 16 * 35
        assert len(world.cache.dump().assumed_pods) == 40
        assert capsys.readouterr().out.count("no answer from the API server about a pod") == 16
        world.api.on_get.clear()
        await world.advance(11)
        assert world.cache.dump().assumed_pods == frozenset()
        world.check_at_rest()
