"""Which driver a volume is warned of: the one that NodeVolumeLimits counts it for, in-tree volumes' successors included."""

import pytest

from schedcache.simulation import simulate
from schedcache.testing import node_manifest, pod_manifest

NODE = node_manifest("n")
CSI_NODE = {"kind": "CSINode", "metadata": {"name": "n"}, "spec": {"drivers": []}}
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
NO_LIMIT = "node n: CSINode names no limit for driver {}: limit unknown, taken as none"


def claim(bound_to="", storage_class=None):
    spec = {"volumeName": bound_to or None, "storageClassName": storage_class, "accessModes": ["ReadWriteOnce"]}
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if bound_to else {}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "default", "annotations": bound},
        "spec": spec,
        "status": {"phase": "Bound" if bound_to else "Pending"},
    }


def volume(source):
    reference = {"name": "c", "namespace": "default"}
    return {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"claimRef": reference, **source}}


def storage_class(provisioner):
    return {
        "kind": "StorageClass",
        "metadata": {"name": "s"},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def warnings(*objects, inline=None):
    used = inline or {"persistentVolumeClaim": {"claimName": "c"}}
    spec = {"containers": [{"name": "c"}], "volumes": [{"name": "data", **used}]}
    return simulate([NODE, CSI_NODE, *objects], pod_manifest("p", scheduler_name="default-scheduler", **spec))[
        "warnings"
    ]


@pytest.mark.parametrize(
    ("objects", "driver"),
    [
        ([claim("v"), volume({"csi": {"driver": "d.example", "volumeHandle": "h"}})], "d.example"),
        ([claim("v"), volume(EBS)], "ebs.csi.aws.com"),
        ([claim("v"), volume({"gcePersistentDisk": {"pdName": "disk"}})], "pd.csi.storage.gke.io"),
        ([claim(storage_class="s"), storage_class("d.example")], "d.example"),
        ([claim(storage_class="s"), storage_class("kubernetes.io/aws-ebs")], "ebs.csi.aws.com"),
    ],
)
def test_the_driver_of_a_claim_is_that_which_counts_it(objects, driver):
    assert warnings(*objects) == [NO_LIMIT.format(driver)]


def test_a_volume_of_the_pod_itself_is_counted_by_the_driver_that_took_it_over():
    assert warnings(inline=EBS) == [NO_LIMIT.format("ebs.csi.aws.com")]


@pytest.mark.parametrize(
    "objects",
    [
        [],
        [claim("v"), volume({"nfs": {"server": "s", "path": "/"}})],
        [claim(storage_class="s"), storage_class("kubernetes.io/no-provisioner")],
        [claim(storage_class="s"), storage_class("kubernetes.io/azure-file")],
    ],
)
def test_what_no_driver_counts_has_no_limit_to_know(objects):
    assert warnings(*objects) == []


def test_a_node_without_csinode_is_no_news():
    spec = {"containers": [{"name": "c"}], "volumes": [{"name": "data", **EBS}]}
    assert simulate([NODE], pod_manifest("p", scheduler_name="default-scheduler", **spec))["warnings"] == []
