"""Nodes as the scheduler sees them."""

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from schedcache.model import wire
from schedcache.model.decode import Reader, labels_of, name_of, quantities
from schedcache.model.resources import Resource
from schedcache.model.taints import Taint

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
REGION_LABEL = "topology.kubernetes.io/region"
BETA_ZONE_LABEL = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION_LABEL = "failure-domain.beta.kubernetes.io/region"


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    """A node condition without its heartbeat times."""

    type: str
    status: str


class ContainerImage(msgspec.Struct, frozen=True, gc=False):
    """An image on a node, with all of its names; `size` in bytes."""

    names: tuple[str, ...]
    size: int


class Node(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A node as last seen; immutable, compared by identity."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resource
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: frozenset[str] = frozenset()
    json: bytes = b""
    """All of the object, where somebody has to be sent it; read by nobody here."""

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any]) -> "Node":
        """From the API's JSON as Python values. Raises MalformedObjectError, naming the field."""
        return _reader.build(_reader.convert(obj), _node)

    @classmethod
    def from_json(cls, raw: bytes | memoryview | msgspec.Raw) -> "Node":
        """From the API's JSON. Raises MalformedObjectError, naming the field."""
        return _reader.build(_reader.parse(raw), _node)

    @property
    def zone_key(self) -> str:
        """Region and zone in one string, "" if both are missing; the deprecated beta labels are looked up first.

        Region alone, zone alone and neither are different zones (GetZoneKey of component-helpers 1.37).
        """
        zone = self.labels.get(BETA_ZONE_LABEL, self.labels.get(ZONE_LABEL, ""))
        region = self.labels.get(BETA_REGION_LABEL, self.labels.get(REGION_LABEL, ""))
        return f"{region}:\0:{zone}" if region or zone else ""


_reader: Reader[wire.NodeWire] = Reader("Node", wire.NodeWire)


def _node(w: wire.NodeWire) -> Node:
    meta = w.metadata or wire.ObjectMeta()
    spec = w.spec or wire.NodeSpecWire()
    status = w.status or wire.NodeStatusWire()
    return Node(
        name=name_of(meta),
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        labels=labels_of(meta.labels),
        annotations=labels_of(meta.annotations),
        taints=tuple(Taint(t.key or "", t.value or "", t.effect or "") for t in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        allocatable=Resource.from_list(quantities(status.allocatable, "status.allocatable")),
        # All nodes report the same few hundred names: one string for each.
        images=tuple(
            ContainerImage(tuple(map(sys.intern, i.names or ())), i.size_bytes or 0) for i in status.images or ()
        ),
        conditions=tuple(NodeCondition(c.type, c.status) for c in status.conditions or ()),
        declared_features=frozenset(status.declared_features or ()),
    )
