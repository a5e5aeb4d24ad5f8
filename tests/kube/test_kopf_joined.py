"""KopfSource in an operator that is there already: its handlers, its loop, its namespaces, and what sweeps make up for."""

import asyncio
import contextlib
import logging
import threading

import kopf
import pytest
from structlog.testing import capture_logs

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.kopf.source import KopfSource
from schedcache.kube.settings import KopfSettings
from schedcache.testing import Answer, wait_until
from tests.kube.worlds import PATHS, UNFINISHED, RecordingSink

pytestmark = pytest.mark.controlplane

OFTEN = KopfSettings(sweep_interval_seconds=0.5, sweep_grace_seconds=0.3)
RARELY = KopfSettings(sweep_interval_seconds=600.0, sweep_grace_seconds=0.3)


@pytest.fixture(autouse=True)
def _kopfs_kubeconfig(proxy, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig))


class Host:
    """An operator with a pod handler of its own, which a source joins at its start; in a thread, as kopf ends all tasks of its loop."""

    def __init__(self, kubeconfig, *, settings=OFTEN, **scope) -> None:
        self.sink = RecordingSink()
        self.own: list[str] = []
        self.source: KopfSource | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self._kubeconfig = kubeconfig
        self._settings = settings
        self._scope = scope or {"clusterwide": True}
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="host")

    def registry(self) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        def login(settings, **_):
            return kopf.login_with_kubeconfig(settings=settings)

        @kopf.on.startup(registry=registry)
        async def start(settings, **_):
            settings.posting.enabled = False
            settings.scanning.disabled = True
            self.transport = await Transport(load_credentials(self._kubeconfig)).__aenter__()
            self.source = KopfSource(self.transport, self.sink, settings=self._settings, registry=registry)
            self.tasks.append(asyncio.create_task(self.source.run()))

        @kopf.on.cleanup(registry=registry)
        async def stop(**_):
            for task in self.tasks:
                task.cancel()
            await asyncio.wait(self.tasks)
            await self.transport.__aexit__(None, None, None)

        @kopf.on.event("", "v1", "pods", registry=registry)
        def own(name, **_):
            self.own.append(name)

        return registry

    def _run(self):
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001  told by the test's thread
            self._error = error

    async def _main(self):
        await kopf.operator(registry=self.registry(), standalone=True, stop_flag=self._stop, **self._scope)
        # TLS connections need the loop a little longer to close.
        await asyncio.sleep(0.1)

    def versions(self):
        return self.sink.versions()

    async def __aenter__(self):
        self._thread.start()
        await self.until(lambda: self.source is not None and self.source.has_synced())
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await asyncio.to_thread(self._thread.join, 20)
        assert not self._thread.is_alive()
        assert self._error is None, self._error
        assert self.sink.faults == []

    async def until(self, condition, timeout=30):
        async def holds():
            assert self._error is None, self._error
            return condition()

        await wait_until(holds, timeout)


async def truth(cluster):
    found = {}
    for kind, path in PATHS.items():
        items = await cluster.list_all(path, **({"fieldSelector": UNFINISHED} if kind == "Pod" else {}))
        found[kind] = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}
    return found


async def test_it_shares_the_operators_watches_and_writes_nothing(cluster, control_plane, proxy, caplog):
    caplog.set_level(logging.INFO, "kopf.objects")
    await cluster.make_nodes(2)
    pods = await cluster.make_pods(3)
    log = control_plane.audit.from_now()
    async with Host(proxy.kubeconfig) as host:
        assert host.versions() == await truth(cluster)
        await cluster.bind(pods[0], "node-0")
        await cluster.delete("/api/v1/namespaces/default/pods/pod-1", grace_seconds=0)
        await cluster.delete("/api/v1/nodes/node-1")
        expected = await truth(cluster)
        await host.until(lambda: host.versions() == expected)
        assert host.sink.missed == set()
        assert [len([w for w in proxy.watches if w.request.path == path]) for path in PATHS.values()] == [1, 1]
        assert host.source.outages() == {}
        assert {"pod-0", "pod-1", "pod-2"} <= set(host.own)
    mine = [event for event in log.events() if event.user_agent.startswith("schedcache/")]
    assert {event.verb for event in mine} == {"list"}, "sweeps"
    told = [record.getMessage() for record in caplog.records if record.name == "kopf.objects"]
    assert any("'own' succeeded" in line or "own' succeeded" in line for line in told)
    assert not any("schedcache-" in line for line in told)


