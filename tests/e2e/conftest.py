"""An API server that knows client certificates and front proxies, for the tests of the HTTPS port."""

import pytest

from schedcache.testing import Cluster, ControlPlane
from tests.e2e.secured_world import World
from tests.server.pki import Authority


@pytest.fixture(scope="session")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authorities")
    return Authority(folder, "clients"), Authority(folder, "proxies")


@pytest.fixture(scope="session")
def knowing_control_plane(authorities):
    clients, proxies = authorities
    arguments = [
        f"--client-ca-file={clients.file}",
        f"--requestheader-client-ca-file={proxies.file}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        # It uses this certificate to look up what it would look up by itself otherwise.
        "--authentication-token-webhook-cache-ttl=0s",
    ]
    with ControlPlane(api_server_arguments=arguments) as control_plane:
        yield control_plane


@pytest.fixture
async def world(knowing_control_plane, authorities):
    async with Cluster(knowing_control_plane) as cluster:
        await cluster.clean()
        world = World(knowing_control_plane, cluster, *authorities)
        await world.fill()
        yield world
