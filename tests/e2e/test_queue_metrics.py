"""What `/metrics` tells of the queue, under kube-scheduler's names, against what is so in a real cluster."""

import time

import pytest

from schedcache.testing import Answer, FaultProxy, wait_until
from tests.e2e.acts import grow, taint
from tests.e2e.figures import figures
from tests.e2e.in_process import scheduler
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.watching_queue import attempts, sample, seen, until_in

INCOMING = "scheduler_queue_incoming_pods_total"
HINTS = "scheduler_queueing_hint_execution_duration_seconds_count"
AGE = "scheduler_oldest_pending_pod_age_seconds"
pytestmark = pytest.mark.controlplane


def pending(found):
    queues = ("active", "backoff", "unschedulable", "gated")
    return tuple(int(found.of("scheduler_pending_pods", queue=queue)) for queue in queues)


async def until_pending(process, *numbers):
    """Wait until so many pods are active, backing off, unschedulable and gated; the scrape that told so."""
    found = await figures(process)

    async def as_wanted():
        nonlocal found
        found = await figures(process)
        return pending(found) == numbers

    await wait_until(as_wanted)
    return found


async def test_pods_are_counted_where_they_wait_and_by_what_brought_them(cluster, tmp_path):
    await cluster.make_nodes(1, capacity={"cpu": "2"})
    await taint("dedicated")(cluster)
    tolerant = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    started = time.monotonic()
    async with FaultProxy(cluster.control_plane) as proxy:
        refused = proxy.add(Answer(403), method="POST", path=r"/refused/binding$")
        async with SchedulerProcess(proxy.kubeconfig, tmp_path / "log") as process:
            await cluster.make_pods(1, name="fits", requests={"cpu": "1"}, **tolerant)
            await cluster.make_pods(1, name="big", requests={"cpu": "4"}, **tolerant)
            await cluster.make_pods(1, name="shy")
            await cluster.make_pods(1, name="held", schedulingGates=[{"name": "example.com/hold"}])
            await cluster.wait_until_bound(1)
            found = await until_pending(process, 0, 0, 2, 1)
            assert found.types["scheduler_pending_pods"] == "gauge"
            assert found.types["scheduler_queue_incoming_pods"] == "counter"
            assert found.types["scheduler_inflight_events"] == "gauge"
            assert found.of("scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile="schedcache") == 1
            assert found.of("scheduler_unschedulable_pods", plugin="TaintToleration", profile="schedcache") == 1
            assert found.of("scheduler_unschedulable_pods", plugin="SchedulingGates", profile="schedcache") == 1
            assert found.of(INCOMING, queue="active", event="UnscheduledPodAdd") == 3
            assert found.of(INCOMING, queue="unschedulable", event="UnscheduledPodAdd") == 1  # the gated one
            assert found.of(INCOMING, queue="unschedulable", event="ScheduleAttemptFailure") == 2
            assert 0 < found.of(AGE) <= time.monotonic() - started
            assert found.of("scheduler_inflight_events", event="PodPopped") == 0

            await cluster.make_pods(1, name="refused", **tolerant)
            found = await until_pending(process, 0, 1, 2, 1)
            assert found.of(INCOMING, queue="backoff", event="ScheduleAttemptFailure") == refused.hits
            refused.remove()
            await until_pending(process, 0, 0, 2, 1)
            await grow(cpu="8")(cluster)
            await cluster.wait_until_bound(3)
            await taint("dedicated", "more")(cluster)  # no help for the shy one
            await taint()(cluster)
            found = await until_pending(process, 0, 0, 0, 1)
            hint = {"plugin": "TaintToleration", "event": "NodeUpdateNodeTaint"}
            assert found.types["scheduler_queueing_hint_execution_duration_seconds"] == "histogram"
            assert found.of(HINTS, **hint, hint="QueueSkip") >= 1
            assert found.of(HINTS, **hint, hint="Queue") == 1
            assert found.of("scheduler_pod_scheduled_after_flush_total") == 0

            await cluster.delete("/api/v1/namespaces/default/pods/held", grace_seconds=0)
            found = await until_pending(process, 0, 0, 0, 0)
            assert found.of(AGE) == 0


async def test_a_pod_that_only_the_time_limit_woke_is_counted(cluster, monkeypatch):
    """The node grows, and the queue is not told: kube-scheduler's own detector of an event that was missed."""
    await cluster.make_nodes(1, capacity={"cpu": "1"})
    async with scheduler(cluster.kubeconfig, max_in_unschedulable=4.0) as program:
        await cluster.make_pods(1, name="waits", requests={"cpu": "2"})
        await until_in(program, "unschedulable", "waits")
        with monkeypatch.context() as deaf:
            deaf.setattr(program.scheduler.state.queue, "move", lambda *change: None)
            await seen(program, "Node", await grow(cpu="4")(cluster))
        assert attempts(program) == 1
        assert sample(program, "scheduler_pod_scheduled_after_flush_total") == 0
        await cluster.wait_until_bound(1, timeout=15)

        async def counted():
            return sample(program, "scheduler_pod_scheduled_after_flush_total") == 1

        await wait_until(counted)
        assert sample(program, INCOMING, queue="active", event="UnschedulableTimeout") == 1
