import asyncio
import contextlib
import json
import socket
import ssl
import time

import aiohttp
import aiohttp.web
import kubernetes
import pytest

from schedcache.testing import (
    Answer,
    ApiClient,
    ApiStatusError,
    Cut,
    Delay,
    FaultProxy,
    Hang,
    Hold,
    Inject,
    LoseResponse,
    Reset,
    Rewrite,
    error_event,
    pod_manifest,
    wait_until,
)
from schedcache.testing.faults import split_frames

pytestmark = pytest.mark.controlplane

PODS = "/api/v1/pods"
DEFAULT_PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def proxy(cluster):
    async with FaultProxy(cluster.control_plane) as proxy:
        yield proxy


@pytest.fixture
async def through(proxy, cluster):
    servers = cluster.control_plane
    async with ApiClient(proxy.url, servers.ca_file, servers.admin_token, "through-proxy") as client:
        yield client


class Watch:
    """Lines of a watch of pods as they come, in a task of its own."""

    def __init__(self, client, accept="application/json"):
        self.headers = {"Accept": accept}
        self.lines = []
        self.client = client
        self.error = None

    async def __aenter__(self):
        self.task = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def read(self):
        session = self.client._open_session
        try:
            endless = aiohttp.ClientTimeout(total=None)
            async with session.get(PODS, params={"watch": "1"}, headers=self.headers, timeout=endless) as response:
                assert response.status == 200
                async for line in response.content:
                    self.lines.append(line)
        except aiohttp.ClientError as error:
            self.error = error

    @property
    def names(self):
        return [json.loads(line)["object"]["metadata"]["name"] for line in self.lines]

    async def got(self, count):
        await wait_until(lambda: self.has(count), timeout=5, interval=0.01)

    async def has(self, count):
        return len(self.lines) >= count

    async def ended(self):
        await asyncio.wait_for(asyncio.shield(self.task), 5)


async def open_watch(proxy):
    async def is_open():
        return bool(proxy.watches)

    await wait_until(is_open, timeout=5, interval=0.01)
    return proxy.watches[0]


async def requests_seen(cluster, **fields):
    await cluster.audit.settled(cluster)
    return cluster.audit.events(user_agent="through-proxy", **fields)


async def test_everything_passes(proxy, through, cluster):
    await cluster.make_nodes(1)
    pod = await through.create(DEFAULT_PODS, pods_like(1)[0])
    await through.create(f"{DEFAULT_PODS}/pod-0/binding", binding(pod))
    await through.patch(f"{DEFAULT_PODS}/pod-0", {"metadata": {"labels": {"a": "b"}}})
    [stored] = await through.list_all(PODS, labelSelector="a in (b, c)", fieldSelector="spec.nodeName!=")
    assert (stored["metadata"]["uid"], stored["spec"]["nodeName"]) == (pod["metadata"]["uid"], "node-0")
    with pytest.raises(ApiStatusError) as missing:
        await through.get(f"{DEFAULT_PODS}/other")
    assert (missing.value.status, missing.value.reason) == (404, "NotFound")
    await through.delete(f"{DEFAULT_PODS}/pod-0", grace_seconds=0)
    assert await cluster.list_pods() == []


def pods_like(count):
    return [pod_manifest(f"pod-{number}", scheduler_name="x") for number in range(count)]


def binding(pod, node="node-0"):
    return {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}}


async def test_a_large_compressed_list_passes(proxy, through, cluster):
    await cluster.make_pods(300)
    assert len(await through.list_all(PODS)) == 300


async def test_the_official_client_works_with_its_kubeconfig(proxy, cluster):
    await cluster.make_pods(2)

    def names():
        with kubernetes.config.new_client_from_config(str(proxy.kubeconfig)) as client:
            return [
                pod.metadata.name for pod in kubernetes.client.CoreV1Api(client).list_namespaced_pod("default").items
            ]

    assert sorted(await asyncio.to_thread(names)) == ["pod-0", "pod-1"]


async def test_a_kubeconfig_of_another_identity(proxy, cluster):
    path = proxy.kubeconfig_for("made-up")
    assert proxy.url in path.read_text()
    servers = cluster.control_plane
    async with ApiClient(proxy.url, servers.ca_file, "made-up") as stranger:
        with pytest.raises(ApiStatusError, match="401 Unauthorized"):
            await stranger.get(PODS)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "NotFound"), (409, "Conflict"), (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")],
)
async def test_an_answer_in_the_servers_place(proxy, through, cluster, status, reason):
    rule = proxy.add(Answer(status, "not today"), method="POST", path=r"/pods$", times=2)
    [manifest] = pods_like(1)
    for _ in range(2):
        with pytest.raises(ApiStatusError, match="not today") as refused:
            await through.create(DEFAULT_PODS, manifest)
        assert (refused.value.status, refused.value.reason) == (status, reason)
    assert await requests_seen(cluster, verb="create") == []
    await through.create(DEFAULT_PODS, manifest)  # the third is not the rule's
    assert rule.hits == 2