async def test_a_finished_pod_is_told_as_deleted_though_the_operator_watches_it_on(cluster, proxy):
    [pod] = await cluster.make_pods(1)
    async with Host(proxy.kubeconfig, settings=RARELY) as host:
        assert len(host.versions()["Pod"]) == 1
        await cluster.patch("/api/v1/namespaces/default/pods/pod-0/status", {"status": {"phase": "Succeeded"}})
        await host.until(lambda: not host.versions()["Pod"])
        assert pod["metadata"]["uid"] not in host.sink.missed, "by its event, not by a sweep"
        # It goes on changing, and stays away.
        await cluster.patch("/api/v1/namespaces/default/pods/pod-0", {"metadata": {"labels": {"a": "b"}}})
        await cluster.make_pods(1, name="after")
        await host.until(lambda: len(host.versions()["Pod"]) == 1)
        assert host.versions() == await truth(cluster)


async def test_a_deletion_that_the_operator_misses_is_found_by_a_sweep(cluster, proxy):
    pods = await cluster.make_pods(2)
    async with Host(proxy.kubeconfig) as host:
        for watch in [w for w in proxy.watches if w.request.path == PATHS["Pod"]]:
            watch.hold()
        await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
        expected = await truth(cluster)
        await host.until(lambda: host.versions() == expected)
        assert host.sink.missed == {pods[0]["metadata"]["uid"]}


async def test_an_operator_of_one_namespace_is_warned_about_and_made_up_for(cluster, proxy):
    impatient = KopfSettings(sweep_interval_seconds=1.0, sweep_grace_seconds=0.3, stalled_seconds=1.5)
    await cluster.create_namespace("elsewhere")
    await cluster.make_nodes(1)
    await cluster.make_pods(1, name="seen")
    await cluster.make_pods(1, name="unseen", namespace="elsewhere")
    with capture_logs() as told:
        async with Host(proxy.kubeconfig, settings=impatient, namespaces=["default"]) as host:
            assert warnings(told) == ["Pod"]
            assert host.versions() == await truth(cluster)
            assert host.source.outages()["Pod"].why == "kopf is behind"
            assert "Node" not in host.source.outages()
            await made_up_for(host, cluster)
    assert warnings(told)[:2] == ["Pod", "Pod"], "again after some more sweeps"
    assert len(warnings(told)) <= 3


def warnings(told):
    return [line["kind"] for line in told if "kopf misses events" in line["event"]]


async def made_up_for(host, cluster):
    """News that never come lead to a sweep in each interval, and to no more of them."""
    before = host.source.stats.kinds["Pod"].sweeps
    for number in range(25):
        await cluster.make_pods(1, name=f"unseen-{number}", namespace="elsewhere")
        await asyncio.sleep(0.2)
    sweeps = host.source.stats.kinds["Pod"].sweeps - before
    assert 3 <= sweeps <= 5, "of 1.3 s each, in 5 s and a little more"
    expected = await truth(cluster)
    await host.until(lambda: host.versions() == expected)


async def test_an_outage_shows_by_the_sweeps(cluster, proxy):
    async with Host(proxy.kubeconfig) as host:
        proxy.add(Answer(503), path=f"^{PATHS['Node']}$", watch=False)
        await host.until(lambda: "Node" in host.source.outages())
        assert host.source.outages()["Node"].why == "server error"
        assert "Pod" not in host.source.outages()
        proxy.clear()
        await host.until(lambda: host.source.outages() == {})


async def test_what_the_operator_tells_before_the_source_runs_is_kept(cluster, control_plane):
    [pod] = await cluster.make_pods(1)
    sink = RecordingSink()
    registry = kopf.OperatorRegistry()
    async with Transport(load_credentials(control_plane.kubeconfig)) as transport:
        source = KopfSource(transport, sink, ("Pod",), settings=RARELY, registry=registry)
        [handler] = registry._watching.get_all_handlers()
        await handler.fn(type=None, event={"object": pod})
        task = asyncio.create_task(source.run())

        async def told():
            return bool(sink.versions()["Pod"])

        await wait_until(told, 5)
        assert sink.added == {pod["metadata"]["uid"]: 1}
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_source_that_was_stopped_says_so_and_keeps_nothing_of_what_the_operator_goes_on_telling(cluster, proxy):
    async with Host(proxy.kubeconfig) as host:
        assert host.source.outages() == {}
        [following] = host.tasks
        following.get_loop().call_soon_threadsafe(following.cancel)
        await host.until(following.done)
        assert {kind: outage.why for kind, outage in host.source.outages().items()} == {
            "Pod": "stopped",
            "Node": "stopped",
        }
        await cluster.make_pods(1)
        await host.until(lambda: host.own == ["pod-0"])
        await asyncio.sleep(0.2)
        assert not host.source._arrivals
        assert host.sink.added.total() == 0

        async def again():
            host.tasks.append(asyncio.create_task(host.source.run()))

        asyncio.run_coroutine_threadsafe(again(), following.get_loop())
        expected = await truth(cluster)
        await host.until(lambda: host.versions() == expected and host.source.outages() == {})
