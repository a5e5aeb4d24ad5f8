"""A process that stands still for longer than all of its deadlines, as under SIGSTOP, on a frozen or a starved machine."""

import asyncio
import os
import signal

import pytest

from schedcache.testing import Delay, FaultProxy
from tests.e2e.hasty import LONGEST_SECONDS
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, assert_no_node_is_overcommitted

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_it_goes_on_where_the_cluster_is_by_then(cluster, tmp_path, source):
    """Nothing is bound twice, what was deleted meanwhile is gone, and no assumption is left."""
    await cluster.make_nodes(10, capacity={"cpu": "4"})
    async with FaultProxy(cluster.control_plane) as proxy:
        binding = proxy.add(Delay(0.3), method="POST", path=r"/binding$")
        flags = (f"--event-source={source}", "--kube-api-qps=100", "--kube-api-burst=1")
        log = tmp_path / "log"
        async with SchedulerProcess(proxy.kubeconfig, log, *flags, module="tests.e2e.hasty") as scheduler:
            await scheduler.ready()
            pods = await cluster.make_pods(100, requests={"cpu": "200m"})
            await binding.wait(60)
            # Some are bound, of some the answer is on its way, some are not decided.
            os.kill(scheduler.process.pid, signal.SIGSTOP)
            for pod in pods[:30]:
                await cluster.delete(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", grace_seconds=0)
            await cluster.delete("/api/v1/nodes/node-3")
            await cluster.make_pods(20, name="meanwhile-{}", requests={"cpu": "200m"})
            await asyncio.sleep(2 * LONGEST_SECONDS)
            os.kill(scheduler.process.pid, signal.SIGCONT)
            assert (await scheduler.get("/livez", probe=True))[0] == 200, "a restart would not help"
            await cluster.wait_until_bound(90)
            dump = await assert_dump_is_truth(cluster, scheduler.dump, timeout=60)
            assert dump.assumed == ()
            await scheduler.ready()
            await assert_bound_once(cluster)
            await assert_no_node_is_overcommitted(cluster)
    assert scheduler.complaints() == []