async def test_retry_after_and_a_body_of_ones_own(proxy, through):
    proxy.add(Answer(429, retry_after=7), path="/healthz")
    proxy.add(Answer(200, body=b"<html>"), path="/version")
    async with through._open_session.get("/healthz") as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert await through.request("GET", "/version") == "<html>"


async def test_rules_choose_by_condition_and_are_removed(proxy, through):
    rule = proxy.add(Answer(503), where=lambda request: request.query.get("labelSelector") == "a=b")
    await through.list_all(PODS)
    with pytest.raises(ApiStatusError, match="503"):
        await through.list_all(PODS, labelSelector="a=b")
    rule.remove()
    await through.list_all(PODS, labelSelector="a=b")
    proxy.add(Answer(503))
    proxy.clear()
    await through.list_all(PODS)


async def test_a_reset_before_the_server_saw_it(proxy, through, cluster):
    proxy.add(Reset(), method="POST", times=1)
    with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
        await through.create(DEFAULT_PODS, pods_like(1)[0])
    assert await requests_seen(cluster, verb="create") == []


async def test_a_reset_is_a_reset_and_not_a_close(proxy):
    proxy.add(Reset())
    with pytest.raises(ConnectionResetError):
        await raw_get(proxy)


async def test_a_client_that_has_hung_up_is_no_error_of_the_proxy(proxy, through, caplog, monkeypatch):
    """Its end may be seen just when the watch is to be ended properly."""

    async def gone(_response, _data=b""):
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(aiohttp.web.StreamResponse, "write_eof", gone)
    asking = asyncio.create_task(raw_watch(proxy))

    async def watching():
        return bool(proxy.watches)

    await wait_until(watching, 5, 0.01)
    proxy.watches[0].cut()
    await asyncio.wait([asking], timeout=2)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def raw_watch(proxy):
    headers = {"Authorization": f"Bearer {proxy._control_plane.admin_token}"}
    context = ssl.create_default_context(cafile=str(proxy._control_plane.ca_file))
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{proxy.url}{PODS}?watch=true", headers=headers, ssl=context) as answer,
    ):
        await answer.read()


async def raw_get(proxy):
    """Without a library that smoothes things over: over TLS, read to the end."""
    context = ssl.create_default_context(cafile=str(proxy._control_plane.ca_file))
    host, port = proxy.url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()


async def test_a_lost_response_was_a_success(proxy, through, cluster):
    await cluster.make_nodes(1)
    [pod] = await cluster.make_pods(1)
    rule = proxy.add(LoseResponse(), path=r"/binding$")
    with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
        await through.create(f"{DEFAULT_PODS}/pod-0/binding", binding(pod))
    await rule.wait()
    [stored] = await cluster.list_pods()
    assert stored["spec"]["nodeName"] == "node-0"
    assert [event.status for event in await requests_seen(cluster, subresource="binding")] == [201]


async def test_a_response_lost_in_silence(proxy, through, cluster):
    proxy.add(LoseResponse(silent=True), method="POST")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(through.create(DEFAULT_PODS, pods_like(1)[0]), 0.5)
    assert len(await cluster.list_pods()) == 1


async def test_a_request_that_hangs_never_arrives(proxy, through, cluster):
    proxy.add(Hang(), method="POST")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(through.create(DEFAULT_PODS, pods_like(1)[0]), 0.3)
    assert await cluster.list_pods() == []


async def test_a_slow_request_arrives_though_the_client_gave_up(proxy, through, cluster):
    proxy.add(Delay(0.4), method="POST")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(through.create(DEFAULT_PODS, pods_like(1)[0]), 0.1)
    assert await cluster.list_pods() == []

    async def arrived():
        return len(await cluster.list_pods()) == 1

    await wait_until(arrived, timeout=5)


async def test_a_slow_response(proxy, through, cluster):
    proxy.add(Delay(0.4, response=True), method="POST")
    begun = time.monotonic()
    creation = asyncio.create_task(through.create(DEFAULT_PODS, pods_like(1)[0]))

    async def arrived():
        return len(await cluster.list_pods()) == 1

    await wait_until(arrived, timeout=5)
    assert not creation.done()
    await creation
    assert time.monotonic() - begun >= 0.4


