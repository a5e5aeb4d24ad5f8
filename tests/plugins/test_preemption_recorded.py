"""Every candidate that kube-scheduler 1.37.2 finds in random clusters, its victims by importance, and the node it takes.

They were recorded from its own packages, with all nodes tried: budgets that overlap, have nothing or less than nothing left, or odd
selectors; equal and extreme priorities; victims that are terminating; pods nominated to the nodes; affinity to victims, spreading,
host ports, disks and claims. `message` is what it says where it evicts nobody. Pods that are equally important, or have the same host
port on one node, are not among them: there it goes by the order of lists, and we differ (docs/preemption.md).
"""

import gzip
import json
from pathlib import Path

import pytest

from schedcache.plugins.preemption.costs import costs_of
from schedcache.simulation.cluster import OfflineCluster, read_pod
from schedcache.simulation.decision import decide
from schedcache.simulation.offline import OfflineScheduler
from schedcache.simulation.profiles import effective_config

RECORDED = Path(__file__).parent / "recorded" / "preemption.jsonl.gz"


def cases():
    for line in gzip.decompress(RECORDED.read_bytes()).decode().splitlines():
        case = json.loads(line)
        yield pytest.param(case, id=case["name"])


def preemption_of(case):
    cluster = OfflineCluster(case["objects"])
    pod, scheduler = read_pod(case["pod"]), OfflineScheduler(cluster, effective_config(None))
    framework, _ = scheduler._framework_for(pod)
    nominated = cluster.nominated_pods_for_node
    return decide(framework, pod, scheduler.snapshot, nominated, scheduler._evicted).preemption


@pytest.mark.parametrize("case", list(cases()))
def test_the_same_pods_would_have_to_go(case):
    found, want = preemption_of(case), case["want"]
    candidates = {
        name: {"victims": [pod.full_name for pod in victims.pods], "violations": victims.pdb_violations}
        for name, victims in found.candidates.items()
    }
    assert candidates == want["candidates"]
    if candidates:
        names = list(found.candidates)
        best = {names[i] for i in costs_of(found.candidates.values()).best().tolist()}
        assert want["best"] in best
        assert found.node_name in best
    else:
        assert found.status.message == f"preemption: {want['message']}"
