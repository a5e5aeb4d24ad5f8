"""Drift that is planted into what is held of a real API server: found, named, told, repaired; and none where there is none."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from schedcache.kube.settings import KopfSettings, WatchSettings
from schedcache.server.comparing import WITHIN
from schedcache.testing import FaultProxy, in_parallel, pod_manifest, wait_until
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_dump_is_truth

SOURCES = ("reflector", "kopf")
QUICK = {
    "watch": WatchSettings(sweep_grace_seconds=0.3),
    # A kopf that is restarted for being behind would read everything again, and repair what has just been planted.
    "kopf": KopfSettings(sweep_interval_seconds=600.0, sweep_grace_seconds=0.3, stale_sweeps=100),
}
pytestmark = pytest.mark.controlplane


def store_of(program, kind):
    followed = program.source._watches if hasattr(program.source, "_watches") else program.source._fed
    return followed[kind].store


def missed_add(store, held):
    store.delete(held.uid, missed=False)
    return held.uid


def missed_delete(store, held):
    store.upsert(replace(held, uid="phantom", name="phantom"))
    return "phantom"


def stale_version(store, held):
    store._objects[held.uid] = replace(held, resource_version="1")
    return held.uid


def wrong_uid(store, held):
    store.delete(held.uid, missed=False)
    store.upsert(replace(held, uid="other"))
    return "other"


PLANTS = {
    "missed add": missed_add,
    "missed delete": missed_delete,
    "stale version": stale_version,
    "wrong UID": wrong_uid,
}


@pytest.mark.parametrize("source", SOURCES)
async def test_planted_drift_is_found_told_and_repaired(cluster, source, monkeypatch):
    monkeypatch.setattr("schedcache.server.comparing.LEAST_SECONDS", 0.0)
    await cluster.make_nodes(3)
    async with scheduler(cluster.control_plane.kubeconfig, event_source=source, **QUICK) as program:
        await cluster.make_pods(6, requests={"cpu": "100m"})
        await cluster.wait_until_bound(6)
        await assert_dump_is_truth(cluster, dump_of(program))
        assert (await program.comparer.compare()).differences == ()
        for kind, name in (("Pod", "pod-0"), ("Node", "node-0")):
            for cause, plant in PLANTS.items():
                store = store_of(program, kind)
                held = next(obj for obj in store.objects() if obj.name == name)
                uid = plant(store, held)
                found = await program.comparer.compare()
                assert (kind, cause, uid) in [(one.kind, one.cause, one.uid) for one in found.differences]
                assert found.counts[kind][cause] == 1

                async def repaired():
                    return (await program.comparer.compare()).differences == ()

                await wait_until(repaired, 30)
                await assert_dump_is_truth(cluster, dump_of(program), timeout=30)
        text = generate_latest(program.registry).decode()
        for cause in PLANTS:
            for kind in ("Pod", "Node"):
                assert f'scheduler_compare_drift_total{{cause="{cause}",kind="{kind}"}} 1.0' in text
        assert 'scheduler_compare_differences{kind="Pod"} 0.0' in text

        async def told():
            events = await cluster.list_all("/apis/events.k8s.io/v1/events")
            notes = [event["note"] for event in events if event["reason"] == "CacheDrift"]
            return all(any(f"Pod: {cause} 1" in note for note in notes) for cause in PLANTS)

        await wait_until(told, 30)


@pytest.mark.parametrize("source", SOURCES)
async def test_a_wrong_sum_leads_to_a_rebuild(cluster, source):
    await cluster.make_nodes(2)
    async with scheduler(cluster.control_plane.kubeconfig, event_source=source, validate=False, **QUICK) as program:
        await cluster.make_pods(4, requests={"cpu": "100m"})
        await cluster.wait_until_bound(4)
        await assert_dump_is_truth(cluster, dump_of(program))
        nodes = program.scheduler.state.cache.nodes
        info = nodes["node-1"] = nodes["node-1"].copy()
        info.requested.milli_cpu += 777
        found = await program.comparer.compare()
        assert {(one.kind, one.cause, one.name) for one in found.differences} == {("Node", "cache drift", "node-1")}
        assert found.kinds[WITHIN].problem == ""
        assert found.repair == "rebuild"

        async def rebuilt():
            return nodes["node-1"] is not program.scheduler.state.cache.nodes.get("node-1")

        await wait_until(rebuilt, 30)
        await assert_dump_is_truth(cluster, dump_of(program), timeout=30)


@pytest.mark.parametrize("source", SOURCES)
async def test_a_burst_is_no_drift(cluster, source, monkeypatch):
    """Events are on their way all the time, and come late."""
    monkeypatch.setattr("schedcache.server.comparing.LEAST_SECONDS", 0.0)
    await cluster.make_nodes(10, capacity={"cpu": "64", "pods": "200"})
    async with (
        FaultProxy(cluster.control_plane) as proxy,
        scheduler(proxy.kubeconfig, event_source=source, validate=False, **QUICK) as program,
    ):
        found = []

        async def compare():
            while True:
                found.append(await program.comparer.compare())

        comparing = asyncio.create_task(compare())

        async def one(number):
            await cluster.create_pods([pod_manifest(f"burst-{number}", requests={"cpu": "10m"})])
            if number % 2:
                await cluster.delete(f"/api/v1/namespaces/default/pods/burst-{number}", grace_seconds=0)

        await in_parallel(partial(one, number) for number in range(500))
        await cluster.wait_until_bound(250, timeout=60)
        await asyncio.sleep(1)
        comparing.cancel()
        assert len(found) >= 2
        assert [each.differences for each in found if each.differences] == []
        assert not program.comparer.drift
        await assert_dump_is_truth(cluster, dump_of(program), timeout=30)
