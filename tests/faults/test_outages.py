"""The API server or etcd stops, stands still, is put back to an earlier state, or runs out of room."""

import asyncio
import contextlib

import pytest

from schedcache.testing import ApiStatusError
from tests.faults.disk import fill
from tests.faults.servers import freeze, thaw

NOTICED_SECONDS = 16.0
fault = pytest.mark.fault


@fault("api-server-restart", quick=("reflector",))
@pytest.mark.servers
async def test_an_api_server_that_is_replaced_within_seconds(world):
    await outage(world, 3)
    world.always_ready()


@fault("api-server-restart")
@pytest.mark.servers
@pytest.mark.parametrize("seconds", [25, 120, 900])
async def test_an_api_server_that_is_away(world, seconds):
    await outage(world, seconds)
    world.unready(16, "no connection for", "pods (")


async def outage(world, seconds):
    await world.nodes(10, cpu="4")
    await world.start("--kube-api-qps=30", "--kube-api-burst=1")
    await world.pods(100)
    await world.bound(20)
    async with world.fault():
        await asyncio.to_thread(world.servers.stop_api_server)
        await asyncio.sleep(seconds)
        world.calm()
        world.lift()
        await asyncio.to_thread(world.servers.start_api_server)
    await world.healed(killed_server=True)


@fault("etcd-restored")
@pytest.mark.servers
@pytest.mark.parametrize("load", ["idle", "busy"])
async def test_etcd_put_back_to_an_older_backup(world, load):
    await world.nodes(4, cpu="4")
    scheduler = await world.start()
    await world.pods(20, name="old-{}")
    await world.bound(20)
    await world.pods(5, name="too-large-{}", requests={"cpu": "30"}, labels={"fits": "no"})
    backup = await asyncio.to_thread(world.servers.back_up)
    await world.pods(20, name="lost-{}")
    await world.bound(40)
    await world.nodes(2, name="lost-{}", cpu="4")
    for number in range(5):
        await world.delete_pod(f"old-{number}")
    await asyncio.sleep(2)
    async with world.fault():
        await asyncio.to_thread(world.servers.restore, backup)
    if load == "busy":
        await world.pods(20, name="new-{}")
    began = world.over
    await world.healed()
    assert "lost-0" not in (await scheduler.dump()).nodes
    lied = [
        one.time - began
        for one in scheduler.samples
        if one.ready == 200 and NOTICED_SECONDS < one.time - began < world.healed_after - 1
    ]
    assert not lied, f"ready {lied[0]:.1f} s after, and not yet right"
    world.checked.add("I8")
    # A version of ours that is above all versions there are would keep a watch silent for ever.
    await world.pods(5, name="later-{}")
    await world.healed()


@fault("etcd-frozen")
@pytest.mark.servers
async def test_an_etcd_that_stands_still(world):
    await world.nodes(4, cpu="4")
    await world.start()
    await world.pods(20)
    await world.bound(20)
    async with world.fault():
        # They are stored, and not bound yet.
        stored = asyncio.create_task(world.pods(30))
        await stored
        freeze(world.servers.etcd)
        try:
            with contextlib.suppress(ApiStatusError, TimeoutError):
                await asyncio.wait_for(world.pods(1), 5)
            await asyncio.sleep(35)
            world.calm()
        finally:
            thaw(world.servers.etcd)
    await world.healed()


@fault("api-server-frozen")
@pytest.mark.servers
async def test_an_api_server_that_stands_still(world):
    await world.nodes(4, cpu="4")
    await world.start()
    await world.pods(20)
    await world.bound(20)
    async with world.fault():
        freeze(world.servers.api_server)
        try:
            await asyncio.sleep(100)
            world.calm()
        finally:
            thaw(world.servers.api_server)
    world.unready(16)
    await world.pods(20)
    await world.healed()


@fault("etcd-full")
@pytest.mark.servers(etcd_flags=("--quota-backend-bytes=16777216",))
async def test_an_etcd_whose_quota_is_used_up(world):
    servers = world.servers
    await world.nodes(4, cpu="16")
    await world.start("--kube-api-qps=5", "--kube-api-burst=1")
    await world.pods(300)
    await world.bound(10)
    async with world.fault():
        await use_up(world.cluster)
        await asyncio.sleep(35)
        world.calm()
        world.lift()
        await asyncio.to_thread(servers.make_room)
    world.unready(33, "binding")
    await world.healed()


@fault("etcd-full")
@pytest.mark.servers(disk_mib=160)
async def test_an_etcd_whose_disk_is_full(world):
    """It ends, as etcd does, and is started again once there is room."""
    await world.nodes(4, cpu="16")
    await world.start("--kube-api-qps=5", "--kube-api-burst=1")
    await world.pods(300)
    await world.bound(10)
    async with world.fault():
        ballast = await asyncio.to_thread(fill, world.servers.data.parent)
        await use_up(world.cluster)
        await asyncio.sleep(35)
        world.calm()
        world.lift()
        ballast.unlink()
        if world.servers.etcd.poll() is not None:
            await asyncio.to_thread(world.servers.stop_etcd)
            await asyncio.to_thread(world.servers.start_etcd)
        await asyncio.to_thread(world.servers.wait_until_ready)
    world.unready(33)
    await world.healed()


async def use_up(cluster):
    """Write until etcd takes no more."""
    for number in range(200):
        try:
            body = {"metadata": {"name": f"filler-{number}"}, "data": {"x": "x" * 900_000}}
            async with asyncio.timeout(5):
                await cluster.create("/api/v1/namespaces/default/configmaps", body)
        except (ApiStatusError, TimeoutError):
            return
    raise AssertionError("180 MB were stored")
