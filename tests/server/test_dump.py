"""The dump: its contract, one moment, and nobody waits for it."""

import asyncio
import gc
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from schedcache.cache.stories import CAPACITY
from schedcache.dump import STATES, load_dump, pieces
from schedcache.server.dump import dump_route, stories, take_dump
from schedcache.testing import make_node, settle
from tests.scheduling.world import World, make_pod

NOW = datetime(2026, 8, 1, 12, 30, 15, 250_000, tzinfo=UTC)


class Source:
    """What the dump asks of an event source."""

    @staticmethod
    def resource_versions():
        return {"Pod": "17", "Node": "16"}


def taken(world, told=None):
    return take_dump(world.scheduler, Source(), NOW.timestamp, told)


def written(dump):
    return b"".join(pieces(dump))


def dump(world, told=None):
    """What a reader has in the end, which must be what was taken."""
    found = taken(world, told)
    read = load_dump(written(found))
    assert read == found
    return read


async def test_every_state_of_a_pod_and_the_sums_of_its_node():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.create("bound", node="n1", cpu="200m")
        world.api.create("ghost", node="n2", cpu="300m")
        world.api.create("theirs", scheduler_name="default-scheduler")
        world.api.create("gated", schedulingGates=[{"name": "hold"}])
        world.api.create("big", cpu="64")
        await settle()
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("slow", cpu="500m")
        await settle()
        found = dump(world)
        raw = json.loads(written(taken(world)))
        await world.advance(6)
    assert (raw["apiVersion"], raw["kind"], raw["takenAt"]) == ("schedcache/v1", "Dump", "2026-08-01T12:30:15.250000Z")
    assert found.taken_at == NOW
    assert found.resource_versions == {"Pod": "17", "Node": "16"}
    assert found.assumed == ("slow",)
    states = {uid: (pod.state, pod.node) for uid, pod in found.pods.items()}
    assert states == {
        "bound": ("bound", "n1"),
        "ghost": ("bound", "n2"),
        "theirs": ("pending", ""),
        "gated": ("gated", ""),
        "big": ("unschedulable", ""),
        "slow": ("assumed", "n1"),
    }
    assert {state for state, _ in states.values()} <= set(STATES)
    assert found.pods["theirs"].namespace == "default"
    assert found.pods["theirs"].name == "theirs"
    node = raw["nodes"]["n1"]
    assert node["pods"] == ["bound", "slow"]
    assert node["present"] is True
    assert node["requested"] == {"milliCpu": 700, "memory": 0, "ephemeralStorage": 0, "scalar": {}}
    assert node["nonZeroRequested"] == {"milliCpu": 700, "memory": 2 * 209715200}
    assert node["allocatable"]["allowedPodNumber"] == 110
    assert found.nodes["n2"].present is False
    assert found.queue.unschedulable == ("big", "gated")
    assert found.queue.pods["big"].unschedulable_plugins == ("Fit",)


async def test_times_are_dates_whatever_the_clock_of_the_scheduler_says():
    async with World() as world:
        world.cache.stories.clear()
        world.add_node("n1", "1")
        world.api.create("big", cpu="64")
        await settle()
        await world.advance(3)
        found = dump(world, stories(world.scheduler, "n1"))
    queued = found.queue.pods["big"]
    assert queued.timestamp == queued.initial_attempt == NOW - timedelta(seconds=3)
    assert queued.backoff_until is None
    assert [story.time for story in found.stories] == [NOW - timedelta(seconds=3)]


async def test_when_a_backoff_ends_is_told():
    world = World()
    world.api.create("a")
    info = world.queue.pop_nowait()
    info.unschedulable_plugins = set()
    await world.advance(2)
    world.queue.add_unschedulable(info)
    await world.advance(0.25)
    raw = json.loads(written(taken(world)))
    assert raw["queue"]["errorBackoff"] == ["a"]
    assert raw["queue"]["pods"]["a"]["timestamp"] == "2026-08-01T12:30:15Z"
    assert raw["queue"]["pods"]["a"]["backoffUntil"] == "2026-08-01T12:30:16Z"
    assert raw["pods"]["a"]["state"] == "backoff"


