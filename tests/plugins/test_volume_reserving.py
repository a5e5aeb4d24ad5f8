"""VolumeBinding from Reserve to PreBind: what is assumed, written, waited for, and taken back."""

import asyncio

import pytest
from msgspec.structs import replace

from schedcache.cache import CacheError, Snapshot
from schedcache.config.plugin_args import VolumeBindingArgs
from schedcache.framework import SKIP, Code, CycleState, Handle
from schedcache.model import ClaimRef
from schedcache.plugins.volume_binding import VolumeBinding
from schedcache.ports import ConflictError, RefusedError, UnavailableError
from schedcache.queue import Nominator
from schedcache.testing import VirtualClock, make_node, settle
from tests.plugins.cluster import handle, rejected, whole
from tests.plugins.volumes import claim, csi_node, csi_volume, pod_with, storage_class, volume

PV, PVC = "PersistentVolume", "PersistentVolumeClaim"
SELECTED = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
NODES = [make_node("a", zone="z1"), make_node("b", zone="z2")]
SNAPSHOT = Snapshot.build([], NODES)
STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")


class Storage:
    """The API server's part: takes writes, and tells of them when it is asked to."""

    def __init__(self, *objects):
        self.objects = handle(*(versioned(obj, "1") for obj in objects)).cluster_objects
        self.clock = VirtualClock()
        self.nodes = {node.name: node for node in NODES}
        self.writes = []
        self.failed_stages = []
        self.refuses = {}
        """Name -> the error of its write."""
        self._stored = {}
        self._version = 10

    def plugin(self, timeout=600):
        given = Handle(
            cluster_objects=self.objects,
            nominator=Nominator(),
            volume_writer=self,
            node_lister=self.nodes.get,
            clock=self.clock,
            sleep=self.clock.sleep,
            metrics=self,
        )
        return VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout), given)

    def volume_stage_failed(self, stage):
        self.failed_stages.append(stage)

    async def prebind(self, volume, claim):
        return self._write(volume, ("prebind", volume.name, claim.name))

    async def select_node(self, claim, node_name):
        annotations = {**claim.annotations, SELECTED: node_name}
        return self._write(replace(claim, annotations=annotations), ("select", claim.name, node_name))

    def _write(self, obj, what):
        if obj.name in self.refuses:
            raise self.refuses[obj.name]
        self.writes.append(what)
        self._stored[obj.name] = self._next(obj)
        return self._stored[obj.name]

    def _next(self, obj, **changes):
        self._version += 1
        return replace(obj, resource_version=str(self._version), **changes)

    def show_writes(self):
        """The watch brings what was written."""
        for obj in self._stored.values():
            self.objects.update(type(obj).__name__, obj)

    def change(self, kind, name, **changes):
        """Somebody changes an object as it is stored, and the watch tells at once."""
        namespace = "" if kind == PV else "default"
        stored = self._stored.get(name) or self.objects.in_api(kind, namespace, name)
        self._stored[name] = self._next(stored, **changes)
        self.objects.update(kind, self._stored[name])

    def bind(self, name, volume_name):
        """As the controller does."""
        held = self._stored.get(name) or self.objects.in_api(PVC, "default", name)
        self.change(PVC, name, volume_name=volume_name, annotations={**held.annotations, **COMPLETED})

    def delete(self, kind, name):
        self.objects.remove(kind, self.objects.in_api(kind, "" if kind == PV else "default", name))


def versioned(obj, version):
    return replace(obj, resource_version=version, uid=obj.uid or f"uid-{obj.name}")


def reserved(plugin, pod, node="a"):
    """The state of an attempt that has chosen the node."""
    state, view = CycleState(), whole(SNAPSHOT)
    assert plugin.pre_filter(state, pod, SNAPSHOT) is None
    plugin.filter(state, pod, view)
    assert plugin.reserve(state, pod, node) is None
    return state


