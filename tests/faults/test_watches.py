"""Events that do not come, come twice, come late; and watches that say nothing."""

import asyncio

import msgspec
import pytest

from schedcache.testing import Answer, Cut, Delay, Reset, Rewrite, wait_until
from tests.faults.process import Launch
from tests.faults.world import BINDING

WATCHED = r"^/api/v1/(pods|nodes)$"
fault = pytest.mark.fault
TUNED = Launch(module="tests.faults.tuned")
"""Compares with the API server every 5 s: ten minutes, as without it, are the same only longer."""


@fault("silent-watches")
async def test_watches_that_say_nothing_are_given_up(world):
    await world.nodes(3, cpu="4")
    await world.start()
    await world.pods(10)
    await world.bound(10)
    async with world.fault():
        world.proxy.hold_watches()
        await world.pods(20)
        await world.cluster.delete("/api/v1/nodes/node-2")
        await world.delete_pod("pod-10-0")
        # Those that are opened from now on work.
        await asyncio.sleep(1)
        held = list(world.proxy.watches)

        async def given_up():
            return not any(watch in world.proxy.watches for watch in held)

        await wait_until(given_up, 80)
        world.calm()
    await world.healed()


@fault("lost-event", quick=("reflector",))
@pytest.mark.parametrize("lost", ["ADDED", "DELETED", "MODIFIED"])
async def test_an_event_that_never_comes_is_made_up_for_by_the_comparison(world, lost):
    await world.nodes(2, cpu="2")
    dropping = False

    def change(line):
        event = msgspec.json.decode(line)
        meant = "Node" if lost == "MODIFIED" else "Pod"
        drop = dropping and event["type"] == lost and event["object"].get("kind") == meant
        return [] if drop else [line]

    world.proxy.add(Rewrite(change), path=WATCHED)
    await world.start(launch=TUNED)
    await world.pods(4, name="old-{}", requests={"cpu": "500m"})
    await world.bound(4)
    dropping = True
    world.begin()
    if lost == "ADDED":
        await world.pods(1)
    elif lost == "DELETED":
        await world.delete_pod("old-0")
    else:
        await world.cluster.patch("/api/v1/nodes/node-0/status", {"status": {"allocatable": {"cpu": "4"}}})
    await asyncio.sleep(1)
    dropping = False
    await world.healed(since=asyncio.get_running_loop().time())


@fault("reordered-events", quick=("reflector",))
async def test_each_event_twice_and_pods_before_their_nodes(world):
    """Across kinds: a stream of one kind is in order, or it would not be the API server's."""
    await world.nodes(2, cpu="4")
    world.proxy.add(Rewrite(lambda line: [line, line]), path=WATCHED)
    await world.start("--validate")
    async with world.fault():
        (nodes,) = [watch for watch in world.proxy.watches if watch.request.path == "/api/v1/nodes"][:1]
        nodes.hold()
        await world.nodes(2, name="late-{}", cpu="4")
        for number in range(2):
            await world.pods(5, name=f"there-{number}-{{}}", node=f"late-{number}", scheduler_name="default-scheduler")
        await world.pods(20)
        await world.bound(30)
        await world.delete_pod("there-0-0")
        await asyncio.sleep(1)
    await world.healed()


@fault("deleted-in-a-gap", quick=("reflector",))
async def test_assumed_pods_that_are_deleted_while_no_watch_gets_through(world):
    await world.nodes(2, cpu="2")
    scheduler = await world.start()
    async with world.fault():
        binding = world.proxy.add(Delay(1.0), method="POST", path=BINDING)
        await world.pods(8, name="doomed-{}", requests={"cpu": "500m"})
        await binding.wait(8)
        world.proxy.hold_watches()
        await world.bound(8)
        assert (await scheduler.dump()).assumed
        for number in range(8):
            await world.delete_pod(f"doomed-{number}")
        await world.pods(8, requests={"cpu": "500m"})
        world.proxy.cut_watches()
    await world.healed()


@fault("stale-api-server")
@pytest.mark.servers
async def test_an_api_server_that_lags_behind_takes_nothing_back(world):
    """A second, real one, which learns nothing from etcd any more."""
    await world.nodes(4, cpu="4")
    async with world.servers.second_api_server() as second:
        await world.start()
        await world.pods(10)
        await world.bound(10)
        await asyncio.sleep(1)
        second.stand_still()
        await world.cluster.delete("/api/v1/nodes/node-3")
        await world.pods(20)
        await world.bound(30)
        before = await world.schedulers[0].dump()
        async with world.fault():
            world.proxy.target = second.url
            world.proxy.cut_watches()
            await world.pods(5)
            await asyncio.sleep(100)
            during = await world.schedulers[0].dump()
            world.calm()
        assert during.pods.keys() >= before.pods.keys()
        assert "node-3" not in {name for name, node in during.nodes.items() if node.present}
        world.proxy.target = world.servers.server
        world.proxy.cut_watches()
        world.unready(16)
        await world.healed()


@fault("compaction", quick=("reflector",))
@pytest.mark.servers
async def test_versions_that_etcd_has_forgotten(world):
    await world.nodes(4, cpu="4")
    scheduler = await world.start()
    await world.pods(30, name="old-{}")
    await world.bound(30)
    async with world.fault():
        world.proxy.add(Reset(), watch=True)
        world.proxy.cut_watches(reset=True)
        for number in range(10):
            await world.delete_pod(f"old-{number}")
        await world.cluster.delete("/api/v1/nodes/node-3")
        await world.pods(20)
        await asyncio.to_thread(world.servers.compact)
        await asyncio.to_thread(world.servers.stop_api_server)
        await asyncio.to_thread(world.servers.start_api_server)
    await world.healed(killed_server=True)
    found = await scheduler.figures()
    relists = {dict(labels)["reason"] for labels in found.labels("scheduler_informer_relists_total")}
    if world.source == "reflector":
        assert "expired" in relists, relists
    assert {sample.live for sample in scheduler.samples} <= {0, 200}


@fault("compaction")
@pytest.mark.servers
async def test_a_list_whose_pages_are_forgotten_while_they_are_read(world):
    await world.nodes(4, cpu="40", pods="400")
    await world.pods(1100, requests={"cpu": "100m"})
    async with world.fault():
        slow = world.proxy.add(
            Delay(2.0), path=r"^/api/v1/pods$", watch=False, where=lambda request: "continue" in request.query, times=2
        )
        starting = asyncio.create_task(world.start(ready=False))
        await slow.wait(timeout=60)
        await world.cluster.patch("/api/v1/nodes/node-0", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.to_thread(world.servers.compact)
        await starting
        await world.schedulers[0].ready()
    await world.healed()


@fault("watches-that-end", quick=("kopf",))
async def test_watches_that_end_in_every_way_all_the_time(world):
    await world.nodes(10, cpu="4")
    chance = world.random
    world.proxy.add(Cut(after_events=15), path=WATCHED)
    world.proxy.add(Cut(after_bytes=30_000, reset=True), path=WATCHED, where=lambda _: chance.random() < 0.3)
    world.proxy.add(Answer(500), watch=True, where=lambda _: chance.random() < 0.2)
    await world.start()
    async with world.fault():
        await world.pods(120, name="pod-{}")
        await world.bound(120)
        for number in range(0, 120, 3):
            await world.delete_pod(f"pod-{number}")
    await world.healed()