async def test_how_long_an_assumed_pod_keeps_its_room_is_told():
    world = World()
    world.add_node("n1")
    for name in ("binding", "bound"):
        world.api.create(name)
        pod = make_pod(name, uid=name, node="n1")
        world.cache.assume_pod(pod)
    world.cache.finish_binding(pod)
    await world.advance(10)
    found = dump(world)
    assert (found.pods["binding"].binding_finished, found.pods["binding"].assumed_deadline) == (False, None)
    assert found.pods["bound"].binding_finished is True
    assert found.pods["bound"].assumed_deadline == NOW + timedelta(seconds=20)


async def test_finished_pods_are_not_in_it():
    world = World()
    world.add_node("n1")
    world.api.create("a", node="n1")
    world.api.change("a", phase="Succeeded")
    assert dump(world).pods == {}


def test_it_is_of_one_moment_however_long_it_takes():
    world = World()
    for i in range(300):
        world.add_node(f"n{i}")
    writing = pieces(taken(world))
    first = [next(writing) for _ in range(4)]
    for i in range(300):
        world.api.create(f"p{i}", node=f"n{i}")
    found = load_dump(b"".join([*first, *writing]))
    assert found.pods == {}
    assert all(node.pods == () for node in found.nodes.values())
    assert len(found.nodes) == 300


def test_an_empty_scheduler_has_a_dump():
    assert dump(World()).nodes == {}


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
    assert len(dump(world, stories(world.scheduler, "n1")).stories) == 3
    assert dump(world).stories is None
    assert "stories" not in json.loads(written(taken(world)))


@pytest.fixture
async def client():
    world = World()
    world.cache.stories.clear()
    world.add_node("n1")
    world.api.create("a", "web", node="n1")
    app = web.Application()
    app.add_routes([dump_route(world.scheduler, Source(), NOW.timestamp)])
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    ("query", "told"),
    [("", None), ("?stories", 2), ("?stories=all", 2), ("?stories=default/web", 1), ("?stories=x", 0)],
)
async def test_over_http(client, query, told):
    async with client.get(f"/dump{query}") as response:
        assert response.content_type == "application/json"
        found = load_dump(await response.read())
    assert found.taken_at == NOW
    assert (None if found.stories is None else len(found.stories)) == told


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("story=all", "unknown parameter 'story': expected stories"),
        ("stories=all&pretty", "unknown parameter 'pretty'"),
        ("stories=a&stories=b", "stories: expected one value, got 2"),
        ("stories=default/", "stories: expected all, NAMESPACE/NAME or the UID of a pod, or the name of a node"),
        ("stories=pods/default/web", "got 'pods/default/web'"),
    ],
)
async def test_a_wrong_parameter_is_refused_by_name(client, query, says):
    async with client.get(f"/dump?{query}") as response:
        assert response.status == 400
        assert says in await response.text()


@pytest.mark.slow
async def test_a_large_dump_never_holds_the_loop_for_50_ms():
    world = World()
    world.cache.validate = False
    for i in range(5000):
        world.add(make_node(f"n{i}"))
    for i in range(20_000):
        world.scheduler.handlers.on_add(
            "Pod", make_pod(f"p{i}", uid=f"u{i}", node=f"n{i % 5000}", resource_version=i + 1)
        )
    for i in range(5000):
        world.scheduler.handlers.on_add("Pod", make_pod(f"q{i}", uid=f"q{i}", resource_version=i + 1))
    assert len(list(world.cache.stories.of())) == CAPACITY
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
            for piece in pieces(taken(world, stories(world.scheduler, "all"))):
                size += len(piece)
                await asyncio.sleep(0)
    finally:
        gc.unfreeze()
        ended = True
        await watching
    assert size > 10_000_000
    assert longest < 0.05
