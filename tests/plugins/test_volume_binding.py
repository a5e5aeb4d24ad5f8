"""VolumeBinding beyond the recorded answers: which volume is chosen, room, scores, refusals, and queueing hints."""

import numpy as np
import pytest

from schedcache.cache import Snapshot
from schedcache.config.plugin_args import UtilizationShapePoint, VolumeBindingArgs
from schedcache.framework.interface import CycleState
from schedcache.framework.status import SKIP, Code
from schedcache.plugins.volume_binding import VolumeBinding
from schedcache.testing import make_node
from tests.plugins.cluster import HOST, ZONE, handle, reasons, rejected, whole
from tests.plugins.volumes import (
    DRIVER,
    claim,
    csi_driver,
    csi_node,
    csi_volume,
    expression,
    pod_with,
    room,
    storage_class,
    term,
    volume,
)

UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
NOT_REACHED = (UNRESOLVABLE, "node(s) didn't match PersistentVolume's node affinity")
NO_VOLUME = (UNRESOLVABLE, "node(s) didn't find available persistent volumes to bind")
NO_SPACE = (UNRESOLVABLE, "node(s) did not have enough free storage")
GONE = (UNRESOLVABLE, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
NODES = [make_node("a", "z1"), make_node("b", "z2")]
SNAPSHOT = Snapshot.build([], NODES)
STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")
SELECTED = "volume.kubernetes.io/selected-node"


def binding(*objects, args=None):
    return VolumeBinding(args, handle(*objects))


def chosen(plugin, pod, snapshot=SNAPSHOT):
    """Node -> ({claim: volume}, [claims to provision]) for the nodes that pass."""
    state, view = CycleState(), whole(snapshot)
    assert plugin.pre_filter(state, pod, snapshot) is None
    refused = reasons(view, plugin.filter(state, pod, view))
    volumes = state["VolumeBinding"].volumes
    found = {}
    for name, row in zip(view.names(), view.rows.tolist(), strict=True):
        if name not in refused:
            bindings, provisions = volumes.on(row)
            found[name] = ({c.name: v.name for c, v in bindings}, [c.name for c in provisions])
    return found


def scored(plugin, pod, snapshot=SNAPSHOT):
    state, view = CycleState(), whole(snapshot)
    assert plugin.pre_filter(state, pod, snapshot) is None
    passed = np.flatnonzero(plugin.filter(state, pod, view).codes == 0)
    feasible = view.take(passed)
    if plugin.pre_score(state, pod, feasible) is SKIP:
        return None
    return dict(zip(feasible.names(), plugin.score(state, pod, feasible).tolist(), strict=True))


def rejection(plugin, pod):
    status = plugin.pre_filter(CycleState(), pod, SNAPSHOT)
    return status.code, *status.reasons


# ---- before any node is looked at


def test_pods_without_claims_are_not_asked_about_but_may_be_scored():
    plugin, state, pod = binding(), CycleState(), pod_with("p", inline=[{"emptyDir": {}}])
    assert plugin.pre_filter(state, pod, SNAPSHOT) is SKIP
    assert plugin.pre_score(state, pod, whole(SNAPSHOT)) is SKIP


def test_without_its_pre_filter_neither_filter_nor_score_can_work():
    plugin, pod, view = binding(claim("c")), pod_with("p", "c"), whole(SNAPSHOT)
    not_found = (Code.ERROR, "not found")
    assert reasons(view, plugin.filter(CycleState(), pod, view)) == {"a": not_found, "b": not_found}
    status = plugin.pre_score(CycleState(), pod, view)
    assert (status.code, *status.reasons) == not_found


@pytest.mark.parametrize(
    ("objects", "pod", "reason"),
    [
        ([], pod_with("p", "c"), 'persistentvolumeclaim "c" not found'),
        (
            [],
            pod_with("p", ephemeral=["e"]),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"',
        ),
        (
            [claim("c", bound_to="v", phase="Lost")],
            pod_with("p", "c"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            [claim("c", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            pod_with("p", "c"),
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            [claim("p-e", owner="someone")],
            pod_with("p", ephemeral=["e"]),
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
        ),
        (
            [claim("p-e")],
            pod_with("p", ephemeral=["e"]),
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
        ),
        ([claim("c")], pod_with("p", "c"), "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("c"), storage_class(mode="Immediate")],
            pod_with("p", "c"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            [claim("c", volumeName="v"), storage_class()],
            pod_with("p", "c"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_claims_that_no_node_could_serve_reject_the_pod(objects, pod, reason):
    assert rejection(binding(*objects), pod) == (UNRESOLVABLE, reason)


def test_a_class_without_binding_mode_is_an_error():
    plugin = binding(claim("c"), storage_class(mode=None))
    assert rejection(plugin, pod_with("p", "c")) == (Code.ERROR, 'VolumeBindingMode not set for StorageClass "s"')


# ---- bound volumes


def test_bound_volumes_must_be_reachable():
    plugin = binding(claim("c", bound_to="v"), csi_volume("v", on=["a"]))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {"b": NOT_REACHED}
    assert scored(plugin, pod_with("p", "c")) is None


@pytest.mark.parametrize(
    ("terms", "refused"),
    [
        ([term(fields=[expression("metadata.name", "a")])], set()),
        ([term(expression(HOST, "a"), fields=[expression("metadata.name", "b")])], {"b"}),
        ([term(fields=[expression("metadata.name", "a", "b")])], {"a", "b"}),
        ([term()], {"a", "b"}),
        ([], {"a", "b"}),
        ([term(expression(HOST, "x", operator="Gt")), term(expression(HOST, "b"))], {"a"}),
    ],
)
def test_a_volumes_affinity_is_asked_about_labels_alone(terms, refused):
    plugin = binding(claim("c", bound_to="v"), csi_volume("v", terms=terms))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == dict.fromkeys(refused, NOT_REACHED)


def test_the_first_bound_claim_that_fails_on_a_node_gives_the_reason():
    objects = [claim("c", bound_to="v"), csi_volume("v", on=["a"]), claim("d", bound_to="gone")]
    assert rejected(binding(*objects), pod_with("p", "c", "d"), SNAPSHOT) == {"a": GONE, "b": NOT_REACHED}
    assert rejected(binding(*objects), pod_with("p", "d", "c"), SNAPSHOT) == {"a": GONE, "b": GONE}


def test_migrated_volumes_are_looked_for_by_the_drivers_labels_where_the_node_has_migrated():
    key = "topology.ebs.csi.aws.com/zone"
    disk = volume("v", awsElasticBlockStore={"volumeID": "vol-1"}, terms=[term(expression(ZONE, "z1"))], phase="Bound")
    nodes = [make_node("old", "z1"), make_node("new", "z1", labels={key: "z1"}), make_node("bare", "z1")]
    migrated = ("kubernetes.io/aws-ebs",)
    objects = [claim("c", bound_to="v"), disk, csi_node("new", migrated=migrated), csi_node("bare", migrated=migrated)]
    snapshot = Snapshot.build([], nodes)
    assert rejected(binding(*objects), pod_with("p", "c"), snapshot) == {"bare": NOT_REACHED}


def test_a_migrated_volume_that_its_driver_could_not_serve_is_an_error_where_the_node_has_migrated():
    disk = volume("v", awsElasticBlockStore={"volumeID": "aws://z/bad"}, phase="Bound")
    plugin = binding(claim("c", bound_to="v"), disk, csi_node("b", migrated=("kubernetes.io/aws-ebs",)))
    text = (
        "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID "
        "Invalid format for AWS volume (aws://z/bad)"
    )
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {"b": (Code.ERROR, text)}


def test_rows_are_judged_once_in_an_attempt_whatever_pods_are_moved_there():
    disk = volume("v", awsElasticBlockStore={"volumeID": "aws://z/bad"}, phase="Bound", on=["a", "b"])
    migrated = ("kubernetes.io/aws-ebs",)
    there = handle(claim("c", bound_to="v"), disk, *(csi_node(name, migrated=migrated) for name in ("b", "c")))
    plugin, state, pod = VolumeBinding(None, there), CycleState(), pod_with("p", "c")
    snapshot = Snapshot.build([], [*NODES, make_node("c"), make_node("d")])
    plugin.pre_filter(state, pod, snapshot)
    whole_view = whole(snapshot).hypothetical()
    for position in range(len(whole_view)):
        view = whole_view.take(np.array([position]))
        plugin.filter(state, pod, view)
    whole_view.add_pod(0, pod_with("guest"))
    there.cluster_objects.remove("PersistentVolume", disk)
    found = reasons(whole_view, plugin.filter(state, pod, whole_view))
    assert {name: status[0] for name, status in found.items()} == {
        "b": Code.ERROR,
        "c": Code.ERROR,
        "d": UNRESOLVABLE,
    }
    assert all("aws://z/bad" in found[name][1] for name in ("b", "c"))


# ---- volumes for claims that wait for their first consumer


def test_the_smallest_volume_that_suits_is_taken_on_each_node():
    plugin = binding(
        STATIC,
        claim("c", 5),
        volume("tiny", 4),
        volume("here", 6, on=["a"]),
        volume("everywhere", 7),
        volume("large", 9, on=["b"]),
    )
    assert chosen(plugin, pod_with("p", "c")) == {"a": ({"c": "here"}, []), "b": ({"c": "everywhere"}, [])}


def test_small_claims_are_served_first_and_no_volume_twice():
    plugin = binding(
        STATIC, claim("big", 5), claim("small", 1), volume("v5", 5), volume("v6", 6), volume("v1", 1, on=["a"])
    )
    assert chosen(plugin, pod_with("p", "big", "small")) == {
        "a": ({"small": "v1", "big": "v5"}, []),
        "b": ({"small": "v5", "big": "v6"}, []),
    }


def test_a_claim_used_twice_takes_two_volumes():
    pod = pod_with("p", "c", inline=[{"persistentVolumeClaim": {"claimName": "c"}}])
    assert rejected(binding(STATIC, claim("c"), volume("v")), pod, SNAPSHOT) == {"a": NO_VOLUME, "b": NO_VOLUME}
    assert rejected(binding(STATIC, claim("c"), volume("v"), volume("w")), pod, SNAPSHOT) == {}


@pytest.mark.parametrize(
    "unsuitable",
    [
        {"phase": "Released"},
        {"phase": "Pending"},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"storageClassName": "other"},
        {"volumeAttributesClassName": "gold"},
        {"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"claim": ("other", "")},
        {"claim": ("c", "another-uid")},
        {"gib": 0},
    ],
)
def test_volumes_that_do_not_suit(unsuitable):
    plugin = binding(STATIC, claim("c"), volume("v", **unsuitable))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {"a": NO_VOLUME, "b": NO_VOLUME}


def test_the_claims_selector_picks_volumes():
    wanted = claim("c", selector={"matchLabels": {"disk": "ssd"}})
    plugin = binding(STATIC, wanted, volume("hdd", 1, labels={"disk": "hdd"}), volume("ssd", 2, labels={"disk": "ssd"}))
    assert chosen(plugin, pod_with("p", "c"))["a"] == ({"c": "ssd"}, [])


@pytest.mark.parametrize("uid", ["", "uid-c"])
def test_a_volume_reserved_for_the_claim_is_the_only_one_for_it(uid):
    """It need not be available, match the selector or offer the access mode."""
    reserved = volume("mine", 9, claim=("c", uid), on=["a"], phase="Released", accessModes=["ReadOnlyMany"])
    plugin = binding(STATIC, claim("c"), reserved, volume("free", 1))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {"b": NO_VOLUME}
    assert chosen(plugin, pod_with("p", "c")) == {"a": ({"c": "mine"}, [])}


def test_claims_that_find_no_volume_are_provisioned():
    plugin = binding(storage_class(), claim("c", 5), claim("d", 1), volume("v", 3, on=["a"]))
    assert chosen(plugin, pod_with("p", "c", "d")) == {"a": ({"d": "v"}, ["c"]), "b": ({}, ["d", "c"])}


@pytest.mark.parametrize(
    ("topologies", "refused"),
    [
        ([[(ZONE, ["z1"])]], {"b"}),
        ([[(ZONE, ["z1"]), (HOST, ["b"])]], {"a", "b"}),
        ([[(ZONE, ["z1"]), (HOST, ["b"])], [(HOST, ["b"])]], {"a"}),
        ([[]], {"a", "b"}),
    ],
)
def test_provisioning_is_bound_to_the_allowed_topologies(topologies, refused):
    plugin = binding(storage_class(topologies=topologies), claim("c"))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == dict.fromkeys(refused, NO_VOLUME)


def test_a_claim_being_provisioned_for_a_node_goes_nowhere_else():
    selected = claim("c", annotations={SELECTED: "b"})
    plugin = binding(storage_class(), selected, volume("v", 1))
    assert chosen(plugin, pod_with("p", "c")) == {"b": ({}, ["c"])}
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {"a": NO_VOLUME}
    plugin = binding(storage_class(), selected, claim("d", annotations={SELECTED: "a"}))
    assert rejected(plugin, pod_with("p", "c", "d"), SNAPSHOT) == {"a": NO_VOLUME, "b": NO_VOLUME}


def test_a_node_may_have_two_reasons():
    plugin = binding(STATIC, claim("c", bound_to="v"), csi_volume("v", on=["a"]), claim("d"))
    assert rejected(plugin, pod_with("p", "c", "d"), SNAPSHOT) == {"a": NO_VOLUME, "b": (*NOT_REACHED, NO_VOLUME[1])}


def test_an_unsound_selector_is_told_with_the_claim():
    unsound = claim("c", selector={"matchExpressions": [{"key": "k", "operator": "In", "values": []}]})
    plugin, state = binding(STATIC, unsound, volume("v")), CycleState()
    plugin.pre_filter(state, pod_with("p", "c"), SNAPSHOT)
    with pytest.raises(ValueError, match="internal label selector for claim: default/c"):
        plugin.filter(state, pod_with("p", "c"), whole(SNAPSHOT))


def test_assumed_volumes_are_not_given_away_again():
    given = handle(STATIC, claim("c"), volume("v"))
    plugin = VolumeBinding(None, given)
    given.cluster_objects.assume("PersistentVolume", volume("v", claim=("other", "uid-other")))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {"a": NO_VOLUME, "b": NO_VOLUME}
    given.cluster_objects.restore("PersistentVolume", given.cluster_objects.get("PersistentVolume", "", "v"))
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {}


# ---- room


def zone(value):
    return {"matchLabels": {ZONE: value}}


@pytest.mark.parametrize(
    ("rooms", "refused"),
    [
        ([], {"a", "b"}),
        ([room("r", "10Gi", topology=zone("z1"))], {"b"}),
        ([room("r", "4Gi", topology={})], {"a", "b"}),
        ([room("r", "4Gi", "9Gi", topology={})], set()),
        ([room("r", "9Gi", "4Gi", topology={})], {"a", "b"}),
        ([room("r", topology={})], {"a", "b"}),
        ([room("r", "10Gi")], {"a", "b"}),
        ([room("r", "10Gi", topology={}, storage_class_name="other")], {"a", "b"}),
        ([room("q", "1Gi", topology=zone("z1")), room("r", "10Gi", topology=zone("z1"))], {"b"}),
        ([room("r", "10Gi", topology={"matchExpressions": [{"key": ZONE, "operator": "In"}]})], {"a", "b"}),
    ],
)
def test_room_for_new_volumes(rooms, refused):
    plugin = binding(storage_class(), csi_driver(storageCapacity=True), claim("c", 5), *rooms)
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == dict.fromkeys(refused, NO_SPACE)


@pytest.mark.parametrize(
    "objects", [[csi_driver(storageCapacity=False)], [csi_driver("other", storageCapacity=True)], []]
)
def test_drivers_that_do_not_tell_about_room_are_taken_to_have_it(objects):
    plugin = binding(storage_class(), claim("c", 5), *objects)
    assert rejected(plugin, pod_with("p", "c"), SNAPSHOT) == {}


# ---- scores


def test_the_less_of_the_volume_is_used_the_better():
    plugin = binding(STATIC, claim("c", 5), volume("v10", 10, on=["a"]), volume("v6", 6, on=["b"]))
    assert scored(plugin, pod_with("p", "c")) == {"a": 50, "b": 17}


def test_volumes_that_are_there_count_before_room():
    plugin = binding(
        storage_class(),
        csi_driver(storageCapacity=True),
        room("r", "100Gi", topology={}),
        claim("c", 5),
        claim("d", 50),
        volume("v", 10, on=["a"]),
    )
    assert scored(plugin, pod_with("p", "c", "d")) == {"a": 50, "b": 45}


def test_the_mean_over_classes_is_rounded_half_up():
    plugin = binding(
        storage_class(),
        storage_class("t"),
        csi_driver(storageCapacity=True),
        room("r", "10Gi", topology={}),
        room("q", "100Gi", topology={}, storage_class_name="t"),
        claim("c", 5),
        claim("d", 3, storageClassName="t"),
    )
    assert scored(plugin, pod_with("p", "c", "d")) == {"a": 74, "b": 74}


def test_room_that_tells_no_capacity_counts_as_full():
    plugin = binding(
        storage_class(), csi_driver(storageCapacity=True), claim("c", 5), room("r", maximum="9Gi", topology={})
    )
    assert scored(plugin, pod_with("p", "c")) == {"a": 0, "b": 0}


def test_the_profile_may_turn_the_shape_around():
    args = VolumeBindingArgs(shape=[UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)])
    plugin = binding(STATIC, claim("c", 5), volume("v10", 10, on=["a"]), volume("v5", 5, on=["b"]), args=args)
    assert scored(plugin, pod_with("p", "c")) == {"a": 50, "b": 100}


# ---- hints


def hint(resource):
    (found,) = [h.fn for h in VolumeBinding.events_to_register() if h.resource == resource]
    return found


def test_hints():
    pod = pod_with("p", "c", ephemeral=["e"], inline=[{"csi": {"driver": DRIVER}}])
    classes = hint("StorageClass")
    assert classes(pod, None, storage_class())
    assert not classes(pod, storage_class(), storage_class())
    assert classes(pod, storage_class(), storage_class(topologies=[[(ZONE, ["z1"])]]))
    claims = hint("PersistentVolumeClaim")
    assert claims(pod, None, claim("c"))
    assert claims(pod, claim("p-e"), claim("p-e"))
    assert not claims(pod, None, claim("d"))
    assert not claims(pod, None, claim("c", namespace="other"))
    nodes = hint("CSINode")
    assert nodes(pod, None, csi_node("a"))
    assert not nodes(pod, csi_node("a"), csi_node("a", [(DRIVER, 3)]))
    assert nodes(pod, csi_node("a"), csi_node("a", migrated=["kubernetes.io/cinder"]))
    drivers = hint("CSIDriver")
    assert drivers(pod, csi_driver(storageCapacity=True), csi_driver())
    assert not drivers(pod, csi_driver(), csi_driver(storageCapacity=True))
    assert not drivers(pod_with("p", "c"), csi_driver(storageCapacity=True), csi_driver())
    assert hint("PersistentVolume") is None
    assert hint("Node") is None


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, room("r"), True),
        (room("r", "1Gi"), room("r", "2Gi"), True),
        (room("r", "2Gi"), room("r", "1Gi"), False),
        (room("r", "1Gi", "2Gi"), room("r", "9Gi", "2Gi"), False),
        (room("r"), room("r", "1Gi"), True),
        (room("r", "1Gi"), room("r"), False),
    ],
)
def test_more_room_helps(old, new, helps):
    assert hint("CSIStorageCapacity")(pod_with("p", "c"), old, new) is helps
