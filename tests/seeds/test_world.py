"""The simulated world itself: time that jumps, processes that stand still, and a server that behaves as a real one does."""

import asyncio
import json
import random

import pytest

from tests.seeds.acts import node_object, pod_object
from tests.seeds.api_server import NODES, PODS, ApiServer
from tests.seeds.scenario import NodeSpec, PodSpec
from tests.seeds.virtual_loop import OWNER, StuckError, VirtualLoop

POD = PodSpec(cpu=100, memory=64)
SELECTOR = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


@pytest.fixture
def loop():
    loop = VirtualLoop(random.Random(1), 5e8)
    yield loop
    loop.close()


@pytest.fixture
def server():
    server = ApiServer(lambda: 0.0)
    server.create(NODES, node_object("n0", NodeSpec(1000, 1024, 10)))
    for number in range(5):
        server.create(PODS, pod_object(f"p{number}", POD))
    return server


def read(server, path, **query):
    answer = server.carry_out("a", "GET", path, query, b"")
    return answer.status, json.loads(answer.body)


def bind(server, name, **metadata):
    body = json.dumps({"metadata": metadata, "target": {"name": "n0"}}).encode()
    return server.carry_out("a", "POST", f"/api/v1/namespaces/default/pods/{name}/binding", {}, body).status


def told_since(server, version, path=PODS, **query):
    lines = []
    server.watch(path, {"resourceVersion": str(version), **query}, lines.append)
    return lines, lambda: [(e["type"], e["object"]["metadata"]["name"]) for e in map(json.loads, lines)]


def test_time_jumps_to_the_next_timer(loop):
    async def sleep_long():
        async with asyncio.timeout(10_000):
            await asyncio.gather(asyncio.sleep(3600), asyncio.sleep(5))

    loop.run_until_complete(sleep_long())
    assert loop.time() == pytest.approx(5e8 + 3600, abs=1e-3)


def test_time_passes_however_short_a_sleep_is(loop):
    async def sleep_shortly():
        before = loop.time()
        # Added to the time, so little vanishes.
        await asyncio.sleep(1e-9)
        assert loop.time() > before

    loop.run_until_complete(sleep_shortly())


def test_a_loop_that_turns_while_no_time_passes_is_stuck(loop):
    def again():
        loop.call_soon(again)

    again()
    with pytest.raises(StuckError, match="no time passes"):
        loop.run_forever()


def test_a_loop_in_which_nothing_can_happen_any_more_is_stuck(loop):
    with pytest.raises(StuckError, match="nothing is ready"):
        loop.run_forever()


def test_a_frozen_process_stands_still_and_then_does_what_is_due(loop):
    woken = []

    async def process(name):
        OWNER.set(name)
        for second in range(1, 5):
            await asyncio.sleep(1)
            woken.append((name, second, loop.time() - 5e8))

    async def world():
        both = [asyncio.create_task(process(name)) for name in ("a", "b")]
        await asyncio.sleep(1.5)
        loop.freeze("a")
        await asyncio.sleep(10)
        loop.thaw("a")
        await asyncio.gather(*both)

    loop.run_until_complete(world())
    assert [round(at, 3) for name, _, at in woken if name == "a"] == [1, 11.5, 12.5, 13.5]
    assert [round(at, 3) for name, _, at in woken if name == "b"] == [1, 2, 3, 4]


def test_pages_show_one_moment_and_end_with_a_compaction(server):
    _, first = read(server, PODS, limit="2")
    server.delete(PODS, "default/p4")
    _, second = read(server, PODS, limit="2", **{"continue": first["metadata"]["continue"]})
    assert [p["metadata"]["name"] for p in first["items"] + second["items"]] == ["p0", "p1", "p2", "p3"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    server.compact()
    status, last = read(server, PODS, limit="2", **{"continue": second["metadata"]["continue"]})
    assert (status, last["reason"]) == (410, "Expired")


def test_a_watch_tells_what_came_after_its_version(server):
    since = server.version
    server.delete(PODS, "default/p0")
    _, told = told_since(server, since)
    server.create(PODS, pod_object("p0", POD))
    assert told() == [("DELETED", "p0"), ("ADDED", "p0")]


def test_a_pod_that_finishes_leaves_the_selection(server):
    _, told = told_since(server, server.version, **SELECTOR)
    server.change(PODS, "default/p0", lambda pod: pod["status"].update(phase="Succeeded"))
    server.change(PODS, "default/p0", lambda pod: pod["metadata"]["labels"].update(late="1"))
    assert told() == [("DELETED", "p0")]
    assert len(read(server, PODS, **SELECTOR)[1]["items"]) == 4


def test_a_watch_from_before_the_compaction_has_expired(server):
    since = server.version
    server.create(PODS, pod_object("new", POD))
    server.compact()
    assert server.watch(PODS, {"resourceVersion": str(since)}, lambda _line: None) is None
    assert server.watch(PODS, {"resourceVersion": str(server.version)}, lambda _line: None) is not None


def test_a_watch_from_the_future_is_silent_for_ever(server):
    backup = server.backup()
    server.create(PODS, pod_object("lost", POD))
    since = server.version
    server.restore(backup)
    lines, _ = told_since(server, since)
    for number in range(5, 9):
        server.create(PODS, pod_object(f"p{number}", POD))
    assert lines == []


def test_a_pod_is_bound_once_and_only_the_one_that_was_meant(server):
    uid = server.get(PODS, "default/p0")["metadata"]["uid"]
    server.delete(PODS, "default/p0")
    server.create(PODS, pod_object("p0", POD))
    assert bind(server, "p0", uid=uid) == 409
    assert bind(server, "p0") == 201
    assert bind(server, "p0") == 409
    assert bind(server, "nobody") == 404
    assert [b.name for b in server.bound] == ["default/p0"]


def test_a_pod_that_is_being_deleted_is_not_bound(server):
    server.change(PODS, "default/p0", lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert bind(server, "p0") == 409


def test_an_update_of_a_lease_needs_its_version(server):
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    lease = {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "a"}}

    def send(method, path, body):
        answer = server.carry_out("a", method, path, {}, json.dumps(body).encode())
        return answer.status, json.loads(answer.body)

    _, made = send("POST", leases, lease)
    assert send("PUT", f"{leases}/lock", {**made, "spec": {"holderIdentity": "b"}})[0] == 200
    assert send("PUT", f"{leases}/lock", {**made, "spec": {"holderIdentity": "c"}})[0] == 409
    assert read(server, f"{leases}/lock")[1]["spec"]["holderIdentity"] == "b"
