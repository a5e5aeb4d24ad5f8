"""PreBind: left out where there is nothing to do, ended when the pod is not to be bound, and its errors are the attempt's."""

import asyncio

import pytest

from schedcache.framework import SKIP, Code, Status
from schedcache.ports import OutcomeUnknownError, RefusedError
from schedcache.testing import make_node, make_pod, settle
from tests.scheduling.world import World


class Preparation:
    """A PreBind plugin that takes five seconds, and remembers."""

    name = "Preparation"
    world = None

    def __init__(self, args, handle):
        self.log = Preparation.world.log

    def reserve(self, state, pod, node_name):
        self.log.append("reserve")

    def unreserve(self, state, pod, node_name):
        self.log.append("unreserve")

    def pre_bind_pre_flight(self, state, pod, node_name):
        return self.world.pre_flight

    async def pre_bind(self, state, pod, node_name):
        self.log.append("begin")
        try:
            await self.world.clock.sleep(5)
            if self.world.error is not None:
                raise self.world.error
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise
        self.log.append("end")


class PreparedWorld(World):
    def __init__(self, **more):
        self.log, self.pre_flight, self.error = [], None, None
        Preparation.world = self
        super().__init__(extra={"Preparation": Preparation}, **more)


async def test_the_pod_is_bound_after_it():
    async with PreparedWorld() as world:
        world.add_node("n1")
        world.api.create("a")
        await world.advance(4)
        assert (world.log, world.api.posts) == (["reserve", "begin"], [])
        await world.advance(2)
        assert (world.log[-1], world.api.node_of("a")) == ("end", "n1")
        world.check_at_rest()


async def test_it_is_left_out_where_pre_flight_says_so():
    async with PreparedWorld() as world:
        world.pre_flight = SKIP
        world.add_node("n1")
        world.api.create("a")
        await settle()
        assert (world.log, world.api.node_of("a")) == (["reserve"], "n1")


@pytest.mark.parametrize("code", [Code.ERROR, Code.UNSCHEDULABLE, Code.WAIT])
async def test_pre_flight_can_do_no_more_than_skip(code):
    async with PreparedWorld() as world:
        world.pre_flight = Status(code, ("what now",))
        world.add_node("n1")
        world.api.create("a")
        await settle()
        assert world.log == ["reserve", "unreserve"]
        assert world.notes("a") == ['running PreBindPreFlight "Preparation": what now']
        assert world.requested("n1") == 0


@pytest.mark.parametrize("error", [RefusedError("forbidden", status=403), OutcomeUnknownError("lost")])
async def test_what_the_api_answers_there_says_nothing_about_the_pod(error):
    """So the pod need not be read, as after a bind, and is tried again after its backoff."""
    async with PreparedWorld() as world:
        world.error = error
        world.add_node("n1")
        world.api.create("a")
        await settle()
        await world.advance(5)
        assert world.log == ["reserve", "begin", "unreserve"]
        assert world.notes("a") == [f'running PreBind plugin "Preparation": {error}']
        assert (world.api.reads, world.requested("n1")) == (0, 0)
        world.error = None
        await world.advance(10)
        assert world.api.node_of("a") == "n1"


def delete(world):
    world.api.delete("a")


def terminate(world):
    world.api.change("a", deletion_timestamp="2026-01-01T00:00:00Z")


def hand_over(world):
    world.api.change("a", shape=make_pod("a", uid="a", scheduler_name="other").shape)


def bind_elsewhere(world):
    world.api._bind(world.api.by_uid("a"), "n2")


def rebuild_without_it(world):
    del world.api.pods["default", "a"]
    nodes = [make_node(name, cpu="4") for name in ("n1", "n2")]
    world.scheduler.handlers.on_rebuild({"Pod": [], "Node": nodes})


@pytest.mark.parametrize("act", [delete, terminate, hand_over, bind_elsewhere, rebuild_without_it])
async def test_it_ends_at_once_when_the_pod_is_not_to_be_bound(act):
    async with PreparedWorld() as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        world.add_node("n2")
        act(world)
        await settle()
        assert world.log == ["reserve", "begin", "cancelled", "unreserve"]
        assert world.requested("n1") == 0
        await world.advance(30)
        assert (world.api.posts, world.queue.find("default", "a")) == ([], None)
        world.check_at_rest()


async def test_a_stop_does_not_wait_for_it():
    async with PreparedWorld() as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        await world.scheduler.drain(10)
        assert world.log == ["reserve", "begin", "cancelled", "unreserve"]
        assert world.recorder.events == []
