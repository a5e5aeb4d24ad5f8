"""An API server that can only be reached through a proxy, named by the kubeconfig or by the environment."""

import asyncio
import contextlib
from functools import partial

import pytest
import yaml

from schedcache.testing import wait_until
from tests.e2e.scheduler_process import SchedulerProcess

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]

NAME = "kubernetes.default.svc"
"""In the API server's certificate, and unknown to any resolver here."""


class Way:
    """An HTTP proxy that opens ways to the API server, under whatever name it is asked for."""

    def __init__(self, server):
        self._port = int(server.rpartition(":")[2])
        self.opened = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = request.split(" ", 2)
        assert method == "CONNECT"
        self.opened.append(target)
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))

    async def _pass(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()


async def written(cluster):
    return bool(await cluster.list_all("/apis/events.k8s.io/v1/events"))


@pytest.mark.parametrize("where", ["kubeconfig", "environment"])
@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_every_connection_goes_through_the_proxy(cluster, tmp_path, monkeypatch, source, where):
    async with Way(cluster.server) as way:
        content = yaml.safe_load(cluster.kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://{NAME}"
        if where == "kubeconfig":
            content["clusters"][0]["cluster"]["proxy-url"] = way.url
            monkeypatch.setenv("NO_PROXY", "*")
        else:
            monkeypatch.setenv("HTTPS_PROXY", way.url)
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(content))
        await cluster.make_nodes(2)
        await cluster.make_pods(3)
        async with SchedulerProcess(kubeconfig, tmp_path / "log", f"--event-source={source}") as scheduler:
            await scheduler.ready()
            await cluster.wait_until_bound(3)
            # A binding is answered before its event is written.
            await wait_until(partial(written, cluster), 10)
            await scheduler.stop()
        assert set(way.opened) == {f"{NAME}:443"}
