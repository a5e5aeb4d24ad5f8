"""Event sources on a real API server behind a fault proxy."""

from collections.abc import AsyncIterator

import pytest

from schedcache.testing import Cluster, ControlPlane, FaultProxy
from tests.kube.worlds import World, open_world


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(control_plane) as fault_proxy:
        yield fault_proxy


@pytest.fixture(params=["reflector", "kopf"])
async def world(request: pytest.FixtureRequest, cluster: Cluster, proxy: FaultProxy) -> AsyncIterator[World]:
    """A source of either kind, not started yet."""
    async with open_world(request.param, cluster, proxy) as opened:
        yield opened
