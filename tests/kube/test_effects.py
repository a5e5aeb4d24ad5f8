"""Binds, status patches and events on a real API server, with faults on the way to it."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import RequestSettings, WriteSettings
from schedcache.kube.write.binder import ApiBinder
from schedcache.kube.write.event_recorder import ApiEventRecorder
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.status_writer import ApiStatusWriter
from schedcache.model import Pod, PodCondition
from schedcache.ports import (
    ApiError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    UnavailableError,
)
from schedcache.testing import Answer, Delay, LoseResponse, Reset

pytestmark = pytest.mark.controlplane

UNLIMITED = TokenBucket(-1, 1)
BINDING = r"/binding$"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
WAITS = PodCondition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.", 1)


@pytest.fixture
async def transport(proxy) -> AsyncIterator[Transport]:
    async with Transport(load_credentials(proxy.kubeconfig), RequestSettings(request_timeout_seconds=2)) as opened:
        yield opened


@pytest.fixture
def binder(transport):
    return ApiBinder(transport, UNLIMITED)


@contextlib.asynccontextmanager
async def running(writer):
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def one_pod(cluster, name="pod-0"):
    [pod] = await cluster.make_pods(1, name=name)
    return Pod.from_dict(pod)


async def events(cluster):
    return await cluster.list_all(EVENTS)


async def test_a_bind_names_the_uid_and_reads_the_status_as_success(cluster, binder, control_plane):
    await cluster.make_nodes(1)
    pod = await one_pod(cluster)
    log = control_plane.audit.from_now()
    await binder.bind(pod, "node-0")
    now = await binder.get_pod("default", "pod-0")
    assert now is not None
    assert (now.uid, now.node_name) == (pod.uid, "node-0")
    await log.settled(cluster)
    assert log.bindings() == {("default", "pod-0", pod.uid): ["node-0"]}
    assert len(log.events(resource="pods", subresource="binding")) == 1
    assert binder.in_flight == 0


async def test_a_bind_of_a_pod_that_is_gone_is_not_found(cluster, binder):
    pod = await one_pod(cluster)
    await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    with pytest.raises(NotFoundError, match="pod-0"):
        await binder.bind(pod, "node-0")
    assert await binder.get_pod("default", "pod-0") is None


async def test_a_bind_of_a_pod_made_again_under_its_name_is_a_conflict(cluster, binder):
    pod = await one_pod(cluster)
    await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    again = await one_pod(cluster)
    with pytest.raises(ConflictError):
        await binder.bind(pod, "node-0")
    now = await binder.get_pod("default", "pod-0")
    assert (now.uid, now.node_name) == (again.uid, "")


async def test_a_second_bind_is_a_conflict(cluster, binder):
    pod = await one_pod(cluster)
    await binder.bind(pod, "node-0")
    with pytest.raises(ConflictError, match="already assigned"):
        await binder.bind(pod, "node-1")


@pytest.mark.parametrize("fault", [LoseResponse(), LoseResponse(silent=True)])
async def test_a_lost_answer_is_an_unknown_outcome_that_a_get_clears_up(cluster, proxy, binder, fault):
    pod = await one_pod(cluster)
    proxy.add(fault, path=BINDING, times=1)
    with pytest.raises(OutcomeUnknownError):
        await binder.bind(pod, "node-0")
    assert (await binder.get_pod("default", "pod-0")).node_name == "node-0"


@pytest.mark.parametrize("fault", [Reset(), Answer(500), Answer(503), Answer(504)])
async def test_no_answer_or_a_5xx_is_an_unknown_outcome(cluster, proxy, binder, fault):
    pod = await one_pod(cluster)
    proxy.add(fault, path=BINDING, times=1)
    with pytest.raises(OutcomeUnknownError):
        await binder.bind(pod, "node-0")
    assert (await binder.get_pod("default", "pod-0")).node_name == ""


async def test_a_throttled_bind_is_sent_again_when_the_server_says(cluster, proxy):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    async with Transport(load_credentials(proxy.kubeconfig), sleep=sleep) as transport:
        binder = ApiBinder(transport, UNLIMITED)
        pod = await one_pod(cluster)
        proxy.add(Answer(429, retry_after=3), path=BINDING, times=2)
        await binder.bind(pod, "node-0")
        assert (await binder.get_pod("default", "pod-0")).node_name == "node-0"
        assert len(waits) == 2
        assert all(3 <= seconds <= 3.6 for seconds in waits)
        proxy.add(Answer(429, retry_after=1), path=BINDING)
        with pytest.raises(RefusedError) as caught:
            await binder.bind(await one_pod(cluster, "pod-1"), "node-0")
        assert caught.value.status == 429


async def test_a_refused_connection_is_definite(binder, transport, proxy, cluster):
    pod = await one_pod(cluster)
    transport._adopt(dataclasses.replace(transport._access, server="https://127.0.0.1:1"))
    with pytest.raises(UnavailableError) as caught:
        await binder.bind(pod, "node-0")
    assert caught.value.reason == "Unreachable"


async def test_a_read_without_an_answer_is_an_error_and_not_none(binder, proxy, cluster):
    await one_pod(cluster)
    for fault in (Reset(), Answer(500), Answer(403), Answer(200, body=b'{"spec": {"containers": 7}}')):
        rule = proxy.add(fault, method="GET", path="pods/pod-0$")
        with pytest.raises(ApiError) as caught:
            await binder.get_pod("default", "pod-0")
        assert type(caught.value) in (RefusedError, UnavailableError)
        rule.remove()


async def test_many_binds_share_few_connections(cluster, binder, transport):
    pods = [Pod.from_dict(pod) for pod in await cluster.make_pods(200)]
    await asyncio.gather(*(binder.bind(pod, "node-0") for pod in pods))
    assert len(transport._writes._open) == 0
    assert 0 < len(transport._writes._idle) <= WriteSettings().concurrent_binds
    bound = await cluster.wait_until_bound(200, timeout=1)
    assert len(bound) == 200


async def test_the_condition_is_written_as_kube_scheduler_writes_it(cluster, transport):
    pod = await one_pod(cluster)
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS, "node-7")
        assert await writer.drain(5) == 0
        stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
        [condition] = stored["status"]["conditions"]
        since = condition.pop("lastTransitionTime")
        assert condition == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": WAITS.message,
            "observedGeneration": 1,
            "lastProbeTime": None,
        }
        assert stored["status"]["nominatedNodeName"] == "node-7"
        now = Pod.from_dict(stored)
        await asyncio.sleep(1.1)
        writer.patch_status(now, PodCondition("PodScheduled", "False", "Unschedulable", "another message", 1), "")
        assert await writer.drain(5) == 0
        stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
        assert "nominatedNodeName" not in stored["status"]
        [condition] = stored["status"]["conditions"]
        assert condition["message"] == "another message"
        assert condition["lastTransitionTime"] == since, "the status is what it was"
        assert writer.written == 2


async def test_a_status_that_says_so_already_is_not_written(cluster, transport, control_plane):
    pod = await one_pod(cluster)
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS)
        await writer.drain(5)
        now = Pod.from_dict(await cluster.get("/api/v1/namespaces/default/pods/pod-0"))
        log = control_plane.audit.from_now()
        writer.patch_status(now, WAITS)
        writer.patch_status(now, None, "")
        writer.patch_status(now, None)
        assert await writer.drain(5) == 0
        await log.settled(cluster)
        assert log.events(verb="patch") == []
        assert (writer.written, writer.skipped) == (1, 3)


async def test_newer_writes_replace_waiting_ones(cluster, transport, control_plane):
    pod, gone = await one_pod(cluster), await one_pod(cluster, "pod-1")
    writer = ApiStatusWriter(transport, UNLIMITED)
    log = control_plane.audit.from_now()
    for number in range(10):
        writer.patch_status(pod, PodCondition("PodScheduled", "False", "Unschedulable", f"message {number}"))
    writer.patch_status(pod, None, "node-1")
    writer.patch_status(gone, WAITS)
    writer.forget(gone.uid)
    assert writer.waiting == 1
    async with running(writer):
        assert await writer.drain(5) == 0
    stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
    assert stored["status"]["conditions"][0]["message"] == "message 9"
    assert stored["status"]["nominatedNodeName"] == "node-1"
    await log.settled(cluster)
    assert len(log.events(verb="patch", subresource="status")) == 1


async def test_a_nomination_that_evictions_wait_for_takes_the_waiting_condition_along(
    cluster, transport, control_plane
):
    pod = await one_pod(cluster)
    log = control_plane.audit.from_now()
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS, "node-7")
        await writer.nominate(pod, "node-7")
        stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
        assert stored["status"]["conditions"][0]["message"] == WAITS.message
        assert stored["status"]["nominatedNodeName"] == "node-7"
        assert await writer.drain(5) == 0
        await log.settled(cluster)
        assert len(log.events(verb="patch", subresource="status")) == 1
        assert writer.written == 1


async def test_a_nomination_waits_for_the_write_under_way_and_is_followed_by_later_ones(cluster, transport, proxy):
    pod = await one_pod(cluster)
    proxy.add(Delay(0.5), method="PATCH")
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS, "")
        writer.patch_status(pod, None, "node-1")
        await asyncio.sleep(0.2)
        nominating = asyncio.create_task(writer.nominate(pod, "node-7"))
        await asyncio.sleep(0.5)
        assert await writer.drain(0) == 1, "a nomination under way is waited for"
        writer.patch_status(replace(pod, nominated_node_name="node-7"), None, "")
        await nominating
        stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
        assert stored["status"]["nominatedNodeName"] == "node-7"
        assert await writer.drain(5) == 0
        assert writer.written == 3
    stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
    assert "nominatedNodeName" not in stored["status"]


async def test_a_nomination_that_cannot_be_written_is_an_error(cluster, transport, proxy):
    pod, gone = await one_pod(cluster), await one_pod(cluster, "pod-1")
    writer = ApiStatusWriter(transport, UNLIMITED)
    proxy.add(Answer(403), method="PATCH", times=1)
    with pytest.raises(RefusedError):
        await writer.nominate(pod, "node-7")
    for name in ("pod-0", "pod-1"):
        await cluster.delete(f"/api/v1/namespaces/default/pods/{name}", grace_seconds=0)
    await one_pod(cluster)
    with pytest.raises(NotFoundError, match="replaced"):
        await writer.nominate(pod, "node-7")
    with pytest.raises(NotFoundError):
        await writer.nominate(gone, "node-7")
    stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
    assert "nominatedNodeName" not in stored["status"]


async def test_a_nomination_is_not_delayed_by_the_budget_of_bad_news(cluster, transport):
    pods = [Pod.from_dict(pod) for pod in await cluster.make_pods(3)]
    slow = TokenBucket(0.01, 1)
    async with running(ApiStatusWriter(transport, slow, urgent_rate=UNLIMITED)) as writer:
        for pod in pods:
            writer.patch_status(pod, WAITS)
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await writer.nominate(pods[2], "node-7")
    stored = await cluster.get("/api/v1/namespaces/default/pods/pod-2")
    assert stored["status"]["nominatedNodeName"] == "node-7"


async def test_a_pod_made_again_never_gets_the_old_ones_status(cluster, transport):
    pod, gone = await one_pod(cluster), await one_pod(cluster, "pod-1")
    for name in ("pod-0", "pod-1"):
        await cluster.delete(f"/api/v1/namespaces/default/pods/{name}", grace_seconds=0)
    await one_pod(cluster)
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS)
        writer.patch_status(gone, WAITS)
        assert await writer.drain(5) == 0
        assert writer.dropped == {"replaced": 1, "gone": 1}
    stored = await cluster.get("/api/v1/namespaces/default/pods/pod-0")
    assert "conditions" not in stored["status"]


async def test_a_status_write_outlives_short_faults(cluster, transport, proxy):
    pod = await one_pod(cluster)
    proxy.add(Answer(500), method="PATCH", times=1)
    proxy.add(Reset(), method="PATCH", times=1)
    proxy.add(LoseResponse(), method="PATCH", times=1)
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS)
        assert await writer.drain(10) == 0
        assert (writer.written, writer.retries) == (1, 3)
        proxy.add(Answer(403), method="PATCH", times=1)
        writer.patch_status(pod, PodCondition("PodScheduled", "False", "SchedulerError", "no"))
        assert await writer.drain(10) == 0
        assert writer.dropped == {"refused": 1}


async def test_drain_gives_up_in_time(cluster, transport, proxy):
    pod = await one_pod(cluster)
    proxy.add(Answer(500), method="PATCH")
    async with running(ApiStatusWriter(transport, UNLIMITED)) as writer:
        writer.patch_status(pod, WAITS)
        assert await writer.drain(0.1) == 1


async def test_an_event_is_what_kubectl_describe_shows(cluster, transport):
    pod = await one_pod(cluster)
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"], host="host-1")
    async with running(recorder):
        recorder.event(pod, "Normal", "Scheduled", "Binding", "Successfully assigned default/pod-0 to node-0")
        assert await recorder.drain(5) == 0
    [event] = await events(cluster)
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "pod-0",
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
    }
    assert event["metadata"]["name"].startswith("pod-0.")
    assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
    assert event["note"] == "Successfully assigned default/pod-0 to node-0"
    assert (event["reportingController"], event["reportingInstance"]) == ("schedcache", "schedcache-host-1")
    assert "series" not in event
    core = await cluster.list_all("/api/v1/namespaces/default/events")
    assert core[0]["message"] == event["note"]


async def test_repeated_events_become_a_series(cluster, transport, control_plane):
    pod = await one_pod(cluster)
    now = 1_800_000_000.0
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"], wall_clock=lambda: now)
    fail = ("Warning", "FailedScheduling", "Scheduling", "0/1 nodes are available: 1 Insufficient cpu.")
    log = control_plane.audit.from_now()
    async with running(recorder):
        for _ in range(2):
            recorder.event(pod, *fail)
            await recorder._queue.drain(5)
        for _ in range(5):
            recorder.event(pod, *fail)
        await recorder._queue.drain(5)
        [event] = await events(cluster)
        assert event["series"]["count"] == 2
        now += 400
        recorder.refresh()
        await recorder._queue.drain(5)
        [event] = await events(cluster)
        assert event["series"]["count"] == 7
        assert recorder._series == {}
        recorder.event(pod, *fail)
        assert await recorder.drain(5) == 0
        assert len(await events(cluster)) == 2
    await log.settled(cluster)
    writes = [event.verb for event in log.events(resource="events") if event.verb in ("create", "patch")]
    assert writes == ["create", "patch", "patch", "create"]
    assert recorder.merged == 6


async def test_an_event_the_server_has_forgotten_is_made_again(cluster, transport):
    pod = await one_pod(cluster)
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"])
    async with running(recorder):
        recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", "no")
        await recorder.drain(5)
        [event] = await events(cluster)
        await cluster.delete(f"{EVENTS}/{event['metadata']['name']}")
        recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", "no")
        assert await recorder.drain(5) == 0
    [event] = await events(cluster)
    assert event["series"]["count"] == 2


async def test_a_lost_answer_to_an_event_makes_no_second_one(cluster, transport, proxy):
    pod = await one_pod(cluster)
    proxy.add(LoseResponse(), method="POST", path="/events$", times=1)
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"])
    async with running(recorder):
        recorder.event(pod, "Normal", "Scheduled", "Binding", "assigned")
        assert await recorder.drain(5) == 0
        assert (recorder.written, recorder.retries) == (1, 1)
    assert len(await events(cluster)) == 1


async def test_a_stop_while_an_event_is_being_written_writes_it_once(cluster, transport, proxy, control_plane):
    pod = await one_pod(cluster)
    proxy.add(Delay(0.3, response=True), method="POST", path="/events$", times=1)
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"])
    log = control_plane.audit.from_now()
    async with running(recorder):
        recorder.event(pod, "Normal", "Scheduled", "Binding", "assigned")
        await asyncio.sleep(0.1)
        assert await recorder.drain(5) == 0
    await log.settled(cluster)
    assert [(e.verb, e.status) for e in log.events(resource="events") if e.verb in ("create", "patch")] == [
        ("create", 201)
    ]


async def test_events_of_one_pod_are_limited_and_notes_cut(cluster, transport):
    pod = await one_pod(cluster)
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"])
    for number in range(40):
        recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", f"{number} " + "ö" * 1000)
    assert recorder.dropped == {"limited": 15}
    async with running(recorder):
        assert await recorder.drain(10) == 0
    stored = await events(cluster)
    assert len(stored) == 25
    assert all(len(event["note"].encode()) <= 1024 and event["note"].endswith("ö ...") for event in stored)


async def test_events_beyond_the_buffer_are_dropped_and_counted(transport, cluster):
    pods = [Pod.from_dict(pod) for pod in await cluster.make_pods(5)]
    recorder = ApiEventRecorder(transport, UNLIMITED, ["schedcache"], WriteSettings(waiting_events=3))
    for pod in pods:
        recorder.event(pod, "Normal", "Scheduled", "Binding", "assigned")
    assert recorder.dropped == {"full": 2}
    assert recorder.waiting == 3


async def test_binds_are_not_held_up_by_the_other_budget(cluster, transport):
    pods = [Pod.from_dict(pod) for pod in await cluster.make_pods(30)]
    binder = ApiBinder(transport, TokenBucket(1000, 100))
    writer = ApiStatusWriter(transport, TokenBucket(1, 1))
    async with running(writer):
        for pod in pods:
            writer.patch_status(pod, WAITS)
        async with asyncio.timeout(5):
            await asyncio.gather(*(binder.bind(pod, "node-0") for pod in pods))
        assert writer.written < 10
