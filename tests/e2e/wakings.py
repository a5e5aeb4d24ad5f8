"""What a pod may wait for, what brings it, and what looks like it and is not it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedcache.testing import Cluster, JSONObject

NODE = "/api/v1/nodes/node-0"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
HOST = "kubernetes.io/hostname"

Act = Callable[[Cluster], Awaitable[JSONObject]]
"""Changes one object; returns it as stored, or as it was before it was deleted."""


@dataclass(frozen=True)
class Waking:
    """A pod `waits` that `rejected_by` turned down. `helps` wakes it; none of `unrelated` does.

    `binds` False: that only makes it worth another attempt.
    """

    name: str
    rejected_by: str
    prepare: Callable[[Cluster], Awaitable[Any]]
    pod: dict[str, Any]
    helps: Act
    unrelated: Sequence[Act] = ()
    binds: bool = True
    nodes: int = field(default=1)


# ---- acts


def node_patch(body: JSONObject, *, status: bool = False, node: str = NODE) -> Act:
    return lambda cluster: cluster.patch(f"{node}/status" if status else node, body)


def grow(**amounts: str) -> Act:
    return node_patch({"status": {"capacity": amounts, "allocatable": amounts}}, status=True)


def label(**labels: str) -> Act:
    return node_patch({"metadata": {"labels": labels}})


def taint(*keys: str) -> Act:
    return node_patch({"spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in keys] or None}})


async def heartbeat(cluster: Cluster) -> JSONObject:
    node = await cluster.get(NODE)
    for condition in node["status"]["conditions"]:
        condition["lastHeartbeatTime"] = "2031-01-01T00:00:00Z"
    return await cluster.replace(f"{NODE}/status", node)


def placed(name: str, labels: dict[str, str] | None = None, **fields: Any) -> Act:
    """A pod of somebody else on the node."""

    async def act(cluster: Cluster) -> JSONObject:
        spec = {"nodeName": "node-0", **fields.pop("spec", {})}
        (pod,) = await cluster.make_pods(
            1, name=name, scheduler_name="default-scheduler", labels=labels or {}, spec=spec, **fields
        )
        return pod

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


def namespace_labels(name: str, **labels: str) -> Act:
    return lambda cluster: cluster.patch(f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})


def one_node(**fields: Any) -> Callable[[Cluster], Awaitable[Any]]:
    return lambda cluster: cluster.make_nodes(1, **fields)


def prepared(*acts: Act, **node: Any) -> Callable[[Cluster], Awaitable[Any]]:
    """A node, and then each act."""

    async def prepare(cluster: Cluster) -> None:
        await cluster.make_nodes(1, **node)
        for act in acts:
            await act(cluster)

    return prepare


# ---- volumes


def volume(name: str, claim: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Act:
    """A CSI volume, reserved for the claim if there is one."""
    body = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            **({"claimRef": {"namespace": "default", "name": claim}} if claim else {}),
            **spec,
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


def storage_class(name: str, zone: str) -> JSONObject:
    topology = {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": [zone]}]}
    return {
        "metadata": {"name": name},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [topology],
    }


def csi_node(count: int) -> Act:
    """How many volumes of the driver the node takes."""
    driver = {"name": "csi.example.com", "nodeID": "node-0", "topologyKeys": [], "allocatable": {"count": count}}

    async def act(cluster: Cluster) -> JSONObject:
        found = [item for item in await cluster.list_all(CSI_NODES) if item["metadata"]["name"] == "node-0"]
        if found:
            return await cluster.replace(f"{CSI_NODES}/node-0", {**found[0], "spec": {"drivers": [driver]}})
        return await cluster.create(CSI_NODES, {"metadata": {"name": "node-0"}, "spec": {"drivers": [driver]}})

    return act


def using(*claims: str) -> dict[str, Any]:
    """Fields of a pod that uses the claims."""
    return {"spec": {"volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]}}


# ---- pods


def together(**term: Any) -> dict[str, Any]:
    """A pod that goes only where a pod app=db is."""
    required = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOST, **term}
    return {
        "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [required]}}},
    }


APART = {
    "spec": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": HOST}
                ]
            }
        }
    }
}
SPREAD = {
    "labels": {"app": "web"},
    "spec": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    },
}


async def new_zone_for_spreading(cluster: Cluster) -> JSONObject:
    return (await cluster.make_nodes(1, name="fresh", zones=("b",)))[0]


async def small_node(cluster: Cluster) -> JSONObject:
    return (await cluster.make_nodes(1, name="small", capacity={"cpu": "1"}))[0]


async def partner_elsewhere(cluster: Cluster) -> None:
    await cluster.make_nodes(1)
    await cluster.create_namespace("data")
    await placed("db", {"app": "db"}, namespace="data")(cluster)


async def another_namespace(cluster: Cluster) -> JSONObject:
    return await cluster.create_namespace("other", {"team": "ads"})


async def tainted_zone_b(cluster: Cluster) -> None:
    await cluster.make_nodes(1, zones=("a",))
    (other,) = await cluster.make_nodes(1, name="node-1", zones=("b",), capacity={"pods": "0"})
    assert other["status"]["allocatable"]["pods"] == "0"
    await placed("web-0", {"app": "web"})(cluster)


ALL = (
    Waking(
        "node allocatable grows",
        "NodeResourcesFit",
        one_node(capacity={"cpu": "1"}),
        {"requests": {"cpu": "2"}},
        grow(cpu="4"),
        (heartbeat, label(a="b"), grow(memory="64Gi"), grow(cpu="1500m"), small_node, placed("guest"), pending("p")),
    ),
    Waking(
        "node arrives",
        "NodeResourcesFit",
        one_node(capacity={"cpu": "1"}),
        {"requests": {"cpu": "2"}},
        lambda cluster: cluster.create_node(_large()),
        (small_node, heartbeat),
    ),
    Waking(
        "taint removed",
        "TaintToleration",
        one_node(taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
        {},
        taint(),
        (taint("dedicated", "more"), taint("dedicated"), label(a="b"), grow(cpu="8"), heartbeat),
    ),
    Waking(
        "node uncordoned",
        "NodeUnschedulable",
        one_node(unschedulable=True),
        {},
        node_patch({"spec": {"unschedulable": None}}),
        (label(a="b"), grow(cpu="8"), heartbeat),
    ),
    Waking(
        "toleration added to the pod itself",
        "TaintToleration",
        one_node(taints=[{"key": "dedicated", "effect": "NoSchedule"}]),
        {},
        lambda cluster: _tolerate(cluster),
        (pod_labels("waits", a="b"), label(a="b")),
    ),
    Waking(
        "node label added",
        "NodeAffinity",
        one_node(),
        {"spec": {"nodeSelector": {"disk": "ssd"}}},
        label(disk="ssd"),
        (label(disk="hdd"), taint("x"), taint(), grow(cpu="8"), placed("guest")),
    ),
    Waking(
        "pod deleted, room",
        "NodeResourcesFit",
        prepared(placed("tenant", requests={"cpu": "1"}), capacity={"cpu": "1"}),
        {"requests": {"cpu": "1"}},
        delete(f"{PODS}/tenant"),
        (pod_labels("tenant", a="b"), pending("p"), delete(f"{PODS}/p"), heartbeat),
    ),
    Waking(
        "pod deleted, host port",
        "NodePorts",
        prepared(placed("tenant", spec={"containers": [_port(80)]}) if False else _tenant_with_port(80)),
        {"spec": {"containers": [_port(80)]}},
        delete(f"{PODS}/tenant"),
        (placed("guest"), delete(f"{PODS}/guest"), label(a="b"), grow(cpu="8")),
    )
    if False
    else None,
)
