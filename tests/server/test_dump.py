"""The dump: its contract, one moment, and nobody waits for it."""

import asyncio
import gc
import json
import time

import pytest

from schedcache.server.dump import StateDump, stories
from tests.scheduling.world import World, make_node, make_pod, settle


class Source:
    """What the dump asks of an event source."""

    @staticmethod
    def resource_versions():
        return {"Pod": "17", "Node": "16"}


def dump(world, told=None):
    return json.loads(b"".join(StateDump(world.scheduler, Source(), told).pieces()))


async def test_every_state_of_a_pod_and_the_sums_of_its_node():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.create("bound", node="n1", cpu="200m")
        world.api.create("ghost", node="n2", cpu="300m")
        world.api.create("theirs", scheduler="default-scheduler")
        world.api.create("gated", schedulingGates=[{"name": "hold"}])
        world.api.create("big", cpu="64")
        await settle()
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("slow", cpu="500m")
        await settle()
        found = dump(world)
        await world.clock.advance(6)
    assert found["apiVersion"] == "schedcache/v1"
    assert found["kind"] == "Dump"
    assert found["resourceVersions"] == {"Pod": "17", "Node": "16"}
    assert found["assumed"] == ["slow"]
    assert isinstance(found["generation"], int)
    states = {uid: (pod["state"], pod["node"]) for uid, pod in found["pods"].items()}
    assert states == {
        "bound": ("bound", "n1"),
        "ghost": ("bound", "n2"),
        "theirs": ("pending", ""),
        "gated": ("gated", ""),
        "big": ("unschedulable", ""),
        "slow": ("assumed", "n1"),
    }
    assert found["pods"]["theirs"]["namespace"] == "default"
    assert found["pods"]["theirs"]["name"] == "theirs"
    node = found["nodes"]["n1"]
    assert node["pods"] == ["bound", "slow"]
    assert node["present"] is True
    assert node["requested"] == {"milli_cpu": 700, "memory": 0, "ephemeral_storage": 0, "scalar": {}}
    assert node["non_zero_requested"] == {"milli_cpu": 700, "memory": 2 * 209715200}
    assert node["allocatable"]["allowed_pod_number"] == 110
    assert found["nodes"]["n2"]["present"] is False
    assert found["queue"]["unschedulable"] == ["big", "gated"]
    assert found["queue"]["pods"]["big"]["unschedulable_plugins"] == ["Fit"]


async def test_finished_pods_are_not_in_it():
    world = World()
    world.add_node("n1")
    world.api.create("a", node="n1")
    world.api.change("a", phase="Succeeded")
    assert dump(world)["pods"] == {}


def test_it_is_of_one_moment_however_long_it_takes():
    world = World()
    for i in range(300):
        world.add_node(f"n{i}")
    pieces = StateDump(world.scheduler, Source()).pieces()
    first = [next(pieces) for _ in range(4)]
    for i in range(300):
        world.api.create(f"p{i}", node=f"n{i}")
    found = json.loads(b"".join([*first, *pieces]))
    assert found["pods"] == {}
    assert all(node["pods"] == [] for node in found["nodes"].values())
    assert len(found["nodes"]) == 300


def test_an_empty_scheduler_has_a_dump():
    assert dump(World())["nodes"] == {}


def test_stories_of_a_pod_a_node_or_all():
    world = World()
    world.cache.stories.clear()
    world.add_node("n1")
    world.api.create("a", "web", node="n1")
    world.api.create("b", "db", node="n1")
    assert [story.operation for story in stories(world.scheduler, "default/web")] == ["add_pod"]
    assert [story.uid for story in stories(world.scheduler, "b")] == ["b"]
    assert len(stories(world.scheduler, "n1")) == 3
    assert len(stories(world.scheduler, "all")) == 3
    assert stories(world.scheduler, "nobody") == []
    assert len(dump(world, stories(world.scheduler, "n1"))["stories"]) == 3
    assert "stories" not in dump(world)


@pytest.mark.slow
async def test_a_large_dump_never_holds_the_loop_for_50_ms():
    world = World()
    world.cache.validate = False
    for i in range(5000):
        world.scheduler.handlers.on_add("Node", make_node(f"n{i}"))
    for i in range(20_000):
        world.scheduler.handlers.on_add("Pod", make_pod(f"u{i}", f"p{i}", node=f"n{i % 5000}", version=str(i + 1)))
    for i in range(5000):
        world.scheduler.handlers.on_add("Pod", make_pod(f"q{i}", f"q{i}", version=str(i + 1)))
    gc.collect()
    gc.freeze()  # as the program does once it has listed everything
    longest, ended = 0.0, False

    async def watch():
        nonlocal longest
        while not ended:
            # Of this process's own time: other work on the machine is not the dump's.
            before = time.process_time()
            await asyncio.sleep(0)
            longest = max(longest, time.process_time() - before)

    watching = asyncio.create_task(watch())
    size = 0
    try:
        for _ in range(3):
            for piece in StateDump(world.scheduler, Source()).pieces():
                size += len(piece)
                await asyncio.sleep(0)
    finally:
        gc.unfreeze()
        ended = True
        await watching
    assert size > 10_000_000
    assert longest < 0.05
