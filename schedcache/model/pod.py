"""Pods as the scheduler sees them.

A `Pod` holds its own identity, node, volumes and status; everything that pods of one template share is in an immutable,
interned `PodShape`, so it is stored once, and what follows from it is computed once.
"""

import sys
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from schedcache.model import wire
from schedcache.model.decode import Reader, name_of
from schedcache.model.pod_decode import (
    conditions_of,
    effective_requests,
    merge_match_label_keys,
    owner_of,
    shape_of,
    volumes_of,
)
from schedcache.model.pod_spec import OwnerRef, PodCondition, PodShape, PodSpec, Volume
from schedcache.model.resources import PodRequests

SUCCEEDED = "Succeeded"
FAILED = "Failed"


class Pod(msgspec.Struct, frozen=True, eq=False, gc=False, kw_only=True):
    """A pod as last seen; immutable, compared by identity.

    `node_name` is "" for a pod without a node. Timestamps are RFC 3339 strings as the API server wrote them, "" = absent.
    """

    uid: str
    name: str
    shape: PodShape
    requests: PodRequests
    """The effective requests: the spec's, or during an in-place resize the largest of spec and status."""
    node_name: str = ""
    resource_version: str = ""
    phase: str = ""
    nominated_node_name: str = ""
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    start_time: str = ""
    generation: int = 0
    volumes: tuple[Volume, ...] = ()
    conditions: tuple[PodCondition, ...] = ()
    owner: OwnerRef | None = None
    json: bytes = b""
    """All of the object, where somebody has to be sent it; read by nobody here."""

    @classmethod
    def from_dict(cls, obj: Mapping[str, Any]) -> "Pod":
        """From the API's JSON as Python values. Raises MalformedObjectError, naming the field."""
        return _reader.build(_reader.convert(obj), _pod)

    @classmethod
    def from_json(cls, raw: bytes | memoryview | msgspec.Raw) -> "Pod":
        """From the API's JSON. Raises MalformedObjectError, naming the field."""
        return _reader.build(_reader.parse(raw), _pod)

    @property
    def namespace(self) -> str:
        return self.shape.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        return self.shape.labels

    @property
    def spec(self) -> PodSpec:
        return self.shape.spec

    @property
    def scheduler_name(self) -> str:
        return self.shape.spec.scheduler_name

    @property
    def priority(self) -> int:
        return self.shape.spec.priority

    @property
    def scheduling_gates(self) -> tuple[str, ...]:
        return self.shape.spec.scheduling_gates

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.shape.namespace}/{self.name}"

    @property
    def terminating(self) -> bool:
        """Its deletion has begun."""
        return bool(self.deletion_timestamp)

    @property
    def finished(self) -> bool:
        """Phase Succeeded or Failed: it no longer uses any of its node's resources."""
        return self.phase in (SUCCEEDED, FAILED)

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type, if it is one that scheduling reads and the pod has it."""
        return next((c for c in self.conditions if c.type == kind), None)

    def says(self, condition: PodCondition) -> bool:
        """Whether the pod has this condition already; as in kube-scheduler, the observed generation and times do not count."""
        now = self.condition(condition.type)
        told = (condition.status, condition.reason, condition.message)
        return now is not None and (now.status, now.reason, now.message) == told

    def with_node(self, node_name: str) -> Self:
        """The same pod placed on a node."""
        return msgspec.structs.replace(self, node_name=node_name)


_reader: Reader[wire.PodWire] = Reader("Pod", wire.PodWire)


def _pod(w: wire.PodWire) -> Pod:
    meta = w.metadata or wire.ObjectMeta()
    spec = w.spec or wire.PodSpecWire()
    status = w.status or wire.PodStatusWire()
    name = name_of(meta)
    # What differs between pods of one template is taken out before the rest is interned.
    node_name, spec.node_name = spec.node_name, None
    volumes, spec.volumes = spec.volumes, None
    merge_match_label_keys(spec.topology_spread_constraints or (), meta.labels or {})
    image_volumes = tuple(v.image.reference for v in volumes or () if v.image and v.image.reference)
    shape = shape_of(meta, spec, image_volumes)
    return Pod(
        uid=meta.uid or "",
        name=name,
        shape=shape,
        requests=effective_requests(shape.spec, spec, status),
        node_name=sys.intern(node_name or ""),
        resource_version=meta.resource_version or "",
        phase=sys.intern(status.phase or ""),
        nominated_node_name=status.nominated_node_name or "",
        creation_timestamp=meta.creation_timestamp or "",
        deletion_timestamp=meta.deletion_timestamp or "",
        start_time=status.start_time or "",
        generation=meta.generation or 0,
        volumes=tuple(volumes_of(volumes or (), name)),
        conditions=conditions_of(status.conditions or ()),
        owner=owner_of(meta.owner_references or ()),
    )
