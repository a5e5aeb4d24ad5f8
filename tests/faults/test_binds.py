"""Binds that fail, that come late, and whose outcome nobody knows."""

import asyncio
import time

import msgspec
import pytest

from schedcache.testing import Answer, Delay, Hang, LoseResponse, Reset
from tests.faults.world import BINDING, PODS

ANSWERS = (Answer(429, retry_after=1), Answer(500), Answer(503))
fault = pytest.mark.fault


@fault("bind-answer-lost", quick=("reflector", "kopf"))
@pytest.mark.parametrize("silent", [False, True], ids=["reset", "silence"])
async def test_an_answer_that_is_lost_is_found_out_by_a_read(world, silent):
    await world.nodes(2, cpu="2")
    scheduler = await world.start()
    async with world.fault():
        rule = world.proxy.add(LoseResponse(silent=silent), method="POST", path=BINDING, times=10)
        await world.pods(20, requests={"cpu": "200m"})
        await rule.wait(10)
    await world.healed()
    if not silent:
        # Where nothing comes at all, the watch is sooner.
        figures = await scheduler.figures()
        assert figures.of("scheduler_bind_doubts_total", outcome="bound") > 0


@fault("bind-late")
async def test_a_bind_that_arrives_long_after_it_was_given_up_takes_no_room_twice(world):
    """kubernetes/kubernetes#106361, from the other side: the pod was let go, and then it is bound after all."""
    await world.nodes(1, cpu="1")
    await world.start()
    async with world.fault():
        late = world.proxy.add(Delay(60.0), method="POST", path=BINDING, times=1)
        (pod,) = await world.pods(1, name="late", requests={"cpu": "1"}, priority=0)
        await late.wait()
        began = time.monotonic()
        (rival,) = await world.pods(1, name="rival", requests={"cpu": "1"})
        # What the first one left behind, whoever of the two has got the room by then.
        await world.bound(1, timeout=45)
        await asyncio.sleep(began + 63 - time.monotonic())
    placed = [one["metadata"]["name"] for one in await world.bound(1)]
    assert len(placed) == 1, "two pods in the room of one"
    (waits,) = {"late", "rival"} - set(placed)
    await world.cluster.patch(f"{PODS}/{waits}", {"metadata": {"labels": {"fits": "no"}}})
    assert pod["metadata"]["uid"] != rival["metadata"]["uid"]
    await world.healed()


@fault("bind-409", quick=("reflector",))
async def test_the_api_servers_own_conflicts(world):
    await world.nodes(4, cpu="2")
    await world.start()
    async with world.fault():
        late = world.proxy.add(Delay(1.0), method="POST", path=BINDING, times=12)
        made = await world.pods(12, name="pod-{}", requests={"cpu": "300m"})
        await late.wait(12)
        by_name = {pod["metadata"]["name"]: pod for pod in made}
        for number in range(4):
            await world.cluster.bind(by_name[f"pod-{number}"], f"node-{number}")
        for number in range(4, 8):
            await world.delete_pod(f"pod-{number}")
            await world.pods(1, name=f"pod-{number}", requests={"cpu": "300m"})
        # Deleted with grace: it stays, bound to nothing, until somebody ends it.
        path = f"{PODS}/pod-8"
        await world.cluster.patch(path, {"metadata": {"finalizers": ["example.com/stays"], "labels": {"fits": "no"}}})
        await world.cluster.delete(path)
        await asyncio.sleep(2)
    await world.healed()
    conflicts = len(world.cluster.audit.events(subresource="binding", status=409))
    assert 9 <= conflicts <= 20, "each conflict once: nothing is tried again and again"
    await world.cluster.patch(path, {"metadata": {"finalizers": None}})


@fault("bind-throttled", quick=("reflector",))
async def test_bursts_of_refusals(world):
    await world.nodes(5, cpu="8")
    await world.start()
    async with world.fault():
        for answer in ANSWERS:
            world.proxy.add(answer, method="POST", path=BINDING, where=lambda _: world.random.random() < 0.25)
        await world.pods(120, requests={"cpu": "200m"})
        await asyncio.sleep(8)
    await world.healed()
    world.always_ready()


@fault("binds-refused")
async def test_binds_that_are_all_forbidden_are_no_good_health(world):
    await world.nodes(2, cpu="8")
    await world.start()
    async with world.fault():
        world.proxy.add(Answer(403), method="POST", path=BINDING)
        await world.pods(40)
        await asyncio.sleep(25)
        world.calm()
    world.unready(20, "binding", "403")
    await world.healed()


@fault("binds-put-off")
async def test_binds_that_are_all_put_off_are_no_good_health(world):
    await world.nodes(2, cpu="8")
    await world.start()
    async with world.fault():
        world.proxy.add(Answer(429, retry_after=1), method="POST", path=BINDING)
        await world.pods(40)
        await asyncio.sleep(40)
        world.calm()
    world.unready(15, "binding", "429")
    await world.healed()


@fault("odd-refusals")
async def test_answers_that_no_api_server_gives(world):
    await world.nodes(2, cpu="8")
    await world.start()
    await world.pods(10)
    await world.bound(10)
    half = b'{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"meta'
    odd = (
        Answer(302, body=b""),
        Answer(400),
        Answer(404, body=b"not here"),
        Answer(418, reason="Teapot"),
        Answer(502, body=b"<html>Bad Gateway</html>"),
        Answer(200, body=half),
    )
    async with world.fault():
        for answer in odd:
            world.proxy.add(answer, where=lambda _: world.random.random() < 0.3)
        world.proxy.add(Reset())
        world.proxy.cut_watches()
        await world.pods(20)
        await asyncio.sleep(25)
        world.calm()
    world.unready(15)
    await world.healed()


@fault("slow-api-server")
async def test_an_api_server_that_takes_its_time(world):
    await world.nodes(5, cpu="8")
    async with world.fault():
        world.proxy.add(Delay(2.0, response=True), watch=False)
        world.proxy.add(Delay(3.0), method="POST", path=BINDING)
        await world.start()
        await world.pods(100)
        await world.bound(100, timeout=60)
    await world.healed()
    assert {sample.live for sample in world.schedulers[0].samples} <= {0, 200}
    targets = [msgspec.to_builtins(event) for event in world.cluster.audit.events(subresource="binding")]
    assert len(targets) == 100, "each was asked for once"


@fault("killed-before-bind", quick=("reflector",))
async def test_what_was_assumed_when_the_process_died_is_scheduled_by_the_next_one(world):
    await world.nodes(3, cpu="4")
    first = await world.start()
    async with world.fault():
        unsent = world.proxy.add(Hang(), method="POST", path=BINDING)
        await world.pods(30)
        await unsent.wait(10)
        first.kill()
    await world.start()
    await world.healed()


@fault("killed-after-bind", quick=("reflector",))
async def test_what_was_bound_when_the_process_died_is_not_bound_again(world):
    await world.nodes(3, cpu="4")
    first = await world.start()
    async with world.fault():
        done = world.proxy.add(Delay(30.0, response=True), method="POST", path=BINDING)
        await world.pods(30)
        await done.wait(20)
        await world.bound(20)
        first.kill()
    await world.start()
    await world.healed()
    events = await world.cluster.list_all("/apis/events.k8s.io/v1/events")
    assert len(events) <= 30, "one for each pod"