async def test_delay_and_answer_add_up(proxy, through):
    proxy.add(Delay(0.2))
    proxy.add(Answer(500))
    begun = time.monotonic()
    with pytest.raises(ApiStatusError, match="500"):
        await through.list_all(PODS)
    assert time.monotonic() - begun >= 0.2


async def test_without_a_server_connections_are_reset(proxy, through, cluster):
    cluster.control_plane.stop_api_server()
    try:
        with pytest.raises((aiohttp.ClientOSError, aiohttp.ServerDisconnectedError)):
            await through.list_all(PODS)
        async with Watch(through) as watch:
            await watch.ended()
            assert watch.error is not None
    finally:
        await asyncio.to_thread(cluster.control_plane.start_api_server)
    await through.list_all(PODS)


async def test_a_watch_is_passed_event_by_event(proxy, through, cluster):
    async with Watch(through) as watch:
        stream = await open_watch(proxy)
        for number in range(3):
            await cluster.make_pods(1, name=f"pod-{number}")
            await watch.got(number + 1)
        assert watch.names == ["pod-0", "pod-1", "pod-2"]
        assert (stream.events, stream.bytes) == (3, sum(map(len, watch.lines)))
        assert stream.request.path == PODS


async def test_a_watch_with_initial_events_is_passed_event_by_event(proxy, through, cluster):
    await cluster.make_pods(40)
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    proxy.add(Cut(after_events=41))
    events = [kind async for kind, _ in through.watch(PODS, "", **initial)]
    assert events == ["ADDED"] * 40 + ["BOOKMARK"]


async def test_a_client_that_hangs_up_ends_the_watch_at_the_server(proxy, through, cluster):
    async with Watch(through):
        await open_watch(proxy)

    async def has_ended():
        return bool(await requests_seen(cluster, verb="watch", stage="ResponseComplete"))

    await wait_until(has_ended, timeout=5)
    assert proxy.watches == []


async def test_a_watch_ends_after_events(proxy, through, cluster):
    proxy.add(Cut(after_events=2), path=f"^{PODS}$", times=1)
    async with Watch(through) as watch:
        await open_watch(proxy)
        await cluster.make_pods(3)
        await watch.ended()
        assert len(watch.lines) == 2
        assert watch.error is None
    async with Watch(through) as second:
        await second.got(3)


async def test_a_watch_breaks_in_the_middle_of_an_event(proxy, through, cluster):
    proxy.add(Cut(after_bytes=100, reset=True))
    async with Watch(through) as watch:
        await open_watch(proxy)
        await cluster.make_pods(1)
        await watch.ended()
        assert watch.error is not None
        assert sum(map(len, watch.lines)) <= 100


async def test_a_cut_after_bytes_passes_exactly_those(proxy, through, cluster):
    proxy.add(Cut(after_bytes=100))
    async with Watch(through) as watch:
        await open_watch(proxy)
        await cluster.make_pods(1)
        await watch.ended()
        [beginning] = watch.lines
        assert len(beginning) == 100
        assert beginning.startswith(b'{"type":"ADDED"')


async def test_a_watch_that_ends_before_it_began(proxy, through, cluster):
    proxy.add(Cut(after_events=0))
    await cluster.make_pods(1)
    async with Watch(through) as watch:
        await watch.ended()
        assert watch.lines == []


async def test_an_open_watch_is_cut_now(proxy, through):
    for reset in (False, True):
        async with Watch(through) as watch:
            (await open_watch(proxy)).cut(reset=reset)
            await watch.ended()
            assert (watch.error is not None) is reset


async def test_expired_comes_in_the_stream(proxy, through, cluster):
    proxy.add(Inject(error_event(410, "too old"), after_events=1), watch=True)
    async with Watch(through) as watch:
        await open_watch(proxy)
        await cluster.make_pods(2)
        await watch.got(3)
        kinds = [json.loads(line)["type"] for line in watch.lines]
        assert kinds == ["ADDED", "ERROR", "ADDED"]
        status = json.loads(watch.lines[1])["object"]
        assert (status["code"], status["reason"], status["kind"]) == (410, "Expired", "Status")


async def test_a_line_that_is_no_json_comes_at_the_beginning_and_later(proxy, through, cluster):
    proxy.add(Inject(b'{"type": "ADDED", "object'))
    async with Watch(through) as watch:
        stream = await open_watch(proxy)
        await watch.got(1)
        await stream.inject(b"now")
        await watch.got(2)
        assert watch.lines == [b'{"type": "ADDED", "object\n', b"now\n"]


