"""etcd is set back to a backup: what was seen since is lost, and resourceVersions are given out a second time."""

import asyncio
import time

import pytest

from schedcache.app.health import health_of
from schedcache.kube.watch.rebuilds import ROLLBACK
from schedcache.testing import Cluster, ControlPlane, wait_until
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_dump_is_truth, assert_no_node_is_overcommitted

HEALED_SECONDS = 15.0
pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long]


@pytest.fixture
async def cluster():
    """Of its own: what the other tests know of theirs is not to be lost."""
    with ControlPlane() as servers:
        async with Cluster(servers) as handle:
            yield handle


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_everything_is_read_again_within_seconds(cluster, source, capsys):
    """kube-scheduler 1.37.2 stays blind: its watches from versions of the lost time are accepted, and silent."""
    servers = cluster.control_plane
    await cluster.make_nodes(2, capacity={"cpu": "4"})
    await cluster.make_pods(3, name="kept-{}", requests={"cpu": "100m"})
    await cluster.make_pods(1, name="huge", requests={"cpu": "64"})
    async with scheduler(cluster.kubeconfig, event_source=source) as program:
        await cluster.wait_until_bound(3)
        backup = await asyncio.to_thread(servers.back_up)
        # The time that is lost: a node, pods on it, the room of a pod that was deleted, and pods bound that were pending.
        await cluster.make_nodes(1, name="lost-node", capacity={"cpu": "64"})
        await cluster.wait_until_bound(4, timeout=30)
        await cluster.make_pods(20, name="lost-{}", requests={"cpu": "100m"})
        await cluster.wait_until_bound(24, timeout=30)
        await cluster.delete("/api/v1/namespaces/default/pods/kept-0", grace_seconds=0)
        await cluster.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"lost": "yes"}}})
        for number in range(100):
            await cluster.patch("/api/v1/nodes/node-1", {"metadata": {"labels": {"turn": str(number)}}})
        await assert_dump_is_truth(cluster, dump_of(program))
        await asyncio.to_thread(servers.restore, backup)
        returned = time.monotonic()
        await cluster.make_pods(4, name="new-{}", requests={"cpu": "100m"})
        bound = await cluster.wait_until_bound(7, timeout=HEALED_SECONDS)
        assert {pod["metadata"]["name"] for pod in bound} >= {"kept-0", *(f"new-{number}" for number in range(4))}
        assert {pod["spec"]["nodeName"] for pod in bound} <= {"node-0", "node-1"}
        await assert_dump_is_truth(cluster, dump_of(program), timeout=HEALED_SECONDS - (time.monotonic() - returned))
        health = health_of(program)

        async def ready():
            return not any(health.ready().values())

        await wait_until(ready, HEALED_SECONDS - (time.monotonic() - returned))
        assert program.source.stats.rebuilds == {ROLLBACK: 1}
        await assert_no_node_is_overcommitted(cluster)
        # Updates of versions that were seen before, with other contents, are followed.
        await cluster.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"after": "yes"}}})
        await cluster.make_pods(2, name="later-{}", requests={"cpu": "100m"}, nodeSelector={"after": "yes"})
        await cluster.wait_until_bound(9, timeout=10)
        await assert_dump_is_truth(cluster, dump_of(program))
    assert capsys.readouterr().out.count("older state than what was seen") == 1
