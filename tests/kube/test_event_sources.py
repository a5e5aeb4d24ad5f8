"""The contract of event sources, on a real API server: the same tests for the reflector and for kopf."""

import asyncio
import json
from collections.abc import Iterable

import pytest

from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.watch.kinds import KINDS
from schedcache.testing import Answer, Inject, Reset, Rewrite, error_event
from tests.kube.worlds import PATHS, World, make_source, open_world

pytestmark = pytest.mark.controlplane


def names(world, kind="Pod"):
    return sorted(obj.name for obj in world.sink.held[kind].values())


async def test_the_first_list_is_delivered_before_synced_is_announced(world: World):
    nodes = await world.cluster.make_nodes(3)
    pods = await world.cluster.make_pods(20)
    assert not world.source.has_synced()
    await world.synced()
    assert sorted(world.sink.synced) == ["Node", "Pod"]
    assert set(world.sink.held["Node"]) >= {n["metadata"]["uid"] for n in nodes}
    assert set(world.sink.held["Pod"]) >= {p["metadata"]["uid"] for p in pods}
    assert all(world.source.resource_versions().values())
    await world.agrees()
    assert set(world.sink.added.values()) == {1}


async def test_additions_changes_and_deletions_are_followed(world: World):
    await world.synced()
    [pod, other] = await world.cluster.make_pods(2)
    [node] = await world.cluster.make_nodes(1)
    await world.agrees()
    await world.cluster.bind(pod, node["metadata"]["name"])
    await world.cluster.patch("/api/v1/nodes/node-0", {"spec": {"unschedulable": True}})
    await world.agrees()
    assert world.sink.held["Pod"][pod["metadata"]["uid"]].node_name == "node-0"
    assert world.sink.held["Node"][node["metadata"]["uid"]].unschedulable
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-1", grace_seconds=0)
    await world.agrees()
    assert names(world) == ["pod-0"]
    assert world.sink.missed == set()
    assert other["metadata"]["uid"] not in world.sink.held["Pod"]


async def test_a_pod_made_again_under_its_name_is_another_pod(world: World):
    await world.synced()
    [first] = await world.cluster.make_pods(1)
    await world.agrees()
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    [second] = await world.cluster.make_pods(1)
    await world.agrees()
    told = [(what, uid) for what, name, uid in world.sink.log if name == "pod-0" and what != "update"]
    old, new = first["metadata"]["uid"], second["metadata"]["uid"]
    assert told == [("add", old), ("delete", old), ("add", new)]


async def test_a_pod_that_finishes_is_reported_as_deleted(world: World):
    [running, finishing, finished] = await world.cluster.make_pods(3)
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-2/status", {"status": {"phase": "Failed"}})
    await world.synced()
    await world.agrees()
    assert names(world) == ["pod-0", "pod-1"]
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-1/status", {"status": {"phase": "Succeeded"}})
    await world.until(lambda: names(world) == ["pod-0"])
    await world.agrees()
    assert finished["metadata"]["uid"] not in world.sink.added
    assert ("delete", "pod-1", finishing["metadata"]["uid"]) in world.sink.log
    assert set(world.sink.held["Pod"]) == {running["metadata"]["uid"]}


GAPS = {
    "410 in the stream": (Inject(error_event(410)), False),
    "410 for the request": (Answer(410), False),
    "closed": (None, False),
    "reset": (None, True),
}


@pytest.mark.parametrize("gap", GAPS)
async def test_no_deletion_is_lost_in_a_gap(world: World, gap: str):
    fault, reset = GAPS[gap]
    await world.cluster.make_nodes(2)
    pods = await world.cluster.make_pods(6)
    uids = [pod["metadata"]["uid"] for pod in sorted(pods, key=lambda p: p["metadata"]["name"])]
    await world.synced()
    await world.agrees()
    held = await world.watching()
    for watch in held:
        watch.hold()
    for name in ("pod-1", "pod-2", "pod-3"):
        await world.cluster.delete(f"/api/v1/namespaces/default/pods/{name}", grace_seconds=0)
    await world.cluster.delete("/api/v1/nodes/node-1")
    [again] = await world.cluster.make_pods(1, name="pod-3")
    await world.cluster.bind(again, "node-0")
    if fault is not None:
        for kind in PATHS:
            world.proxy.add(fault, path=f"^{PATHS[kind]}$", watch=True, times=1)
    for watch in held:
        watch.cut(reset=reset)
    await world.agrees()
    assert names(world) == ["pod-0", "pod-3", "pod-4", "pod-5"]
    assert names(world, "Node") == ["node-0"]
    deletions = {uid for what, _, uid in world.sink.log if what == "delete"}
    assert set(uids[1:4]) <= deletions
    if fault is not None:
        assert set(uids[1:4]) <= world.sink.missed
        assert sum(stats.missed_deletes for stats in world.source.stats.kinds.values()) == 4
    elif world.kind == "reflector":
        assert world.sink.missed == set()
    # And it goes on after the gap.
    await world.cluster.make_pods(1, name="afterwards")
    await world.agrees()