def assumed(storage):
    return {kind: sorted(obj.name for obj in storage.objects.assumed(kind)) for kind in (PV, PVC)}


NOTHING = {PV: [], PVC: []}


# ---- Reserve


def test_a_volume_is_assumed_to_be_the_claims():
    storage = Storage(STATIC, claim("c"), claim("d"), volume("v", meta={"annotations": {"mine": "too"}}))
    plugin = storage.plugin()
    state = reserved(plugin, pod_with("p", "c"))
    taken = storage.objects.get(PV, "", "v")
    assert taken.claim_ref == ClaimRef("default", "c", "uid-c")
    assert taken.annotations == {"mine": "too", BOUND_BY_CONTROLLER: "yes"}
    assert set(rejected(plugin, pod_with("q", "d"), SNAPSHOT)) == {"a", "b"}
    plugin.unreserve(state, pod_with("p", "c"), "a")
    assert assumed(storage) == NOTHING
    assert rejected(plugin, pod_with("q", "d"), SNAPSHOT) == {}
    plugin.unreserve(state, pod_with("p", "c"), "a")
    assert storage.objects.get(PV, "", "v") is storage.objects.in_api(PV, "", "v")


def test_a_volume_that_a_person_reserved_is_not_marked_as_chosen_by_us():
    storage = Storage(STATIC, claim("c"), volume("v", claim=("c", "")))
    reserved(storage.plugin(), pod_with("p", "c"))
    taken = storage.objects.get(PV, "", "v")
    assert taken.claim_ref == ClaimRef("default", "c", "uid-c")
    assert BOUND_BY_CONTROLLER not in taken.annotations


def test_a_claim_is_assumed_to_be_provisioned_for_the_node():
    storage = Storage(storage_class(), claim("c", annotations={"mine": "too"}))
    plugin = storage.plugin()
    state = reserved(plugin, pod_with("p", "c"))
    assert storage.objects.get(PVC, "default", "c").annotations == {"mine": "too", SELECTED: "a"}
    # Another pod that uses the claim must go to the same node.
    assert set(rejected(plugin, pod_with("q", "c"), SNAPSHOT)) == {"b"}
    plugin.unreserve(state, pod_with("p", "c"), "a")
    assert rejected(plugin, pod_with("q", "c"), SNAPSHOT) == {}


def test_who_assumed_later_keeps_it():
    storage = Storage(storage_class(), claim("c"))
    plugin = storage.plugin()
    first = reserved(plugin, pod_with("p", "c"))
    second = reserved(plugin, pod_with("q", "c"))
    plugin.unreserve(first, pod_with("p", "c"), "a")
    assert storage.objects.get(PVC, "default", "c").annotations[SELECTED] == "a"
    plugin.unreserve(second, pod_with("q", "c"), "a")
    assert assumed(storage) == NOTHING


@pytest.mark.parametrize("pod", [pod_with("p", "c"), pod_with("p")], ids=["bound claim", "no claim"])
async def test_where_there_is_nothing_to_bind_nothing_is_done(pod):
    storage = Storage(claim("c", bound_to="v"), csi_volume("v"))
    plugin, state = storage.plugin(), CycleState()
    if plugin.pre_filter(state, pod, SNAPSHOT) is None:
        plugin.filter(state, pod, whole(SNAPSHOT))
    assert plugin.reserve(state, pod, "a") is None
    assert plugin.pre_bind_pre_flight(state, pod, "a") is SKIP
    assert await plugin.pre_bind(state, pod, "a") is None
    plugin.unreserve(state, pod, "a")
    assert (assumed(storage), storage.writes) == (NOTHING, [])


# ---- PreBind


async def begin(storage, *claims, node="a", timeout=600):
    """PreBind of a pod under way, as far as it gets by itself."""
    plugin, pod = storage.plugin(timeout), pod_with("p", *claims)
    state = reserved(plugin, pod, node)
    assert plugin.pre_bind_pre_flight(state, pod, node) is None
    task = asyncio.create_task(plugin.pre_bind(state, pod, node))
    await settle()
    return plugin, state, task


