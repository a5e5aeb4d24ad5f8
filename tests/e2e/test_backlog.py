"""Five thousand pods that wait for room, and then there is room."""

import logging
import time

import pytest

from schedcache.testing import wait_until
from tests.e2e.figures import figures
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, assert_no_node_is_overcommitted

PODS = 5000
REJECT_SECONDS = 60.0
BIND_SECONDS = 180.0
_log = logging.getLogger(__name__)
pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
async def swept(cluster):
    """One by one so many pods and events would take longer to delete than the next test has patience for."""
    yield
    for path in ("/api/v1/namespaces/default/pods", "/apis/events.k8s.io/v1/namespaces/default/events"):
        await cluster.delete(path, grace_seconds=0)


async def backlog(cluster, scheduler):
    """The pods, each of which was tried once and waits."""
    # The API server taints a new node as not ready: pods that do not mind see one change of the cluster and not two.
    patient = {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}
    await cluster.make_pods(PODS, requests={"cpu": "100m", "memory": "64Mi"}, **patient)

    async def all_wait():
        return (await figures(scheduler)).of("scheduler_pending_pods", queue="unschedulable") == PODS

    await wait_until(all_wait, REJECT_SECONDS, interval=0.5)
    found = await figures(scheduler)
    assert found.of("scheduler_schedule_attempts_total", result="unschedulable", profile="schedcache") == PODS


def roomy(pods):
    return {"cpu": "600", "memory": "600Gi", "pods": str(pods)}


async def until_all_are_bound(cluster, scheduler, started):

    async def all_bound():
        found = await figures(scheduler)
        return found.of("scheduler_pod_scheduling_attempts_count") == PODS

    # The scheduler is asked and not the API server, which has better things to do than to list all pods again and again.
    await wait_until(all_bound, BIND_SECONDS, interval=0.5)
    _log.info("%d pods bound %.1f s after the first node arrived", PODS, time.monotonic() - started)
    await assert_dump_is_truth(cluster, scheduler.dump, timeout=60)
    await assert_no_node_is_overcommitted(cluster)
    await assert_bound_once(cluster)
    found = await figures(scheduler)
    assert found.of("scheduler_schedule_attempts_total", result="scheduled", profile="schedcache") == PODS
    assert found.of("scheduler_pod_scheduled_after_flush_total") == 0
    for queue in ("active", "backoff", "unschedulable", "gated"):
        assert found.of("scheduler_pending_pods", queue=queue) == 0
    assert scheduler.complaints() == []
    return found


async def test_a_backlog_without_nodes_is_bound_when_one_arrives(cluster, tmp_path):
    """Each pod is tried twice: when it came, and when there was somewhere to go."""
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log") as scheduler:
        await scheduler.ready()
        await backlog(cluster, scheduler)
        started = time.monotonic()
        await cluster.make_nodes(1, capacity=roomy(PODS))
        found = await until_all_are_bound(cluster, scheduler, started)
        assert found.of("scheduler_scheduling_algorithm_duration_seconds_count") == 2 * PODS


async def test_a_backlog_that_no_node_has_room_for_is_bound_as_nodes_arrive(cluster, tmp_path):
    """Nobody can know which pods will get a place on a new node, so those left over are tried too: once for each node."""
    nodes = 5
    await cluster.make_nodes(1, name="small", capacity={"cpu": "50m"})
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log") as scheduler:
        await scheduler.ready()
        await backlog(cluster, scheduler)
        await cluster.make_nodes(3, name="small-{}", capacity={"cpu": "50m"})
        started = time.monotonic()
        await cluster.make_nodes(nodes, capacity=roomy(PODS // nodes))
        found = await until_all_are_bound(cluster, scheduler, started)
        assert found.of("scheduler_scheduling_algorithm_duration_seconds_count") <= PODS * (1 + nodes)
