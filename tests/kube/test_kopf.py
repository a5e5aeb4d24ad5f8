"""What is special about kopf as an event source."""

import asyncio
import gc
import logging
from collections import Counter

import aiohttp
import pytest
from kopf._core.reactor.inventory import ResourceMemory

from schedcache.kube.http.credentials import CredentialError, load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.kopf import quiet
from schedcache.kube.kopf.operator import _Run
from schedcache.kube.kopf.source import KopfSource
from schedcache.kube.settings import KopfSettings
from schedcache.ports import Backoff
from schedcache.testing import Answer, free_ports, wait_until
from schedcache.testing.faults import error_event
from tests.kube.worlds import PATHS, RecordingSink, World, open_world

pytestmark = pytest.mark.controlplane

ROLE = {
    "kind": "ClusterRole",
    "metadata": {"name": "only-watch"},
    "rules": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}],
}
BINDING = {
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "only-watch"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "only-watch"},
    "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": "default"}],
}


@pytest.fixture
async def world(cluster, proxy):
    async with open_world("kopf", cluster, proxy) as opened:
        yield opened


async def test_it_writes_nothing_and_needs_list_and_watch_only(cluster, control_plane, proxy, caplog):
    await cluster.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "watcher"}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await cluster.create(f"{rbac}/clusterroles", {"apiVersion": "rbac.authorization.k8s.io/v1", **ROLE})
    await cluster.create(f"{rbac}/clusterrolebindings", {"apiVersion": "rbac.authorization.k8s.io/v1", **BINDING})
    proxy.kubeconfig = proxy.kubeconfig_for(await cluster.service_account_token("default", "watcher"))
    log = control_plane.audit.from_now()
    async with open_world("kopf", cluster, proxy) as world:
        [pod] = await cluster.make_pods(1)
        await world.synced()
        await cluster.make_nodes(1)
        await cluster.bind(pod, "node-0")
        await world.agrees()
        await asyncio.sleep(0.5)
    assert caplog.records == [], "nothing to warn of"
    await log.settled(cluster)
    user = "system:serviceaccount:default:watcher"
    assert log.refused(user) == []
    assert log.writes(user) == []
    asked = {(e.verb, e.resource) for e in log.events(user=user) if e.resource}
    assert asked == {("list", "pods"), ("watch", "pods"), ("list", "nodes"), ("watch", "nodes")}


async def churn_until(world, condition):
    for number in range(150):
        if condition():
            return
        await world.cluster.make_pods(1, name=f"churn-{number}")
        await asyncio.sleep(0.2)
    pytest.fail("it did not happen in time")


async def test_kopf_is_started_again_when_it_gives_up(world: World):
    await world.cluster.make_pods(2)
    await world.synced()
    watches = await world.watching()
    fatal = world.proxy.add(Answer(410), path=f"^{PATHS['Pod']}$", watch=True, times=1)
    for watch in watches:
        watch.cut()
    await fatal.wait()
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    # kopf ends at once, or takes so long about it that it is found to be behind.
    await churn_until(world, lambda: world.source.stats.source_restarts.total() == 1)
    assert world.source.stats.source_restarts.keys() <= {"APIClientError", "stale"}
    await world.agrees()
    await world.watching()
    await world.cluster.make_pods(1, name="afterwards")
    await world.agrees()


async def test_a_kopf_that_falls_behind_for_good_is_started_again(world: World):
    await world.synced()
    for watch in await world.watching():
        watch.hold()
    await churn_until(world, lambda: world.source.stats.source_restarts.total() == 1)
    assert world.source.stats.source_restarts == {"stale": 1}
    assert world.source.stats.kinds["Pod"].repaired["missed_add"] >= 3
    await world.agrees()
    await world.watching()
    await world.cluster.make_pods(1, name="afterwards")
    await world.agrees()


async def test_late_news_brings_nothing_back(world: World):
    [pod] = await world.cluster.make_pods(1)
    await world.synced()
    await world.agrees()
    fed = world.source._fed["Pod"]
    older = dict(pod, metadata=dict(pod["metadata"], resourceVersion="1"))
    fed.apply("MODIFIED", older)
    assert world.sink.versions() == await world.truth()
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    await world.agrees()
    for type_ in (None, "ADDED", "MODIFIED"):
        fed.apply(type_, pod)
    await world.agrees()
    assert world.sink.added[pod["metadata"]["uid"]] == 1


async def delete_pods(world: World, count: int) -> None:
    for number in range(count):
        await world.cluster.delete(f"/api/v1/namespaces/default/pods/pod-{number}", grace_seconds=0)


async def test_kopf_keeps_nothing_of_what_was_deleted_behind_its_back(world: World):
    def kept():
        gc.collect()
        return sum(isinstance(obj, ResourceMemory) for obj in gc.get_objects())

    await world.cluster.make_pods(10)
    await world.synced()
    await world.agrees()
    [watch, _] = await world.watching()
    # The next thing that it sees is a list, which says nothing of those that are gone.
    refused = world.proxy.add(Answer(500), path=f"^{PATHS['Pod']}$")
    await watch.inject(error_event(410))
    await refused.wait()
    await delete_pods(world, 10)
    world.proxy.clear()
    await world.agrees()
    assert world.source.stats.kinds["Pod"].missed_deletes == 10
    await world.until(lambda: kept() == 0)