async def test_volumes_are_written_before_claims_and_the_pod_waits_for_all():
    storage = Storage(storage_class(), claim("c", 5), claim("d", 1), volume("v", 3))
    _, _, task = await begin(storage, "c", "d")
    assert storage.writes == [("prebind", "v", "d"), ("select", "c", "a")]
    storage.show_writes()
    assert assumed(storage) == NOTHING
    await settle()
    assert not task.done()
    storage.bind("d", "v")
    await settle()
    assert not task.done()
    storage.objects.add(PV, csi_volume("new"))
    storage.bind("c", "new")
    await settle()
    assert task.done()
    assert await task is None


async def test_what_was_written_stays_assumed_until_the_watch_shows_it():
    storage = Storage(STATIC, claim("c"), claim("d"), volume("v", 3), volume("w", 3))
    storage.refuses["w"] = RefusedError("no", status=403)
    plugin, state, task = await begin(storage, "c", "d")
    with pytest.raises(RefusedError):
        await task
    plugin.unreserve(state, pod_with("p", "c", "d"), "a")
    assert assumed(storage) == {PV: ["v"], PVC: []}
    storage.show_writes()
    assert assumed(storage) == NOTHING
    assert storage.objects.get(PV, "", "v").claim_ref == ClaimRef("default", "c", "uid-c")


async def test_an_assumption_that_somebody_else_made_meanwhile_is_not_taken_back():
    storage = Storage(storage_class(), claim("c"))
    storage.refuses["c"] = ConflictError("changed", status=409)
    plugin, state, task = await begin(storage, "c")
    with pytest.raises(ConflictError):
        await task
    storage.change(PVC, "c", labels={"new": "label"})
    reserved(plugin, pod_with("q", "c"), "b")
    plugin.unreserve(state, pod_with("p", "c"), "a")
    assert storage.objects.get(PVC, "default", "c").annotations[SELECTED] == "b"


async def test_a_claim_that_the_pod_names_twice_is_served_once():
    storage = Storage(STATIC, claim("c"), volume("v", 2), volume("w", 3))
    _, _, task = await begin(storage, "c", "c")
    assert storage.writes == [("prebind", "v", "c")]
    storage.show_writes()
    storage.bind("c", "v")
    await settle()
    assert task.done()
    assert await task is None
    provisioned = Storage(storage_class(), claim("c"))
    _, _, task = await begin(provisioned, "c", "c")
    assert provisioned.writes == [("select", "c", "a")]
    task.cancel()


@pytest.mark.parametrize(
    "objects",
    [
        (STATIC, claim("c"), volume("v", claim=("c", "uid-c"), meta={"annotations": {BOUND_BY_CONTROLLER: "yes"}})),
        (storage_class(), claim("c", annotations={SELECTED: "a"}), volume("v", phase="Released")),
    ],
    ids=["reserved", "provisioned"],
)
async def test_what_was_asked_for_before_a_restart_is_not_asked_for_again(objects):
    storage = Storage(*objects)
    _, _, task = await begin(storage, "c")
    assert (storage.writes, assumed(storage)) == ([], NOTHING)
    assert not task.done()
    storage.bind("c", "v")
    await settle()
    assert task.done()
    assert await task is None


async def failed(storage, task):
    """What PreBind says within the second in which everything is looked at."""
    await settle()
    await storage.clock.elapse(1)
    assert task.done()
    status = await task
    assert status.code is Code.ERROR
    (reason,) = status.reasons
    assert reason.startswith("binding volumes: ")
    return reason.removeprefix("binding volumes: ")


