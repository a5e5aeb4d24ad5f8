"""VolumeRestrictions beyond the recorded answers: disks between pods, deltas, and queueing hints."""

import pytest

from schedcache.cache import Snapshot
from schedcache.framework.interface import CycleState
from schedcache.framework.status import SKIP, Code
from schedcache.plugins.volume_restrictions import VolumeRestrictions, conflict
from schedcache.testing import make_node, make_pod
from tests.plugins.cluster import handle, reasons, rejected, whole
from tests.plugins.volumes import claim, pod_with

DISK = (Code.UNSCHEDULABLE, "node(s) had no available disk")
IN_USE = (
    Code.UNSCHEDULABLE,
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
NODES = [make_node("a"), make_node("b")]


def gce(name="d", *, read_only=False):
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(volume_id="v", *, read_only=False):
    return {"awsElasticBlockStore": {"volumeID": volume_id, "readOnly": read_only}}


def iscsi(iqn="i", portal="p", *, read_only=False):
    return {"iscsi": {"iqn": iqn, "targetPortal": portal, "lun": 0, "readOnly": read_only}}


def rbd(*monitors, pool="rbd", image="x", read_only=False):
    return {"rbd": {"monitors": list(monitors), "pool": pool, "image": image, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        (gce(), gce(), True),
        (gce(), gce("e"), False),
        (gce(read_only=True), gce(read_only=True), False),
        (gce(read_only=True), gce(), True),
        (ebs(read_only=True), ebs(read_only=True), True),
        (ebs(), ebs("w"), False),
        (ebs("d"), gce("d"), False),
        (iscsi(), iscsi(portal="q"), True),
        (iscsi(), iscsi("j"), False),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (rbd("m1", "m2"), rbd("m2", "m3"), True),
        (rbd("m1"), rbd("m2"), False),
        (rbd("m1"), rbd("m1", pool="other"), False),
        (rbd("m1"), rbd("m1", image="y"), False),
        (rbd("m1", read_only=True), rbd("m1", read_only=True), False),
        (gce(), {"emptyDir": {}}, False),
    ],
)
def test_disks_that_two_pods_of_a_node_cannot_share(one, other, clash):
    pod, there = pod_with("p", inline=[one]), pod_with("q", inline=[other], node="a")
    assert conflict(pod.volumes, there) is clash
    found = rejected(VolumeRestrictions(None, handle()), pod, Snapshot.build([there], NODES))
    assert found == ({"a": DISK} if clash else {})


def test_pods_put_on_a_node_or_taken_off_it_in_thought_count():
    there, guest = pod_with("q", inline=[gce()], node="a"), pod_with("g", inline=[gce()])
    snapshot = Snapshot.build([there], NODES)
    plugin, pod, view = (
        VolumeRestrictions(None, handle()),
        pod_with("p", inline=[gce()]),
        whole(snapshot).hypothetical(),
    )
    view.remove_pod(view.names().index("a"), there)
    view.add_pod(view.names().index("b"), guest)
    assert rejected(plugin, pod, snapshot, view) == {"b": DISK}


def test_rows_that_move_are_looked_at_again():
    plugin, pod = VolumeRestrictions(None, handle()), pod_with("p", inline=[ebs()])
    snapshot = Snapshot.build([], NODES)
    assert rejected(plugin, pod, snapshot) == {}
    there = pod_with("q", inline=[ebs()], node="b")
    snapshot.assume(there)
    assert rejected(plugin, pod, snapshot) == {"b": DISK}
    snapshot.forget(there)
    assert rejected(plugin, pod, snapshot) == {}


def exclusive(name="c", **more):
    return claim(name, accessModes=["ReadWriteOncePod"], **more)


def test_a_claim_for_one_pod_is_free_only_where_its_user_is_taken_off():
    user = pod_with("q", "c", node="a")
    snapshot = Snapshot.build([user], NODES)
    plugin, view = VolumeRestrictions(None, handle(exclusive())), whole(snapshot).hypothetical()
    assert rejected(plugin, pod_with("p", "c"), snapshot) == {"a": IN_USE, "b": IN_USE}
    view.remove_pod(view.names().index("a"), user)
    assert rejected(plugin, pod_with("p", "c"), snapshot, view) == {"b": IN_USE}


@pytest.mark.parametrize(
    ("objects", "user"),
    [
        ([exclusive()], make_pod("q", "a")),
        ([claim("c")], pod_with("q", "c", node="a")),
        ([exclusive()], pod_with("q", "c", node="a", namespace="other")),
    ],
)
def test_nothing_to_check(objects, user):
    snapshot = Snapshot.build([user], NODES)
    plugin = VolumeRestrictions(None, handle(*objects))
    assert plugin.pre_filter(CycleState(), pod_with("p", "c"), snapshot) is SKIP


def test_a_missing_claim_rejects_the_pod():
    status = VolumeRestrictions(None, handle()).pre_filter(CycleState(), pod_with("p", "c"), Snapshot.build([], NODES))
    assert (status.code, status.reasons) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        ('persistentvolumeclaim "c" not found',),
    )


def test_without_its_pre_filter_the_filter_fails_where_no_disk_is_in_the_way():
    snapshot = Snapshot.build([pod_with("q", inline=[gce()], node="a")], NODES)
    view, plugin = whole(snapshot), VolumeRestrictions(None, handle())
    found = reasons(view, plugin.filter(CycleState(), pod_with("p", inline=[gce()]), view))
    assert found == {
        "a": DISK,
        "b": (Code.ERROR, 'cannot read "PreFilterVolumeRestrictions" from cycleState'),
    }


@pytest.mark.parametrize(
    ("deleted", "helps"),
    [
        (pod_with("q", "c"), True),
        (pod_with("q", "d"), False),
        (pod_with("q", "c", namespace="other"), False),
        (pod_with("q", inline=[gce()]), True),
        (pod_with("q", inline=[gce("e")]), False),
        (pod_with("q", inline=[gce()], namespace="other"), False),
    ],
)
def test_only_pods_with_the_same_volume_free_it(deleted, helps):
    (hint,) = [h.fn for h in VolumeRestrictions.events_to_register() if h.resource == "AssignedPod"]
    assert hint(pod_with("p", "c", inline=[gce()]), deleted, None) is helps
