"""`schedcache dump` in a cluster: it finds the scheduler and goes there by itself, through the real API server and a kubelet."""

import asyncio
import base64
import contextlib
import ssl
import struct
import sys

import aiohttp
import pytest
import yaml
from aiohttp import web

from schedcache.dump import load_dump
from schedcache.server.secure_settings import AccessSettings
from schedcache.testing import ApiStatusError
from tests.e2e.secured_world import World
from tests.packaging import pages
from tests.server.pki import Authority

pytestmark = pytest.mark.controlplane

LABELS = {"app.kubernetes.io/name": "schedcache"}
REFUSED = "connection refused"


class Kubelet:
    """As much of one as forwards ports: the port of a pod is one of this machine, by `ports`; others are refused."""

    def __init__(self, folder):
        files = Authority(folder, "kubelet").server()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(files.certificate, files.key)
        self.ports = {}
        self.forwarded = []

    async def __aenter__(self):
        app = web.Application()
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        app.router.add_get("/portForward/{namespace}/{pod}/{uid}", self._forward)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *error):
        await self._runner.cleanup()

    async def _forward(self, request):
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",), max_msg_size=0)
        await socket.prepare(request)
        asked = int(request.query["port"])
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + struct.pack("<H", asked))
        self.forwarded.append((request.match_info["pod"], asked))
        there = self.ports.get((request.match_info["pod"], asked))
        if there is None:
            await socket.send_bytes(b"\x01" + REFUSED.encode())
            return socket
        reader, writer = await asyncio.open_connection("127.0.0.1", there)

        async def back():
            while data := await reader.read(65536):
                await socket.send_bytes(b"\x00" + data)
            await socket.close()

        sending = asyncio.create_task(back())
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY and message.data[0] == 0:
                writer.write(message.data[1:])
        sending.cancel()
        writer.close()
        return socket


