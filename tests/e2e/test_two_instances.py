"""Two schedulers of one name at once, as after a mistake in a rollout: wasteful, and nothing worse."""

import asyncio

import pytest

from tests.e2e.figures import figures
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth

PODS = 300
pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


async def test_each_pod_is_bound_once_and_both_know_where(cluster, tmp_path):
    """With room to spare: each knows only afterwards what the other one has placed meanwhile."""
    await cluster.make_nodes(10, capacity={"cpu": "40", "pods": "110"})
    async with (
        SchedulerProcess(cluster.kubeconfig, tmp_path / "one", "--event-source=reflector", "--validate") as one,
        SchedulerProcess(cluster.kubeconfig, tmp_path / "two", "--event-source=kopf", "--validate") as two,
    ):
        both = (one, two)
        await asyncio.gather(*(instance.ready() for instance in both))
        await cluster.make_pods(PODS, requests={"cpu": "200m"})
        await cluster.wait_until_bound(PODS)
        for instance in both:
            dump = await assert_dump_is_truth(cluster, instance.dump)
            assert {pod.state for pod in dump.pods.values()} == {"bound"}
            assert dump.queue.pods == {}
            attempts = (await figures(instance)).of("scheduler_scheduling_algorithm_duration_seconds_count")
            assert attempts > PODS / 10, "it had a part in it"
        await assert_bound_once(cluster)
        assert [instance.complaints() for instance in both] == [[], []]
