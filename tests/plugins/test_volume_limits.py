"""NodeVolumeLimits beyond the recorded answers: what is kept between calls, deltas, and queueing hints."""

import pytest

from schedcache.cache import Snapshot
from schedcache.framework.interface import CycleState
from schedcache.framework.status import SKIP, Code
from schedcache.model.storage import CSINode
from schedcache.plugins.node_volume_limits import NodeVolumeLimits
from schedcache.testing import make_node
from tests.plugins.cluster import handle, reasons, rejected, whole
from tests.plugins.volumes import (
    DRIVER,
    attachment,
    claim,
    csi_driver,
    csi_node,
    csi_volume,
    pod_with,
    storage_class,
)

FULL = (Code.UNSCHEDULABLE, "node(s) exceed max volume count")
NODES = [make_node("a"), make_node("b")]
EBS = "ebs.csi.aws.com"


def bound(*names, driver=DRIVER):
    """Claims, each bound to a volume of its own."""
    return [obj for n in names for obj in (claim(n, bound_to=f"v-{n}"), csi_volume(f"v-{n}", driver=driver))]


def limits(*objects):
    given = handle(*objects)
    return NodeVolumeLimits(None, given), given.cluster_objects


def test_a_node_takes_as_many_volumes_as_its_driver_tells():
    plugin, _ = limits(*bound("new", "old"), csi_node("a", [(DRIVER, 1)]), csi_node("b", [(DRIVER, 2)]))
    users = [pod_with("qa", "old", node="a"), pod_with("qb", "old", node="b")]
    assert rejected(plugin, pod_with("p", "new"), Snapshot.build(users, NODES)) == {"a": FULL}


@pytest.mark.parametrize(
    "there",
    [
        [csi_node("a")],
        [csi_node("a", [(DRIVER, None)])],
        [csi_node("a", [("other", 0)])],
        [],
    ],
)
def test_a_limit_that_nobody_tells_is_none(there):
    plugin, _ = limits(*bound("new", "old"), *there)
    snapshot = Snapshot.build([pod_with("q", "old", node="a")], NODES)
    assert rejected(plugin, pod_with("p", "new"), snapshot) == {}


def test_a_volume_that_the_node_has_already_takes_no_room():
    plugin, _ = limits(*bound("c"), csi_node("a", [(DRIVER, 1)]), csi_node("b", [(DRIVER, 0)]))
    snapshot = Snapshot.build([pod_with("q", "c", node="a")], NODES)
    assert rejected(plugin, pod_with("p", "c"), snapshot) == {"b": FULL}


def test_two_claims_on_one_volume_are_one_volume():
    shared = [claim("c", bound_to="v"), claim("d", bound_to="w"), csi_volume("v", "h"), csi_volume("w", "h")]
    plugin, _ = limits(*shared, csi_node("a", [(DRIVER, 1)]))
    assert rejected(plugin, pod_with("p", "c", "d"), Snapshot.build([], NODES)) == {}


def test_pods_put_on_a_node_or_taken_off_it_in_thought_count():
    old = pod_with("q", "old", node="a")
    plugin, _ = limits(*bound("new", "old"), csi_node("a", [(DRIVER, 1)]), csi_node("b", [(DRIVER, 1)]))
    snapshot = Snapshot.build([old], NODES)
    view = whole(snapshot).hypothetical()
    view.remove_pod(view.names().index("a"), old)
    view.add_pod(view.names().index("b"), pod_with("g", "old"))
    assert rejected(plugin, pod_with("p", "new"), snapshot) == {"a": FULL}
    assert rejected(plugin, pod_with("p", "new"), snapshot, view) == {"b": FULL}


