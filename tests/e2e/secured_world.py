"""A cluster with a scheduler that is asked over HTTPS, and people who may ask it, and who may not."""

import asyncio
import contextlib
from pathlib import Path

import aiohttp

from schedcache.app.running import served
from schedcache.testing import read_manifest, wait_until
from tests.e2e.in_process import scheduler
from tests.server.pki import trusting

DEPLOY = Path(__file__).parents[2] / "deploy"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER = "system:serviceaccount:kube-system:schedcache"
"""Whom the scheduler is to the API server."""


class World:
    """A cluster whose API server knows client certificates and front proxies, with a reader and a stranger in it."""

    def __init__(self, control_plane, cluster, clients, proxies):
        self.control_plane = control_plane
        self.cluster = cluster
        self.clients = clients
        self.proxies = proxies

    async def fill(self):
        for file in sorted((DEPLOY / "scheduler").glob("*.yaml")):
            await self.cluster.apply_manifest(item for item in read_manifest(file) if item["kind"] != "Deployment")
        for name in ("reader", "stranger"):
            path = "/api/v1/namespaces/default/serviceaccounts"
            await self.cluster.create(path, {"metadata": {"name": name}})
        subjects = [
            {"kind": "ServiceAccount", "name": "reader", "namespace": "default"},
            {"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"},
            {"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"},
        ]
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "schedcache-dump-reader"}
        binding = {"metadata": {"name": "readers"}, "roleRef": role, "subjects": subjects}
        await self.cluster.create(f"{RBAC}/clusterrolebindings", binding)
        self.own = await self.cluster.service_account_token("kube-system", "schedcache")

    async def token(self, name, **spec):
        path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
        answer = await self.cluster.create(path, {"spec": {"expirationSeconds": 3600, **spec}})
        return answer["status"]["token"]

    @contextlib.asynccontextmanager
    async def secured(self, kubeconfig=None, **settings):
        """A scheduler with the HTTPS port, and how to ask it."""
        kubeconfig = kubeconfig or self.control_plane.kubeconfig_for(self.own, user="schedcache")
        complete = {"secure_port": 0, "bind_address": "127.0.0.1", "validate": False, **settings}
        async with scheduler(kubeconfig, **complete) as program, served(program) as ports:
            yield Asking(ports.secure_port, program)


class Asking:
    def __init__(self, port, program):
        self.port = port
        self.program = program

    async def ask(self, path="/dump", token=None, *, client=None, authority=None, headers=None):
        """(status, body)."""
        connector = aiohttp.TCPConnector(ssl=trusting(authority, client))
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        async with (
            asyncio.timeout(10),
            aiohttp.ClientSession(f"https://127.0.0.1:{self.port}", connector=connector) as session,
            session.get(path, headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    async def knows_certificates(self, clients):
        """The ConfigMap is read in the background; until then the port asks nobody for a certificate."""

        async def known():
            return await self.status(client=clients.client("somebody")) == 403

        await wait_until(known, 10)

    async def status(self, *arguments, **more):
        return (await self.ask(*arguments, **more))[0]
