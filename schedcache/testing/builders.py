"""Pods and nodes as an API server shows them, in few words, for tests without one."""

from collections.abc import Mapping, Sequence

from schedcache.testing.api_client import JSONObject

Image = tuple[Sequence[str], int]


def pod_object(  # noqa: PLR0913  each is one field of the object, and all but the name may be left out
    name: str,
    node: str = "",
    *,
    namespace: str = "default",
    uid: str | None = None,
    version: int = 1,
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    host_ports: Sequence[int] = (),
    claims: Sequence[str] = (),
    anti_affinity: Mapping[str, str] | None = None,
    phase: str = "",
    spec: Mapping[str, object] | None = None,
) -> JSONObject:
    """A pod of one container, on `node` unless that is "".

    Args:
        name: of the pod.
        node: `spec.nodeName`.
        namespace: of the pod.
        uid: `uid-` and the name where not given.
        version: the resourceVersion.
        requests: of the container.
        labels: of the pod.
        host_ports: ports on 0.0.0.0, TCP.
        claims: names of PersistentVolumeClaims, one volume each.
        anti_affinity: labels of pods that may not be on the same node.
        phase: `status.phase`; Running or Pending, by `node`, where not given.
        spec: fields of `spec` that replace or add to those above.
    """
    container: JSONObject = {"name": "main", "image": "registry.example/app:1"}
    if requests:
        container["resources"] = {"requests": dict(requests)}
    if host_ports:
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in host_ports]
    made: JSONObject = {"containers": [container]}
    if node:
        made["nodeName"] = node
    if claims:
        made["volumes"] = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    if anti_affinity:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(anti_affinity)}}
        made["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}" if uid is None else uid,
            "resourceVersion": str(version),
            "labels": dict(labels or {}),
        },
        "spec": {**made, **(spec or {})},
        "status": {"phase": phase or ("Running" if node else "Pending")},
    }


def node_object(
    name: str,
    *,
    zone: str = "",
    allocatable: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    images: Sequence[Image] = (),
    version: int = 1,
) -> JSONObject:
    """A node with 4 CPU, 16Gi and room for 110 pods.

    Args:
        name: of the node; the label `kubernetes.io/hostname` has it too.
        zone: the label `topology.kubernetes.io/zone`, none where "".
        allocatable: amounts that replace or add to those above.
        labels: further labels.
        taints: `spec.taints`.
        unschedulable: `spec.unschedulable`.
        images: names and size in bytes of each image on the node.
        version: the resourceVersion.
    """
    topology = {"topology.kubernetes.io/zone": zone} if zone else {}
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", **(allocatable or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {"kubernetes.io/hostname": name, **topology, **(labels or {})},
        },
        "spec": {"taints": [dict(taint) for taint in taints], "unschedulable": unschedulable},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "images": [{"names": list(names), "sizeBytes": size} for names, size in images],
        },
    }
