"""Kinds whose objects keep all of their JSON, for extenders, which are sent pods and nodes as the API server has them."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from schedcache.kube.watch.kinds import HeldObject, Kind

_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def keeping_json(kind: Kind, wanted: Callable[[Any], bool]) -> Kind:
    """The kind, with the `json` of those objects that are wanted: some kilobytes each, without their managedFields.

    `kind` is Pod or Node. kube-scheduler drops managedFields of what it watches, too.
    """

    def from_json(raw: msgspec.Raw | bytes) -> HeldObject:
        obj: Any = kind.from_json(raw)
        return replace(obj, json=_without_managed_fields(raw)) if wanted(obj) else obj  # type: ignore[no-any-return]  # of two types

    def from_dict(found: Mapping[str, Any]) -> HeldObject:
        obj: Any = kind.from_dict(found)
        return replace(obj, json=_without_managed_fields(_encode(found))) if wanted(obj) else obj  # type: ignore[no-any-return]  # likewise

    return replace(kind, from_json=from_json, from_dict=from_dict)


def _without_managed_fields(raw: msgspec.Raw | bytes) -> bytes:
    obj = _fields(raw)
    metadata = _fields(obj["metadata"])
    metadata.pop("managedFields", None)
    obj["metadata"] = msgspec.Raw(_encode(metadata))
    # Encoded again even if nothing was taken out: what was read is a part of a larger answer, which must not stay for it.
    return _encode(obj)