RESERVED_FAILS = [
    (
        "claim deleted",
        lambda s: s.delete(PVC, "c"),
        'failed to check binding: persistentvolumeclaims "default/c" not found',
    ),
    (
        "claim made again",
        lambda s: (s.delete(PVC, "c"), s.objects.add(PVC, replace(claim("c"), uid="other", resource_version="99"))),
        'failed to check binding: persistentvolumeclaims "default/c" not found',
    ),
    ("volume deleted", lambda s: s.delete(PV, "v"), 'failed to check binding: persistentvolumes "v" not found'),
    ("reservation undone", lambda s: s.change(PV, "v", claim_ref=None), 'ClaimRef got reset for pv "v"'),
    (
        "given away",
        lambda s: s.change(PV, "v", claim_ref=ClaimRef("default", "x", "uid-x")),
        'pv "v" was given to another claim',
    ),
    (
        "claim bound elsewhere",
        lambda s: s.bind("c", "w"),
        'PVC "c" was bound to pv "w" and not to "v"',
    ),
    ("node gone", lambda s: s.nodes.pop("a"), 'failed to get node "a": node "a" not found'),
    (
        "volume out of reach",
        lambda s: s.change(PV, "v", node_affinity=volume("x", on=["b"]).node_affinity),
        'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
    ),
    (
        "node relabelled",
        lambda s: s.nodes.update(a=make_node("a", labels={"kubernetes.io/hostname": "renamed"})),
        'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
    ),
]


@pytest.mark.parametrize(
    ("change", "reason"), [case[1:] for case in RESERVED_FAILS], ids=[c[0] for c in RESERVED_FAILS]
)
async def test_a_reserved_volume_that_will_not_be_bound(change, reason):
    storage = Storage(STATIC, claim("c"), volume("v", on=["a"]))
    _, _, task = await begin(storage, "c")
    storage.show_writes()
    await settle()
    assert not task.done()
    change(storage)
    assert await failed(storage, task) == reason


PROVISIONED_FAILS = [
    (
        "claim deleted",
        lambda s: s.delete(PVC, "c"),
        'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
    ),
    ("provisioning failed", lambda s: s.change(PVC, "c", annotations={}), 'provisioning failed for PVC "c"'),
    (
        "another node selected",
        lambda s: s.change(PVC, "c", annotations={SELECTED: "b"}),
        'provisioning failed for PVC "c"',
    ),
    (
        "bound out of reach",
        lambda s: (s.objects.add(PV, csi_volume("far", on=["b"])), s.bind("c", "far")),
        'pv "far" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
    ),
    ("node gone", lambda s: s.nodes.pop("a"), 'failed to get node "a": node "a" not found'),
]


@pytest.mark.parametrize(
    ("change", "reason"), [case[1:] for case in PROVISIONED_FAILS], ids=[c[0] for c in PROVISIONED_FAILS]
)
async def test_a_claim_that_will_not_be_provisioned(change, reason):
    storage = Storage(storage_class(), claim("c"))
    _, _, task = await begin(storage, "c")
    storage.show_writes()
    await settle()
    assert not task.done()
    change(storage)
    assert await failed(storage, task) == reason


async def test_the_past_is_no_failure():
    """The watch may be behind: without the annotation that was just written, the claim looks as if provisioning had failed."""
    storage = Storage(storage_class(), claim("c"), claim("d"), volume("v", claim=("d", "")))
    _, _, task = await begin(storage, "c", "d")
    for kind, name in ((PVC, "c"), (PV, "v")):
        held = storage.objects.in_api(kind, "" if kind == PV else "default", name)
        storage.objects.update(kind, replace(held, resource_version="5", labels={"late": "news"}))
    await storage.clock.elapse(3)
    assert not task.done()
    storage.show_writes()
    storage.bind("d", "v")
    storage.objects.add(PV, csi_volume("new"))
    storage.bind("c", "new")
    await settle()
    assert task.done()
    assert await task is None


