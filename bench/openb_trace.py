# noqa: INP001  for the scripts here, no package
"""The openb trace as Kubernetes objects (see data/openb/README.md).

A part of a GPU asks `alibabacloud.com/gpu-milli`, whole GPUs ask `nvidia.com/gpu` and 1000 gpu-milli each, so sums per
node are exact; which card a part sits on is not modelled. Accepted GPU models become a required node affinity. Nodes get
room for 110 pods, which the trace does not tell. Pods come in creation order.
"""

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from schedcache.testing import node_manifest, pod_manifest

DATA = Path(__file__).parent / "data" / "openb"
GPU = "nvidia.com/gpu"
GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
NAMESPACE = "openb"

Row = Mapping[str, str]


def node_rows() -> list[Row]:
    """The nodes of the trace."""
    return _rows("openb_node_list_all_node.csv.gz")


def pod_rows(name: str = "gpuspec33") -> list[Row]:
    """The pods in creation order; `default` has no GPU models, `gpuspec33` has."""
    return sorted(_rows(f"openb_pod_list_{name}.csv.gz"), key=lambda row: float(row["creation_time"]))


def nodes() -> Iterator[dict[str, Any]]:
    """Node objects."""
    for row in node_rows():
        gpus = int(row["gpu"] or 0)
        yield node_manifest(
            row["sn"],
            labels={"kubernetes.io/os": "linux", **({GPU_MODEL: row["model"]} if gpus else {})},
            cpu=f"{row['cpu_milli']}m",
            memory=f"{row['memory_mib']}Mi",
            capacity={GPU: gpus, GPU_MILLI: 1000 * gpus} if gpus else {},
        )


def pods(name: str = "gpuspec33", scheduler_name: str = "default-scheduler") -> Iterator[dict[str, Any]]:
    """Pending pods, as they are created."""
    for row in pod_rows(name):
        extended = _gpu_request(row)
        requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi", **extended}
        container: dict[str, Any] = {"name": "task", "image": "registry.example/task:1"}
        container["resources"] = {"requests": requests, "limits": requests if row["qos"] == "Guaranteed" else extended}
        spec: dict[str, Any] = {"containers": [container]}
        if models := sorted(filter(None, row["gpu_spec"].split("|"))):
            term = {"matchExpressions": [{"key": GPU_MODEL, "operator": "In", "values": models}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            spec["affinity"] = {"nodeAffinity": required}
        yield pod_manifest(row["name"], namespace=NAMESPACE, scheduler_name=scheduler_name, **spec)


def _gpu_request(row: Row) -> dict[str, str]:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    if not gpus:
        return {}
    return {GPU_MILLI: str(milli)} if milli < 1000 else {GPU: str(gpus), GPU_MILLI: str(1000 * gpus)}


def _rows(name: str) -> list[Row]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))
