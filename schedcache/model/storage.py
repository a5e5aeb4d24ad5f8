"""Volumes, claims and what CSI drivers report about nodes, as scheduling sees them.

Sizes are whole bytes, rounded up as Quantity.Value does.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import msgspec

from schedcache.model import storage_wire as wire
from schedcache.model.decode import Reader, labels_of, quantity, strings
from schedcache.model.labels import LabelSelector, NodeSelectorTerm
from schedcache.model.objects import ClusterObject
from schedcache.model.pod_spec import OwnerRef
from schedcache.model.quantity import to_units
from schedcache.model.selectors import label_selector, node_selector_term
from schedcache.model.wire import ObjectMeta, Quantity, QuantityMap

STORAGE = "storage"
# Read before spec.storageClassName, as k8s.io/component-helpers/storage/volume does.
BETA_STORAGE_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE_ANNOTATION = "volume.kubernetes.io/selected-node"
"""On a claim: the node that its volume is to be provisioned for. A provisioner that cannot do it takes it off."""
BIND_COMPLETED_ANNOTATION = "pv.kubernetes.io/bind-completed"
"""On a claim: the controller has done all that belongs to its binding."""
BOUND_BY_CONTROLLER_ANNOTATION = "pv.kubernetes.io/bound-by-controller"
"""On a volume: it was chosen for its claim by a component, which may undo that, and not by a person."""
DEFAULT_VOLUME_MODE = "Filesystem"
IMMEDIATE = "Immediate"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

# Sources whose identity matters to some plugin: the API's field name, and the wire struct's.
_SOURCES = (
    ("csi", "csi"),
    ("local", "local"),
    ("gcePersistentDisk", "gce_persistent_disk"),
    ("awsElasticBlockStore", "aws_elastic_block_store"),
    ("azureDisk", "azure_disk"),
    ("azureFile", "azure_file"),
    ("cinder", "cinder"),
    ("vsphereVolume", "vsphere_volume"),
    ("portworxVolume", "portworx_volume"),
)


class ClaimRef(msgspec.Struct, frozen=True, gc=False):
    """The claim that a volume is bound to or reserved for; `uid` "" = reserved by name alone."""

    namespace: str
    name: str
    uid: str = ""


class PersistentVolume(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A volume.

    `node_affinity` None = reachable from every node; an empty tuple matches none. `source_kind` is the API's field name of
    the source (`csi`, `local`, `gcePersistentDisk` ... ), "" for one that does not matter to scheduling, and `source` its
    identity: (driver, volumeHandle) for csi, (path,) for local, the disk's own id or ids for the in-tree types.
    """

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    capacity: int = 0
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimRef | None = None
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    storage_class_name: str = ""
    volume_mode: str = DEFAULT_VOLUME_MODE
    volume_attributes_class_name: str | None = None
    source_kind: str = ""
    source: tuple[str, ...] = ()
    phase: str = ""
    deletion_timestamp: str = ""

    _reader: ClassVar[Reader[Any]] = Reader("PersistentVolume", wire.PersistentVolumeWire)

    @classmethod
    def _from_wire(cls, w: wire.PersistentVolumeWire) -> Self:
        meta, spec = w.metadata or ObjectMeta(), w.spec or wire.PersistentVolumeSpec()
        annotations = labels_of(meta.annotations)
        source_kind, source = _source(spec)
        return cls(
            **cls._identity(meta),
            labels=labels_of(meta.labels),
            annotations=annotations,
            capacity=_storage(spec.capacity, "spec.capacity"),
            access_modes=strings(spec.access_modes),
            claim_ref=_claim_ref(spec.claim_ref),
            node_affinity=_volume_node_affinity(spec.node_affinity),
            storage_class_name=annotations.get(BETA_STORAGE_CLASS_ANNOTATION, spec.storage_class_name or ""),
            volume_mode=spec.volume_mode or DEFAULT_VOLUME_MODE,
            volume_attributes_class_name=spec.volume_attributes_class_name,
            source_kind=source_kind,
            source=source,
            phase=(w.status.phase if w.status else None) or "",
            deletion_timestamp=meta.deletion_timestamp or "",
        )

    @property
    def csi_driver(self) -> str:
        """The driver's name, "" for a volume of another type."""
        return self.source[0] if self.source_kind == "csi" else ""

    @property
    def csi_volume_handle(self) -> str:
        return self.source[1] if self.source_kind == "csi" else ""


