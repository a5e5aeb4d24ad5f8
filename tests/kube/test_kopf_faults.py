"""Faults that kopf by itself sits out for a minute and more, or for ever, while the API server is well."""

import asyncio
import datetime as dt
import time

import pytest
from kopf._cogs.structs import credentials as kopf_credentials

from schedcache.testing import Answer, Reset
from tests.kube.worlds import PATHS, open_world

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

HEALED_SECONDS = 20.0


@pytest.fixture
async def world(cluster, proxy):
    """With sweeps as rare as they are in earnest."""
    async with open_world("kopf", cluster, proxy, settings={"sweep_interval_seconds": 60.0}) as opened:
        yield opened


async def test_the_wall_clock_ends_no_session(world, monkeypatch):
    """kopf would take its credentials for expired, close all its streams, and go on with new connections if there are any to be had:
    where the clock is wrong, the server's certificate is not valid either."""

    class Ahead(dt.datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + dt.timedelta(days=40)

    await world.synced()
    pods, nodes = await world.watching()
    monkeypatch.setattr(kopf_credentials.datetime, "datetime", Ahead)
    nodes.cut()
    await world.until(lambda: world.watches("Node") not in ([], [nodes]))
    await asyncio.sleep(0.5)
    assert world.watches("Pod") == [pods]
    await world.cluster.make_pods(2)
    await world.agrees(5)


async def refuse_for_a_while(world, fault, seconds, **which):
    """The watches end, and neither they nor lists get anything but the fault."""
    rule = world.proxy.add(fault, method="GET", **which)
    for watch in list(world.proxy.watches):
        watch.cut()
    await rule.wait()
    await asyncio.sleep(seconds)
    rule.remove()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Answer(429, retry_after=600), id="asked to come back in ten minutes"),
        pytest.param(Answer(404), id="not found"),
        pytest.param(Answer(401), id="unauthorized"),
        pytest.param(Answer(403), id="forbidden"),
        pytest.param(Answer(418), id="a teapot"),
        pytest.param(Answer(200, body=b"<html>"), id="a page"),
        pytest.param(Reset(), id="reset"),
    ],
)
async def test_odd_refusals_are_over_when_they_are_over(world, fault):
    await world.synced()
    await world.watching()
    await refuse_for_a_while(world, fault, 12.0, watch=True)
    over = time.monotonic()
    await world.cluster.make_nodes(1)
    await world.cluster.make_pods(3)
    limit = 45.0 if isinstance(fault, Answer) and fault.status == 429 else HEALED_SECONDS
    await world.agrees(limit)
    await world.until(lambda: world.source.outages() == {}, limit + over - time.monotonic())
    assert all(world.watches(kind) for kind in PATHS)


async def test_pods_are_seen_while_kopf_has_no_watch(world):
    """The API server answers everything but kopf's watches."""
    await world.synced()
    await world.watching()
    world.proxy.add(Answer(403), watch=True)
    for watch in list(world.proxy.watches):
        watch.cut()
    await world.until(lambda: len(world.source.outages()) == 2)
    await world.cluster.make_pods(3)
    await world.agrees(12)
    # Starting kopf anew is tried, too, and as it does not help, not without a pause.
    await world.until(lambda: world.source.stats.source_restarts["blind"] >= 1, 25)
    world.proxy.clear()
    await world.until(lambda: world.source.outages() == {}, HEALED_SECONDS)


async def test_what_kopf_misses_right_after_its_start_is_found_in_seconds(world):
    """Its watches are open, and bring nothing; the next regular sweep would come a minute later."""
    await world.synced()
    for watch in await world.watching():
        watch.hold()
    await world.cluster.make_pods(3)
    await world.agrees(12)
