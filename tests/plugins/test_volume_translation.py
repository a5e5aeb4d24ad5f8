"""In-tree volumes as their CSI drivers know them; the answers are those of k8s.io/csi-translation-lib 0.37.2."""

import pytest

from schedcache.model.storage import PersistentVolume
from schedcache.plugins.volumes.csi_translation import TranslationError, translate_inline, translate_volume
from tests.plugins.volumes import expression, pod_with, term

ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
GCE, EBS = "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone"
GCE_DISK = {"gcePersistentDisk": {"pdName": "d"}}
EBS_DISK = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def translated(source, labels=None, terms=None):
    spec = dict(source)
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return translate_volume(
        PersistentVolume.from_dict({"metadata": {"name": "x", "labels": labels or {}}, "spec": spec})
    )


def affinity_of(found):
    if found.node_affinity is None:
        return None
    return [[(r.key, *r.values) for r in t.expressions] for t in found.node_affinity]


@pytest.mark.parametrize(
    ("labels", "where"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "us-a1-x"}, "zones/us-a1-x"),
        ({BETA_ZONE: "us-a1-x", ZONE: "us-a1-y"}, "zones/us-a1-x"),
        ({ZONE: "us-a1-x__us-a1-y"}, "regions/us-a1"),
    ],
)
def test_gce_disks_are_named_by_their_zone_or_region(labels, where):
    found = translated(GCE_DISK, labels)
    assert (found.driver, found.handle) == ("pd.csi.storage.gke.io", f"projects/UNSPECIFIED/{where}/disks/d")


@pytest.mark.parametrize(
    ("volume_id", "handle"),
    [("vol-1", "vol-1"), ("aws://eu-1a/vol-1", "vol-1"), ("aws:///vol-1/", "vol-1"), ("plain", "plain")],
)
def test_ebs_volumes_lose_the_old_form_of_their_id(volume_id, handle):
    found = translated({"awsElasticBlockStore": {"volumeID": volume_id}})
    assert (found.driver, found.handle) == ("ebs.csi.aws.com", handle)


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"azureDisk": {"diskName": "d", "diskURI": "/u", "kind": "Managed"}}, "disk.csi.azure.com", "/u"),
        ({"azureDisk": {"diskName": "d", "diskURI": "/u"}}, "disk.csi.azure.com", "/u"),
        ({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p"),
    ],
)
def test_other_types_keep_their_id(source, driver, handle):
    found = translated(source)
    assert (found.driver, found.handle, found.unique_name) == (driver, handle, f"{driver}/{handle}")


@pytest.mark.parametrize(
    ("labels", "terms", "affinity"),
    [
        ({}, None, None),
        ({ZONE: "a__b"}, None, [[(EBS, "a", "b")]]),
        ({ZONE: "a"}, [], [[(EBS, "a")]]),
        ({ZONE: "a"}, [term(expression(ZONE, "b"))], [[(EBS, "b")]]),
        ({ZONE: "a"}, [term(expression("k", "1")), term(expression("k", "2"))], [[("k", "1"), (EBS, "a")], [("k", "2"), (EBS, "a")]]),
        ({ZONE: " "}, [term(expression("k", "1"))], [[("k", "1")]]),
        ({BETA_ZONE: "a"}, [term(expression(BETA_REGION, "eu"))], [[(REGION, "eu"), (EBS, "a")]]),
        ({}, [term(expression(BETA_ZONE, "a"), expression(BETA_REGION, "eu"))], [[(EBS, "a"), (REGION, "eu")]]),
        ({}, [term(expression(ZONE, operator="Exists"))], [[(ZONE,)]]),
    ],
)  # fmt: skip
def test_zones_of_affinity_or_labels_become_the_drivers(labels, terms, affinity):
    assert affinity_of(translated(EBS_DISK, labels, terms)) == affinity


def test_each_driver_has_a_zone_label_of_its_own():
    assert affinity_of(translated(GCE_DISK, {ZONE: "us-a1-x"})) == [[(GCE, "us-a1-x")]]
    assert affinity_of(translated({"cinder": {"volumeID": "c"}}, {ZONE: "a"})) == [
        [("topology.cinder.csi.openstack.org/zone", "a")]
    ]
    azure = {"azureDisk": {"diskName": "d", "diskURI": "/d"}}
    assert affinity_of(translated(azure, {ZONE: "a"}, [term(expression(ZONE, "a"))])) == [[(ZONE, "a")]]


@pytest.mark.parametrize(
    ("source", "labels", "text"),
    [
        (GCE_DISK, {ZONE: "us-a1-x__eu-b2-y"}, "multiple or no regions gotten from zones, got: map[eu-b2:{} us-a1:{}]"),
        (GCE_DISK, {ZONE: "here__there"}, "expected: {locale}-{region}-{zone}, got: here"),
        ({"awsElasticBlockStore": {"volumeID": "aws://z/disk"}}, {}, "Invalid format for AWS volume (aws://z/disk)"),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "/d", "kind": "Dedicated"}},
            {},
            "kind(Dedicated) is not supported in csi migration",
        ),
    ],
)
def test_what_no_driver_could_serve_is_an_error(source, labels, text):
    with pytest.raises(TranslationError) as caught:
        translated(source, labels)
    assert str(caught.value).endswith(text)


def test_inline_gce_disks_name_no_zone():
    (inline,) = pod_with("p", inline=[GCE_DISK]).volumes
    assert translate_inline(inline).handle == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