async def test_the_deleted_are_remembered_no_longer_than_to_the_next_sweep(world: World):
    await world.synced()
    fed = world.source._fed["Pod"]
    for _ in range(3):
        await world.cluster.make_pods(10)
        await world.agrees()
        await delete_pods(world, 10)
        await world.agrees()
        await world.until(lambda: fed.graves.floor == fed.version)
    # Two leave for each one that comes.
    assert len(fed.graves) <= 10


async def test_the_liveness_endpoint_tells_what_is_held(cluster, proxy):
    await cluster.make_pods(2)
    with free_ports(1) as ports:
        url = f"http://127.0.0.1:{ports[0]}/healthz"
    async with open_world("kopf", cluster, proxy, liveness_endpoint=url) as world:
        await world.synced()
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            assert response.status == 200
            answer = await response.json()
    assert answer["schedcache"] == {"Pod": {"synced": True, "held": 2}, "Node": {"synced": True, "held": 0}}


async def test_new_credentials_are_read_when_the_old_ones_are_refused(cluster, control_plane, tmp_path):
    token = tmp_path / "token"
    token.write_text("outdated")
    text = control_plane.kubeconfig.read_text().replace(f"token: {control_plane.admin_token}", f"tokenFile: {token}")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    credentials = load_credentials(kubeconfig)
    token.write_text(control_plane.admin_token)
    sink = RecordingSink()
    async with Transport(credentials) as transport:
        source = KopfSource(transport, sink, settings=KopfSettings(sweep_interval_seconds=0.5, sweep_grace_seconds=0.3))
        task = asyncio.create_task(source.run())
        await cluster.make_pods(1)

        async def kopf_has_told() -> bool:
            return source.stats.kinds["Pod"].watch_events.total() > 0

        await wait_until(kopf_has_told, 20)
        task.cancel()
        await asyncio.wait([task])
    assert source.stats.source_restarts == {}


async def test_a_server_name_that_kopf_cannot_be_told_is_refused(control_plane, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(control_plane.kubeconfig.read_text().replace("server:", "tls-server-name: other\n    server:"))
    async with Transport(load_credentials(path)) as transport:
        with pytest.raises(CredentialError, match="tls-server-name"):
            KopfSource(transport, RecordingSink())


async def test_unknown_kinds_are_refused_by_name():
    with pytest.raises(ValueError, match="Pood"):
        KopfSource(None, RecordingSink(), ("Pood",))


async def test_of_what_kopf_tries_again_and_again_the_log_has_less_and_less(cluster, proxy, caplog, monkeypatch):
    """An API server may be away for an hour. These are kopf's own words, whatever they are in the version installed."""
    counts = Counter()
    reported = logging.Logger.handle

    def counted(logger, record):
        # Before any filter has seen it.
        if logger.name.startswith("kopf.") and PATHS["Pod"] in record.getMessage() and record.levelno == logging.ERROR:
            counts["said"] += 1
        reported(logger, record)

    def told():
        return [r for r in caplog.records if r.name.startswith("kopf.") and PATHS["Pod"] in r.getMessage()]

    quick = {"error_backoff": Backoff(first=0.05, limit=0.05)}
    async with open_world("kopf", cluster, proxy, settings=quick) as world:
        await world.synced()
        assert told() == []
        monkeypatch.setattr(logging.Logger, "handle", counted)
        down = proxy.add(Answer(503), path=f"^{PATHS['Pod']}$")
        cut_pods(proxy)
        await wait_until(lambda: asyncio.sleep(0, counts["said"] >= 20), 20)
        assert 4 <= len(told()) <= 6, "the first, second, fourth, eighth and sixteenth"
        down.remove()
        await world.agrees()
        before = len(told())
        proxy.add(Answer(503), path=f"^{PATHS['Pod']}$")
        cut_pods(proxy)
        await wait_until(lambda: asyncio.sleep(0, len(told()) >= before + 2), 20)
        assert len(told()) <= before + 3, "what fails anew is told at once"


def cut_pods(proxy):
    for watch in [watch for watch in proxy.watches if watch.request.path == PATHS["Pod"]]:
        watch.cut()


async def test_kopf_does_not_warn_of_what_is_meant_so(cluster, proxy, caplog, monkeypatch):
    """That it gets no signals in its thread."""
    monkeypatch.setattr(quiet, "_is_an_error", lambda record: suppressed.append(record.getMessage()) or False)
    suppressed = []
    async with open_world("kopf", cluster, proxy) as world:
        await world.synced()
    assert len(suppressed) == 1
    assert "signal" in suppressed[0], "kopf warns of something else at its start: is that meant so, too?"


async def test_a_generator_that_kopf_leaves_open_is_no_error_at_the_end(caplog):
    """As when it is stopped in the middle of a long list; other errors that nobody catches are told."""

    async def stubborn():
        try:
            yield
        finally:
            raise RuntimeError("not now")

    async def operate(stop):
        generators.append(stubborn())
        await anext(generators[0])
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await stop.wait()

    generators = []
    run = _Run(operate, stop_seconds=3.0)
    await wait_until(lambda: asyncio.sleep(0, bool(caplog.records)))
    await run.stop()
    (record,) = caplog.records
    assert record.exc_info[0] is ZeroDivisionError
