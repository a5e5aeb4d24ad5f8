"""Preemption on a real API server, with a kubelet that takes its time to end pods."""

import asyncio
from collections import Counter

import pytest

from schedcache.testing import FakeKubelet, wait_until
from tests.e2e.in_process import scheduler
from tests.e2e.scheduler_process import SchedulerProcess

pytestmark = pytest.mark.controlplane

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LOW_PER_NODE = 3


async def priorities(cluster, **values):
    for name, value in values.items():
        await cluster.create(CLASSES, {"metadata": {"name": name}, "value": value})


async def filled(cluster, first, last, priority, *, app="low"):
    """Three pods on each node, by a scheduler of long ago."""
    for number in range(LOW_PER_NODE):
        await asyncio.gather(
            *(
                cluster.make_pods(
                    1,
                    name=f"{app}-{node}-{number}",
                    labels={"app": app},
                    cpu="900m",
                    scheduler_name="default-scheduler",
                    node=f"node-{node}",
                    priorityClassName=priority,
                )
                for node in range(first, last)
            )
        )


async def started(cluster, number):
    await wait_until(
        lambda: running(cluster, number),
        timeout=60,
    )


async def running(cluster, number):
    pods = await cluster.list_pods("default", fieldSelector="status.phase=Running")
    return len(pods) >= number


def preemptors(cluster, number, name="high-{}"):
    return cluster.make_pods(number, name=name, labels={"app": "high"}, cpu="1800m", priorityClassName="high")


async def present(cluster, app):
    return await cluster.list_pods("default", labelSelector=f"app={app}")


def crowded(pods, cpu=3000):
    """Nodes whose pods request more than there is."""
    milli = {"900m": 900, "1800m": 1800}
    total = Counter()
    for pod in pods:
        total[pod["spec"].get("nodeName")] += milli[pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]]
    return [node for node, amount in total.items() if node and amount > cpu]


async def test_a_hundred_pods_make_room_on_two_hundred_full_nodes(cluster):
    """Two victims each: none of them of the same priority, and none that a budget covers, since others are there."""
    await priorities(cluster, low=10, high=1000)
    await cluster.make_nodes(200, cpu="3")
    await filled(cluster, 0, 120, "low")
    await filled(cluster, 120, 160, "low", app="guarded")
    await filled(cluster, 160, 200, "high", app="equal")
    guard = {
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": "100%", "selector": {"matchLabels": {"app": "guarded"}}},
    }
    await cluster.create(BUDGETS, guard)
    async with FakeKubelet(cluster, termination_seconds=0.3):
        await started(cluster, 600)
        async with scheduler(cluster.kubeconfig) as program:
            await preemptors(cluster, 100)
            await cluster.wait_until_bound(100, timeout=120, labelSelector="app=high")
            found = {app: await present(cluster, app) for app in ("low", "guarded", "equal", "high")}
            # Terminating pods of the last preemptor have gone too, or it would not be bound.
            assert {app: len(pods) for app, pods in found.items()} == {
                "low": 160,
                "guarded": 120,
                "equal": 120,
                "high": 100,
            }
            assert crowded(pod for pods in found.values() for pod in pods) == []
            assert [pod for pod in found["high"] if pod["status"].get("nominatedNodeName")] == []
            assert program.scheduler.state.queue.nominated_nodes() == []
    events = await cluster.list_all("/apis/events.k8s.io/v1/events")
    preempted = [event for event in events if event["reason"] == "Preempted"]
    assert len({event["regarding"]["uid"] for event in preempted}) == 200
    assert {event["related"]["kind"] for event in preempted} == {"Pod"}
    assert all(event["note"].startswith("Preempted by pod ") for event in preempted)


async def test_a_victim_is_told_why_before_it_goes(cluster):
    await priorities(cluster, low=10, high=1000)
    await cluster.make_nodes(1, cpu="3")
    await filled(cluster, 0, 1, "low")
    async with FakeKubelet(cluster, termination_seconds=2):
        await started(cluster, 3)
        async with scheduler(cluster.kubeconfig):
            await preemptors(cluster, 1)

            async def terminating():
                pods = await present(cluster, "low")
                return sum("deletionTimestamp" in pod["metadata"] for pod in pods) == 2

            await wait_until(terminating)
            victims = [pod for pod in await present(cluster, "low") if "deletionTimestamp" in pod["metadata"]]
            conditions = [c for pod in victims for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
            assert [(c["status"], c["reason"]) for c in conditions] == [("True", "PreemptionByScheduler")] * 2
            assert conditions[0]["message"] == "schedcache: preempting to accommodate a higher priority pod"
            [waiting] = await present(cluster, "high")
            assert waiting["status"]["nominatedNodeName"] == "node-0"
            await cluster.wait_until_bound(1, timeout=20, labelSelector="app=high")


async def test_killed_in_the_middle_and_started_again_it_evicts_nobody_more(cluster, tmp_path):
    await priorities(cluster, low=10, high=1000)
    await cluster.make_nodes(60, cpu="3")
    await filled(cluster, 0, 60, "low")
    async with FakeKubelet(cluster, termination_seconds=3):
        await started(cluster, 180)
        first = SchedulerProcess(cluster.kubeconfig, tmp_path / "first")
        async with first:
            await preemptors(cluster, 30)

            async def some_are_terminating():
                pods = await present(cluster, "low")
                return sum("deletionTimestamp" in pod["metadata"] for pod in pods) >= 15

            await wait_until(some_are_terminating, interval=0.01)
            await first.kill()
        async with SchedulerProcess(cluster.kubeconfig, tmp_path / "second") as second:
            high = await cluster.wait_until_bound(30, timeout=90, labelSelector="app=high")
            low = await present(cluster, "low")
            assert len(low) == 180 - 60
            assert [pod for pod in low if "deletionTimestamp" in pod["metadata"]] == []
            assert crowded([*low, *high]) == []
            assert (await second.dump()).queue.nominated == {}
            assert second.complaints() == []
