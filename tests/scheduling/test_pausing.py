"""A scheduler that may not decide: one that waits to lead, or that led."""

import asyncio

import pytest

from schedcache.ports import FencedError
from schedcache.testing import settle
from tests.scheduling.world import World

FENCED = FencedError("not sent")


async def test_while_paused_nothing_is_decided_and_everything_is_followed():
    async with World() as world:
        world.scheduler.pause()
        world.add_node("n1", "2")
        world.api.create("a", cpu="1")
        await world.advance(5)
        assert world.api.node_of("a") == ""
        assert [info.pod.uid for info in world.queue.active_pods()] == ["a"]
        assert world.scheduler.last_housekeeping == pytest.approx(world.clock(), abs=1.1), "the loop is alive"
        world.scheduler.resume()
        await settle()
        assert world.api.node_of("a") == "n1"
        world.check_at_rest()


@pytest.mark.parametrize("turns", range(6))
async def test_no_pod_is_lost_at_whatever_moment_it_is_paused(turns):
    async with World() as world:
        world.add_node("n1", "100")
        for number in range(20):
            world.api.create(f"p{number}", cpu="1")
            for _ in range(turns):
                await asyncio.sleep(0)
            world.scheduler.pause()
            if number % 3:
                await asyncio.sleep(0)
            world.scheduler.resume()
        await world.advance(1)
        assert {world.api.node_of(f"p{number}") for number in range(20)} == {"n1"}
        world.check_at_rest()


async def test_a_pause_in_the_same_turn_as_the_end_of_another_one_holds():
    """As of a replica that was stopped in the middle: it leads again, and at once its time is up."""
    async with World() as world:
        world.scheduler.pause()
        world.add_node("n1", "2")
        await settle()
        world.scheduler.resume()
        world.scheduler.pause()
        world.api.create("a", cpu="1")
        await settle()
        assert world.api.node_of("a") == ""
        world.scheduler.resume()
        await settle()
        assert world.api.node_of("a") == "n1"


class Volumes:
    """A PreBind plugin whose write is held back, as often as it is told to."""

    name = "Volumes"
    held_back = 0

    def __init__(self, args, handle): ...

    async def pre_bind(self, state, pod, node_name):
        if Volumes.held_back:
            Volumes.held_back -= 1
            raise FENCED


async def test_a_write_that_is_held_back_in_pre_bind_is_no_fault_of_the_plugin_and_nobody_is_told():
    Volumes.held_back = 2
    async with World(extra={"Volumes": Volumes}) as world:
        world.add_node("n1", "1")
        world.api.create("a", cpu="1")
        await settle()
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["a"]
        assert world.recorder.reasons("a") == []
        await world.advance(5)
        assert world.api.node_of("a") == "n1"
        world.check_at_rest()


async def test_a_nomination_outlives_a_bind_that_is_held_back():
    """It stands in the API, where the next leader finds it; so this one must not forget it either, if it leads again."""
    async with World() as world:
        world.add_node("n1", "1")

        async def fenced(_pod, _node):
            raise FENCED

        world.api.before_bind.append(fenced)
        world.api.create("a", cpu="1", status={"nominatedNodeName": "n1"})
        await settle()
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["a"]
        assert [pod.uid for pod in world.queue.nominated_pods_for_node("n1")] == ["a"]


async def test_a_bind_that_is_held_back_is_undone_and_tried_later_and_nobody_is_told():
    """Whoever leads by now tells what is to be told."""
    async with World() as world:
        world.add_node("n1", "1")
        held_back = [FENCED, FENCED]

        async def fenced(_pod, _node):
            if held_back:
                raise held_back.pop()

        world.api.before_bind += [fenced, fenced]
        world.api.create("a", cpu="1")
        await settle()
        assert world.requested("n1") == 0
        assert world.cache.assumed_pods == {}
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["a"]
        assert (world.recorder.patches, world.recorder.reasons("a")) == ([], [])
        await world.advance(5)
        assert world.api.node_of("a") == "n1"
        assert world.api.reads == 0, "it was not sent, so nothing is in doubt"
        world.check_at_rest()


async def test_a_drain_says_how_many_bindings_it_had_to_cut_off():
    async with World() as world:
        world.add_node("n1", "9")
        never = asyncio.Event()

        async def no_answer(_pod, _node):
            await never.wait()

        world.api.before_bind.append(no_answer)
        world.api.create("a", cpu="1")
        await settle()
        assert await world.scheduler.drain(0.01) == 1
        assert await world.scheduler.drain(0.01) == 0
