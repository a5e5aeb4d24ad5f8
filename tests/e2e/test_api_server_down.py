"""The API server is killed under load and started again on the same data: told by readiness, and made up for."""

import asyncio
import contextlib
import time

import pytest

from schedcache.app.deadlines import HealthSettings
from schedcache.app.health import health_of
from schedcache.testing import wait_until
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth, assert_no_node_is_overcommitted

PODS = 150
PATIENCE_SECONDS = 2.0
IMPATIENT = HealthSettings(lost_seconds=PATIENCE_SECONDS)
pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


@pytest.fixture
async def cluster(cluster):
    """With an API server for the next test, whatever becomes of this one."""
    yield cluster
    with contextlib.suppress(RuntimeError):  # it runs
        await asyncio.to_thread(cluster.control_plane.start_api_server)


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_it_is_not_ready_meanwhile_and_loses_nothing(cluster, source):
    await cluster.make_nodes(10, capacity={"cpu": "4"})
    async with scheduler(cluster.kubeconfig, event_source=source, qps=50.0, burst=1, health=IMPATIENT) as program:
        health = health_of(program)

        async def ready():
            return not any(health.ready().values())

        async def told():
            text = health.ready()["watches"]
            return text.startswith("no connection for") and all(f"{kind} (" in text for kind in ("pods", "nodes"))

        await wait_until(ready)
        await cluster.make_pods(PODS, requests={"cpu": "200m"})
        await cluster.wait_until_bound(20)
        stopped = time.monotonic()
        cluster.control_plane.stop_api_server()
        await wait_until(told, PATIENCE_SECONDS + 3)
        assert time.monotonic() - stopped >= PATIENCE_SECONDS
        await asyncio.sleep(1)
        assert not any(health.live().values()), "a restart would not help"
        program.source.request_rebuild("a test")
        assert health.ready()["cache"] == "found to be wrong (a test), about to be rebuilt"
        await asyncio.to_thread(cluster.control_plane.start_api_server)
        await cluster.wait_until_bound(PODS, timeout=60)
        await assert_dump_is_truth(cluster, dump_of(program), timeout=60)
        await wait_until(ready)
        await assert_bound_once(cluster, server_was_killed=True)
        await assert_no_node_is_overcommitted(cluster)
