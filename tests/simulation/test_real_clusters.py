"""What was not made for this project: the dump of a real cluster, and the trace of a production GPU cluster."""

import gzip
from pathlib import Path

import pytest

from bench import openb_trace
from schedcache.config import config_from_dict
from schedcache.model import Node, Pod, parse_quantity
from schedcache.simulation import WhatIf, parse_objects
from schedcache.testing import make_pod

DUMP = Path(__file__).parent / "dump"
POOL = "gke-demo-default-pool-0a1b2c3d-"
REQUESTED = {
    "7kwg": ("481m", 356515840, 5),
    "dmtd": ("301m", 335544320, 4),
    "nvv4": ("512m", 771522560, 8),
    "z7lx": ("471m", 367001600, 6),
    "zpc5": ("901m", 1971773440, 6),
}
NANOS = 10**9


@pytest.fixture(scope="module")
def dump():
    objects = []
    for path in sorted(DUMP.glob("*.yaml.gz")):
        objects += parse_objects(gzip.decompress(path.read_bytes()).decode(), path.name)
    return objects


@pytest.fixture
def what_if(dump):
    return WhatIf(dump, config_from_dict(None).config)


def asking(cpu):
    return make_pod("probe", scheduler_name="default-scheduler", cpu=cpu)


def test_finished_pods_of_the_dump_do_not_count(what_if):
    assert len(what_if.cluster.finished) == 3
    found = what_if.ask([asking("30m")]).report["nodes"]
    for node, (cpu, memory, pods) in REQUESTED.items():
        requested = found[POOL + node]["requested"]
        assert (requested["cpu"], int(requested["memory"]), requested["pods"]) == (cpu, memory, pods)


@pytest.mark.parametrize(
    ("cpu", "full"), [("30m", ""), ("420m", "zpc5"), ("440m", "nvv4 zpc5"), ("700m", "7kwg dmtd nvv4 z7lx zpc5")]
)
def test_the_dump_has_room_where_the_api_server_says_so(what_if, cpu, full):
    answer = what_if.ask([asking(cpu)]).report["pods"][0]
    assert {name.removeprefix(POOL) for name in answer["rejected"]} == set(full.split())
    assert all(r["reasons"] == ["Insufficient cpu"] for r in answer["rejected"].values())


def test_priority_classes_of_the_dump_give_priorities(what_if):
    [pod] = what_if.pods_of(
        parse_objects("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priorityClassName: high-priority}}", "p")
    )
    assert pod.priority == 1_000_000


def test_the_gpu_trace_is_whole():
    nodes = [Node.from_dict(node) for node in openb_trace.nodes()]
    pods = [Pod.from_dict(pod) for pod in openb_trace.pods()]
    assert len(nodes) == 1523
    assert sum(node.allocatable.milli_cpu for node in nodes) == 125_514_000
    assert sum(node.allocatable.memory for node in nodes) == 612_028_416 * 2**20
    assert sum(node.allocatable.scalar.get(openb_trace.GPU, 0) for node in nodes) == 6212
    assert len(pods) == 8152
    assert sum(pod.requests.resource.milli_cpu for pod in pods) == 85_436_012
    assert sum(pod.requests.resource.memory for pod in pods) == 303_546_211 * 2**20
    assert sum(pod.requests.resource.scalar.get(openb_trace.GPU_MILLI, 0) for pod in pods) == 6_086_800
    assert sum(pod.spec.node_affinity is not None for pod in pods) == 2388


def test_quantities_of_the_report_are_kubernetes_quantities(what_if):
    for node in what_if.ask([asking("30m")]).report["nodes"].values():
        assert parse_quantity(node["requested"]["cpu"]) >= 0
        assert parse_quantity(node["requested"]["memory"]) % NANOS == 0
