"""Evictions on a real API server, with faults on the way to it."""

import pytest

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import RequestSettings
from schedcache.kube.write.evictor import ApiEvictor
from schedcache.kube.write.rate import TokenBucket
from schedcache.model import Pod, PodCondition
from schedcache.ports import ApiError
from schedcache.testing import Answer, LoseResponse, Reset

pytestmark = pytest.mark.controlplane

POD = "/api/v1/namespaces/default/pods/pod-0"
TARGET = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler", "s: preempting", 1)


@pytest.fixture
async def evictor(proxy):
    async with Transport(load_credentials(proxy.kubeconfig), RequestSettings(request_timeout_seconds=2)) as transport:
        yield ApiEvictor(transport, TokenBucket(-1, 1))


async def victim(cluster):
    """A pod on a node, which therefore has a grace period."""
    [pod] = await cluster.make_pods(1, node="node-0")
    return Pod.from_dict(pod)


async def replaced(cluster):
    """A pod that is gone, another one having its name."""
    gone = await victim(cluster)
    await cluster.delete(POD, grace_seconds=0)
    await cluster.make_pods(1)
    return gone


async def test_it_is_told_why_and_terminates(cluster, evictor):
    assert await evictor.evict(await victim(cluster), TARGET)
    stored = await cluster.get(POD)
    [condition] = [c for c in stored["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert condition.pop("lastTransitionTime")
    condition.pop("lastProbeTime")
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "s: preempting",
        "observedGeneration": 1,
    }
    assert stored["metadata"]["deletionTimestamp"]


async def test_a_pod_that_says_so_already_is_not_told_again(cluster, evictor, control_plane):
    pod = await victim(cluster)
    await cluster.patch(
        f"{POD}/status",
        {
            "status": {
                "conditions": [
                    {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message} for c in (TARGET,)
                ]
            }
        },
        content_type="application/strategic-merge-patch+json",
    )
    told = Pod.from_dict(await cluster.get(POD))
    assert told.uid == pod.uid
    log = control_plane.audit.from_now()
    assert await evictor.evict(told, TARGET)
    await log.settled(cluster)
    assert [event.verb for event in log.events(resource="pods") if event.verb in ("patch", "delete")] == ["delete"]


async def test_a_pod_that_is_gone_needs_no_eviction(cluster, evictor):
    pod = await victim(cluster)
    await cluster.delete(POD, grace_seconds=0)
    assert await evictor.evict(pod, TARGET) is False


async def test_another_pod_of_that_name_is_left_alone(cluster, evictor):
    pod = await replaced(cluster)
    assert await evictor.evict(pod, TARGET) is False
    stored = await cluster.get(POD)
    assert "deletionTimestamp" not in stored["metadata"]
    assert [c for c in stored["status"].get("conditions", ()) if c["type"] == "DisruptionTarget"] == []


async def test_an_answer_that_is_lost_makes_no_difference(cluster, evictor, proxy):
    [pod] = await cluster.make_pods(1)
    proxy.add(LoseResponse(), method="DELETE", times=1)
    # Without a node it is gone at once: the second request does not find it.
    assert await evictor.evict(Pod.from_dict(pod), TARGET)
    assert evictor.retries == 1


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_fault_that_passes_is_waited_out_and_a_refusal_is_an_error(cluster, evictor, proxy, method):
    pod = await victim(cluster)
    proxy.add(Reset(), method=method, times=1)
    proxy.add(Answer(503), method=method, times=1)
    assert await evictor.evict(pod, TARGET)
    await cluster.delete(POD, grace_seconds=0)
    pod = await victim(cluster)
    proxy.add(Answer(403), method=method, times=1)
    with pytest.raises(ApiError) as caught:
        await evictor.evict(pod, TARGET)
    assert caught.value.status == 403
    assert "deletionTimestamp" not in (await cluster.get(POD))["metadata"]
