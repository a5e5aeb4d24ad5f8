"""A cluster in which nothing happens costs next to nothing."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.e2e.figures import figures
from tests.e2e.scheduler_process import SchedulerProcess

SECONDS = 20.0
MOST_CPU_SECONDS = 0.1
"""Half a percent of a core."""
_log = logging.getLogger(__name__)
pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long]


def cpu_seconds(pid: int) -> float:
    """What all threads of the process have used so far, as the scheduler of the kernel counts it."""
    stats = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(stat.read_text().split()[0]) for stat in stats) / 1e9


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="reads Linux's schedstat")
async def test_an_idle_scheduler_uses_no_cpu(cluster, tmp_path):
    """With pods that run, pods that wait and pods that are gated."""
    await cluster.make_nodes(100)
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log") as scheduler:
        await cluster.make_pods(200, requests={"cpu": "100m"})
        await cluster.make_pods(50, name="big-{}", requests={"cpu": "64"})
        await cluster.make_pods(5, name="gated-{}", schedulingGates=[{"name": "example.com/hold"}])
        await cluster.wait_until_bound(200)
        await asyncio.sleep(5)
        before = await figures(scheduler)
        used = -cpu_seconds(scheduler.process.pid)
        await asyncio.sleep(SECONDS)
        used += cpu_seconds(scheduler.process.pid)
        after = await figures(scheduler)
        _log.info("%.3f s of CPU in %.0f s: %.2f %% of a core", used, SECONDS, used / SECONDS * 100)
        attempts = "scheduler_scheduling_algorithm_duration_seconds_count"
        assert after.of(attempts) == before.of(attempts) == 250
        assert used <= MOST_CPU_SECONDS
