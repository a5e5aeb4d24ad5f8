"""The queue against a real API server: names that come back, gates, and pods that nobody may forget."""

import asyncio

import pytest

from schedcache.testing import Delay, FaultProxy, LoseResponse, Reset, wait_until
from tests.e2e.in_process import dump_of, requested, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, assert_no_node_is_overcommitted
from tests.e2e.watching_queue import attempts, condition, queued, sample, seen, until_in

BINDING = r"/pods/[^/]+/binding$"
PODS = "/api/v1/namespaces/default/pods"
HELD_SECONDS = 4.0
REPLICAS = 20
pytestmark = pytest.mark.controlplane


async def recreate(cluster, name, **fields):
    """As the StatefulSet controller does: the same name again as soon as it is free."""
    await cluster.delete(f"{PODS}/{name}", grace_seconds=0)
    (pod,) = await cluster.make_pods(1, name=name, **fields)
    return pod["metadata"]["uid"]


async def uid_and_node(cluster, name):
    pod = await cluster.get(f"{PODS}/{name}")
    return pod["metadata"]["uid"], pod["spec"].get("nodeName")


class TestRecreationUnderTheSameName:
    """kubernetes/kubernetes#60966, #85726, #138316: the successor is a pod of its own at each point of its predecessor's way."""

    async def test_while_the_bind_request_is_under_way(self, cluster):
        """The node has room for one: the successor gets it at once, and the late bind of the predecessor harms nobody."""
        await cluster.make_nodes(1, capacity={"cpu": "1"})
        async with FaultProxy(cluster.control_plane) as proxy:
            held = proxy.add(Delay(HELD_SECONDS), method="POST", path=BINDING, times=1)
            async with scheduler(proxy.kubeconfig) as program:
                await cluster.make_pods(1, name="web-0", requests={"cpu": "1"})
                await held.wait()
                uid = await recreate(cluster, "web-0", requests={"cpu": "1"})
                async with asyncio.timeout(HELD_SECONDS / 2):
                    await cluster.wait_until_bound(1)
                assert await uid_and_node(cluster, "web-0") == (uid, "node-0")
                await asyncio.sleep(HELD_SECONDS)
                await assert_dump_is_truth(cluster, dump_of(program))
                assert requested(program, "node-0") == 1000
                await assert_bound_once(cluster)
                assert sample(program, "scheduler_cache_errors_total", kind="corruption") == 0

    @pytest.mark.parametrize("fault", [LoseResponse(), Reset()], ids=["bound, answer lost", "never sent"])
    async def test_while_nobody_knows_whether_the_bind_went_through(self, cluster, fault):
        """The read that is to tell finds another pod under the name."""
        await cluster.make_nodes(1, capacity={"cpu": "1"})
        async with FaultProxy(cluster.control_plane) as proxy:
            rule = proxy.add(fault, method="POST", path=BINDING, times=1)
            slow = proxy.add(Delay(1.0), method="GET", path=r"/pods/web-0$")
            async with scheduler(proxy.kubeconfig) as program:
                await cluster.make_pods(1, name="web-0", requests={"cpu": "1"})
                await rule.wait()
                await slow.wait()
                uid = await recreate(cluster, "web-0", requests={"cpu": "1"})

                async def bound():
                    return await uid_and_node(cluster, "web-0") == (uid, "node-0")

                await wait_until(bound, timeout=20)
                await assert_dump_is_truth(cluster, dump_of(program))
                await assert_bound_once(cluster)

    async def test_while_it_waits_for_room(self, cluster):
        """The successor starts afresh: it has neither its predecessor's attempts nor its backoff."""
        await cluster.make_nodes(1, capacity={"cpu": "1"})
        async with scheduler(cluster.kubeconfig) as program:
            await cluster.make_pods(1, name="web-0", requests={"cpu": "2"})
            first = await until_in(program, "unschedulable", "web-0")
            uid = await recreate(cluster, "web-0", requests={"cpu": "3"})

            async def replaced():
                found = queued(program, "web-0")
                return found is not None and found[1].pod.uid == uid and found[0] == "unschedulable"

            await wait_until(replaced)
            found = queued(program, "web-0")
            assert found is not None
            assert (found[1].attempts, found[1].unschedulable_count) == (1, 1)
            assert found[1] is not first
            await recreate(cluster, "web-0", requests={"cpu": "1"})
            await cluster.wait_until_bound(1)
            await assert_dump_is_truth(cluster, dump_of(program))

    async def test_of_many_pods_at_random_points(self, cluster):
        """Every pod of a full StatefulSet three times over, while binds are slow, lost and refused."""
        await cluster.make_nodes(4, capacity={"cpu": str(REPLICAS // 4)})
        names = [f"web-{number}" for number in range(REPLICAS)]
        async with FaultProxy(cluster.control_plane) as proxy:
            for fault in (Delay(0.7), LoseResponse(), Delay(0.3, response=True), Reset()):
                proxy.add(fault, method="POST", path=BINDING, times=REPLICAS // 2)
            async with scheduler(proxy.kubeconfig) as program:
                await cluster.make_pods(REPLICAS, name="web-{}", requests={"cpu": "1"})
                uids = {}
                for _ in range(3):
                    for name in names:
                        uids[name] = await recreate(cluster, name, requests={"cpu": "1"})
                    await asyncio.sleep(0.4)

                async def all_bound():
                    pods = await cluster.list_pods("default")
                    return all(pod["spec"].get("nodeName") for pod in pods) and len(pods) == REPLICAS

                await wait_until(all_bound, timeout=60)
                dump = await assert_dump_is_truth(cluster, dump_of(program))
                assert {pod.name: uid for uid, pod in dump.pods.items()} == uids
                await assert_no_node_is_overcommitted(cluster)
                await assert_bound_once(cluster)


class TestGatedPods:
    GATES = ("example.com/quota", "example.com/license")

    async def gated(self, cluster, program, name="held"):
        gates = [{"name": gate} for gate in self.GATES]
        await cluster.make_pods(1, name=name, requests={"cpu": "1"}, schedulingGates=gates)
        return await until_in(program, "gated", name)

    async def leave(self, cluster, *gates):
        return await cluster.patch(f"{PODS}/held", {"spec": {"schedulingGates": [{"name": gate} for gate in gates]}})

    async def test_are_scheduled_when_the_last_gate_is_gone_and_left_alone_until_then(self, cluster):
        await cluster.make_nodes(1)
        async with scheduler(cluster.kubeconfig) as program:
            await self.gated(cluster, program)
            told_by_the_server = await condition(cluster, "held")
            assert told_by_the_server["reason"] == "SchedulingGated"
            await seen(program, "Pod", await self.leave(cluster, self.GATES[1]))
            # Whatever else happens in the cluster is nothing to a gated pod.
            await seen(program, "Node", (await cluster.make_nodes(1, name="other-{}"))[0])
            node = await cluster.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"a": "b"}}})
            await seen(program, "Node", node)
            entry = await until_in(program, "gated", "held")
            assert (entry.attempts, entry.gated_by) == (0, "SchedulingGates")
            assert attempts(program) == 0
            assert await condition(cluster, "held") == told_by_the_server
            assert program.scheduler.state.queue.pending_counts()["gated"] == 1

            await self.leave(cluster)
            await cluster.wait_until_bound(1, timeout=5)
            assert attempts(program) == 1
            await assert_dump_is_truth(cluster, dump_of(program))
        await cluster.audit.settled(cluster)
        assert cluster.audit.events(resource="pods", subresource="status", verb="patch") == []

    async def test_that_do_not_fit_wait_as_any_other_afterwards(self, cluster):
        await cluster.make_nodes(1, capacity={"cpu": "500m"})
        async with scheduler(cluster.kubeconfig) as program:
            await self.gated(cluster, program)
            await self.leave(cluster)
            entry = await until_in(program, "unschedulable", "held")
            assert (entry.attempts, entry.gated_by) == (1, "")

            async def told():
                return (await condition(cluster, "held")).get("reason") == "Unschedulable"

            await wait_until(told)
            await cluster.make_nodes(1, name="large")
            await cluster.wait_until_bound(1)

    async def test_that_are_deleted_leave_nothing(self, cluster):
        await cluster.make_nodes(1)
        async with scheduler(cluster.kubeconfig) as program:
            await self.gated(cluster, program)
            await cluster.delete(f"{PODS}/held", grace_seconds=0)

            async def gone():
                return queued(program, "held") is None

            await wait_until(gone)
            assert program.scheduler.state.queue.pending_counts()["gated"] == 0
            assert len(program.scheduler.state.pods) == 0
