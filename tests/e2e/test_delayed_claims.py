"""A pod whose claim waits for its first consumer (kubernetes/kubernetes#86262).

A scheduler that cannot have the claim bound must not bind the pod: it would wait on its node for ever, and the claim too.
"""

import asyncio

import pytest

from schedcache.testing import wait_until
from tests.e2e.acts import CLAIMS, PODS, bind_claim, claim, storage_class, volume
from tests.e2e.in_process import scheduler
from tests.e2e.watching_queue import attempts, condition, until_in

pytestmark = pytest.mark.controlplane


async def test_it_is_refused_with_a_reason_and_bound_once_the_claim_is(cluster):
    await cluster.make_nodes(1)
    await storage_class("late", "a")(cluster)
    await cluster.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"topology.kubernetes.io/zone": "a"}}})
    await claim("data", class_name="late")(cluster)
    async with scheduler(cluster.kubeconfig) as program:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cluster.make_pods(1, name="waits", volumes=volumes)
        entry = await until_in(program, "unschedulable", "waits")
        assert entry.unschedulable_plugins == {"VolumeBinding"}

        async def told():
            return bool(await condition(cluster, "waits"))

        await wait_until(told)
        found = await condition(cluster, "waits")
        assert (found["status"], found["reason"]) == ("False", "Unschedulable")
        assert "claims that wait for their first consumer (data)" in found["message"]
        assert "nodeName" not in (await cluster.get(f"{PODS}/waits"))["spec"]
        assert "annotations" not in (await cluster.get(f"{CLAIMS}/data"))["metadata"]

        # Nothing has changed that could help: there was one attempt, and there will be no other.
        await asyncio.sleep(2.5)
        assert attempts(program) == 1
        await volume("v", "data")(cluster)
        await bind_claim("data", "v")(cluster)
        await cluster.wait_until_bound(1, timeout=20, fieldSelector="metadata.name=waits,spec.nodeName!=")
