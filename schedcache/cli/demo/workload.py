"""What `schedcache demo` schedules: nodes in three zones, and workloads with what should become of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedcache.testing import JSONObject, node_manifest, pod_manifest

NAMESPACE = "demo"
ZONES = ("zone-a", "zone-b", "zone-c")
NODES = 60
GPU = "example.com/gpu"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
BOUND = "bound"
WAITS = "waits"
NOT_OURS = "not ours"


@dataclass(frozen=True)
class Workload:
    """Pods that are alike.

    Attributes:
        name: of the workload; pods are numbered.
        count: of pods.
        requests: of a pod's container.
        expected: `BOUND`, `WAITS` (with a condition that says why), or `NOT_OURS`.
        spec: further fields of the pods' spec.
        host_ports: that each pod needs on its node.
        scheduler_name: theirs.
    """

    name: str
    count: int
    requests: Mapping[str, str]
    expected: str = BOUND
    spec: Mapping[str, Any] = field(default_factory=dict)
    host_ports: tuple[int, ...] = ()
    scheduler_name: str = "schedcache"

    def manifests(self) -> list[JSONObject]:
        """The pods."""
        return [
            pod_manifest(
                f"{self.name}-{number}",
                namespace=NAMESPACE,
                scheduler_name=self.scheduler_name,
                requests=self.requests,
                labels={"app": self.name},
                host_ports=self.host_ports,
                **self.spec,
            )
            for number in range(self.count)
        ]


_SMALL = {"cpu": "100m", "memory": "64Mi"}
WORKLOADS: Sequence[Workload] = (
    Workload("web", 180, {"cpu": "250m", "memory": "256Mi"}),
    Workload("api", 60, {"cpu": "500m", "memory": "1Gi"}),
    Workload("cache", 24, {"cpu": "200m", "memory": "4Gi"}, spec={"nodeSelector": {"disk": "ssd"}}),
    Workload(
        "zonal",
        30,
        {"cpu": "300m", "memory": "512Mi"},
        spec={"nodeSelector": {"topology.kubernetes.io/zone": "zone-b"}},
    ),
    Workload("ingress", 12, _SMALL, host_ports=(8443,)),
    Workload(
        "training",
        6,
        {"cpu": "1", "memory": "2Gi", GPU: "1"},
        spec={"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]},
    ),
    Workload("too-big", 3, {"cpu": "64"}, WAITS),
    Workload("lost", 2, _SMALL, WAITS, spec={"nodeSelector": {"topology.kubernetes.io/zone": "zone-d"}}),
    Workload("gated", 2, _SMALL, WAITS, spec={"schedulingGates": [{"name": "example.com/approval"}]}),
    Workload("elsewhere", 20, _SMALL, NOT_OURS, scheduler_name="default-scheduler"),
)


def demo_nodes() -> list[JSONObject]:
    """Every third with an SSD, and three with GPUs and a taint that keeps others off."""
    return [_node(number) for number in range(NODES)]


def _node(number: int) -> JSONObject:
    zone = ZONES[number % len(ZONES)]
    if number >= NODES - len(ZONES):
        return node_manifest(f"gpu-{number:02}", zone=zone, capacity={GPU: "2"}, taints=[GPU_TAINT])
    labels = {"disk": "ssd"} if number // len(ZONES) % len(ZONES) == 0 else {"disk": "hdd"}
    return node_manifest(f"node-{number:02}", zone=zone, labels=labels)
