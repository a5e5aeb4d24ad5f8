"""Volumes of in-tree types that a CSI driver has taken over (k8s.io/csi-translation-lib 0.37).

The API still holds such volumes in their old form; to count and to place them, the scheduler reads them as the driver
would. Only the five types are here whose migration kube-scheduler always assumes; those of other `MIGRATABLE` ones are never.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from schedcache.model import REGION_LABEL, ZONE_LABEL, NodeSelectorTerm, PersistentVolume, Requirement, Volume
from schedcache.model.labels import IN
from schedcache.model.node import BETA_REGION_LABEL, BETA_ZONE_LABEL

Affinity = tuple[NodeSelectorTerm, ...] | None

ZONE_DELIMITER = "__"
"""Between the zones of a volume that is in several."""

_GCE, _EBS, _AZURE, _CINDER, _PORTWORX = (
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "cinder",
    "portworxVolume",
)
IN_TREE_PLUGINS: Mapping[str, str] = {
    _GCE: "kubernetes.io/gce-pd",
    _EBS: "kubernetes.io/aws-ebs",
    _AZURE: "kubernetes.io/azure-disk",
    _CINDER: "kubernetes.io/cinder",
    _PORTWORX: "kubernetes.io/portworx-volume",
}
"""Source field of a volume -> the in-tree plugin's name, as annotations and storage classes have it."""

MIGRATABLE = frozenset({*IN_TREE_PLUGINS.values(), "kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Names of the in-tree plugins that have a CSI driver."""

_DRIVERS = {
    _GCE: "pd.csi.storage.gke.io",
    _EBS: "ebs.csi.aws.com",
    _AZURE: "disk.csi.azure.com",
    _CINDER: "cinder.csi.openstack.org",
    _PORTWORX: "pxd.portworx.com",
}
DRIVER_OF_PLUGIN: Mapping[str, str] = {IN_TREE_PLUGINS[kind]: driver for kind, driver in _DRIVERS.items()}
"""In-tree plugin -> the driver that took it over."""

_TOPOLOGY_KEYS = {
    _GCE: "topology.gke.io/zone",
    _EBS: "topology.ebs.csi.aws.com/zone",
    _CINDER: "topology.cinder.csi.openstack.org/zone",
}
_UNSPECIFIED = "UNSPECIFIED"
_EBS_ID = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """A volume that its CSI driver could not serve as it is written."""


class CSIVolume(msgspec.Struct, frozen=True, gc=False):
    """A volume as its driver knows it; `node_affinity` speaks of the driver's topology labels."""

    driver: str
    handle: str
    node_affinity: Affinity = None

    @property
    def unique_name(self) -> str:
        return f"{self.driver}/{self.handle}"


def translate_volume(pv: PersistentVolume) -> CSIVolume:
    """A PersistentVolume whose source is one of IN_TREE_PLUGINS. Raises TranslationError."""
    kind = pv.source_kind
    match kind:
        case "gcePersistentDisk":
            handle = _gce_handle(pv)
        case "azureDisk":
            handle = _azure_handle(pv.source)
        case "awsElasticBlockStore":
            handle = _ebs_handle(pv.source[0])
        case _:
            handle = pv.source[0]
    key = _TOPOLOGY_KEYS.get(kind)
    return CSIVolume(_DRIVERS[kind], handle, _translated(pv, key) if key else pv.node_affinity)


def translate_inline(volume: Volume) -> CSIVolume:
    """A pod's own volume whose source is one of IN_TREE_PLUGINS. Raises TranslationError."""
    match volume.source_kind:
        case "gcePersistentDisk":
            handle = f"projects/{_UNSPECIFIED}/zones/{_UNSPECIFIED}/disks/{volume.source[0]}"
        case "azureDisk":
            handle = _azure_handle(volume.source)
        case "awsElasticBlockStore":
            handle = _ebs_handle(volume.source[0])
        case _:
            handle = volume.source[0]
    return CSIVolume(_DRIVERS[volume.source_kind], handle)


def _gce_handle(pv: PersistentVolume) -> str:
    label = pv.labels.get(BETA_ZONE_LABEL) or pv.labels.get(ZONE_LABEL, "")
    zones = label.split(ZONE_DELIMITER)
    where = f"regions/{_gce_region(zones)}" if len(zones) > 1 else f"zones/{zones[0] or _UNSPECIFIED}"
    return f"projects/{_UNSPECIFIED}/{where}/disks/{pv.source[0]}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add(f"{parts[0]}-{parts[1]}")
    if len(regions) != 1:
        found = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{found}]"
        )
    return regions.pop()


def _azure_handle(source: tuple[str, ...]) -> str:
    _, uri, kind = source
    if kind and kind.lower() != "managed":
        raise TranslationError(f"kind({kind}) is not supported in csi migration")
    return uri


def _ebs_handle(volume_id: str) -> str:
    """`vol-...`, also out of the old form `aws://zone/vol-...`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    _, _, path = volume_id.removeprefix("aws://").partition("/")
    found = path.strip("/")
    if not _EBS_ID.fullmatch(found):
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return found


def _translated(pv: PersistentVolume, driver_key: str) -> Affinity:
    """The affinity with the driver's zone label in the place of Kubernetes' own.

    An affinity without zones gets those of the volume's labels; where these name none, it stays as it is. The beta region
    label becomes the current one.
    """
    zone_key, region_key = _topology_labels(pv)
    terms = pv.node_affinity
    if _has_values(terms, zone_key):
        terms = _renamed(terms, zone_key, driver_key)
    elif zone_key in pv.labels:
        zones = {zone.strip() for zone in pv.labels[zone_key].split(ZONE_DELIMITER)} - {""}
        if zones:
            added = Requirement(driver_key, IN, tuple(sorted(zones)))
            terms = tuple(replace(t, expressions=(*t.expressions, added)) for t in terms or (NodeSelectorTerm(),))
    return _renamed(terms, region_key, REGION_LABEL) if _has_values(terms, region_key) else terms


def _topology_labels(pv: PersistentVolume) -> tuple[str, str]:
    """The zone and region labels that the volume uses: affinity before labels, the current ones before the beta ones."""
    current, beta = (ZONE_LABEL, REGION_LABEL), (BETA_ZONE_LABEL, BETA_REGION_LABEL)
    named = {r.key for term in pv.node_affinity or () for r in term.expressions}
    for keys in (named, pv.labels):
        for pair in (current, beta):
            if pair[0] in keys:
                return pair
    return current


def _has_values(terms: Affinity, key: str) -> bool:
    return any(r.key == key and r.values for term in terms or () for r in term.expressions)


def _renamed(terms: Affinity, old: str, new: str) -> Affinity:
    if terms is None or old == new:
        return terms

    def rename(r: Requirement) -> Requirement:
        return replace(r, key=new) if r.key == old else r

    return tuple(replace(term, expressions=tuple(map(rename, term.expressions))) for term in terms)
