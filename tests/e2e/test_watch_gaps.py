"""Watches that end, that are too old, that say nothing: the scheduler as a whole loses no deletion."""

import pytest

from schedcache.testing import Cut, FaultProxy, Inject, error_event
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, nodes_in

SOURCES = ("reflector", "kopf")
WATCHED = r"^/api/v1/(pods|nodes)$"
pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("ending", ["ended", "410"])
async def test_what_is_deleted_in_a_gap_is_gone_afterwards(cluster, source, ending):
    """Pods and a node vanish while no event comes through; then the watches end, one way or the other."""
    await cluster.make_nodes(4, capacity={"cpu": "2"})
    async with FaultProxy(cluster.control_plane) as proxy, scheduler(proxy.kubeconfig, event_source=source) as program:
        pods = await cluster.make_pods(8, requests={"cpu": "900m"})
        await cluster.wait_until_bound(8)
        await assert_dump_is_truth(cluster, dump_of(program))
        await cluster.make_pods(1, name="waits", requests={"cpu": "900m"})
        for watch in proxy.watches:
            watch.hold()
        for pod in pods[:4]:
            await cluster.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", grace_seconds=0)
        await cluster.delete("/api/v1/nodes/node-3")
        await cluster.make_pods(1, name="new", requests={"cpu": "100m"})
        if ending == "410":
            proxy.add(Inject(error_event(410)), path=WATCHED, times=2)
        for watch in list(proxy.watches):
            watch.cut()
        await cluster.wait_until_bound(5, timeout=40)  # four are left, and those that found the room
        dump = await assert_dump_is_truth(cluster, dump_of(program), timeout=60)
        assert nodes_in(dump) == {"node-0", "node-1", "node-2"}
        await assert_bound_once(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
async def test_watches_that_end_all_the_time_lose_nothing(cluster, source):
    await cluster.make_nodes(10, capacity={"cpu": "4"})
    async with FaultProxy(cluster.control_plane) as proxy:
        rule = proxy.add(Cut(after_events=15), path=WATCHED)
        async with scheduler(proxy.kubeconfig, event_source=source) as program:
            await cluster.make_pods(150, requests={"cpu": "100m"})
            await cluster.wait_until_bound(150, timeout=60)
            for number in range(0, 150, 3):
                await cluster.delete(f"/api/v1/namespaces/default/pods/pod-{number}", grace_seconds=0)
            await assert_dump_is_truth(cluster, dump_of(program), timeout=60)
            assert rule.hits >= 5
            await assert_bound_once(cluster)
