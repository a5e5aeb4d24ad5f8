"""Packets that are lost between the scheduler and the API server, on a cable that is there for the test alone."""

import asyncio

import pytest

from tests.faults.network import cable

fault = pytest.mark.fault


@fault("packet-loss")
async def test_some_packets_are_lost(world):
    await world.nodes(5, cpu="8")
    link = await world.enter(cable(world.proxy.url))
    await world.start(launch=link.launch)
    async with world.fault():
        for share in (0.1, 0.3):
            link.lose(share)
            await world.pods(60)
            await asyncio.sleep(25)
        link.lose(0)
    await world.healed()


@fault("network-cut")
async def test_all_packets_are_lost_for_a_minute(world):
    await world.nodes(5, cpu="8")
    link = await world.enter(cable(world.proxy.url))
    await world.start(launch=link.launch)
    await world.pods(40)
    await world.bound(40)
    async with world.fault():
        link.lose(1)
        await world.pods(40)
        await world.cluster.delete("/api/v1/nodes/node-4")
        await asyncio.sleep(60)
        world.calm()
        link.lose(0)
    world.unready(15)
    await world.healed()
