"""Checks that a manifest has the types that Kubernetes requires, before anything is derived from it.

The model reads only what scheduling needs from a stored object; what the API server fills in also depends on limits,
container ports and the objects that admission depends on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from schedcache.model import MalformedObjectError, Node, wire
from schedcache.model.decode import Reader
from schedcache.model.kinds import CLUSTER_OBJECTS
from schedcache.model.quantity import QuantityError, parse_quantity


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
    runtime_class_name: str | None = None


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    generate_name: str | None = None


class _PodManifest(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


class _PriorityClass(msgspec.Struct, rename="camel", gc=False):
    metadata: wire.ObjectMeta | None = None
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class _LimitRangeItem(msgspec.Struct, rename="camel", gc=False):
    type: str | None = None
    max: wire.QuantityMap | None = None
    min: wire.QuantityMap | None = None
    default: wire.QuantityMap | None = None
    default_request: wire.QuantityMap | None = None


class _LimitRangeSpec(msgspec.Struct, gc=False):
    limits: list[_LimitRangeItem] | None = None


class _LimitRange(msgspec.Struct, gc=False):
    metadata: wire.ObjectMeta | None = None
    spec: _LimitRangeSpec | None = None


class _Overhead(msgspec.Struct, rename="camel", gc=False):
    pod_fixed: wire.QuantityMap | None = None


class _Scheduling(msgspec.Struct, rename="camel", gc=False):
    node_selector: dict[str, str] | None = None
    tolerations: list[wire.TolerationWire] | None = None


class _RuntimeClass(msgspec.Struct, gc=False):
    metadata: wire.ObjectMeta | None = None
    overhead: _Overhead | None = None
    scheduling: _Scheduling | None = None


_READERS: Mapping[str, Sequence[Callable[[Mapping[str, Any]], object]]] = {
    "Node": (Node.from_dict,),
    "Pod": (Reader("Pod", wire.PodWire).convert, Reader("Pod", _PodManifest).convert),
    "PriorityClass": (Reader("PriorityClass", _PriorityClass).convert,),
    "LimitRange": (Reader("LimitRange", _LimitRange).convert,),
    "RuntimeClass": (Reader("RuntimeClass", _RuntimeClass).convert,),
    **{name: (kind.from_dict,) for name, kind in CLUSTER_OBJECTS.items()},
}
_LENDING = frozenset({"LimitRange", "RuntimeClass"})
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
    for field, amounts in _resource_lists(kind, obj):
        for resource, amount in (amounts or {}).items():
            problem = f"{amount} is negative" if str(amount).lstrip().startswith("-") else _fault(kind, amount)
            if problem:
                raise MalformedObjectError(kind, metadata.get("name") or "", f"{field}.{resource}", problem)


def _fault(kind: str, amount: object) -> str:
    """What is wrong with an amount that will be a pod's; those of pods and nodes themselves are read with them."""
    if kind not in _LENDING:
        return ""
    try:
        parse_quantity(str(amount))
    except QuantityError as error:
        return str(error)
    return ""


def _resource_lists(kind: str, obj: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    if kind == "Node":
        status = obj.get("status") or {}
        yield from ((f"status.{field}", status.get(field)) for field in ("allocatable", "capacity"))
    elif kind == "RuntimeClass":
        yield "overhead.podFixed", (obj.get("overhead") or {}).get("podFixed")
    elif kind == "LimitRange":
        for i, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            given = ("max", "min", "default", "defaultRequest")
            yield from ((f"spec.limits[{i}].{field}", item.get(field)) for field in given)
    elif kind == "Pod":
        spec = obj.get("spec") or {}
        yield "spec.overhead", spec.get("overhead")
        holders = [("spec", spec)]
        for group in ("containers", "initContainers"):
            holders += [(f"spec.{group}[{i}]", container) for i, container in enumerate(spec.get(group) or ())]
        for path, holder in holders:
            resources = holder.get("resources") or {}
            yield from ((f"{path}.resources.{which}", resources.get(which)) for which in ("requests", "limits"))
