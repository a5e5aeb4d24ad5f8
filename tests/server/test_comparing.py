"""Comparisons within the process, in memory: each kind of drift is found, named, told and repaired, and there is no false alarm."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, generate_latest

from schedcache.model import Node
from schedcache.ports import Cause, Difference, KindComparison, OutcomeUnknownError
from schedcache.server.compare_metrics import CompareCollector
from schedcache.server.comparing import SHOWN, WITHIN, Comparer, compare_route
from schedcache.server.share import ProcessorShare
from schedcache.testing import make_node, settle
from tests.scheduling.world import World, make_pod


class Source:
    """What a source has handed on to a world: its pods, as the API has them unless the watch is `late`, and its nodes."""

    def __init__(self, world):
        self.world = world
        self.nodes = {}
        self.late = None
        self.rebuilds = []
        self.compared = 0
        self.finds = []

    def held(self, kind):
        return self.nodes if kind == "Node" else self.late or {pod.uid: pod for pod in self.world.api.pods.values()}

    def add_node(self, name, **more):
        node = make_node(name, uid=f"uid-{name}", resource_version=self.world.api.version(), **more)
        self.nodes[node.uid] = node
        self.world.add(node)

    @staticmethod
    def resource_versions():
        return {"Pod": "1", "Node": "1"}

    @staticmethod
    def has_synced():
        return True

    def rebuild_wanted(self):
        return bool(self.rebuilds)

    def request_rebuild(self, reason):
        self.rebuilds.append(reason)

    async def compare(self):
        self.compared += 1
        await asyncio.sleep(0)
        for kind in self.resource_versions():
            found = tuple(one for one in self.finds if one.kind == kind)
            self.on_compared(KindComparison(kind, len(self.held(kind)), 100, 0.5, "1", found))


@pytest.fixture
async def world():
    async with World() as world:
        world.cache.validate = False
        world.source = Source(world)
        world.source.add_node("n1", cpu="4")
        world.source.add_node("n2", cpu="4")
        world.api.create("a", node="n1")
        world.api.create("b")
        world.api.create("big", cpu="64")
        await settle()
        assert world.node_of("b") in ("n1", "n2")
        world.comparer = Comparer(
            world.scheduler, world.source, world.recorder, ProcessorShare(lambda: False, 0.05), interval=None
        )
        yield world


def within(found):
    return [(one.kind, one.cause, one.name) for one in found.differences]


async def test_what_agrees_is_no_drift(world):
    found = await world.comparer.compare()
    assert (found.differences, found.counts, found.more, found.repair) == ((), {}, 0, "none")
    assert {kind: (one.objects, one.problem) for kind, one in found.kinds.items()} == {
        "Pod": (3, ""),
        "Node": (2, ""),
        WITHIN: (5, ""),
    }
    assert found.objects == 5
    assert found.bytes == 200
    assert world.source.rebuilds == []
    assert not [event for event in world.recorder.events if event[1] == "CacheDrift"]


def forget_pod(world):
    world.pods.discard(world.pods.get("default", "a"))
    return ("Pod", Cause.NOT_HANDED_ON, "default/a")


def older_pod(world):
    world.api.pods["default", "big"] = make_pod("big", uid="big", cpu="64", resource_version="9999999")
    return ("Pod", Cause.NOT_HANDED_ON, "default/big")


def extra_pod(world):
    world.pods.put(make_pod("phantom", uid="phantom"))
    return ("Pod", Cause.NOT_HANDED_ON, "default/phantom")


def leaked_pod(world):
    world.cache.add_pod(make_pod("leaked", uid="leaked", node="n1"))
    return ("Pod", Cause.NOT_HANDED_ON, "default/leaked")


def uncounted_pod(world):
    world.cache.remove_pod(world.pods.get("default", "a"))
    return ("Pod", Cause.NOT_HANDED_ON, "default/a")


def missing_node(world):
    node = make_node("n3", uid="uid-n3", resource_version="5")
    world.source.nodes[node.uid] = node
    return ("Node", Cause.NOT_HANDED_ON, "n3")


def extra_node(world):
    del world.source.nodes["uid-n2"]
    return ("Node", Cause.NOT_HANDED_ON, "n2")


def another_node(world):
    node: Node = make_node("n2", uid="other", resource_version="5")
    world.source.nodes = {"uid-n1": world.source.nodes["uid-n1"], "other": node}
    return ("Node", Cause.NOT_HANDED_ON, "n2")


def wrong_sum(world):
    info = world.cache.nodes["n1"] = world.cache.nodes["n1"].copy()
    info.requested.milli_cpu += 1
    return ("Node", Cause.CACHE_DRIFT, "n1")


def wrong_column(world):
    columns = world.scheduler.cycle.snapshot.columns
    columns.pod_count[columns.row_of["n2"]] += 1
    return ("Node", Cause.CACHE_DRIFT, "n2")


def wrong_row(world):
    snapshot = world.scheduler.cycle.snapshot
    snapshot.columns.infos[snapshot.columns.row_of["n2"]] = snapshot.node_info_map["n1"]
    return ("Node", Cause.CACHE_DRIFT, "n2")


@pytest.mark.parametrize(
    "plant",
    [forget_pod, older_pod, extra_pod, leaked_pod, uncounted_pod, missing_node, extra_node, another_node, wrong_sum,
     wrong_column, wrong_row],
)  # fmt: skip
async def test_drift_within_the_process_is_found_named_told_and_repaired(world, plant):
    planted = plant(world)
    found = await world.comparer.compare()
    assert planted in within(found)
    assert {(kind, name) for kind, _, name in within(found)} == {(planted[0], planted[2])}
    assert found.counts[planted[0]][planted[1]] >= 1
    assert found.repair == "rebuild"
    assert world.source.rebuilds == ["comparison"]
    registry = CollectorRegistry()
    registry.register(CompareCollector(world.comparer))
    text = generate_latest(registry).decode()
    assert f'scheduler_compare_drift_total{{cause="{planted[1]}",kind="{planted[0]}"}}' in text
    assert f'scheduler_compare_differences{{kind="cache"}} {float(len(found.differences))}' in text


async def test_who_looks_after_the_cluster_is_told_by_an_event_of_our_own_pod_or_one_concerned(world):
    drift = Difference("Pod", Cause.MISSED_DELETE, "default/a", "a", "7", "")
    world.source.finds = [drift] * 3
    found = await world.comparer.compare()
    assert found.repair == "list"
    told = [event for event in world.recorder.events if event[1] == "CacheDrift"]
    assert told == [
        ("a", "CacheDrift",
         "What is held differed from what should be (Pod: missed delete 3; first default/a), they are listed again")
    ]  # fmt: skip
    own = Comparer(
        world.scheduler, world.source, world.recorder, ProcessorShare(lambda: False, 0.05), own_pod=lambda: make_pod("me", uid="me")
    )  # fmt: skip
    await own.compare()
    assert world.recorder.events[-1][0] == "me"


async def test_an_answer_lists_so_many_differences_and_counts_the_others(world):
    world.source.finds = [Difference("Pod", Cause.MISSED_ADD, f"d/{i}", str(i), "", "1") for i in range(SHOWN + 7)]
    found = await world.comparer.compare()
    assert (len(found.differences), found.more) == (SHOWN, 7)
    assert found.counts == {"Pod": {"missed add": SHOWN + 7}}


async def test_a_comparison_over_http_is_shared_and_not_repeated_at_once(world):
    app = web.Application()
    app.add_routes([compare_route(world.comparer)])
    async with TestClient(TestServer(app)) as client:

        async def ask():
            async with client.get("/compare") as response:
                assert response.content_type == "application/json"
                return json.loads(await response.read())

        answers = await asyncio.gather(*(ask() for _ in range(5)))
        assert world.source.compared == 1
        assert await ask() == answers[0]
        assert (answers[0]["apiVersion"], answers[0]["kind"]) == ("schedcache/v1", "Comparison")
        async with client.head("/compare") as response:
            assert (response.status, await response.read()) == (200, b"")
        async with client.get("/compare?all") as response:
            assert response.status == 400
    assert world.source.compared == 1


async def test_nothing_is_compared_before_everything_was_listed(world):
    world.source.has_synced = lambda: False
    found = await world.comparer.compare()
    assert world.source.compared == 0
    assert {one.problem for one in found.kinds.values()} == {"not listed yet, or being read again"}


async def test_changes_between_pieces_are_no_drift(world):
    for i in range(1200):
        world.api.create(f"p{i}", node="n1", cpu="1m")
    comparing = asyncio.create_task(world.comparer.compare())
    for i in range(0, 1200, 2):
        world.api.delete(f"p{i}")
        world.api.create(f"q{i}", node="n2", cpu="1m")
        if i % 40 == 0:
            await asyncio.sleep(0)
    assert (await comparing).differences == ()


@pytest.fixture(params=["its end", "its node"])
async def late(world, request):
    """Of a pod, a read has brought that before the watch, since its bind had no answer. The cause of the difference."""

    def unanswered(_pod, _node):
        if request.param == "its end":
            world.api.delete("c")
        raise OutcomeUnknownError("time-out")

    world.api.create("c")
    world.source.late = world.source.held("Pod")
    world.api.watching = False
    (world.api.before_bind if request.param == "its end" else world.api.after_bind).append(unanswered)
    await settle()
    assert world.metrics.doubts == ["gone" if request.param == "its end" else "bound"]
    return Cause.NOT_HANDED_ON if request.param == "its end" else Cause.NEWER_VERSION


async def test_what_was_read_before_the_watch_brings_it_is_no_drift(world, late):
    assert within(await world.comparer.compare()) == []
    assert world.source.rebuilds == []
    world.api.deliver()
    world.source.late = None
    await world.advance(30.0)
    await world.comparer._check()
    assert world.comparer.drift == {}


async def test_what_was_read_and_the_api_server_does_not_have_later_is_drift(world, late):
    """It was restored from a backup, and has the pod as the watch had brought it: it is compared in the same version."""
    await world.advance(30.0)
    await world.comparer._check()
    assert world.comparer.drift == {}, "the source has not been compared since"
    assert within(await world.comparer.compare()) == [("Pod", late, "default/c")]
    assert world.source.rebuilds == ["comparison"]
