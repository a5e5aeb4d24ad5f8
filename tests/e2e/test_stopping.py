"""A signal to stop, while the process waits for the API server in one way or another."""

import asyncio
import time

import pytest

from schedcache.testing import Delay, FaultProxy, Hang, wait_until
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_bound_once

PROMPT_SECONDS = 5.0
pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_during_the_first_list_it_is_obeyed_at_once(cluster, tmp_path, source):
    await cluster.make_pods(1)
    async with FaultProxy(cluster.control_plane) as proxy:
        rule = proxy.add(Hang(), method="GET", path=r"^/api/v1/pods$")
        async with SchedulerProcess(proxy.kubeconfig, tmp_path / "log", f"--event-source={source}") as scheduler:
            await rule.wait(1 if source == "reflector" else 2)  # kopf's list, and that of the sweep
            status, text = await scheduler.get("/readyz", probe=True)
            assert status == 500
            assert "not listed yet: pods" in text
            started = time.monotonic()
            assert await scheduler.stop() == 0
            assert time.monotonic() - started < PROMPT_SECONDS
    assert "Traceback" not in scheduler.text()
    assert scheduler.complaints() == []


async def test_a_second_one_ends_the_drain(cluster, tmp_path):
    """As when Ctrl-C is pressed twice; what was under way is left to the next process."""
    await cluster.make_nodes(1)
    async with FaultProxy(cluster.control_plane) as proxy:
        binding = proxy.add(Hang(), method="POST", path=r"/binding$")
        async with SchedulerProcess(proxy.kubeconfig, tmp_path / "log") as scheduler:
            await cluster.make_pods(3)
            await binding.wait(3)
            scheduler.process.terminate()

            async def draining():
                return any(line["event"].startswith("stopping") for line in scheduler.lines())

            await wait_until(draining)
            await asyncio.sleep(0.5)
            assert scheduler.process.returncode is None, "bindings are under way"
            scheduler.process.terminate()
            async with asyncio.timeout(PROMPT_SECONDS):
                assert await scheduler.process.wait() == -15
    assert "Traceback" not in scheduler.text()
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "second"):
        await cluster.wait_until_bound(3)
        await assert_bound_once(cluster)


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_it_ends_in_order(cluster, tmp_path, source):
    """Nothing new is begun; bindings end, then what is told about them is written; watches and ports outlast both."""
    await cluster.make_nodes(1)
    async with FaultProxy(cluster.control_plane) as proxy:
        binding = proxy.add(Delay(2.0), method="POST", path=r"/binding$")
        telling = proxy.add(Delay(0.5), method="POST", path=r"/events$")
        async with SchedulerProcess(proxy.kubeconfig, tmp_path / "log", f"--event-source={source}") as scheduler:
            await scheduler.ready()
            await cluster.make_pods(3, name="before-{}")
            await binding.wait(3)
            scheduler.process.terminate()

            async def stopping():
                status, text = await scheduler.get("/readyz", probe=True)
                return status == 500 and "stopping" in text

            await wait_until(stopping, 1.0)
            await cluster.make_pods(2, name="after-{}")
            await telling.wait(3)
            assert proxy.watches, "what is under way may still be settled by an event"
            assert (await scheduler.get("/livez", probe=True))[0] == 200
            async with asyncio.timeout(PROMPT_SECONDS):
                assert await scheduler.process.wait() == 0
        assert proxy.watches == []
    assert binding.hits == 3
    bound = {pod["metadata"]["name"] for pod in await cluster.list_pods(fieldSelector="spec.nodeName!=")}
    assert bound == {f"before-{number}" for number in range(3)}
    events = await cluster.list_all("/apis/events.k8s.io/v1/events")
    assert {event["regarding"]["name"] for event in events} == bound
    stopped = next(line for line in scheduler.lines() if line["event"] == "stopped scheduling")
    assert (stopped["bindings_awaited"], stopped["writes_left"]) == (3, 0)
    assert scheduler.complaints() == []