async def test_an_outage_of_the_server_is_made_up_for(world: World):
    await world.cluster.make_pods(3)
    await world.synced()
    watches = await world.watching()
    await world.until(lambda: world.source.outages() == {})
    outage = world.proxy.add(Reset())
    for watch in watches:
        watch.cut(reset=True)
    await outage.wait(3)
    await world.until(lambda: [found.why for found in world.source.outages().values()] == ["connection"] * 2)
    lost = world.source.outages()
    assert lost.keys() == {"Pod", "Node"}
    assert all(0 < found.seconds < 20 for found in lost.values())
    # A server that answers but does not let us watch is no better.
    outage.remove()
    outage = world.proxy.add(Answer(503))
    await world.until(lambda: {found.why for found in world.source.outages().values()} == {"server error"})
    assert all(now.seconds > lost[kind].seconds for kind, now in world.source.outages().items())
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-1", grace_seconds=0)
    await world.cluster.make_pods(1, name="meanwhile")
    assert not world.task.done()
    outage.remove()
    await world.agrees(60)
    await world.until(lambda: world.source.outages() == {})
    assert world.source.has_synced()
    await world.cluster.make_pods(1, name="afterwards")
    await world.agrees()


async def test_an_event_that_is_lost_without_a_trace_heals(world: World):
    await world.cluster.make_pods(2)
    await world.synced()
    watches = await world.watching()
    swallow = world.proxy.add(Rewrite(lambda _line: ()), path=f"^{PATHS['Pod']}$", watch=True)
    for watch in watches:
        watch.cut()
    await swallow.wait()
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    await world.cluster.make_pods(1, name="unseen")
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-1", {"metadata": {"labels": {"a": "b"}}})
    await world.agrees()
    repaired = world.source.stats.kinds["Pod"].repaired
    assert repaired["missed_delete"] >= 1
    assert repaired["missed_add"] + repaired["missed_update"] >= 1


def spoil(line: bytes) -> Iterable[bytes]:
    event = json.loads(line)
    if event["object"]["metadata"].get("labels", {}).get("spoil") == "yes":
        event["object"]["spec"]["containers"] = "none of your business"
    yield json.dumps(event).encode()


async def test_a_malformed_object_in_a_watch_leaves_the_others_alone(world: World):
    pods = await world.cluster.make_pods(2)
    world.proxy.add(Rewrite(spoil), path=f"^{PATHS['Pod']}$", watch=True)
    await world.synced()
    await world.agrees()
    before = {p["metadata"]["name"]: world.sink.held["Pod"][p["metadata"]["uid"]] for p in pods}
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-0", {"metadata": {"labels": {"spoil": "yes"}}})
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-1", {"metadata": {"labels": {"spoil": "no"}}})
    await world.until(
        lambda: world.sink.malformed and world.sink.held["Pod"][before["pod-1"].uid] is not before["pod-1"]
    )
    assert "default/pod-0" in str(world.sink.malformed[0])
    assert "spec.containers" in str(world.sink.malformed[0])
    assert world.sink.held["Pod"][before["pod-0"].uid] is before["pod-0"], "the last readable state stays"
    stats = world.source.stats.kinds["Pod"]
    assert (stats.malformed, stats.unreadable) == (1, 1)
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-0", {"metadata": {"labels": {"spoil": "no"}}})
    await world.agrees()
    assert stats.unreadable == 0
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    await world.agrees()


async def test_a_malformed_object_in_a_list_leaves_the_others_alone(world: World):
    pods = await world.cluster.make_pods(3)
    uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods}
    whole = await world.cluster.get(PATHS["Pod"])
    for item in whole["items"]:
        if item["metadata"]["name"] == "pod-1":
            item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "plenty"}}
    world.proxy.add(
        Answer(200, body=json.dumps(whole).encode()),
        path=f"^{PATHS['Pod']}$",
        where=lambda r: not r.watch and "PartialObjectMetadata" not in r.headers.get("Accept", ""),
    )
    await world.synced()
    await world.until(lambda: len(world.sink.malformed) == 1)
    assert set(world.sink.held["Pod"]) == {uids["pod-0"], uids["pod-2"]}
    assert "pod-1" in str(world.sink.malformed[0])
    assert "resources.requests.cpu" in str(world.sink.malformed[0])
    await world.cluster.patch("/api/v1/namespaces/default/pods/pod-1", {"metadata": {"labels": {"a": "b"}}})
    await world.agrees()


