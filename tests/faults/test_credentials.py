"""Rights that are taken away, tokens that are refused, a certificate authority that is another one."""

import asyncio
from pathlib import Path

import pytest
import yaml

from tests.faults.leases import NAMESPACE

ROLE = Path(__file__).parents[2] / "deploy" / "scheduler" / "rbac.yaml"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
fault = pytest.mark.fault


async def with_the_shipped_role(world):
    """A kubeconfig with the token in a file of its own, as in a pod."""
    await world.cluster.apply_manifest(ROLE)
    token = world.folder / "token"
    token.write_text(await world.cluster.service_account_token(NAMESPACE, "schedcache"))
    made = world.proxy.kubeconfig_for("replaced")
    content = yaml.safe_load(made.read_text())
    content["users"][0]["user"] = {"tokenFile": str(token)}
    made.write_text(yaml.safe_dump(content))
    return made, token


@fault("rights-withdrawn")
@pytest.mark.servers
async def test_a_role_that_is_taken_away_and_given_back(world):
    kubeconfig, _ = await with_the_shipped_role(world)
    await world.nodes(3, cpu="8")
    await world.start(kubeconfig=kubeconfig)
    await world.pods(20)
    await world.bound(20)
    (role,) = [item for item in await world.cluster.list_all(BINDINGS) if item["metadata"]["name"] == "schedcache"]
    async with world.fault():
        await world.cluster.delete(f"{BINDINGS}/schedcache")
        # An API server checks rights when a watch begins.
        await asyncio.sleep(0.5)
        world.proxy.cut_watches()
        await world.pods(30)
        await asyncio.sleep(30)
        world.calm()
        metadata = {"name": "schedcache", "labels": role["metadata"].get("labels")}
        again = {key: role[key] for key in ("apiVersion", "kind", "roleRef", "subjects") if key in role}
        await world.cluster.create(BINDINGS, {**again, "metadata": metadata})
    world.unready(16, "no connection for", "forbidden")
    await world.healed()


@fault("rights-withdrawn")
@pytest.mark.servers
async def test_a_token_that_is_refused_until_there_is_another(world):
    kubeconfig, token = await with_the_shipped_role(world)
    await world.nodes(3, cpu="8")
    await world.start(kubeconfig=kubeconfig)
    await world.pods(20)
    await world.bound(20)
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    async with world.fault():
        await world.cluster.delete(f"{account}/schedcache")
        # The API server remembers for ten seconds that the token was good.
        await asyncio.sleep(11)
        await world.pods(20)
        await asyncio.sleep(20)
        world.calm()
        await world.cluster.create(account, {"metadata": {"name": "schedcache"}})
        fresh = token.with_suffix(".new")
        fresh.write_text(await world.cluster.service_account_token(NAMESPACE, "schedcache"))
        fresh.replace(token)
    world.unready(13, "credentials", "401")
    await world.healed()


@fault("authority-rotated")
@pytest.mark.servers
@pytest.mark.parametrize("late", [0, 25], ids=["with the file", "the file comes late"])
async def test_another_certificate_authority(world, late):
    """Straight to the API server: the proxy would go on serving with the old certificate."""
    servers = world.servers
    kubeconfig = world.folder / "kubeconfig"
    content = yaml.safe_load(servers.kubeconfig.read_text())
    ours = world.folder / "ca.crt"
    ours.write_bytes(servers.ca_file.read_bytes())
    content["clusters"][0]["cluster"] = {"server": servers.server, "certificate-authority": str(ours)}
    kubeconfig.write_text(yaml.safe_dump(content))
    await world.nodes(3, cpu="8")
    await world.start(kubeconfig=kubeconfig)
    await world.pods(20)
    await world.bound(20)
    async with world.fault():
        await asyncio.to_thread(servers.stop_api_server)
        await asyncio.to_thread(servers.rotate_authority)
        await asyncio.to_thread(servers.start_api_server)
        await world.reconnect()
        await world.pods(50)
        await asyncio.sleep(late)
        fresh = ours.with_suffix(".new")
        fresh.write_bytes(servers.ca_file.read_bytes())
        fresh.replace(ours)
    if late:
        world.unready(16)
    else:
        world.checked.add("I8")
    await world.healed(killed_server=True)
