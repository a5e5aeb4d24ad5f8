"""Whether a manifest has the types that Kubernetes prescribes, before anything is derived from it.

The model reads only what scheduling needs of a stored object; what the API server fills in also depends on limits,
container ports and priority classes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from schedcache.model import MalformedObjectError, Node, wire
from schedcache.model.decode import Reader
from schedcache.simulation.cluster import KINDS


class _Resources(msgspec.Struct, gc=False):
    limits: wire.QuantityMap | None = None


class _Port(msgspec.Struct, rename="camel", gc=False):
    container_port: int | None = None


class _Container(msgspec.Struct, gc=False):
    resources: _Resources | None = None
    ports: list[_Port] | None = None


class _PodSpec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    resources: _Resources | None = None
    priority_class_name: str | None = None


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    generate_name: str | None = None


class _PodManifest(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


class _PriorityClass(msgspec.Struct, rename="camel", gc=False):
    metadata: wire.ObjectMeta | None = None
    value: int | None = None
    global_default: bool | None = None


_READERS: Mapping[str, Sequence[Callable[[Mapping[str, Any]], object]]] = {
    "Node": (Node.from_dict,),
    "Pod": (Reader("Pod", wire.PodWire).convert, Reader("Pod", _PodManifest).convert),
    "PriorityClass": (Reader("PriorityClass", _PriorityClass).convert,),
    **{name: (kind.from_dict,) for name, kind in KINDS.items()},
}
READ = frozenset(_READERS)
"""The kinds that an answer may depend on."""


def check_manifest(obj: Mapping[str, Any]) -> None:
    """Raises MalformedObjectError, naming object and field, for an object of one of the kinds in `READ`."""
    kind = str(obj.get("kind"))
    for read in _READERS[kind]:
        read(obj)
    metadata = obj.get("metadata") or {}
    if not (metadata.get("name") or (kind == "Pod" and metadata.get("generateName"))):
        raise MalformedObjectError(kind, "", "metadata.name", "is missing")