def test_what_was_counted_is_counted_again_once_a_pod_or_an_object_moves():
    plugin, objects = limits(*bound("new", "old"), storage_class(provisioner="other"), csi_node("a", [(DRIVER, 1)]))
    pod, snapshot = pod_with("p", "new"), Snapshot.build([], NODES)
    assert rejected(plugin, pod, snapshot) == {}
    snapshot.assume(pod_with("q", "old", node="a"))
    assert rejected(plugin, pod, snapshot) == {"a": FULL}
    # The claim loses its volume: it will be provisioned by a driver without limit.
    objects.update("PersistentVolumeClaim", claim("old", meta={"resourceVersion": "2"}))
    assert rejected(plugin, pod, snapshot) == {}
    objects.add("VolumeAttachment", attachment("va", "a", "v-old"))
    assert rejected(plugin, pod, snapshot) == {"a": FULL}
    objects.update("CSINode", csi_node("a", [(DRIVER, 2)]))
    assert rejected(plugin, pod, snapshot) == {}


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (attachment("va", "a", "v-old"), True),
        (attachment("va", "b", "v-old"), False),
        (attachment("va", "a", "v-old", attacher="other"), False),
        (attachment("va", "a", "v-old", attacher=""), False),
        (attachment("va", "a", None), False),
        (attachment("va", "a", "unknown"), False),
    ],
)
def test_volumes_that_are_attached_though_no_pod_uses_them_count(found, refused):
    plugin, _ = limits(*bound("new", "old"), csi_node("a", [(DRIVER, 1)]), found)
    assert rejected(plugin, pod_with("p", "new"), Snapshot.build([], NODES)) == ({"a": FULL} if refused else {})


def test_an_attached_volume_that_a_pod_uses_counts_once():
    plugin, _ = limits(*bound("new", "old"), csi_node("a", [(DRIVER, 2)]), attachment("va", "a", "v-old"))
    snapshot = Snapshot.build([pod_with("q", "old", node="a")], NODES)
    assert rejected(plugin, pod_with("p", "new"), snapshot) == {}


def test_claims_without_a_volume_count_by_the_driver_of_their_class():
    plugin, _ = limits(claim("c"), storage_class(), csi_node("a", [(DRIVER, 0)]))
    assert rejected(plugin, pod_with("p", "c"), Snapshot.build([], NODES)) == {"a": FULL}
    plugin, _ = limits(claim("c", bound_to="gone"), storage_class(), csi_node("a", [(DRIVER, 0)]))
    assert rejected(plugin, pod_with("p", "c"), Snapshot.build([], NODES)) == {"a": FULL}


@pytest.mark.parametrize("provisioner", ["kubernetes.io/aws-ebs", "kubernetes.io/vsphere-volume"])
def test_classes_of_in_tree_types_count_for_the_driver_that_took_them_over(provisioner):
    plugin, _ = limits(claim("c"), storage_class(provisioner=provisioner), csi_node("a", [(EBS, 0), (provisioner, 0)]))
    full = {"a": FULL} if provisioner.endswith("ebs") else {}
    assert rejected(plugin, pod_with("p", "c"), Snapshot.build([], NODES)) == full


def test_in_tree_volumes_count_where_there_is_a_csi_node():
    disk = {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}
    plugin, _ = limits(csi_node("a", [(EBS, 0)]))
    assert rejected(plugin, pod_with("p", inline=[disk]), Snapshot.build([], NODES)) == {"a": FULL}
    # Another pod's disk is the same volume under another name.
    plugin, _ = limits(csi_node("a", [(EBS, 1)]))
    user = pod_with("q", inline=[{"awsElasticBlockStore": {"volumeID": "vol-1"}}], node="a")
    assert rejected(plugin, pod_with("p", inline=[disk]), Snapshot.build([user], NODES)) == {}


def test_a_driver_that_must_be_there_is_missed():
    objects = [*bound("c"), csi_node("a", [(DRIVER, None)]), csi_node("b", [("other", 1)])]
    missing = (Code.UNSCHEDULABLE, f"{DRIVER} CSI driver is not installed on the node")
    snapshot = Snapshot.build([], [*NODES, make_node("bare")])
    plugin, _ = limits(*objects, csi_driver(preventPodSchedulingIfMissing=True))
    assert rejected(plugin, pod_with("p", "c"), snapshot) == {"b": missing, "bare": missing}
    plugin, _ = limits(*objects, csi_driver())
    assert rejected(plugin, pod_with("p", "c"), snapshot) == {}


def test_a_missing_claim_is_told_with_the_name_of_the_pods_namespace():
    plugin, _ = limits()
    text = 'looking up PVC default/c: persistentvolumeclaim "c" not found'
    found = rejected(plugin, pod_with("p", "c"), Snapshot.build([], NODES[:1]))
    assert found == {"a": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)}


