"""The forms of requests to extenders and of their answers (k8s.io/kube-scheduler/extender/v1, 1.37).

Fields of answers are found whatever their case, as Go finds them: extenders were written against versions of the API that spelled
them differently. Fields that are not known are ignored, null stands for nothing.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from schedcache.model import Node, Pod
from schedcache.ports import MetaVictims, Victims

T = TypeVar("T")
Buffer = bytes | bytearray | msgspec.Raw
_encode = msgspec.json.Encoder().encode
_NODES_BEFORE, _NODES_AFTER = b'{"metadata":{},"items":', b"}"
_NULL = (b"null",)

_NODES_A_PIECE = 200

Reading = Generator[None, None, T]
"""An answer that is read in pieces of some milliseconds: it may be tens of megabytes, and no thread would help, since the decoder
holds the interpreter's lock. What the generator returns is the answer."""

Body = Sequence[bytes]
"""A request in pieces: to join thousands of whole nodes would keep the event loop from all else for a second at worst."""


class MalformedAnswerError(Exception):
    """The answer is not of the form that was expected."""


class FilterResult(NamedTuple):
    """An ExtenderFilterResult; `nodes` and `node_names` are names, None where the answer has no such field."""

    nodes: list[str] | None
    node_names: list[str] | None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Named(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _NodeList(msgspec.Struct):
    items: list[_Object] | None = None


# ---- requests


def extender_args(pod: Pod, nodes: Sequence[Node], *, names_only: bool) -> Body:
    """ExtenderArgs, with the nodes whole or by name. `pod` and `nodes` have their `json`."""
    if names_only:
        return _object(Pod=[_whole(pod)], Nodes=_NULL, NodeNames=[_encode([node.name for node in nodes])])
    listed = [_NODES_BEFORE, *_list(map(_whole, nodes)), _NODES_AFTER]
    return _object(Pod=[_whole(pod)], Nodes=listed, NodeNames=_NULL)


def preemption_args(pod: Pod, candidates: Mapping[str, Victims], *, names_only: bool) -> Body:
    """ExtenderPreemptionArgs, with the victims whole or by UID. `pod` has its `json`, and so have whole victims."""

    def whole(pods: Iterable[Pod]) -> Body:
        return _list(map(_whole, pods))

    def named(pods: Iterable[Pod]) -> Body:
        return [_encode([{"UID": victim.uid} for victim in pods])]

    shown = named if names_only else whole
    by_node: list[bytes] = []
    for name, victims in candidates.items():
        found = _object(Pods=shown(victims.pods), NumPDBViolations=[_encode(victims.pdb_violations)])
        by_node += (b"," if by_node else b"", _encode(name), b":", *found)
    sent = {"NodeNameToVictims": _NULL, "NodeNameToMetaVictims": _NULL}
    return _object(
        Pod=[_whole(pod)],
        **sent | {"NodeNameToMetaVictims" if names_only else "NodeNameToVictims": (b"{", *by_node, b"}")},
    )


def binding_args(pod: Pod, node_name: str) -> Body:
    """ExtenderBindingArgs."""
    args = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid, "Node": node_name}
    return [_encode(args)]


def _object(**fields: Body) -> Body:
    pieces: list[bytes] = []
    for name, value in fields.items():
        pieces += (b',"%s":' % name.encode() if pieces else b'{"%s":' % name.encode(), *value)
    return [*pieces, b"}"]


def _whole(obj: Pod | Node) -> bytes:
    if not obj.json:
        raise ValueError(f"{obj.name} was not kept whole, and cannot be sent to an extender")
    return obj.json


def _list(items: Iterable[bytes]) -> Body:
    pieces: list[bytes] = []
    for item in items:
        pieces += (b"," if pieces else b"[", item)
    return [*pieces, b"]"] if pieces else [b"[]"]


# ---- answers, reading each of these raises MalformedAnswerError


def read_filter_result(body: Buffer) -> Reading[FilterResult]:
    """An ExtenderFilterResult."""
    fields = _read_fields(body)
    yield
    nodes = _field(fields, "nodes", _NodeList)
    yield
    return FilterResult(
        nodes=None if nodes is None else [node.metadata.name for node in nodes.items or ()],
        node_names=_field(fields, "nodenames", list[str]),
        failed_nodes=_field(fields, "failednodes", dict[str, str]) or {},
        failed_and_unresolvable_nodes=_field(fields, "failedandunresolvablenodes", dict[str, str]) or {},
        error=_field(fields, "error", str) or "",
    )


def read_host_priorities(body: Buffer) -> Reading[list[tuple[str, int]]]:
    """A HostPriorityList."""
    found = _decode(body, list[dict[str, str | int | None]]) or []
    yield
    return [_host_priority(_folded(entry)) for entry in found]


def read_preemption_result(body: Buffer) -> Reading[dict[str, MetaVictims]]:
    """An ExtenderPreemptionResult; a node without any victims is kept."""
    by_node = _field(_read_fields(body), "nodenametometavictims", dict[str, dict[str, msgspec.Raw] | None]) or {}
    found: dict[str, MetaVictims] = {}
    for number, (name, victims) in enumerate(by_node.items()):
        if number % _NODES_A_PIECE == 0:
            yield
        found[name] = _meta_victims(_folded(victims or {}))
    return found


def read_binding_result(body: Buffer) -> Reading[str]:
    """The error of an ExtenderBindingResult, "" for none."""
    yield
    return _field(_read_fields(body), "error", str) or ""


def _read_fields(body: Buffer) -> Mapping[str, msgspec.Raw]:
    return _folded(_decode(body, dict[str, msgspec.Raw]) or {})


def _field(fields: Mapping[str, msgspec.Raw], name: str, kind: type[T]) -> T | None:
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return _decode(raw, kind)
    except MalformedAnswerError as error:
        raise MalformedAnswerError(f"{name}: {error}") from None


def _decode(body: Buffer, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind | None)
    # The latter for what is nested too deeply.
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedAnswerError(str(error)) from None


def _host_priority(entry: Mapping[str, Any]) -> tuple[str, int]:
    host, score = entry.get("host") or "", entry.get("score") or 0
    if not isinstance(host, str) or not isinstance(score, int):
        raise MalformedAnswerError(f"expected a host and a whole number as its score, found {host!r} and {score!r}")
    return host, score


def _meta_victims(fields: Mapping[str, msgspec.Raw]) -> MetaVictims:
    pods = _field(fields, "pods", list[dict[str, msgspec.Raw] | None]) or []
    uids = [_field(_folded(pod or {}), "uid", str) or "" for pod in pods]
    # Named twice, it is still one pod to evict.
    return MetaVictims(list(dict.fromkeys(uids)), _field(fields, "numpdbviolations", _Int64) or 0)


def _folded(found: Mapping[str, T]) -> dict[str, T]:
    return {name.lower(): value for name, value in found.items()}
