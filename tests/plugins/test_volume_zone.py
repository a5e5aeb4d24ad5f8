"""VolumeZone beyond the recorded answers: what it says before any node is looked at, and its queueing hints."""

import pytest

from schedcache.cache import Snapshot
from schedcache.framework.interface import CycleState
from schedcache.framework.status import SKIP, Code
from schedcache.plugins.volume_zone import VolumeZone, topologies_of
from schedcache.testing import make_node
from tests.plugins.cluster import ZONE, handle, reasons, rejected, whole
from tests.plugins.volumes import claim, csi_volume, pod_with, storage_class

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
NODES = [make_node("a", "z1"), make_node("b", "z2"), make_node("bare")]
ELSEWHERE = (UNRESOLVABLE, "node(s) had no available volume zone")


def zoned(*objects):
    return VolumeZone(None, handle(*objects))


@pytest.mark.parametrize(
    ("label", "value", "refused"),
    [
        (ZONE, "z1", {"b"}),
        (ZONE, "z1__z2", set()),
        (ZONE, "z3", {"a", "b"}),
        (BETA_ZONE, "z2", {"a"}),
        (ZONE, "z3__", set()),
        ("topology.kubernetes.io/region", "r", {"a", "b"}),
    ],
)
def test_the_volumes_labels_must_match_those_of_nodes_that_have_any(label, value, refused):
    plugin = zoned(claim("c", bound_to="v"), csi_volume("v", labels={label: value}))
    found = rejected(plugin, pod_with("p", "c"), Snapshot.build([], NODES))
    assert found == dict.fromkeys(refused, ELSEWHERE)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim("c", bound_to="v")], 'persistentvolume "v" not found'),
        ([claim("c", storageClassName=None)], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim("c")], 'storageclass.storage.k8s.io "s" not found'),
        ([claim("c"), storage_class(mode=None)], 'VolumeBindingMode not set for StorageClass "s"'),
        ([claim("c"), storage_class(mode="Immediate")], "PersistentVolume had no name"),
    ],
)
def test_a_volume_that_cannot_be_found_rejects_the_pod(objects, reason):
    snapshot = Snapshot.build([], NODES)
    pod = pod_with("p", "c")
    status = zoned(*objects).pre_filter(CycleState(), pod, snapshot)
    assert (status.code, status.reasons) == (UNRESOLVABLE, (reason,))
    # A profile may have the filter without its PreFilter.
    verdicts = zoned(*objects).filter(CycleState(), pod, whole(snapshot))
    assert reasons(whole(snapshot), verdicts) == dict.fromkeys(("a", "b", "bare"), (UNRESOLVABLE, reason))


def test_claims_without_a_name_are_told_apart_from_missing_ones():
    pod = pod_with("p", "")
    assert zoned().pre_filter(CycleState(), pod, Snapshot.build([], NODES)).reasons == (
        "PersistentVolumeClaim had no name",
    )


def test_what_is_still_to_be_bound_is_left_to_volume_binding():
    plugin = zoned(claim("c"), storage_class())
    pod = pod_with("p", "c", ephemeral=["e"])
    assert plugin.pre_filter(CycleState(), pod, Snapshot.build([], NODES)) is SKIP


def test_hints():
    pod = pod_with("p", "c")
    by_kind = {h.resource: h for h in VolumeZone.events_to_register()}
    assert by_kind["StorageClass"].fn(pod, None, storage_class())
    assert not by_kind["StorageClass"].fn(pod, None, storage_class(mode="Immediate"))
    claims = by_kind["PersistentVolumeClaim"]
    assert set(claims.actions) == {"Add", "Update"}
    assert claims.fn(pod, None, claim("c"))
    assert not claims.fn(pod, None, claim("d"))
    assert not claims.fn(pod, None, claim("c", namespace="other"))
    volumes = by_kind["PersistentVolume"].fn
    old = csi_volume("v", labels={ZONE: "z1__z2"})
    assert volumes(pod, None, old)
    assert not volumes(pod, old, csi_volume("v", labels={ZONE: "z2__z1", "other": "x"}))
    assert volumes(pod, old, csi_volume("v", labels={ZONE: "z1"}))
    assert by_kind["Node"].fn is None


def test_a_label_with_an_empty_value_means_nothing():
    assert topologies_of(csi_volume("v", labels={ZONE: "a__ __b"})) == []
