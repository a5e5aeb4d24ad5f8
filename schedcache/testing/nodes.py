"""Nodes without kubelets and pods without containers: objects as an API server wants them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from schedcache.testing.api_client import JSONObject

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
DEFAULT_CAPACITY: Mapping[str, str] = {"cpu": "4", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
HEALTHY_CONDITIONS: Mapping[str, str] = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
}


def now() -> str:
    """The time as Kubernetes writes it, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_manifest(
    name: str,
    *,
    capacity: Mapping[str, str] | None = None,
    zone: str | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
) -> JSONObject:
    """A Ready node as its kubelet would register it.

    Args:
        name: also the value of the label ``kubernetes.io/hostname``.
        capacity: quantities that replace or add to :data:`DEFAULT_CAPACITY`; allocatable is the same.
        zone: value of the label ``topology.kubernetes.io/zone``.
        labels: further labels.
        taints: ``spec.taints``.
        unschedulable: ``spec.unschedulable``.
    """
    resources = {**DEFAULT_CAPACITY, **(capacity or {})}
    topology = {} if zone is None else {"topology.kubernetes.io/zone": zone}
    time = now()
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": time, "lastTransitionTime": time, "reason": "Testing"}
        for kind, status in HEALTHY_CONDITIONS.items()
    ]
    spec: JSONObject = {}
    if taints:
        spec["taints"] = [dict(taint) for taint in taints]
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **topology, **(labels or {})}},
        "spec": spec,
        "status": {"capacity": resources, "allocatable": resources, "conditions": conditions},
    }


def pod_manifest(
    name: str,
    *,
    namespace: str = "default",
    scheduler_name: str = "schedcache",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    spec: JSONObject | None = None,
) -> JSONObject:
    """A pod of one container, or whatever ``spec`` makes of it.

    Args:
        name: of the pod.
        namespace: that it goes to.
        scheduler_name: ``spec.schedulerName``.
        requests: of its container, for example ``{"cpu": "100m"}``.
        labels: of the pod.
        spec: fields of ``spec`` that replace or add to those above.
    """
    container: JSONObject = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    if requests:
        # Extended resources and hugepages are valid only with a limit equal to the request.
        limits = {key: value for key, value in requests.items() if "/" in key or key.startswith("hugepages-")}
        container["resources"] = {"requests": dict(requests)} | ({"limits": limits} if limits else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {"schedulerName": scheduler_name, "containers": [container], **(spec or {})},
    }
