"""The dump: its contract, one moment, and nobody waits for it."""

import asyncio
import gc
import json
import time
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from schedcache.cache.stories import CAPACITY
from schedcache.dump import STATES, json_schema, load_dump, pieces
from schedcache.server.dump import dump_route, stories, take_dump
from schedcache.server.dump_query import SelectorError, parse_selector
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
    text = written(found)
    read = load_dump(text)
    assert read == found
    jsonschema.validate(json.loads(text), json_schema())
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
        ("story=all", "unknown parameter 'story': expected stories, nodes, namespace, selector, fields"),
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


@pytest.fixture
async def busy():
    """Two nodes, pods of two namespaces on each, two that wait, and one that is under way."""
    world = World()
    world.cache.stories.clear()
    for node in ("n1", "n2"):
        world.add_node(node, "4")
        for namespace in ("web", "db"):
            labels = {"app": namespace, "tier": node}
            world.api.create(f"{namespace}-{node}", namespace=namespace, node=node, labels=labels)
    for namespace in ("web", "db"):
        world.api.create(f"{namespace}-waits", namespace=namespace, labels={"app": namespace}, cpu="64")
    world.cache.assume_pod(make_pod("web-waits", uid="web-waits", namespace="web", node="n2"))
    app = web.Application()
    app.add_routes([dump_route(world.scheduler, Source(), NOW.timestamp)])
    async with TestClient(TestServer(app, skip_url_asserts=True)) as client:
        client.world = world
        yield client


async def asked(client, query="", **headers):
    async with client.get(f"/dump{query}", headers=headers) as response:
        assert response.status == 200, await response.text()
        return load_dump(await response.read())


@pytest.mark.parametrize(
    ("query", "nodes", "pods"),
    [
        ("", "n1 n2", "web-n1 db-n1 web-n2 db-n2 web-waits db-waits"),
        ("?nodes=n1", "n1", "web-n1 db-n1"),
        ("?nodes=n2,none", "n2", "web-n2 db-n2 web-waits"),
        ("?namespace=web", "n1 n2", "web-n1 web-n2 web-waits"),
        ("?namespace=web,none", "n1 n2", "web-n1 web-n2 web-waits"),
        ("?selector=app=db", "n1 n2", "db-n1 db-n2 db-waits"),
        ("?selector=app=db,tier", "n1 n2", "db-n1 db-n2"),
        ("?selector=tier%20notin%20(n1),app!=db", "n1 n2", "web-n2 web-waits"),
        ("?selector=!tier", "n1 n2", "web-waits db-waits"),
        ("?selector=app%20in%20(web,%20db)&nodes=n1&namespace=web", "n1", "web-n1"),
        ("?fields=pods&namespace=web&nodes=n1", "", "web-n1"),
        ("?fields=nodes", "n1 n2", ""),
    ],
)
async def test_some_of_it(busy, query, nodes, pods):
    found = await asked(busy, query)
    assert sorted(found.nodes) == nodes.split()
    assert {pod.name for pod in found.pods.values()} == set(pods.split())
    assert (found.filter is None) == (query == "")


async def test_pods_that_are_not_shown_are_nowhere_but_in_the_sums_of_nodes(busy):
    everything, web = await asked(busy), await asked(busy, "?namespace=web")
    hidden = {uid for uid, pod in everything.pods.items() if pod.namespace == "db"}
    assert web.assumed == everything.assumed == ("web-waits",)
    queue = web.queue
    parts = (queue.active, queue.backoff, queue.error_backoff, queue.unschedulable, queue.in_flight)
    assert not hidden & {uid for part in parts for uid in part}
    assert not hidden & queue.pods.keys()
    assert hidden & everything.queue.pods.keys()
    assert web.nodes == everything.nodes
    assert web.generation == everything.generation
    assert web.filter.namespace == ("web",)


async def test_fields_that_are_not_wanted_are_empty_and_the_form_stays(busy):
    found = await asked(busy, "?fields=queue")
    assert found.queue.pods
    assert (found.nodes, found.pods, found.assumed, found.resource_versions) == ({}, {}, (), {})
    found = await asked(busy, "?fields=assumed,resourceVersions")
    assert found.assumed == ("web-waits",)
    assert found.resource_versions == {"Pod": "17", "Node": "16"}
    assert (found.queue.active, found.queue.pods) == ((), {})
    assert found.filter.fields == ("assumed", "resourceVersions")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("nodes=", "nodes: expected names, separated by commas"),
        ("fields=pods,env", "fields: expected some of resourceVersions, assumed, queue, nodes, pods, got 'env'"),
        ("selector=", "selector: expected requirements such as app=web or tier in (a,b), separated by commas, got ''"),
        ("selector=a%20in%20b", "selector: expected requirements"),
        ("selector=a=b,,c", "got ''"),
        ("selector=a%3Cb", "selector: expected requirements"),
        ("namespace=a&namespace=b", "namespace: expected one value, got 2"),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(busy, query, says):
    async with busy.get(f"/dump?{query}") as response:
        assert response.status == 400
        assert says in await response.text()


def test_a_selector_of_commas_keeps_nobody_waiting():
    begun = time.perf_counter()
    with pytest.raises(SelectorError):
        parse_selector("," * 50_000)
    assert time.perf_counter() - begun < 1


@pytest.mark.parametrize(
    ("accepts", "gets"),
    [
        ("gzip", "gzip"),
        ("br, gzip;q=0.5", "gzip"),
        ("deflate", None),
        ("gzip;q=0", None),
        ("gzip;q=0.0", None),
        ("", None),
    ],
)
async def test_compressed_where_the_client_takes_it(busy, accepts, gets):
    async with busy.get("/dump", headers={"Accept-Encoding": accepts}) as response:
        assert response.headers.get("Content-Encoding") == gets
        assert response.headers["Vary"] == "Accept-Encoding"
        assert len(load_dump(await response.read()).nodes) == 2


async def etag_of(client, query="", status=200, **headers):
    async with client.get(f"/dump{query}", headers=headers) as response:
        assert response.status == status
        if status == 304:
            assert await response.read() == b""
        return response.headers["ETag"]


async def test_who_has_it_already_is_told_so(busy):
    etag = await etag_of(busy)
    assert etag.startswith('W/"')
    busy.world.clock.now += 1
    for sent in (etag, etag.removeprefix("W/"), f'"other", {etag}', "*"):
        assert await etag_of(busy, status=304, **{"If-None-Match": sent}) == etag
    assert await etag_of(busy, status=304, **{"If-None-Match": etag, "Accept-Encoding": "gzip"}) == etag
    await etag_of(busy, **{"If-None-Match": '"other"'})
    assert await etag_of(busy, "?fields=nodes", **{"If-None-Match": etag}) != etag


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.api.create("more", node="n1"),
        lambda world: world.api.create("later", cpu="64"),
        lambda world: world.add_node("n3"),
        lambda world: world.cache.finish_binding(world.cache.get_pod(make_pod("web-waits", uid="web-waits"))),
        lambda world: world.queue.pop_nowait(),
        lambda world: setattr(Source, "resource_versions", staticmethod(lambda: {"Pod": "18"})),
    ],
    ids=["pod", "pending", "node", "finished", "popped", "versions"],
)
async def test_whatever_has_changed_is_told(busy, change, monkeypatch):
    monkeypatch.setattr(Source, "resource_versions", staticmethod(lambda: {"Pod": "17"}))
    etag = await etag_of(busy)
    change(busy.world)
    assert await etag_of(busy, **{"If-None-Match": etag}) != etag
