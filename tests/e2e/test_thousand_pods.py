"""A thousand pods onto a hundred nodes, with each event source, in one go and with a scheduler that is killed in the middle."""

import pytest

from schedcache.testing import wait_until
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import (
    assert_bound_once,
    assert_dump_is_truth,
    assert_no_node_is_overcommitted,
)

PODS = 1000
SOURCES = ("reflector", "kopf")
pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


@pytest.fixture
async def nodes(cluster):
    """A hundred nodes that the pods fill to 90 %."""
    return await cluster.make_nodes(100, zones=("a", "b", "c"), capacity={"cpu": "2", "memory": "4Gi", "pods": "15"})


async def create(cluster, count=PODS):
    await cluster.make_pods(count, requests={"cpu": "180m", "memory": "300Mi"})


@pytest.mark.parametrize("source", SOURCES)
async def test_all_are_bound_and_the_cache_equals_the_api(cluster, nodes, tmp_path, source):
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log", f"--event-source={source}") as scheduler:
        await scheduler.ready()
        await create(cluster)
        await cluster.wait_until_bound(PODS, timeout=90)
        dump = await assert_dump_is_truth(cluster, scheduler.dump)
        assert len(dump.pods) == PODS
        assert {pod.state for pod in dump.pods.values()} == {"bound"}
        assert len(dump.nodes) == len(nodes)
        assert set(dump.resource_versions) >= {"Pod", "Node"}
        await assert_no_node_is_overcommitted(cluster)
        await assert_bound_once(cluster)
        assert await scheduler.stop() == 0
    binders = {event.user_agent for event in cluster.audit.events(resource="pods", subresource="binding")}
    assert len(binders) == 1
    assert binders.pop().startswith("schedcache/")
    assert scheduler.complaints() == []


@pytest.mark.parametrize("source", SOURCES)
async def test_killed_in_the_middle_and_started_again_binds_each_pod_once(cluster, nodes, tmp_path, source):
    flags = (f"--event-source={source}",)
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "first", *flags) as first:
        await first.ready()
        await create(cluster, PODS // 2)
        await cluster.wait_until_bound(PODS // 5, timeout=60)
        await first.kill()
    done = len(await cluster.list_pods(fieldSelector="spec.nodeName!="))
    await create_rest(cluster)
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "second", *flags) as second:
        await cluster.wait_until_bound(PODS, timeout=90)
        await assert_dump_is_truth(cluster, second.dump)
        await assert_no_node_is_overcommitted(cluster)
        await assert_bound_once(cluster)
    assert done < PODS
    assert second.complaints() == []


async def create_rest(cluster):
    await cluster.make_pods(PODS - PODS // 2, name="late-{}", requests={"cpu": "180m", "memory": "300Mi"})


async def test_a_killed_scheduler_leaves_pods_that_wait_to_its_successor(cluster, tmp_path):
    """One that waited for room is bound when the room comes, under another process."""
    await cluster.make_nodes(1, capacity={"cpu": "1"})
    await cluster.make_pods(1, name="first", requests={"cpu": "1"})
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "first") as first:
        await cluster.wait_until_bound(1)
        await cluster.make_pods(1, name="second", requests={"cpu": "1"})

        async def told():
            (pod,) = await cluster.list_pods("default", fieldSelector="metadata.name=second")
            return "Insufficient cpu" in str(pod["status"].get("conditions"))

        await wait_until(told)
        await first.kill()
    await cluster.delete("/api/v1/namespaces/default/pods/first", grace_seconds=0)
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "second") as second:
        await cluster.wait_until_bound(1)
        await assert_dump_is_truth(cluster, second.dump)
        await assert_bound_once(cluster)
