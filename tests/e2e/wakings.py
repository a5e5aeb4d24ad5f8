"""What a pod may wait for, what brings it, and what looks like it and is not it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.acts import (
    PODS,
    ZONE,
    Act,
    arrive,
    bind_claim,
    claim,
    csi_node,
    delete,
    grow,
    heartbeat,
    label,
    namespace,
    namespace_labels,
    pending,
    placed,
    pod_labels,
    storage_class,
    taint,
    tolerate,
    uncordon,
    volume,
    volume_labels,
)

HOST = "kubernetes.io/hostname"
RELABELLED = label({"a": "b"})


@dataclass(frozen=True, kw_only=True)
class Waking:
    """After `prepare` the plugin turns the pod `waits` down. Then none of `unrelated` wakes it, and `helps` does.

    `binds` False: `helps` only makes the pod worth another attempt. `node` None: there is none. The API server taints a
    node that arrives, so that one may cost an attempt more.
    """

    name: str
    rejected_by: str
    helps: Act
    unrelated: Sequence[Act]
    prepare: Sequence[Act] = ()
    pod: dict[str, Any]
    node: dict[str, Any] | None
    binds: bool = True
    arrival: bool = False


def using(*claims: str) -> dict[str, Any]:
    return {"claims": claims}


def affine(kind: str, app: str, **more: Any) -> dict[str, Any]:
    """A pod with one required term about pods of the app on the same node."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOST, **more}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
DEDICATED = {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}

NODES_AND_ROOM = (
    Waking(
        name="no node yet",
        rejected_by="NoNodes",
        node=None,
        pod={},
        helps=arrive("first"),
        arrival=True,
        unrelated=(pending("p"), namespace("x"), delete(f"{PODS}/p")),
    ),
    Waking(
        name="node allocatable grows",
        rejected_by="NodeResourcesFit",
        node={"capacity": {"cpu": "1"}},
        pod={"requests": {"cpu": "2"}},
        helps=grow(cpu="4"),
        unrelated=(
            *(heartbeat, RELABELLED, grow(memory="64Gi"), grow(cpu="1500m"), placed("guest"), pending("p")),
            arrive("small", capacity={"cpu": "1"}),
        ),
    ),
    Waking(
        name="node arrives",
        rejected_by="NodeResourcesFit",
        node={"capacity": {"cpu": "1"}},
        pod={"requests": {"cpu": "2"}},
        helps=arrive("large"),
        arrival=True,
        unrelated=(arrive("small", capacity={"cpu": "1"}), heartbeat),
    ),
    Waking(
        name="taint removed",
        rejected_by="TaintToleration",
        node=DEDICATED,
        pod={},
        helps=taint(),
        unrelated=(taint("dedicated", "more"), taint("dedicated"), RELABELLED, grow(cpu="8"), heartbeat),
    ),
    Waking(
        name="toleration added to the pod",
        rejected_by="TaintToleration",
        node=DEDICATED,
        pod={},
        helps=tolerate,
        unrelated=(pod_labels("waits", a="b"), RELABELLED),
    ),
    Waking(
        name="node uncordoned",
        rejected_by="NodeUnschedulable",
        node={"unschedulable": True},
        pod={},
        helps=uncordon,
        unrelated=(RELABELLED, grow(cpu="8"), heartbeat),
    ),
    Waking(
        name="node label added",
        rejected_by="NodeAffinity",
        node={},
        pod={"nodeSelector": {"disk": "ssd"}},
        helps=label({"disk": "ssd"}),
        unrelated=(label({"disk": "hdd"}), taint("x"), taint(), grow(cpu="8"), placed("guest")),
    ),
    Waking(
        name="pod deleted, room",
        rejected_by="NodeResourcesFit",
        node={"capacity": {"cpu": "1"}},
        prepare=[placed("tenant", requests={"cpu": "1"})],
        pod={"requests": {"cpu": "1"}},
        helps=delete(f"{PODS}/tenant"),
        unrelated=(pod_labels("tenant", a="b"), pending("p"), delete(f"{PODS}/p"), heartbeat),
    ),
    Waking(
        name="pod deleted, host port",
        rejected_by="NodePorts",
        node={},
        prepare=[placed("tenant", host_ports=[80]), placed("other", host_ports=[81])],
        pod={"host_ports": [80]},
        helps=delete(f"{PODS}/tenant"),
        unrelated=(delete(f"{PODS}/other"), RELABELLED, grow(cpu="8")),
    ),
)