class PersistentVolumeClaim(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A claim; `requested` in bytes; `storage_class_name` None if no class is named ("" asks explicitly for none)."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    access_modes: tuple[str, ...] = ()
    requested: int = 0
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_mode: str = DEFAULT_VOLUME_MODE
    volume_name: str = ""
    volume_attributes_class_name: str | None = None
    phase: str = ""
    deletion_timestamp: str = ""
    owner: OwnerRef | None = None
    """The controller: for the claim of a generic ephemeral volume, its pod."""

    _reader: ClassVar[Reader[Any]] = Reader("PersistentVolumeClaim", wire.PersistentVolumeClaimWire)
    namespaced: ClassVar[bool] = True

    @property
    def fully_bound(self) -> bool:
        """Whether it has its volume, and the controller nothing left to do."""
        return bool(self.volume_name) and BIND_COMPLETED_ANNOTATION in self.annotations

    @classmethod
    def _from_wire(cls, w: wire.PersistentVolumeClaimWire) -> Self:
        meta, spec = w.metadata or ObjectMeta(), w.spec or wire.PersistentVolumeClaimSpec()
        annotations = labels_of(meta.annotations)
        requests = spec.resources.requests if spec.resources else None
        owners = (OwnerRef(r.kind, r.name, r.uid) for r in meta.owner_references or () if r.controller)
        return cls(
            **cls._identity(meta),
            labels=labels_of(meta.labels),
            annotations=annotations,
            access_modes=strings(spec.access_modes),
            requested=_storage(requests, "spec.resources.requests"),
            selector=label_selector(spec.selector),
            storage_class_name=annotations.get(BETA_STORAGE_CLASS_ANNOTATION, spec.storage_class_name),
            volume_mode=spec.volume_mode or DEFAULT_VOLUME_MODE,
            volume_name=spec.volume_name or "",
            volume_attributes_class_name=spec.volume_attributes_class_name,
            phase=(w.status.phase if w.status else None) or "",
            deletion_timestamp=meta.deletion_timestamp or "",
            owner=next(owners, None),
        )


class TopologySelectorTerm(msgspec.Struct, frozen=True, gc=False):
    """Labels that a node must have: pairs of a key and its allowed values, all of which must match."""

    expressions: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) in values for key, values in self.expressions)


