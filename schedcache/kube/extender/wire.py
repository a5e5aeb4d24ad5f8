"""The forms of requests to extenders and of their answers (k8s.io/kube-scheduler/extender/v1, 1.37).

Fields of answers are found whatever their case, as Go finds them: extenders were written against versions of the API that spelled
them differently. Fields that are not known are ignored, null stands for nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from schedcache.model import Node, Pod
from schedcache.ports import MetaVictims, Victims

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_NODES_BEFORE, _NODES_AFTER = b'{"metadata":{},"items":', b"}"


class MalformedAnswerError(Exception):
    """The answer is not of the form that was expected."""


class FilterResult(NamedTuple):
    """An ExtenderFilterResult; `nodes` and `node_names` are names, None where the answer has no such field."""

    nodes: list[str] | None
    node_names: list[str] | None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str


class _Named(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _NodeList(msgspec.Struct):
    items: list[_Object] | None = None


# ---- requests


def extender_args(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> bytes:
    """ExtenderArgs, with the nodes whole or by name. `pod` and `nodes` have their `json`."""
    if names_only:
        return _object(Pod=_whole(pod), Nodes=b"null", NodeNames=_encode([node.name for node in nodes]))
    listed = _NODES_BEFORE + _list(map(_whole, nodes)) + _NODES_AFTER
    return _object(Pod=_whole(pod), Nodes=listed, NodeNames=b"null")


def preemption_args(pod: Pod, candidates: Mapping[str, Victims], *, names_only: bool) -> bytes:
    """ExtenderPreemptionArgs, with the victims whole or by UID. `pod` has its `json`, and so have whole victims."""

    def whole(pods: Iterable[Pod]) -> bytes:
        return _list(map(_whole, pods))

    def named(pods: Iterable[Pod]) -> bytes:
        return _encode([{"UID": victim.uid} for victim in pods])

    shown = named if names_only else whole
    by_node = b",".join(
        _encode(name) + b":" + _object(Pods=shown(victims.pods), NumPDBViolations=_encode(victims.pdb_violations))
        for name, victims in candidates.items()
    )
    victims = {"NodeNameToVictims": b"null", "NodeNameToMetaVictims": b"null"}
    victims["NodeNameToMetaVictims" if names_only else "NodeNameToVictims"] = b"{" + by_node + b"}"
    return _object(Pod=_whole(pod), **victims)


def binding_args(pod: Pod, node_name: str) -> bytes:
    """ExtenderBindingArgs."""
    return _encode({"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name})


def _object(**fields: bytes) -> bytes:
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), value) for name, value in fields.items()) + b"}"


def _whole(obj: Pod | Node) -> bytes:
    if not obj.json:
        raise ValueError(f"{obj.name} was not kept whole, and cannot be sent to an extender")
    return obj.json


def _list(items: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


# ---- answers, each of these raises MalformedAnswerError


def read_filter_result(body: bytes) -> FilterResult:
    """An ExtenderFilterResult."""
    fields = _read_fields(body)
    nodes = _field(fields, "nodes", _NodeList)
    return FilterResult(
        nodes=None if nodes is None else [node.metadata.name for node in nodes.items or ()],
        node_names=_field(fields, "nodenames", list[str]),
        failed_nodes=_field(fields, "failednodes", dict[str, str]) or {},
        failed_and_unresolvable_nodes=_field(fields, "failedandunresolvablenodes", dict[str, str]) or {},
        error=_field(fields, "error", str) or "",
    )


def read_host_priorities(body: bytes) -> list[tuple[str, int]]:
    """A HostPriorityList."""
    try:
        found = msgspec.json.decode(body, type=list[dict[str, str | int | None]] | None) or []
    except msgspec.DecodeError as error:
        raise MalformedAnswerError(str(error)) from None
    return [_host_priority(_folded(entry)) for entry in found]


def read_preemption_result(body: bytes) -> dict[str, MetaVictims]:
    """An ExtenderPreemptionResult; a node without any victims is kept."""
    by_node = _field(_read_fields(body), "nodenametometavictims", dict[str, dict[str, msgspec.Raw] | None]) or {}
    return {name: _meta_victims(_folded(victims or {})) for name, victims in by_node.items()}


def read_binding_result(body: bytes) -> str:
    """The error of an ExtenderBindingResult, "" for none."""
    return _field(_read_fields(body), "error", str) or ""


def _read_fields(body: bytes) -> Mapping[str, msgspec.Raw]:
    try:
        return _folded(_fields.decode(body) or {})
    except msgspec.DecodeError as error:
        raise MalformedAnswerError(str(error)) from None


def _field(fields: Mapping[str, msgspec.Raw], name: str, kind: type[T]) -> T | None:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=kind | None)
    except msgspec.DecodeError as error:
        raise MalformedAnswerError(f"{name}: {error}") from None


def _host_priority(entry: Mapping[str, Any]) -> tuple[str, int]:
    host, score = entry.get("host") or "", entry.get("score") or 0
    if not isinstance(host, str) or not isinstance(score, int):
        raise MalformedAnswerError(f"expected a host and a whole number as its score, found {host!r} and {score!r}")
    return host, score


def _meta_victims(fields: Mapping[str, msgspec.Raw]) -> MetaVictims:
    pods = _field(fields, "pods", list[dict[str, msgspec.Raw] | None]) or []
    uids = [_field(_folded(pod or {}), "uid", str) or "" for pod in pods]
    return MetaVictims(uids, _field(fields, "numpdbviolations", int) or 0)


def _folded(found: Mapping[str, T]) -> dict[str, T]:
    return {name.lower(): value for name, value in found.items()}