async def test_a_watch_is_held_and_released(proxy, through, cluster):
    proxy.add(Hold(after_events=1))
    async with Watch(through) as watch:
        stream = await open_watch(proxy)
        await cluster.make_pods(3)
        await watch.got(1)
        await asyncio.sleep(0.2)
        assert len(watch.lines) == 1
        assert not watch.task.done()
        stream.release()
        await watch.got(3)
        stream.hold()
        await cluster.make_pods(1, name="late-{}")
        await asyncio.sleep(0.2)
        assert len(watch.lines) == 3
        proxy.clear()
        await watch.got(4)


async def test_a_held_watch_can_be_cut(proxy, through, cluster):
    async with Watch(through) as watch:
        stream = await open_watch(proxy)
        stream.hold()
        await cluster.make_pods(2)
        await asyncio.sleep(0.1)
        stream.cut()
        await watch.ended()
        assert watch.lines == []


async def test_events_are_dropped_and_repeated(proxy, through, cluster):
    def change(line):
        if b'"name":"pod-0"' in line:
            return []
        return [line, line]

    proxy.add(Rewrite(change))
    async with Watch(through) as watch:
        await open_watch(proxy)
        await cluster.make_pods(1, name="pod-0")
        await cluster.make_pods(1, name="pod-1")
        await watch.got(2)
        assert watch.names == ["pod-1", "pod-1"]


async def test_faults_before_a_watch_begins(proxy, through, cluster):
    proxy.add(Answer(410), watch=True, times=1)
    proxy.add(Delay(0.3), watch=True, times=1)
    with pytest.raises(ApiStatusError, match="410 Expired"):
        async for _ in through.watch(PODS, "0"):
            pass
    begun = time.monotonic()
    await cluster.make_pods(1)
    async with Watch(through) as watch:
        await watch.got(1)
    assert time.monotonic() - begun >= 0.3
    # The API server's own refusal passes, too.
    with pytest.raises(ApiStatusError, match="400"):
        async for _ in through.watch(PODS, "0", fieldSelector="no.such.field=1"):
            pass


async def test_a_proxy_that_closes_ends_what_is_open(cluster):
    servers = cluster.control_plane
    async with contextlib.AsyncExitStack() as open_proxy:
        proxy = await open_proxy.enter_async_context(FaultProxy(servers))
        proxy.add(Hang(), method="POST")
        async with ApiClient(proxy.url, servers.ca_file, servers.admin_token) as client, Watch(client) as watch:
            hanging = asyncio.create_task(client.create(DEFAULT_PODS, pods_like(1)[0]))
            await open_watch(proxy)
            begun = time.monotonic()
            await open_proxy.aclose()
            assert time.monotonic() - begun < 2
            await watch.ended()
            with pytest.raises(aiohttp.ClientError):
                await asyncio.wait_for(hanging, 5)


async def test_protobuf_watches_pass_and_are_json_where_lines_are_changed(proxy, through, cluster):
    protobuf = "application/vnd.kubernetes.protobuf, */*"
    await cluster.make_pods(2)
    async with Watch(through, protobuf) as watch:
        stream = await open_watch(proxy)
        await watch.got(2)
        assert b"".join(watch.lines)[4:].startswith(b"\n\x05ADDED")
        with pytest.raises(ValueError, match="only be injected into JSON watches"):
            await stream.inject(b"{}")
    proxy.add(Inject(b"{}"))
    async with Watch(through, protobuf) as watch:
        await watch.got(3)
        assert watch.lines[0] == b"{}\n"
        assert [json.loads(line)["type"] for line in watch.lines[1:]] == ["ADDED", "ADDED"]


def test_protobuf_watches_are_cut_between_frames():
    frames = [len(body).to_bytes(4, "big") + body for body in (b"first", b"", b"x" * 300)]
    data, seen, rest = b"".join(frames), [], b""
    for position in range(0, len(data), 7):
        whole, rest = split_frames(rest + data[position : position + 7])
        seen += whole
    assert (seen, rest) == (frames, b"")


async def test_a_client_that_no_longer_answers_does_not_keep_the_proxy_open(cluster):
    servers = cluster.control_plane

    def open_and_freeze(url):
        host, port = url.removeprefix("https://").split(":")
        context = ssl.create_default_context(cafile=str(servers.ca_file))
        client = context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host)
        client.sendall(
            f"GET {PODS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {servers.admin_token}\r\n\r\n".encode()
        )
        return client

    async with FaultProxy(servers) as proxy:
        with await asyncio.to_thread(open_and_freeze, proxy.url):
            await open_watch(proxy)
            connections = [one.get_extra_info("socket") for one in proxy._connections]
            begun = time.monotonic()
            await proxy.__aexit__(None, None, None)
            assert time.monotonic() - begun < 2
            assert [one.fileno() for one in connections] == [-1]