async def test_a_volume_whose_event_is_late_is_waited_for():
    storage = Storage(storage_class(), claim("c"))
    _, _, task = await begin(storage, "c")
    storage.bind("c", "new")
    await storage.clock.elapse(2)
    assert not task.done()
    storage.objects.add(PV, csi_volume("new", on=["a"]))
    await storage.clock.elapse(1)
    assert task.done()
    assert await task is None


async def test_a_migrated_volume_must_be_reached_by_the_drivers_labels():
    migrated = csi_node("a", migrated=["kubernetes.io/gce-pd"])
    storage = Storage(storage_class(), claim("c"), migrated)
    _, _, task = await begin(storage, "c")
    zoned = {"labels": {"topology.kubernetes.io/zone": "z1"}}
    storage.objects.add(PV, volume("disk", gcePersistentDisk={"pdName": "disk"}, meta=zoned))
    storage.bind("c", "disk")
    assert "node affinity doesn't match" in await failed(storage, task)


async def test_the_wait_has_an_end():
    storage = Storage(storage_class(), claim("c"))
    _, _, task = await begin(storage, "c", timeout=30)
    storage.show_writes()
    await storage.clock.elapse(29)
    assert not task.done()
    assert await failed(storage, task) == "context deadline exceeded"


async def test_any_number_of_waits_take_one_timer():
    storage = Storage(storage_class(), *(claim(f"c{i}") for i in range(300)))
    virtual_sleep, sleeps = storage.clock.sleep, []

    def sleep(seconds):
        sleeps.append(seconds)
        return virtual_sleep(seconds)

    storage.clock.sleep = sleep
    plugin = storage.plugin(timeout=30)
    tasks = []
    for i in range(300):
        pod = pod_with(f"p{i}", f"c{i}")
        tasks.append(asyncio.create_task(plugin.pre_bind(reserved(plugin, pod), pod, "a")))
    await settle()
    await storage.clock.elapse(10)
    assert sleeps == [1.0] * 11
    await storage.clock.elapse(21)
    assert {(await task).message for task in tasks} == {"binding volumes: context deadline exceeded"}
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_wait_that_is_cancelled_leaves_nothing_behind():
    storage = Storage(storage_class(), claim("c"))
    plugin, _, task = await begin(storage, "c")
    task.cancel()
    await settle()
    assert task.cancelled()
    assert not plugin._waiting._changes._waiting  # nobody else could tell
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_without_a_way_to_write_nothing_is_bound():
    plugin, pod = VolumeBinding(None, handle(storage_class(), claim("c"))), pod_with("p", "c")
    status = await plugin.pre_bind(reserved(plugin, pod), pod, "a")
    assert (status.code, status.reasons) == (Code.ERROR, ("there is no way to write volumes here",))


async def test_errors_are_counted_by_the_stage_they_come_from():
    storage = Storage(STATIC, claim("c"), volume("v", on=["a"]))
    storage.refuses["v"] = UnavailableError("no answer", reason="NoAnswer")
    plugin, pod = storage.plugin(), pod_with("p", "c")
    state = reserved(plugin, pod)
    with pytest.raises(UnavailableError):
        await plugin.pre_bind(state, pod, "a")
    assert storage.failed_stages == ["bind"]
    plugin.unreserve(state, pod, "a")
    del storage.refuses["v"]
    task = asyncio.create_task(plugin.pre_bind(reserved(plugin, pod), pod, "a"))
    await settle()
    storage.show_writes()
    storage.delete(PVC, "c")
    await task
    assert storage.failed_stages == ["bind", "bind"]

    storage = Storage(STATIC, claim("c"), volume("v", on=["a"]))
    plugin, state = storage.plugin(), CycleState()
    assert plugin.pre_filter(state, pod, SNAPSHOT) is None
    plugin.filter(state, pod, whole(SNAPSHOT))
    storage.delete(PV, "v")
    with pytest.raises(CacheError):
        plugin.reserve(state, pod, "a")
    assert storage.failed_stages == ["assume"]
