"""Builds pods and nodes briefly: as objects of the model (`make_pod`, `make_node`), and as manifests for an API server.

    pod = make_pod("web-0", "node-1", cpu="500m", labels={"app": "web"}, priority=10)
    node = make_node("node-1", zone="a", cpu="8", taints=[{"key": "gpu", "effect": "NoSchedule"}])

Each takes what a manifest of its kind can have. Fields without an argument of their own go into `spec`, under their names
in a manifest: `nodeSelector={"disk": "ssd"}`.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

from schedcache.model import Node, Pod
from schedcache.model.wire import NodeSpecWire, PodSpecWire

JSONObject = dict[str, Any]
"""A decoded Kubernetes object."""
Amount = str | int
"""A quantity as manifests have it: "500m", "2Gi", 4."""

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
HEALTHY_CONDITIONS: Mapping[str, str] = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
}

_P = ParamSpec("_P")
_R = TypeVar("_R")


def pod_manifest(  # noqa: PLR0913  each is one field of the object, and all but the name may be left out
    name: str = "pod",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    uid: str | None = None,
    resource_version: int | str | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
    terminating: bool = False,
    scheduler_name: str = "schedcache",
    cpu: Amount | None = None,
    memory: Amount | None = None,
    requests: Mapping[str, Amount] | None = None,
    host_ports: Iterable[int] = (),
    claims: Iterable[str] = (),
    anti_affinity: Mapping[str, str] | None = None,
    phase: str = "",
    nominated: str = "",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JSONObject:
    """The manifest of a pod with one container, which can be sent to an API server.

    Args:
        name: of the pod.
        node: `spec.nodeName`, left out if "".
        labels: of the pod.
        namespace: of the pod.
        uid: `metadata.uid`; None leaves it to the API server.
        resource_version: as `uid`.
        annotations: of the pod.
        owner: kind and name of the controller that made it.
        terminating: it has a `deletionTimestamp`.
        scheduler_name: `spec.schedulerName`.
        cpu: what the container requests; None for nothing.
        memory: as `cpu`.
        requests: further requests of the container, by resource.
        host_ports: ports on all addresses of the node, TCP.
        claims: names of PersistentVolumeClaims, one volume each.
        anti_affinity: labels of pods that may not be on the same node.
        phase: `status.phase`.
        nominated: `status.nominatedNodeName`.
        status: further fields of `status`.
        spec: fields of `spec` by their names in a manifest; they replace those above or are added to them.

    Raises:
        TypeError: `spec` itself as an argument, or `metadata`.
    """
    metadata: JSONObject = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    metadata |= _metadata(uid, resource_version, annotations)
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": owner[0], "name": owner[1], "uid": f"uid-{owner[1]}", "controller": True}
        ]
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    _refuse_nested(spec)
    made: JSONObject = {"schedulerName": scheduler_name, "containers": [_container(cpu, memory, requests, host_ports)]}
    if node:
        made["nodeName"] = node
    if volumes := [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]:
        made["volumes"] = volumes
    if anti_affinity:
        term = {"topologyKey": HOSTNAME_LABEL, "labelSelector": {"matchLabels": dict(anti_affinity)}}
        made["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    manifest: JSONObject = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made | spec}
    told = {"phase": phase, "nominatedNodeName": nominated}
    if known := {key: value for key, value in told.items() if value} | dict(status or {}):
        manifest["status"] = known
    return manifest


def node_manifest(  # noqa: PLR0913  as pod_manifest
    name: str = "node",
    zone: str | None = None,
    *,
    uid: str | None = None,
    resource_version: int | str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cpu: Amount = "4",
    memory: Amount = "32Gi",
    pods: Amount = "110",
    capacity: Mapping[str, Amount] | None = None,
    images: Iterable[tuple[Sequence[str], int]] = (),
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JSONObject:
    """The manifest of a Ready node, as its kubelet would register it.

    Args:
        name: also the value of the label `kubernetes.io/hostname`.
        zone: value of the label `topology.kubernetes.io/zone`; None leaves it out.
        uid: `metadata.uid`; None leaves it to the API server.
        resource_version: as `uid`.
        labels: further labels.
        annotations: of the node.
        cpu: capacity, all of which is allocatable.
        memory: as `cpu`.
        pods: as `cpu`.
        capacity: amounts of further resources, or in place of those above; the default has 100Gi of `ephemeral-storage`.
        images: names and size in bytes of each image on the node.
        status: further fields of `status`, or in place of those above.
        spec: fields of `spec` by their names in a manifest, such as `taints` and `unschedulable`.

    Raises:
        TypeError: `spec` itself as an argument, or `metadata`.
    """
    _refuse_nested(spec)
    topology = {HOSTNAME_LABEL: name} | ({} if zone is None else {ZONE_LABEL: zone})
    amounts = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": pods, **(capacity or {})}
    found: JSONObject = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [
            {"type": kind, "status": value, "reason": "Testing"} for kind, value in HEALTHY_CONDITIONS.items()
        ],
    }
    if listed := [{"names": list(names), "sizeBytes": size} for names, size in images]:
        found["images"] = listed
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": topology | dict(labels or {}),
            **_metadata(uid, resource_version, annotations),
        },
        "spec": dict(spec),
        "status": found | dict(status or {}),
    }


def as_stored(manifest: Mapping[str, Any]) -> JSONObject:
    """A manifest with what an API server adds to it, unless it has its own.

    The UID is `uid-` and the name, with the namespace unless that is `default`; the resourceVersion is 1; a pod is Running
    or Pending, depending on whether it has a node.
    """
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "default")
    full_name = metadata["name"] if namespace == "default" else f"{namespace}/{metadata['name']}"
    stored = {**manifest, "metadata": {"uid": f"uid-{full_name}", "resourceVersion": "1", **metadata}}
    if manifest.get("kind") == "Pod":
        phase = "Running" if manifest["spec"].get("nodeName") else "Pending"
        stored["status"] = {"phase": phase, **manifest.get("status", {})}
    return stored


def _takes(arguments: Callable[_P, Any]) -> Callable[[Callable[..., _R]], Callable[_P, _R]]:
    """Declare that a function takes the arguments of another, for type checkers and for help()."""

    def declared(function: Callable[..., _R]) -> Callable[_P, _R]:
        found = inspect.signature(function)
        shown = found.replace(parameters=list(inspect.signature(arguments).parameters.values()))
        function.__signature__ = shown  # type: ignore[attr-defined]  # where inspect looks first
        return function

    return declared


@_takes(pod_manifest)
def make_pod(*args: Any, **fields: Any) -> Pod:
    """A pod as an API server stores it; the arguments are those of `pod_manifest`.

        make_pod("web-0", cpu="500m", nodeSelector={"disk": "ssd"})

    Raises:
        MalformedObjectError: a field that Kubernetes would refuse too.
        TypeError: an argument that is neither one of `pod_manifest` nor a field of `spec` that scheduling reads.
    """
    manifest = pod_manifest(*args, **fields)
    _check_fields("make_pod", manifest, PodSpecWire)
    return Pod.from_dict(as_stored(manifest))


@_takes(node_manifest)
def make_node(*args: Any, **fields: Any) -> Node:
    """A node as an API server stores it; the arguments are those of `node_manifest`.

        make_node("node-1", zone="a", cpu="8", unschedulable=True)

    Raises:
        MalformedObjectError: a field that Kubernetes would refuse too.
        TypeError: an argument that is neither one of `node_manifest` nor a field of `spec` that scheduling reads.
    """
    manifest = node_manifest(*args, **fields)
    _check_fields("make_node", manifest, NodeSpecWire)
    return Node.from_dict(as_stored(manifest))


def _check_fields(function: str, manifest: JSONObject, wire: type[msgspec.Struct]) -> None:
    """Otherwise a mistyped argument would become a field of `spec` that nobody reads."""
    unread = manifest["spec"].keys() - set(wire.__struct_encode_fields__)
    if unread:
        raise TypeError(f"{function}() got {', '.join(sorted(unread))}: neither an argument nor a field of spec")


def _refuse_nested(spec: Mapping[str, Any]) -> None:
    for name in ("spec", "metadata"):
        if name in spec:
            raise TypeError(f"no argument is called {name!r}: its fields are arguments of their own")


def _metadata(
    uid: str | None, resource_version: int | str | None, annotations: Mapping[str, str] | None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if uid is not None:
        metadata["uid"] = uid
    if resource_version is not None:
        metadata["resourceVersion"] = str(resource_version)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def _container(
    cpu: Amount | None, memory: Amount | None, requests: Mapping[str, Amount] | None, host_ports: Iterable[int]
) -> JSONObject:
    container: JSONObject = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    asked = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount is not None}
    if asked := asked | dict(requests or {}):
        # Extended resources and hugepages are valid only with a limit equal to the request.
        limits = {name: amount for name, amount in asked.items() if "/" in name or name.startswith("hugepages-")}
        container["resources"] = {"requests": asked} | ({"limits": limits} if limits else {})
    if ports := [{"containerPort": port, "hostPort": port} for port in host_ports]:
        container["ports"] = ports
    return container
