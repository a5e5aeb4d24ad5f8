import pytest

from schedcache.model import LabelSelector, MalformedObjectError, OwnerRef, Requirement
from schedcache.model.objects import ClusterObject
from schedcache.model.storage import (
    BETA_STORAGE_CLASS_ANNOTATION,
    ClaimRef,
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.model.support import both

KINDS: list[type[ClusterObject]] = [
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
]
META = {"name": "x"}


def read(kind, **parts):
    return both(kind, {"metadata": META, **parts})


@pytest.mark.parametrize("kind", KINDS)
def test_identity_is_read(kind):
    meta = {"name": "x", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}
    found = kind.from_dict({"metadata": meta})
    assert (found.name, found.uid, found.resource_version) == ("x", "u1", "7")
    assert found.namespace == ("shop" if kind in (PersistentVolumeClaim, CSIStorageCapacity) else "")


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_may_be_null(kind):
    assert read(kind, spec=None, status=None).name == "x"
    fields = (
        "accessModes",
        "capacity",
        "claimRef",
        "drivers",
        "nodeAffinity",
        "resources",
        "selector",
        "source",
        "csi",
    )
    assert read(kind, spec=dict.fromkeys(fields), status={"phase": None, "attached": None}).name == "x"
    assert read(kind, allowedTopologies=None, nodeTopology=None, maximumVolumeSize=None, provisioner=None).name == "x"


@pytest.mark.parametrize(
    ("kind", "parts", "field"),
    [
        (PersistentVolume, {"spec": {"capacity": {"storage": "ten"}}}, "spec.capacity.storage"),
        (PersistentVolume, {"spec": {"accessModes": "ReadWriteOnce"}}, "spec.accessModes"),
        (
            PersistentVolumeClaim,
            {"spec": {"resources": {"requests": {"storage": "1Q"}}}},
            "spec.resources.requests.storage",
        ),
        (StorageClass, {"provisioner": 3}, "provisioner"),
        (CSINode, {"spec": {"drivers": [{"allocatable": {"count": "5"}}]}}, "spec.drivers[0].allocatable.count"),
        (CSIDriver, {"spec": {"storageCapacity": "yes"}}, "spec.storageCapacity"),
        (CSIStorageCapacity, {"capacity": "many"}, "capacity"),
        (VolumeAttachment, {"status": {"attached": 1}}, "status.attached"),
    ],
)
def test_a_fault_names_kind_object_and_field(kind, parts, field):
    with pytest.raises(MalformedObjectError) as caught:
        kind.from_dict({"metadata": META, **parts})
    assert (caught.value.kind, caught.value.name, caught.value.field) == (kind.__name__, "x", field)


def test_persistent_volume():
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "a"]}]}
    found = read(
        PersistentVolume,
        spec={
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "claimRef": {"namespace": "shop", "name": "data", "uid": "u9"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [zone]}},
            "storageClassName": "fast",
            "volumeMode": "Block",
            "csi": {"driver": "csi.example.com", "volumeHandle": "h1"},
        },
        status={"phase": "Bound"},
    )
    assert found.capacity == 10 * 2**30
    assert found.access_modes == ("ReadWriteOnce", "ReadOnlyMany")
    assert found.claim_ref == ClaimRef("shop", "data", "u9")
    assert found.node_affinity is not None
    assert found.node_affinity[0].expressions == (Requirement("zone", "In", ("b", "a")),)
    assert (found.storage_class_name, found.volume_mode, found.phase) == ("fast", "Block", "Bound")
    assert (found.csi_driver, found.csi_volume_handle) == ("csi.example.com", "h1")


def test_a_volume_without_node_affinity_differs_from_one_that_matches_no_node():
    assert read(PersistentVolume, spec={"nodeAffinity": {"required": None}}).node_affinity is None
    assert read(PersistentVolume, spec={"nodeAffinity": {"required": {"nodeSelectorTerms": None}}}).node_affinity == ()


@pytest.mark.parametrize(
    ("source", "identity"),
    [
        ({"local": {"path": "/mnt/a"}}, ("local", ("/mnt/a",))),
        ({"gcePersistentDisk": {"pdName": "pd"}}, ("gcePersistentDisk", ("pd",))),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, ("awsElasticBlockStore", ("vol-1",))),
        ({"azureDisk": {"diskName": "d", "diskURI": "/d"}}, ("azureDisk", ("d", "/d", ""))),
        ({"azureFile": {"secretName": "s", "shareName": "t"}}, ("azureFile", ("s", "t"))),
        ({"cinder": {"volumeID": "c"}}, ("cinder", ("c",))),
        ({"vsphereVolume": {"volumePath": "[ds] v"}}, ("vsphereVolume", ("[ds] v",))),
        ({"portworxVolume": {"volumeID": "p"}}, ("portworxVolume", ("p",))),
        ({"csi": {"driver": None, "volumeHandle": "h"}}, ("csi", ("", "h"))),
        ({"nfs": {"server": "s"}}, ("", ())),
    ],
)
def test_volume_sources(source, identity):
    found = read(PersistentVolume, spec=source)
    assert (found.source_kind, found.source) == identity
    assert found.csi_driver == ""


