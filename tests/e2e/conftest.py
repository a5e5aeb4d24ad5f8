"""Schedulers with the rights that the chart gives them and no others; an API server that knows client certificates and front proxies."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from schedcache.testing import Cluster, ControlPlane, FaultProxy
from schedcache.testing.api_client import ApiClient
from tests.e2e.secured_world import World
from tests.e2e.shipped_rights import granted, make_account, user_of
from tests.server.pki import Authority

ACCOUNT = "scheduler-of-the-tests"


async def token_with_shipped_rights(servers: ControlPlane) -> str:
    async with ApiClient(servers.server, servers.ca_file, servers.admin_token) as admin:
        return await make_account(admin, ACCOUNT)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Its kubeconfig, which tests give to schedulers, is that of an account with the shipped rights."""
    with ControlPlane() as servers:
        token = asyncio.run(token_with_shipped_rights(servers))
        servers.kubeconfig = servers.kubeconfig_for(token, user=ACCOUNT)
        with pytest.MonkeyPatch.context() as patch:
            enter = FaultProxy.__aenter__

            async def enter_with_shipped_rights(proxy: FaultProxy) -> FaultProxy:
                await enter(proxy)
                # The fixture lasts for the whole run, in which other tests have servers of their own.
                if proxy._control_plane is servers:
                    proxy.kubeconfig = proxy.kubeconfig_for(token)
                return proxy

            patch.setattr(FaultProxy, "__aenter__", enter_with_shipped_rights)
            yield servers


@pytest.fixture
async def cluster(cluster: Cluster) -> AsyncIterator[Cluster]:
    """As everywhere, but a right that a scheduler lacked fails the test, whatever came of it."""
    yield cluster
    refused = {
        (event.group, f"{event.resource}/{event.subresource}".rstrip("/"), event.verb)
        for event in cluster.audit.refused(user_of(ACCOUNT))
        # Paths such as /version, and questions about one's own rights, are open to every account, once an API server that has just
        # started knows that.
        if event.status == 403 and event.resource not in ("", "selfsubjectaccessreviews")
    }
    assert refused <= granted(), f"not among the shipped rights: {refused - granted()}"


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
