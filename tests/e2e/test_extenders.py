"""Extenders beside a real API server: a bad one is told of in the pods that need it, and no other pod notices."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from schedcache.config import config_from_dict
from schedcache.testing import wait_until
from tests.e2e.in_process import requested, scheduler
from tests.kube.extender_server import TEN_MEGABYTES, Server, hang, http, reset

GPU = "example.com/gpu"
pytestmark = pytest.mark.controlplane


@asynccontextmanager
async def beside(cluster, server: Any, **extender: Any):
    """A scheduler with an extender at `server`, for pods that ask for a GPU; its program and the extender's URL."""
    listening = await asyncio.start_server(server, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    found = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "httpTimeout": "2s",
        "managedResources": [{"name": GPU, "ignoredByScheduler": True}],
        **extender,
    }
    configuration = config_from_dict({"profiles": [{"schedulerName": "schedcache"}], "extenders": [found]}).config
    async with listening, scheduler(cluster.kubeconfig, configuration=configuration) as program:
        yield program, url


async def condition(cluster, name: str) -> dict[str, str]:
    """The pod's PodScheduled, once it has one."""
    found: list[dict[str, str]] = []

    async def is_there() -> bool:
        pod = await cluster.get(f"/api/v1/namespaces/default/pods/{name}")
        found[:] = [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
        return bool(found)

    await wait_until(is_there)
    return found[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (hang, "filter: no answer within 2 s"),
        (reset, "filter: the connection ended: "),
        (http(b"oops", "500 Internal Server Error"), "/filter, code 500: oops"),
        (http(b"<html>"), "filter: the answer cannot be read: "),
        (TEN_MEGABYTES, "filter: the answer is longer than "),
        (
            http({"NodeNames": ["nowhere"]}),
            "claims a filtered node 'nowhere' which is not found in the input node list",
        ),
    ],
    ids=["hangs", "resets", "500", "garbage", "10 MB", "nowhere"],
)
async def test_a_bad_extender_is_told_of_and_pods_without_interest_in_it_are_scheduled_meanwhile(cluster, answer, said):
    await cluster.make_nodes(3)
    async with beside(cluster, Server(answer), nodeCacheCapable=True) as (program, url):
        await cluster.make_pods(2, name="gpu-{}", requests={GPU: 1})
        started = time.monotonic()
        await cluster.make_pods(50)
        await cluster.wait_until_bound(50)
        assert time.monotonic() - started < 2.0, "they did not wait for the time-out"
        for number in range(2):
            found = await condition(cluster, f"gpu-{number}")
            assert (found["status"], found["reason"]) == ("False", "SchedulerError")
            assert said in found["message"]
            assert url in found["message"]
        assert len(await cluster.list_pods(fieldSelector="spec.nodeName!=")) == 50
        assert len(program.scheduler.state.queue.in_flight()) <= 1


async def test_an_extender_that_comes_back_is_asked_again(cluster):
    await cluster.make_nodes(1)
    server = Server(http(b"", "503 Service Unavailable"))
    async with beside(cluster, server, nodeCacheCapable=True):
        await cluster.make_pods(1, name="gpu-{}", requests={GPU: 1})
        assert "code 503" in (await condition(cluster, "gpu-0"))["message"]
        server.answers = [http({"NodeNames": ["node-0"]})]
        await cluster.wait_until_bound(1)


async def test_extenders_are_sent_pods_and_nodes_as_the_api_server_has_them(cluster):
    await cluster.make_nodes(1, annotations={"where": "rack 7"})
    server = Server(http({"Nodes": {"items": [{"metadata": {"name": "node-0"}}]}}))
    async with beside(cluster, server):
        await cluster.make_pods(1, requests={GPU: 1}, annotations={"what": "for"}, hostname="h")
        await cluster.wait_until_bound(1)
    sent = server.requests[0][1]
    assert (sent["Pod"]["metadata"]["annotations"], sent["Pod"]["spec"]["hostname"]) == ({"what": "for"}, "h")
    [node] = sent["Nodes"]["items"]
    assert node["metadata"]["annotations"]["where"] == "rack 7"
    assert node["status"]["capacity"]["cpu"] == "4"
    assert "managedFields" not in json.dumps(sent)


@pytest.mark.parametrize("lost", [False, True], ids=["told", "its answer lost"])
async def test_an_extender_binds(cluster, lost):
    await cluster.make_nodes(1)
    binder = Binder(cluster, lost=lost)
    async with beside(cluster, binder, filterVerb="", bindVerb="bind") as (program, _):
        await cluster.make_pods(1, cpu="1", requests={GPU: 1})
        await cluster.wait_until_bound(1)
        assert binder.bound == ["pod-0"]

        async def at_rest() -> bool:
            return not program.scheduler.state.cache.assumed_pods and not program.scheduler.bindings

        await wait_until(at_rest)
        assert requested(program, "node-0") == 1000
        assert program.scheduler.state.queue.pending_counts() == {
            "active": 0,
            "backoff": 0,
            "unschedulable": 0,
            "gated": 0,
        }


class Binder(Server):
    """Binds what it is asked to; `lost`: and does not say so."""

    def __init__(self, cluster: Any, *, lost: bool) -> None:
        self._cluster = cluster
        self._lost = lost
        self.bound: list[str] = []
        super().__init__(self._bind)

    async def _bind(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = self.requests[-1][1]
        namespace, name = asked["PodNamespace"], asked["PodName"]
        pod = await self._cluster.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        assert pod["metadata"]["uid"] == asked["PodUID"]
        await self._cluster.bind(pod, asked["Node"])
        self.bound.append(name)
        if self._lost:
            writer.transport.abort()
        else:
            writer.write(http({}))
