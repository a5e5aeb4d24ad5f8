"""Nodes and pods that come, go, change and come again, and those that nobody expects."""

import asyncio
import contextlib

import msgspec
import pytest

from schedcache.testing import ApiStatusError, Delay, Rewrite, in_parallel
from tests.faults.world import BINDING, PODS

NODE = "/api/v1/nodes/node-0"
POISON = tuple(
    b'{"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "%s", "namespace": "default",'
    b' "uid": "%s", "resourceVersion": "%%s"}, "spec": %s, "status": {}}}' % (name, name, spec)
    for name, spec in (
        (b"bad-1", b'{"containers": [{"name": "a", "resources": {"requests": {"cpu": "Mi"}}}]}'),
        (b"bad-2", b"7"),
    )
)
fault = pytest.mark.fault


@fault("pod-made-again", quick=("reflector",))
async def test_pods_of_a_stateful_set_again_and_again(world):
    """kubernetes/kubernetes#56682."""
    await world.nodes(3, cpu="4")
    await world.start("--validate")
    async with world.fault():
        world.proxy.add(Delay(0.3), method="POST", path=BINDING)
        await world.pods(20, name="web-{}")
        for _ in range(60):
            number = world.random.randrange(20)
            await world.delete_pod(f"web-{number}")
            await world.pods(1, name=f"web-{number}")
            await asyncio.sleep(world.random.choice((0, 0.05, 0.3)))
    await world.healed()


@fault("node-made-again", quick=("reflector",))
async def test_a_node_under_its_name_again(world):
    """kubernetes/kubernetes#63262."""
    await world.nodes(2, cpu="8")
    await world.start("--validate")
    async with world.fault():
        for turn in range(10):
            await world.pods(4, name=f"turn-{turn}-{{}}", requests={"cpu": "300m"})
            await world.cluster.delete(NODE)
            for pod in await world.cluster.list_pods(fieldSelector="spec.nodeName=node-0"):
                await world.delete_pod(pod["metadata"]["name"])
            await world.nodes(1, cpu=str(8 - turn % 3))
            # Bound to the old one by a request that was under way: what the pod garbage collector does.
        await asyncio.sleep(1)
    await world.healed()


@fault("node-flaps", quick=("reflector",))
async def test_a_node_that_is_there_and_not_five_times_a_second(world):
    await world.nodes(5, cpu="8")
    await world.start("--kube-api-qps=50", "--kube-api-burst=1")
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    async with world.fault():
        await world.pods(200)
        for turn in range(25):
            down = turn % 2 == 0
            await world.cluster.patch(
                NODE, {"spec": {"taints": [taint] if down else None, "unschedulable": down or None}}
            )
            await asyncio.sleep(0.2)
        await world.cluster.patch(NODE, {"spec": {"taints": None, "unschedulable": None}})
    await world.healed()


@fault("node-shrinks", quick=("reflector",))
async def test_a_node_that_has_less_than_it_gave(world):
    await world.nodes(2, cpu="4")
    scheduler = await world.start("--validate")
    await world.pods(10, name="old-{}", requests={"cpu": "700m"})
    await world.bound(10)
    async with world.fault():
        scheduler.shrunk.add("node-0")
        await world.cluster.patch(f"{NODE}/status", {"status": {"allocatable": {"cpu": "1"}}})
        await world.cluster.delete("/api/v1/nodes/node-1")
        for pod in await world.cluster.list_pods(fieldSelector="spec.nodeName=node-1"):
            await world.delete_pod(pod["metadata"]["name"])
        await world.pods(5, name="new-{}", requests={"cpu": "500m"})
        await asyncio.sleep(3)
        placed = [pod for pod in await world.bound(1) if pod["metadata"]["name"].startswith("new")]
        assert placed == [], "placed on a node that has nothing left"
        for pod in await world.cluster.list_pods(fieldSelector="spec.nodeName=node-0"):
            await world.delete_pod(pod["metadata"]["name"])
        await world.bound(2)
        await world.nodes(1, name="more", cpu="4")
    await world.healed()


@fault("odd-node", quick=("reflector",))
async def test_nodes_with_more_than_anybody_has(world):
    largest = str(2**63 - 1)
    await world.nodes(2, cpu="4")
    await world.start()
    async with world.fault():
        for number, amounts in enumerate(
            (
                {"cpu": largest, "memory": largest, "pods": largest},
                {"cpu": "9E", "memory": "8Ei", "pods": "110", "ephemeral-storage": "9E"},
                {"cpu": "0", "memory": "0", "pods": "0"},
                {"cpu": "1n", "memory": "1m", "pods": "1"},
            )
        ):
            await world.nodes(1, name=f"odd-{number}", capacity=amounts)
        await world.nodes(1, name="empty", status={"capacity": {}, "allocatable": {}})
        await world.pods(50, requests={"cpu": "10m", "memory": "1Mi"})
        await world.bound(40, timeout=20)
    await world.healed()


@fault("burst-and-poison")
@pytest.mark.servers(disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition"))
async def test_ten_thousand_pods_half_of_them_deleted_and_nodes_drained(world):
    await world.nodes(1000, cpu="8")
    await world.start("--kube-api-qps=1000", "--kube-api-burst=1000")
    async with world.fault():
        making = asyncio.create_task(world.pods(10_000, name="pod-{}"))
        await world.bound(2000, timeout=120)
        for number in range(50):
            path = f"/api/v1/nodes/node-{number}"
            await world.cluster.patch(path, {"spec": {"unschedulable": True}})
            for pod in await world.cluster.list_pods(fieldSelector=f"spec.nodeName=node-{number}"):
                await world.delete_pod(pod["metadata"]["name"])
            await world.cluster.delete(path)
        await making
        names = [pod["metadata"]["name"] for pod in await world.cluster.list_pods()]

        async def delete(name):
            with contextlib.suppress(ApiStatusError):
                await world.delete_pod(name)

        await in_parallel(lambda name=name: delete(name) for name in names[: len(names) // 2])
    await world.healed()


@fault("burst-and-poison", quick=("reflector", "kopf"))
async def test_objects_that_nobody_can_read(world):
    """Those that an API server stores are huge; those that it would not store are put into the watch."""
    await world.nodes(3, cpu="4")
    poison = iter(POISON)

    def change(line):
        version = msgspec.json.decode(line)["object"]["metadata"].get("resourceVersion", "0").encode()
        bad = next(poison, None)
        return [line] if bad is None else [line, bad % version]

    scheduler = await world.start()
    async with world.fault():
        world.proxy.add(Rewrite(change), path=r"^/api/v1/pods$")
        world.proxy.cut_watches()
        huge = {f"example.com/{n}": "x" * 100_000 for n in range(2)}
        await world.pods(5, name="huge-{}", annotations=huge)
        await world.pods(1, name="absurd", requests={"cpu": "9E", "memory": "8Ei"}, labels={"fits": "no"})
        await world.pods(1, name="much", requests={"cpu": str(2**62)}, labels={"fits": "no"})
        await world.pods(20, name="pod-{}")
        await world.bound(25)
    # What is not in the cluster goes with the next comparison; here at once, since the watches begin anew.
    await world.healed()
    found = await scheduler.figures()
    assert found.of("scheduler_malformed_objects_total", kind="Pod") >= 1
    assert (await world.cluster.get(f"{PODS}/absurd"))["spec"].get("nodeName") is None