@contextlib.asynccontextmanager
async def deployed(world: World, folder, *names, **settings):
    """Pods of these names, all of them the same scheduler; yields it and the kubelet of their node."""
    async with Kubelet(folder) as kubelet, world.secured(**settings) as asking:
        cluster = world.cluster
        node = {
            "metadata": {"name": "worker"},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await cluster.create_node(node)
        for name in names:
            container = {"name": "schedcache", "image": "x", "ports": [{"name": "https", "containerPort": 10259}]}
            spec = {"nodeName": "worker", "containers": [container], "schedulerName": "default-scheduler"}
            path = "/api/v1/namespaces/kube-system/pods"
            await cluster.create(path, {"metadata": {"name": name, "labels": LABELS}, "spec": spec})
            status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            await cluster.patch(f"{path}/{name}/status", status)
            kubelet.ports[name, 10259] = asking.port
        yield asking, kubelet


async def schedcache(*arguments, stdout=asyncio.subprocess.PIPE):
    """(status, output, errors) of the command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "schedcache", "dump", *map(str, arguments), stdout=stdout, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, errors = await process.communicate()
    return process.returncode, (out or b"").decode(), errors.decode()


def with_certificate(world, client):
    """A kubeconfig as kind and kubeadm write it: with a client certificate and no token."""
    path = world.control_plane.kubeconfig_for("none", user="certified")
    config = yaml.safe_load(path.read_text())
    (user,) = config["users"]
    user["user"] = {
        "client-certificate-data": base64.b64encode(client.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(client.key.read_bytes()).decode(),
    }
    path.write_text(yaml.safe_dump(config))
    return path


async def test_it_goes_there_with_the_credentials_of_the_kubeconfig(world, tmp_path):
    async with deployed(world, tmp_path, "schedcache-a", "schedcache-b") as (_, kubelet):
        held = {"spec": {"holderIdentity": "schedcache-b_17", "leaseDurationSeconds": 15}}
        await world.cluster.patch("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/schedcache", held)
        token = f"--kubeconfig={world.control_plane.kubeconfig}"
        status, out, errors = await schedcache(token, "-o", "json", f"--save={tmp_path / 'saved.json'}")
        assert (status, errors) == (0, "asking pod kube-system/schedcache-b (the leader)\n")
        assert set(load_dump(out).nodes) == {"worker"}
        assert (tmp_path / "saved.json").read_text() == out.rstrip("\n")
        # The admin of a kind cluster has no token at all.
        root = with_certificate(world, world.clients.client("root", "system:masters"))
        status, out, errors = await schedcache(f"--kubeconfig={root}", "kube-system/schedcache-a", "--pod=schedcache-a")
        assert status == 0, errors
        assert "asking pod kube-system/schedcache-a\n" in errors
        assert "bound" in out
        assert {pod for pod, _ in kubelet.forwarded} == {"schedcache-a", "schedcache-b"}


async def test_who_may_not_is_told_what_is_missing(world, tmp_path):
    # The role that the page gives is all that it takes to get there.
    (role,) = (yaml.safe_load(block.code) for block in pages.blocks("docs/security.md") if block.language == "yaml")
    async with deployed(world, tmp_path, "schedcache-a", "schedcache-b"):
        held = {"spec": {"holderIdentity": "schedcache-b_17", "leaseDurationSeconds": 15}}
        await world.cluster.patch("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/schedcache", held)
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{role['metadata']['namespace']}"
        await world.cluster.create(f"{rbac}/roles", role)
        subjects = [{"kind": "ServiceAccount", "name": "stranger", "namespace": "default"}]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
        binding = {"metadata": {"name": "forwarders"}, "roleRef": reference, "subjects": subjects}
        stranger = f"--kubeconfig={world.control_plane.kubeconfig_for(await world.token('stranger'))}"
        status, _, errors = await schedcache(stranger)
        assert status == 1
        assert "403" in errors
        await world.cluster.create(f"{rbac}/rolebindings", binding)
        status, _, errors = await schedcache(stranger)
        assert status == 1
        assert "asking pod kube-system/schedcache-b (the leader)" in errors
        assert 'cannot get path "/dump"' in errors
        assert "--clusterrole=schedcache-dump-reader" in errors


async def test_a_service_account_shows_the_scheduler_no_more_than_a_token_for_it(world, tmp_path):
    settings = {"access": AccessSettings(token_audiences=("schedcache",))}
    async with deployed(world, tmp_path, "schedcache-a", **settings):
        path = "/api/v1/namespaces/kube-system/serviceaccounts"
        await world.cluster.create(path, {"metadata": {"name": "dump-reader"}})
        binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/readers"
        found = await world.cluster.get(binding)
        found["subjects"].append({"kind": "ServiceAccount", "name": "dump-reader", "namespace": "kube-system"})
        await world.cluster.replace(binding, found)
        admin = f"--kubeconfig={world.control_plane.kubeconfig}"
        status, _, errors = await schedcache(admin)
        assert (status, "401" in errors) == (1, True)
        ways = ("--service-account=dump-reader", "--token-audience=schedcache")
        status, out, errors = await schedcache(admin, *ways, "worker")
        assert status == 0, errors
        assert "kube-system/schedcache-a" in out


async def test_what_is_not_there_is_told(world, tmp_path):
    admin = f"--kubeconfig={world.control_plane.kubeconfig}"
    status, _, errors = await schedcache(admin)
    assert status == 1
    assert "no pod is running in namespace kube-system with the labels app.kubernetes.io/name=schedcache" in errors
    async with deployed(world, tmp_path, "schedcache-a") as (_, kubelet):
        status, _, errors = await schedcache(admin, "--pod=other")
        assert status == 1
        assert "pod other is not among those that are running" in errors
        kubelet.ports.clear()
        status, _, errors = await schedcache(admin)
        assert status == 1
        assert REFUSED in errors
        with contextlib.suppress(ApiStatusError):
            await world.cluster.delete("/api/v1/nodes/worker")
        status, _, errors = await schedcache(admin)
        assert status == 1
        assert "to the port-forward" in errors
