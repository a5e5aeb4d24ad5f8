"""Pods come back at the moment at which they may, and a loop without pods sleeps."""

import pytest

from schedcache.ports import RefusedError
from schedcache.testing import settle
from tests.scheduling.world import World, raises


async def test_the_end_of_an_error_backoff_is_met_to_the_millisecond():
    async with World() as world:
        world.add_node("n1")
        await world.advance(0.4)
        world.api.before_bind.append(raises(RefusedError("forbidden", status=403)))
        world.api.create("a")
        await settle()
        (info,) = world.queue.error_backoff_pods()
        over = world.queue.next_flush_at()
        assert over is not None
        assert over - info.timestamp == pytest.approx(1.6)  # 1 s of backoff, and the second in which that ends
        await world.advance(over - world.clock() - 0.001)
        assert len(world.api.posts) == 1
        await world.advance(0.002)
        assert len(world.api.posts) == 2


async def test_the_time_limit_of_the_pool_is_met_within_a_millisecond():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.create("a", cpu="2")
        await settle()
        await world.advance(299.999)
        assert world.metrics.attempts == ["unschedulable"]
        await world.advance(0.003)
        assert world.metrics.attempts == ["unschedulable"] * 2


async def test_without_pods_that_wait_the_loop_wakes_once_a_second():
    async with World() as world:
        slept = []
        sleep = world.clock.sleep

        async def counted(seconds):
            slept.append(seconds)
            await sleep(seconds)

        world.scheduler._sleep = counted
        await world.advance(60)
        assert len(slept) <= 2 * 61
        assert set(slept) == {1.0}