class StorageClass(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A storage class; `volume_binding_mode` "" if none is set, `allowed_topologies` empty = everywhere."""

    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()

    _reader: ClassVar[Reader[Any]] = Reader("StorageClass", wire.StorageClassWire)

    @classmethod
    def _from_wire(cls, w: wire.StorageClassWire) -> Self:
        return cls(
            **cls._identity(w.metadata),
            provisioner=w.provisioner or "",
            volume_binding_mode=w.volume_binding_mode or "",
            allowed_topologies=tuple(_topology(t) for t in w.allowed_topologies or ()),
        )


class CSINodeDriver(msgspec.Struct, frozen=True, gc=False):
    """A driver as registered on one node; `allocatable_count` volumes at most, None = no limit reported."""

    name: str
    node_id: str = ""
    topology_keys: tuple[str, ...] = ()
    allocatable_count: int | None = None


class CSINode(ClusterObject, frozen=True, eq=False, kw_only=True):
    """The CSI drivers of the node of this name; annotations say which in-tree types have migrated."""

    annotations: Mapping[str, str] = {}
    drivers: tuple[CSINodeDriver, ...] = ()

    _reader: ClassVar[Reader[Any]] = Reader("CSINode", wire.CSINodeWire)

    @classmethod
    def _from_wire(cls, w: wire.CSINodeWire) -> Self:
        drivers = tuple(
            CSINodeDriver(
                d.name or "", d.node_id or "", strings(d.topology_keys), d.allocatable.count if d.allocatable else None
            )
            for d in (w.spec.drivers if w.spec else None) or ()
        )
        annotations = labels_of(w.metadata.annotations if w.metadata else None)
        return cls(**cls._identity(w.metadata), annotations=annotations, drivers=drivers)


class CSIDriver(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A driver as its installer declares it."""

    attach_required: bool = True
    storage_capacity: bool = False
    prevent_pod_scheduling_if_missing: bool = False

    _reader: ClassVar[Reader[Any]] = Reader("CSIDriver", wire.CSIDriverWire)

    @classmethod
    def _from_wire(cls, w: wire.CSIDriverWire) -> Self:
        spec = w.spec or wire.CSIDriverSpec()
        return cls(
            **cls._identity(w.metadata),
            attach_required=spec.attach_required is not False,
            storage_capacity=bool(spec.storage_capacity),
            prevent_pod_scheduling_if_missing=bool(spec.prevent_pod_scheduling_if_missing),
        )


class CSIStorageCapacity(ClusterObject, frozen=True, eq=False, kw_only=True):
    """Space for one storage class on the nodes of `node_topology` (None = no node); sizes in bytes, None = not reported."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: int | None = None
    maximum_volume_size: int | None = None

    _reader: ClassVar[Reader[Any]] = Reader("CSIStorageCapacity", wire.CSIStorageCapacityWire)
    namespaced: ClassVar[bool] = True

    @classmethod
    def _from_wire(cls, w: wire.CSIStorageCapacityWire) -> Self:
        return cls(
            **cls._identity(w.metadata),
            node_topology=label_selector(w.node_topology),
            storage_class_name=w.storage_class_name or "",
            capacity=_size(w.capacity, "capacity"),
            maximum_volume_size=_size(w.maximum_volume_size, "maximumVolumeSize"),
        )


class VolumeAttachment(ClusterObject, frozen=True, eq=False, kw_only=True):
    """A volume attached to a node; `persistent_volume_name` None for an inline volume."""

    attacher: str = ""
    node_name: str = ""
    persistent_volume_name: str | None = None
    attached: bool = False

    _reader: ClassVar[Reader[Any]] = Reader("VolumeAttachment", wire.VolumeAttachmentWire)

    @classmethod
    def _from_wire(cls, w: wire.VolumeAttachmentWire) -> Self:
        spec = w.spec or wire.VolumeAttachmentSpec()
        return cls(
            **cls._identity(w.metadata),
            attacher=spec.attacher or "",
            node_name=spec.node_name or "",
            persistent_volume_name=spec.source.persistent_volume_name if spec.source else None,
            attached=bool(w.status.attached) if w.status else False,
        )


def _storage(amounts: QuantityMap | None, field: str) -> int:
    return to_units(quantity((amounts or {}).get(STORAGE), f"{field}.{STORAGE}"))


def _size(value: Quantity | None, field: str) -> int | None:
    return None if value is None else to_units(quantity(value, field))


def _claim_ref(ref: wire.ClaimRefWire | None) -> ClaimRef | None:
    return None if ref is None else ClaimRef(ref.namespace or "", ref.name or "", ref.uid or "")


def _volume_node_affinity(affinity: wire.VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...] | None:
    if affinity is None or affinity.required is None:
        return None
    return tuple(node_selector_term(t) for t in affinity.required.node_selector_terms or ())


def _topology(term: wire.TopologySelectorTermWire) -> TopologySelectorTerm:
    return TopologySelectorTerm(tuple((e.key or "", strings(e.values)) for e in term.match_label_expressions or ()))


def _source(spec: wire.PersistentVolumeSpec) -> tuple[str, tuple[str, ...]]:
    for kind, attribute in _SOURCES:
        found = getattr(spec, attribute)
        if found is not None:
            return kind, tuple(part or "" for part in msgspec.structs.astuple(found))
    return "", ()
