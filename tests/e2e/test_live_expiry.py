"""The live expiry rule on a real API server: a deadline is when to ask, never a reason to let go."""

import asyncio

import pytest

from schedcache.testing import Answer, FaultProxy, Hold, wait_until
from tests.e2e.in_process import assumed, dump_of, requested, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth

TTL = 1.0
POD = r"/pods/first$"
pytestmark = pytest.mark.controlplane


async def bind_in_the_dark(cluster):
    """A pod is bound, and the watch has nothing to say about it."""
    await cluster.make_pods(1, name="first", requests={"cpu": "1"})
    await cluster.wait_until_bound(1)


def release(proxy):
    proxy.clear()


@pytest.fixture
async def proxy(cluster):
    """Watches of pods bring the creation of the first one, and then nothing until they are released."""
    await cluster.make_nodes(1, capacity={"cpu": "1"})
    async with FaultProxy(cluster.control_plane) as proxy:
        proxy.add(Hold(after_events=1), path=r"^/api/v1/pods$")
        yield proxy


async def test_bound_with_a_late_event_is_never_released(cluster, proxy):
    """kubernetes/kubernetes#106361: a second pod must not get the room of the first."""
    async with scheduler(proxy.kubeconfig, assumed_pod_ttl=TTL) as program:
        await bind_in_the_dark(cluster)
        assert assumed(program) == {"first"}
        await wait_until(lambda: confirmed(program), timeout=10)
        for _ in range(10):
            assert requested(program, "node-0") == 1000
            await asyncio.sleep(0.2)
        release(proxy)
        await cluster.make_pods(1, name="second", requests={"cpu": "1"})
        await asyncio.sleep(1)
        await assert_dump_is_truth(cluster, dump_of(program))
        assert len(await cluster.list_pods(fieldSelector="spec.nodeName!=")) == 1
        await assert_bound_once(cluster)


async def confirmed(program):
    return not assumed(program)


async def test_deleted_is_released(cluster, proxy):
    async with scheduler(proxy.kubeconfig, assumed_pod_ttl=TTL) as program:
        await bind_in_the_dark(cluster)
        await cluster.delete("/api/v1/namespaces/default/pods/first", grace_seconds=0)
        await wait_until(lambda: confirmed(program), timeout=10)
        assert requested(program, "node-0") == 0
        release(proxy)
        await cluster.make_pods(1, name="second", requests={"cpu": "1"})
        await cluster.wait_until_bound(1)
        await assert_dump_is_truth(cluster, dump_of(program))


async def test_unbound_is_released_and_queued_again(cluster, proxy):
    """The server said yes and did not do it."""
    release(proxy)
    proxy.add(Answer(201, body=b'{"kind": "Status", "status": "Success"}'), method="POST", path=r"/binding$", times=1)
    async with scheduler(proxy.kubeconfig, assumed_pod_ttl=TTL) as program:
        await cluster.make_pods(1, name="first", requests={"cpu": "1"})
        await cluster.wait_until_bound(1, timeout=15)
        await assert_dump_is_truth(cluster, dump_of(program))
        await assert_bound_once(cluster)


async def test_without_an_answer_it_is_kept(cluster, proxy):
    async with scheduler(proxy.kubeconfig, assumed_pod_ttl=TTL) as program:
        await bind_in_the_dark(cluster)
        rule = proxy.add(Answer(503), method="GET", path=POD)
        await rule.wait(3)
        assert requested(program, "node-0") == 1000
        assert assumed(program) == {"first"}
        assert rule.hits < 12
        rule.remove()
        await wait_until(lambda: confirmed(program), timeout=10)
        assert requested(program, "node-0") == 1000
        release(proxy)
        await assert_dump_is_truth(cluster, dump_of(program))