def test_claim():
    owners = [{"kind": "Job", "name": "j", "uid": "u1"}, {"kind": "Pod", "name": "p", "uid": "u2", "controller": True}]
    found = PersistentVolumeClaim.from_dict(
        {
            "metadata": {"name": "x", "annotations": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
            | {"ownerReferences": owners},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1500m"}},
                "selector": {"matchLabels": {"tier": "gold"}},
                "volumeName": "v1",
            },
            "status": {"phase": "Bound"},
        }
    )
    assert found.requested == 2  # whole bytes, rounded up
    assert found.selector == LabelSelector((Requirement("tier", "In", ("gold",)),))
    assert (found.volume_name, found.phase, found.volume_mode) == ("v1", "Bound", "Filesystem")
    assert found.annotations == {"a": "b"}
    assert found.deletion_timestamp == "2026-01-01T00:00:00Z"
    assert found.owner == OwnerRef("Pod", "p", "u2")


@pytest.mark.parametrize("kind", [PersistentVolume, PersistentVolumeClaim])
def test_the_beta_annotation_names_the_class_first(kind):
    meta = {"name": "x", "annotations": {BETA_STORAGE_CLASS_ANNOTATION: "old"}}
    assert kind.from_dict({"metadata": meta, "spec": {"storageClassName": "new"}}).storage_class_name == "old"


def test_a_claim_without_a_class_differs_from_one_that_wants_none():
    assert read(PersistentVolumeClaim, spec={}).storage_class_name is None
    assert read(PersistentVolumeClaim, spec={"storageClassName": ""}).storage_class_name == ""


def test_storage_class():
    zones = {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}, {"key": "rack", "values": None}]}
    found = read(
        StorageClass, provisioner="csi.example.com", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=[zones]
    )
    assert (found.provisioner, found.volume_binding_mode) == ("csi.example.com", "WaitForFirstConsumer")
    (term,) = found.allowed_topologies
    assert term.expressions == (("zone", ("a", "b")), ("rack", ()))
    assert not term.matches({"zone": "a", "rack": "1"})
    only_zone = read(StorageClass, allowedTopologies=[{"matchLabelExpressions": zones["matchLabelExpressions"][:1]}])
    assert only_zone.allowed_topologies[0].matches({"zone": "b"})
    assert not only_zone.allowed_topologies[0].matches({})


def test_csi_node():
    drivers = [
        {"name": "d1", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 0}},
        {"name": "d2", "nodeID": "n", "topologyKeys": None, "allocatable": {"count": None}},
        {"name": "d3", "nodeID": "n"},
    ]
    assert read(CSINode, spec={"drivers": drivers}).drivers == (
        CSINodeDriver("d1", "n", ("zone",), 0),
        CSINodeDriver("d2", "n"),
        CSINodeDriver("d3", "n"),
    )


def test_csi_driver_attaches_unless_it_says_otherwise():
    assert read(CSIDriver, spec={}).attach_required
    spec = {"attachRequired": False, "storageCapacity": True, "preventPodSchedulingIfMissing": True}
    found = read(CSIDriver, spec=spec)
    assert not found.attach_required
    assert found.storage_capacity
    assert found.prevent_pod_scheduling_if_missing


def test_csi_storage_capacity():
    found = read(CSIStorageCapacity, storageClassName="fast", capacity="1Ti", nodeTopology={"matchLabels": {}})
    assert (found.storage_class_name, found.capacity, found.maximum_volume_size) == ("fast", 2**40, None)
    assert found.node_topology == LabelSelector()
    assert read(CSIStorageCapacity, maximumVolumeSize="5").maximum_volume_size == 5
    assert read(CSIStorageCapacity).node_topology is None


def test_volume_attachment():
    source = {"persistentVolumeName": "v1"}
    spec = {"attacher": "csi.example.com", "nodeName": "n1", "source": source}
    found = read(VolumeAttachment, spec=spec, status={"attached": True})
    assert (found.attacher, found.node_name, found.persistent_volume_name) == ("csi.example.com", "n1", "v1")
    assert found.attached
    assert read(VolumeAttachment, spec={"source": {"inlineVolumeSpec": {}}}).persistent_volume_name is None
