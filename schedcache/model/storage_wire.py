# ruff: noqa: D101  each struct mirrors the API type of its name, which the Kubernetes API reference describes
"""The JSON shape of the storage kinds: only the fields that scheduling needs, all of which may be null."""

import msgspec

from schedcache.model.wire import (
    LabelSelectorWire,
    NodeSelectorWire,
    ObjectMeta,
    Quantity,
    QuantityMap,
    ResourceRequirements,
)


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """Python's snake_case for the API's camelCase."""


class ClaimRefWire(_Wire):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeNodeAffinity(_Wire):
    required: NodeSelectorWire | None = None


class LocalVolume(_Wire):
    path: str | None = None


class CSIVolume(_Wire):
    driver: str | None = None
    volume_handle: str | None = None


class GCEPersistentDisk(_Wire):
    pd_name: str | None = None


class VolumeID(_Wire):
    volume_id: str | None = msgspec.field(name="volumeID", default=None)


class AzureDisk(_Wire):
    disk_name: str | None = None
    disk_uri: str | None = msgspec.field(name="diskURI", default=None)
    kind: str | None = None


class AzureFile(_Wire):
    secret_name: str | None = None
    share_name: str | None = None


class VsphereVolume(_Wire):
    volume_path: str | None = None


class PersistentVolumeSpec(_Wire):
    capacity: QuantityMap | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimRefWire | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    local: LocalVolume | None = None
    csi: CSIVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: VolumeID | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: VolumeID | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: VolumeID | None = None


class PhaseStatus(_Wire):
    phase: str | None = None


class PersistentVolumeWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeSpec | None = None
    status: PhaseStatus | None = None


class PersistentVolumeClaimSpec(_Wire):
    access_modes: list[str] | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelectorWire | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None
    status: PhaseStatus | None = None


class TopologySelectorRequirement(_Wire):
    key: str | None = None
    values: list[str] | None = None


class TopologySelectorTermWire(_Wire):
    match_label_expressions: list[TopologySelectorRequirement] | None = None


class StorageClassWire(_Wire):
    metadata: ObjectMeta | None = None
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTermWire] | None = None


class VolumeNodeResources(_Wire):
    count: int | None = None


class CSINodeDriverWire(_Wire):
    name: str | None = None
    node_id: str | None = msgspec.field(name="nodeID", default=None)
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(_Wire):
    drivers: list[CSINodeDriverWire] | None = None


class CSINodeWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: CSINodeSpec | None = None


class CSIDriverSpec(_Wire):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriverWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: CSIDriverSpec | None = None


class CSIStorageCapacityWire(_Wire):
    metadata: ObjectMeta | None = None
    node_topology: LabelSelectorWire | None = None
    storage_class_name: str | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(_Wire):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(_Wire):
    attacher: str | None = None
    node_name: str | None = None
    source: VolumeAttachmentSource | None = None


class VolumeAttachmentStatus(_Wire):
    attached: bool | None = None


class VolumeAttachmentWire(_Wire):
    metadata: ObjectMeta | None = None
    spec: VolumeAttachmentSpec | None = None
    status: VolumeAttachmentStatus | None = None
