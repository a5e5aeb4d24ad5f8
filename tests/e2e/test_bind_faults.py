"""Bindings that go wrong between us and a real API server: exactly the truth is left behind."""

import asyncio

import msgspec
import pytest

from schedcache.testing import Answer, Delay, FaultProxy, Hang, LoseResponse, Reset, wait_until
from tests.e2e.in_process import assumed, dump_of, requested, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, assert_no_node_is_overcommitted

BINDING = r"/pods/[^/]+/binding$"
PODS = 12
pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Answer(404), id="404"),
        pytest.param(Answer(409), id="409, and nothing was done"),
        pytest.param(Answer(422), id="422"),
        pytest.param(Answer(429, retry_after=1), id="429"),
        pytest.param(Answer(500), id="500"),
        pytest.param(Answer(503), id="503"),
        pytest.param(Reset(), id="connection reset"),
        pytest.param(LoseResponse(), id="response lost"),
    ],
)
async def test_every_pod_ends_up_bound_once(cluster, fault):
    await cluster.make_nodes(3, capacity={"cpu": "2"})
    async with FaultProxy(cluster.control_plane) as proxy:
        rule = proxy.add(fault, method="POST", path=BINDING, times=4)
        async with scheduler(proxy.kubeconfig) as program:
            await cluster.make_pods(PODS, requests={"cpu": "400m"})
            await cluster.wait_until_bound(PODS)
            assert rule.hits == 4
            await assert_dump_is_truth(cluster, dump_of(program))
            await assert_bound_once(cluster)
            await assert_no_node_is_overcommitted(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Hang(), LoseResponse(silent=True)], ids=["time-out", "answer that never comes"])
async def test_a_time_out_is_resolved_by_a_read(cluster, fault):
    await cluster.make_nodes(1, capacity={"cpu": "2"})
    async with FaultProxy(cluster.control_plane) as proxy:
        rule = proxy.add(fault, method="POST", path=BINDING, times=1)
        async with scheduler(proxy.kubeconfig) as program:
            await cluster.make_pods(1, requests={"cpu": "2"})
            await rule.wait()
            assert requested(program, "node-0") == 2000  # kept while nobody knows
            await cluster.wait_until_bound(1)
            await assert_dump_is_truth(cluster, dump_of(program), timeout=40)
            await assert_bound_once(cluster)


@pytest.mark.parametrize("winner", ["another node", "the same node"])
async def test_409_because_the_pod_is_bound_already(cluster, winner):
    """By another component, or by a request of ours whose answer was lost: the real server's own 409 either way."""
    await cluster.make_nodes(2, capacity={"cpu": "2"})
    async with FaultProxy(cluster.control_plane) as proxy:
        targets = []

        def is_ours(request):
            targets.append(msgspec.json.decode(request.body)["target"]["name"])
            return True

        rule = proxy.add(Delay(1.0), method="POST", path=BINDING, where=is_ours, times=1)
        async with scheduler(proxy.kubeconfig) as program:
            (pod,) = await cluster.make_pods(1, requests={"cpu": "1"})
            await rule.wait()
            other = next(name for name in ("node-0", "node-1") if name != targets[0])
            node = targets[0] if winner == "the same node" else other
            await cluster.bind(pod, node)
            await asyncio.sleep(1.5)
            conflicts = cluster.audit.events(subresource="binding", status=409)
            assert len(conflicts) == 1
            await assert_dump_is_truth(cluster, dump_of(program))
            assert requested(program, node) == 1000
            assert sum(requested(program, name) for name in ("node-0", "node-1")) == 1000
            await assert_bound_once(cluster)


async def test_a_pod_deleted_while_it_is_bound_frees_its_node_at_once(cluster):
    """kubernetes/kubernetes#134217."""
    await cluster.make_nodes(1, capacity={"cpu": "1"})
    async with FaultProxy(cluster.control_plane) as proxy:
        rule = proxy.add(Delay(3.0), method="POST", path=BINDING, times=1)
        async with scheduler(proxy.kubeconfig) as program:
            await cluster.make_pods(1, name="first", requests={"cpu": "1"})
            await rule.wait()
            assert assumed(program) == {"first"}
            await cluster.delete("/api/v1/namespaces/default/pods/first", grace_seconds=0)
            await wait_until(lambda: forgotten(program, "first"), timeout=2)
            assert requested(program, "node-0") == 0
            await cluster.make_pods(1, name="second", requests={"cpu": "1"})
            (bound,) = await cluster.wait_until_bound(1, timeout=2)
            assert bound["metadata"]["name"] == "second"
            await asyncio.sleep(3)
            await assert_dump_is_truth(cluster, dump_of(program))
            assert requested(program, "node-0") == 1000


async def forgotten(program, name):
    return name not in assumed(program)


async def test_a_pod_made_again_under_its_name_during_the_bind_is_not_bound_in_its_place(cluster):
    """kubernetes/kubernetes#102761: the UID in the Binding is a precondition."""
    await cluster.make_nodes(1, capacity={"cpu": "1"})
    async with FaultProxy(cluster.control_plane) as proxy:
        rule = proxy.add(Delay(1.0), method="POST", path=BINDING, times=1)
        async with scheduler(proxy.kubeconfig) as program:
            (first,) = await cluster.make_pods(1, name="web-0", requests={"cpu": "1"})
            await rule.wait()
            await cluster.delete("/api/v1/namespaces/default/pods/web-0", grace_seconds=0)
            (second,) = await cluster.make_pods(1, name="web-0", requests={"cpu": "1"})
            await cluster.wait_until_bound(1)
            await asyncio.sleep(1)
            await assert_dump_is_truth(cluster, dump_of(program))
            await cluster.audit.settled(cluster)
            assert {uid for _, _, uid in cluster.audit.bindings()} == {second["metadata"]["uid"]}
            assert first["metadata"]["uid"] != second["metadata"]["uid"]