@pytest.mark.parametrize(
    ("user", "text"),
    [
        (
            pod_with("q", ephemeral=["e"], node="a"),
            "PVC default/q-e was not created for pod default/q (pod is not owner)",
        ),
        (
            pod_with("q", inline=[{"awsElasticBlockStore": {"volumeID": "aws://z/bad"}}], node="a"),
            (
                "converting volume(i0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID "
                "Invalid format for AWS volume (aws://z/bad)"
            ),
        ),
    ],
)
def test_a_pod_of_the_node_that_cannot_be_counted_is_an_error_though_there_is_room(user, text):
    plugin, _ = limits(*bound("c"), claim("q-e", owner="someone"), csi_node("a", [(DRIVER, 99)]))
    snapshot = Snapshot.build([user], NODES)
    assert rejected(plugin, pod_with("p", "c"), snapshot) == {"a": (Code.ERROR, text)}


def test_pods_without_such_volumes_are_not_asked_about():
    plugin, _ = limits()
    for pod in (pod_with("p"), pod_with("p", inline=[{"iscsi": {"iqn": "i"}}, {"csi": {"driver": DRIVER}}])):
        assert plugin.pre_filter(CycleState(), pod, Snapshot.build([], NODES)) is SKIP


def test_nodes_come_and_go():
    plugin, objects = limits(*bound("c"), csi_node("a", [(DRIVER, 0)]))
    pod = pod_with("p", "c")
    assert rejected(plugin, pod, Snapshot.build([], NODES)) == {"a": FULL}
    assert rejected(plugin, pod, Snapshot.build([], [make_node("b"), make_node("a")])) == {"a": FULL}
    objects.remove("CSINode", csi_node("a"))
    view = whole(Snapshot.build([], NODES))
    assert reasons(view, plugin.filter(CycleState(), pod, view)) == {}


def hints(resource, action):
    return [h.fn for h in NodeVolumeLimits.events_to_register() if h.resource == resource and action in h.actions]


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        ([(DRIVER, 1)], [(DRIVER, 2)], True),
        ([(DRIVER, 2)], [(DRIVER, 1)], False),
        ([(DRIVER, 1)], [(DRIVER, 1), ("other", 1)], True),
        ([], [(DRIVER, None)], False),
        ([(DRIVER, 1)], [(DRIVER, None)], False),
    ],
)
def test_higher_limits_help(old, new, helps):
    (hint,) = hints("CSINode", "Update")
    assert hint(pod_with("p", "c"), csi_node("a", old), csi_node("a", new)) is helps
    assert hints("CSINode", "Add") == [None]


@pytest.mark.parametrize(
    ("deleted", "helps"),
    [
        (pod_with("q", "d", node="a"), True),
        (pod_with("q", ephemeral=["e"], node="a"), True),
        (pod_with("q", inline=[{"gcePersistentDisk": {"pdName": "d"}}], node="a"), True),
        (pod_with("q", inline=[{"iscsi": {"iqn": "i"}}], node="a"), False),
        (pod_with("q", node="a"), False),
        (pod_with("q", "d"), False),
        (pod_with("q", "d", nominated="a"), True),
    ],
)
def test_pods_that_leave_a_node_with_volumes_help(deleted, helps):
    (hint,) = hints("AssignedPod", "Delete")
    assert hint(pod_with("p", "c"), deleted, None) is helps


def test_new_claims_help_pods_that_name_them():
    (hint,) = hints("PersistentVolumeClaim", "Add")
    pod = pod_with("p", "c", ephemeral=["e"])
    assert hint(pod, None, claim("c"))
    assert hint(pod, None, claim("p-e"))
    assert not hint(pod, None, claim("d"))
    assert not hint(pod, None, claim("c", namespace="other"))


@pytest.mark.parametrize(
    ("pod", "helps"),
    [
        (pod_with("p", "c"), True),
        (pod_with("p", inline=[{"awsElasticBlockStore": {"volumeID": "vol-1"}}]), True),
        (pod_with("p", inline=[{"gcePersistentDisk": {"pdName": "d"}}]), False),
        (pod_with("p", ephemeral=["e"]), False),
    ],
)
def test_detached_volumes_help(pod, helps):
    (hint,) = hints("VolumeAttachment", "Delete")
    assert hint(pod, attachment("va", "a", "v", attacher=EBS), None) is helps


def test_null_lists_of_a_csi_node_mean_no_drivers():
    plugin, _ = limits(*bound("c"), CSINode.from_dict({"metadata": {"name": "a"}, "spec": {"drivers": None}}))
    assert rejected(plugin, pod_with("p", "c"), Snapshot.build([], NODES)) == {}
