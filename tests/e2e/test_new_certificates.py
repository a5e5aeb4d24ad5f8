"""The API server's certificate authority is replaced by another, as an administrator or a cluster's own rotation does it."""

import asyncio
import base64
import shutil

import pytest
import yaml

from schedcache.app.health import health_of
from schedcache.testing import Cluster, ControlPlane, wait_until
from schedcache.testing.certificates import make_certificates
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_dump_is_truth

pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def servers():
    with ControlPlane() as started:
        yield started


def write_kubeconfig(servers, path, *, inline):
    content = yaml.safe_load(servers.kubeconfig.read_text())
    cluster = content["clusters"][0]["cluster"]
    del cluster["certificate-authority-data"]
    if inline:
        cluster["certificate-authority-data"] = base64.b64encode(servers.ca_file.read_bytes()).decode()
    else:
        cluster["certificate-authority"] = str(servers.ca_file)
    path.write_text(yaml.safe_dump(content))


def replace_certificates(servers, folder):
    servers.stop_api_server()
    folder.mkdir()
    fresh, used = make_certificates(folder), servers.certificates
    for name in ("authority", "certificate", "key"):
        shutil.copyfile(getattr(fresh, name), getattr(used, name))
    servers.start_api_server()


@pytest.mark.parametrize("inline", [False, True], ids=["file", "inline"])
@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_a_new_authority_is_read_and_used_by_every_connection(servers, tmp_path, source, inline):
    """A file is read again; of a kubeconfig that holds the certificate only the refusal to connect tells that there is another."""
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(servers, kubeconfig, inline=inline)
    async with Cluster(servers) as cluster:
        await cluster.make_nodes(3)
        await cluster.make_pods(5, name="before-{}")
        async with scheduler(kubeconfig, event_source=source) as program:
            await cluster.wait_until_bound(5)
            await asyncio.to_thread(replace_certificates, servers, tmp_path / "fresh")
            await asyncio.sleep(1)
            write_kubeconfig(servers, kubeconfig, inline=inline)
            async with Cluster(servers) as again:
                await again.make_pods(10, name="after-{}")
                await again.wait_until_bound(15, timeout=30)
                health = health_of(program)

                async def ready():
                    return not any(health.ready().values())

                await wait_until(ready, 20)
                await assert_dump_is_truth(again, dump_of(program))
