"""Changes of a cluster, each one a function of the Cluster: what people and controllers do to nodes, pods and volumes."""

from collections.abc import Awaitable, Callable
from typing import Any

from schedcache.testing import Cluster, JSONObject

NODE = "/api/v1/nodes/node-0"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ZONE = "topology.kubernetes.io/zone"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}

Act = Callable[[Cluster], Awaitable[JSONObject]]
"""Changes one object; returns it as stored, or as it was before it was deleted."""


def grow(**amounts: str) -> Act:
    """Other amounts on the node; quantities as in its status."""
    body = {"status": {"capacity": amounts, "allocatable": amounts}}
    return lambda cluster: cluster.patch(f"{NODE}/status", body)


def label(labels: dict[str, str]) -> Act:
    return lambda cluster: cluster.patch(NODE, {"metadata": {"labels": labels}})


def taint(*keys: str) -> Act:
    """The node has these taints and no others."""
    taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
    return lambda cluster: cluster.patch(NODE, {"spec": {"taints": taints or None}})


async def uncordon(cluster: Cluster) -> JSONObject:
    return await cluster.patch(NODE, {"spec": {"unschedulable": None}})


async def heartbeat(cluster: Cluster) -> JSONObject:
    node = await cluster.get(NODE)
    for condition in node["status"]["conditions"]:
        condition["lastHeartbeatTime"] = "2031-01-01T00:00:00Z"
    return await cluster.replace(f"{NODE}/status", node)


def placed(name: str, labels: dict[str, str] | None = None, **fields: Any) -> Act:
    """A pod of somebody else on the node."""

    async def act(cluster: Cluster) -> JSONObject:
        fields["scheduler_name"] = "default-scheduler"
        return (await cluster.make_pods(1, name=name, node="node-0", labels=labels, **fields))[0]

    return act


def pending(name: str) -> Act:
    """A pod of another scheduler without a node."""

    async def act(cluster: Cluster) -> JSONObject:
        return (await cluster.make_pods(1, name=name, scheduler_name="default-scheduler", requests={"cpu": "1"}))[0]

    return act


def delete(path: str) -> Act:
    async def act(cluster: Cluster) -> JSONObject:
        before = await cluster.get(path)
        await cluster.delete(path, grace_seconds=0)
        return before

    return act


def pod_labels(name: str, **labels: str) -> Act:
    return lambda cluster: cluster.patch(f"{PODS}/{name}", {"metadata": {"labels": labels}})


async def tolerate(cluster: Cluster) -> JSONObject:
    """The waiting pod comes to tolerate what the node has; tolerations can only be added to."""
    pod = await cluster.get(f"{PODS}/waits")
    tolerations = [*pod["spec"].get("tolerations", ()), {"key": "dedicated", "operator": "Exists"}]
    return await cluster.patch(f"{PODS}/waits", {"spec": {"tolerations": tolerations}})


def namespace_labels(name: str, **labels: str) -> Act:
    return lambda cluster: cluster.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})


def volume_labels(name: str, labels: dict[str, str]) -> Act:
    return lambda cluster: cluster.patch(f"{VOLUMES}/{name}", {"metadata": {"labels": labels}})


def arrive(name: str, **fields: Any) -> Act:
    """A further node."""

    async def act(cluster: Cluster) -> JSONObject:
        return (await cluster.make_nodes(1, name=name, **fields))[0]

    return act


def namespace(name: str, **labels: str) -> Act:
    return lambda cluster: cluster.create_namespace(name, labels)


# ---- volumes


def volume(name: str, claim: str, labels: dict[str, str] | None = None) -> Act:
    """A CSI volume that belongs to the claim."""
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            "claimRef": {"namespace": "default", "name": claim},
        },
    }
    return lambda cluster: cluster.create(VOLUMES, body)


def claim(name: str, volume: str = "", class_name: str = "") -> Act:
    """A claim, bound to the volume if there is one."""
    body = {
        "metadata": {"name": name, "annotations": BOUND if volume else {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": "1Gi"}},
            **({"volumeName": volume} if volume else {}),
        },
    }
    return lambda cluster: cluster.create(CLAIMS, body)


def bind_claim(name: str, volume: str) -> Act:
    """As the volume controller does."""
    return lambda cluster: cluster.patch(
        f"{CLAIMS}/{name}", {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume}}
    )


def local_volume(name: str, node: str, class_name: str) -> Act:
    """A disk of one node, for whoever claims it first."""
    only_there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    body = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only_there]}]}},
        },
    }
    return lambda cluster: cluster.create(VOLUMES, body)


def storage_class(name: str, *zones: str, provisioner: str = "csi.example.com") -> Act:
    """Volumes that are made once a pod wants one, in these zones if any are named."""
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}] if zones else None
    body = {
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": terms,
    }

    async def act(cluster: Cluster) -> JSONObject:
        found = [item for item in await cluster.list_all(CLASSES) if item["metadata"]["name"] == name]
        if not found:
            return await cluster.create(CLASSES, body)
        version = found[0]["metadata"]["resourceVersion"]
        metadata = {"name": name, "resourceVersion": version}
        return await cluster.replace(f"{CLASSES}/{name}", {**body, "metadata": metadata})

    return act


def csi_node(count: int) -> Act:
    """How many volumes of the driver the node takes."""
    driver = {"name": "csi.example.com", "nodeID": "node-0", "topologyKeys": [], "allocatable": {"count": count}}

    async def act(cluster: Cluster) -> JSONObject:
        found = [item for item in await cluster.list_all(CSI_NODES) if item["metadata"]["name"] == "node-0"]
        if found:
            return await cluster.replace(f"{CSI_NODES}/node-0", {**found[0], "spec": {"drivers": [driver]}})
        return await cluster.create(CSI_NODES, {"metadata": {"name": "node-0"}, "spec": {"drivers": [driver]}})

    return act