async def test_a_failing_sink_is_filled_afresh(world: World):
    await world.cluster.make_nodes(2)
    await world.cluster.make_pods(3)
    await world.synced()
    world.sink.raise_once = lambda what, obj: what == "add" and obj.name == "poison"
    await world.cluster.make_pods(1, name="poison")
    await world.until(lambda: world.sink.rebuilds == 1)
    await world.agrees()
    assert world.source.stats.kinds["Pod"].sink_errors == 1
    assert world.source.stats.rebuilds["sink error"] == 1
    await world.cluster.make_pods(1, name="afterwards")
    await world.agrees()
    assert world.sink.rebuilds == 1


async def test_a_rebuild_that_is_asked_for_is_done_once(world: World):
    await world.cluster.make_pods(3)
    await world.synced()
    for reason in ("a test", "a test", "another"):
        world.source.request_rebuild(reason)
    assert world.source.rebuild_wanted()
    await world.until(lambda: world.sink.rebuilds == 1)
    assert not world.source.rebuild_wanted()
    await world.agrees()
    await world.cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
    await world.agrees()
    assert world.sink.rebuilds == 1
    assert world.source.stats.rebuilds == {"a test": 2, "another": 1}


async def test_the_source_stops_when_cancelled_and_can_be_made_again(world: World):
    await world.cluster.make_pods(1)
    await world.synced()
    world.task.cancel()
    await asyncio.wait([world.task], timeout=10)
    assert world.task.cancelled()
    async with Transport(load_credentials(world.proxy.kubeconfig)) as transport:
        world.source = make_source(world.kind, transport, world.sink)
        world.sink.__init__()
        world.start()
        await world.synced()
        await world.agrees()
        world.task.cancel()


@pytest.mark.parametrize("kind", ["reflector", "kopf"])
async def test_every_kind_can_be_watched(kind, cluster, proxy):
    await cluster.make_pods(1)
    made = {
        "/api/v1/persistentvolumes": {
            "metadata": {"name": "made"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}},
        },
        "/apis/storage.k8s.io/v1/storageclasses": {"metadata": {"name": "made"}, "provisioner": "example.com/none"},
        "/apis/storage.k8s.io/v1/csinodes": {"metadata": {"name": "made"}, "spec": {"drivers": []}},
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
            "metadata": {"name": "made"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}},
        },
    }
    async with open_world(kind, cluster, proxy, kinds=KINDS) as world:
        await world.synced()
        assert sorted(world.sink.synced) == sorted(KINDS)
        for path, manifest in made.items():
            await cluster.create(path, manifest)
        kinds = ("PersistentVolume", "StorageClass", "CSINode", "PodDisruptionBudget")
        await world.until(lambda: all([o.name for o in world.sink.held[k].values()] == ["made"] for k in kinds))
        assert {"default", "kube-system"} <= {o.name for o in world.sink.held["Namespace"].values()}
        # The API server makes this one itself, some time after its start.
        served = {("default", "kubernetes")}
        await world.until(lambda: {(o.namespace, o.name) for o in world.sink.held["Service"].values()} == served)
        await cluster.delete("/apis/storage.k8s.io/v1/storageclasses/made")
        await world.until(lambda: not world.sink.held["StorageClass"])


@pytest.mark.parametrize("kind", ["reflector", "kopf"])
async def test_lists_come_in_pages(kind, cluster, proxy):
    await cluster.make_pods(50)
    whole = proxy.add(Answer(500), path=f"^{PATHS['Pod']}$", where=lambda r: not r.watch and "limit" not in r.query)
    pages = {"page_limit": 7, "metadata_page_limit": 7}
    async with open_world(kind, cluster, proxy, settings=pages) as world:
        await world.synced()
        await world.agrees()
        assert whole.hits == 0
        if kind == "reflector":
            assert world.source.stats.kinds["Pod"].list_pages == 8


async def test_five_thousand_objects(world: World):
    [real] = await world.cluster.make_pods(1)
    version = (await world.cluster.get(PATHS["Pod"]))["metadata"]["resourceVersion"]
    uids = [real["metadata"]["uid"], *(f"uid-{number}" for number in range(1, 5000))]
    items = [
        real | {"metadata": real["metadata"] | {"name": f"pod-{number}", "uid": uid, "resourceVersion": version}}
        for number, uid in enumerate(uids)
    ]
    body = json.dumps({"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items}).encode()
    lists = world.proxy.add(Answer(200, body=body), path=f"^{PATHS['Pod']}$", where=lambda r: not r.watch)
    await world.synced(60)
    assert set(world.sink.held["Pod"]) == set(uids)
    assert set(world.sink.added.values()) == {1}
    # And all but one are gone when the server is asked again.
    lists.remove()
    for watch in await world.watching():
        await watch.inject(error_event(410))
    await world.agrees(60)
    assert world.sink.missed == set(uids[1:])
