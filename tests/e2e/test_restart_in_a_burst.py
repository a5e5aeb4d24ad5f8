"""A scheduler is stopped in the middle of a burst, and another one takes its place at once."""

import asyncio

import pytest

from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth

pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long]

PODS = 60


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_every_pod_is_bound_once_and_soon(cluster, tmp_path, source):
    await cluster.make_nodes(10)
    flags = (f"--event-source={source}", "--kube-api-qps=50", "--kube-api-burst=10")
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "first", *flags) as first:
        await first.ready()
        making = asyncio.create_task(cluster.make_pods(PODS, requests={"cpu": "10m"}))
        await cluster.wait_until_bound(10)
        assert await first.stop() == 0
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "second", *flags) as second:
        await making
        await cluster.wait_until_bound(PODS, timeout=30)
        await assert_dump_is_truth(cluster, second.dump)
    await assert_bound_once(cluster)