OTHER_PODS = (
    Waking(
        name="partner placed",
        rejected_by="InterPodAffinity",
        node={},
        pod=affine("podAffinity", "db"),
        helps=placed("db", {"app": "db"}),
        unrelated=(placed("cache", {"app": "cache"}), grow(cpu="8"), RELABELLED, pending("p")),
    ),
    Waking(
        name="partner labelled",
        rejected_by="InterPodAffinity",
        node={},
        prepare=[placed("db")],
        pod=affine("podAffinity", "db"),
        helps=pod_labels("db", app="db"),
        unrelated=(pod_labels("db", app="cache"), heartbeat),
    ),
    Waking(
        name="blocker gone",
        rejected_by="InterPodAffinity",
        node={},
        prepare=[placed("noisy", {"app": "noisy"}), placed("quiet", {"app": "quiet"})],
        pod=affine("podAntiAffinity", "noisy"),
        helps=delete(f"{PODS}/noisy"),
        unrelated=(delete(f"{PODS}/quiet"), RELABELLED, grow(cpu="8"), placed("guest")),
    ),
    Waking(
        name="namespace comes to be selected",
        rejected_by="InterPodAffinity",
        node={},
        prepare=[namespace("data"), placed("db", {"app": "db"}, namespace="data")],
        pod=affine("podAffinity", "db", namespaceSelector={"matchLabels": {"team": "data"}}),
        helps=namespace_labels("data", team="data"),
        unrelated=(namespace("ads", team="ads"), namespace_labels("data", team="ads"), grow(cpu="8")),
    ),
    Waking(
        name="pod of a crowded domain deleted",
        rejected_by="PodTopologySpread",
        node={"zones": ("a",)},
        prepare=[
            arrive("full", zones=("b",), capacity={"pods": "0"}),
            placed("web-0", {"app": "web"}),
        ],
        pod={"labels": {"app": "web"}, "topologySpreadConstraints": [SPREAD]},
        helps=delete(f"{PODS}/web-0"),
        unrelated=(placed("db", {"app": "db"}), heartbeat, namespace("x")),
    ),
)

VOLUMES = (
    Waking(
        name="claim created",
        rejected_by="VolumeRestrictions",
        node={},
        prepare=[volume("v", "data")],
        pod=using("data"),
        helps=claim("data", "v"),
        unrelated=(claim("others"), grow(cpu="8"), placed("guest")),
    ),
    Waking(
        name="claim bound by the controller",
        rejected_by="VolumeBinding",
        node={},
        prepare=[volume("v", "data"), claim("data"), claim("others"), volume("w", "others")],
        pod=using("data"),
        helps=bind_claim("data", "v"),
        unrelated=(bind_claim("others", "w"), grow(cpu="8")),
    ),
    Waking(
        name="volume arrives",
        rejected_by="VolumeZone",
        node={},
        prepare=[claim("data", "v")],
        pod=using("data"),
        helps=volume("v", "data"),
        unrelated=(claim("others"), grow(cpu="8"), placed("guest")),
    ),
    Waking(
        name="volume's zone label changed",
        rejected_by="VolumeZone",
        node={"zones": ("a",)},
        prepare=[volume("v", "data", {ZONE: "b"}), claim("data", "v"), volume("w", "others", {ZONE: "b"})],
        pod=using("data"),
        helps=volume_labels("v", {ZONE: "a"}),
        unrelated=(volume_labels("w", {"a": "b"}), claim("others"), grow(cpu="8")),
    ),
    Waking(
        name="storage class serves another zone",
        rejected_by="VolumeBinding",
        node={"zones": ("a",)},
        prepare=[storage_class("late", "b"), claim("data", class_name="late")],
        pod=using("data"),
        helps=storage_class("late", "a", "b"),
        unrelated=(claim("others"), grow(cpu="8")),
        binds=False,
    ),
    Waking(
        name="CSINode takes more volumes",
        rejected_by="NodeVolumeLimits",
        node={},
        prepare=[
            *(csi_node(1), volume("v", "data"), claim("data", "v"), volume("w", "others"), claim("others", "w")),
            placed("tenant", **using("others")),
        ],
        pod=using("data"),
        helps=csi_node(2),
        unrelated=(RELABELLED, grow(cpu="8"), claim("more"), placed("guest")),
    ),
)

ALL = NODES_AND_ROOM + OTHER_PODS + VOLUMES
