# noqa: INP001  a script, no package
"""Milliseconds a decision: filters, scores and the choice over all nodes, in the shapes of kube-scheduler's scheduler_perf.

    python bench/algorithm.py [--nodes N ...] [--workloads NAME ...] [--pods N] [--runs N] [--per-node] [--json]

Each decision is timed from the update of the snapshot to the chosen node, which is then assumed. `stream`: all pods have one
spec, so row-local results are kept; `fresh`: every pod has a spec of its own, so nothing is. p50 and p99 of a run are given
for the run whose p50 is lowest; `calibration` is a fixed piece of numpy and Python work beside it, to compare machines and moods.
`reasons` is a pod that fits nowhere for ten different reasons: message and explanation together. `--per-node` adds what a filter
costs that is asked about one node at a time, message included: it passes every node, rejects all for the same reason, or each
for a reason of its own.
"""

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot
from schedcache.config import config_from_dict, profile_with_defaults
from schedcache.config.v1 import KubeSchedulerProfile, Plugin, Plugins, PluginSet
from schedcache.framework import FitError, Framework, Handle, Registry, Status, unschedulable
from schedcache.framework.explanation import explain_rejection
from schedcache.model import Node, Pod
from schedcache.plugins.default_binder import DefaultBinder
from schedcache.plugins.default_plugins import default_registry
from schedcache.plugins.priority_sort import PrioritySort
from schedcache.queue import Nominator
from schedcache.testing import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
Spec = Mapping[str, Any]
NOMINATIONS = Nominator()
"""Of nobody."""


class Workload(NamedTuple):
    """The pods to place, and how many zones the nodes are in; `share` of the pods that run already are of their kind."""

    labels: Mapping[str, str]
    spec: Spec
    zones: int = 3
    share: float = 0.5


def term(key: str, color: str) -> Spec:
    """A required term on pods of that color."""
    return {"topologyKey": key, "namespaces": ["default"], "labelSelector": {"matchLabels": {"color": color}}}


def spread(when: str) -> Spec:
    """A constraint by zone."""
    selector = {"matchLabels": {"color": "blue"}}
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
        ]
    }


def required(kind: str, key: str, color: str) -> Spec:
    """One required (anti-)affinity term."""
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(key, color)]}}}


def preferred(kind: str, key: str, color: str) -> Spec:
    """One preferred (anti-)affinity term of weight 1."""
    weighted = {"weight": 1, "podAffinityTerm": term(key, color)}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


IN_ZONES = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-0", "zone-1"]}]}
NODE_AFFINITY = {
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [IN_ZONES]}}}
}
WORKLOADS = {
    "SchedulingBasic": Workload({}, {}),
    "NodeAffinity": Workload({}, NODE_AFFINITY),
    "TopologySpreading": Workload({"color": "blue"}, spread("DoNotSchedule")),
    "PreferredTopologySpreading": Workload({"color": "blue"}, spread("ScheduleAnyway")),
    "PodAntiAffinity": Workload({"color": "green"}, required("podAntiAffinity", HOST, "green"), share=0.1),
    "PodAffinity": Workload({"color": "blue"}, required("podAffinity", ZONE, "blue"), zones=1),
    "PreferredPodAffinity": Workload({"color": "red"}, preferred("podAffinity", HOST, "red")),
}


def node_of(i: int, zones: int) -> Node:
    """A node of scheduler_perf, in one of the zones."""
    return make_node(f"node-{i}", f"zone-{i % zones}", cpu="4", memory="32Gi", pods="110")


def pod_of(workload: Workload, name: str, *, node: str = "", memory: int = 500 * 2**20) -> Pod:
    """A pod of the workload."""
    return make_pod(name, node, workload.labels, cpu="100m", memory=memory, **workload.spec)


def make_framework() -> Framework:
    """The default profile."""
    [profile] = config_from_dict(None).config.profiles
    return Framework(profile, default_registry(), Handle(cluster_objects=ClusterObjects(), nominator=NOMINATIONS))


def make_cluster(workload: Workload, nodes: int) -> SchedulerCache:
    """Two pods a node run already."""
    cache = SchedulerCache()
    for i in range(nodes):
        cache.add_node(node_of(i, workload.zones))
    plain = WORKLOADS["SchedulingBasic"]
    alike = int(2 * nodes * workload.share)
    for i in range(2 * nodes):
        cache.add_pod(pod_of(workload if i < alike else plain, f"old-{i}", node=f"node-{i % nodes}"))
    return cache


def calibrate() -> float:
    """Milliseconds for a fixed piece of work like that of a decision."""
    a, b = np.arange(1, 5001), np.arange(5000, 0, -1)

    def work() -> None:
        for _ in range(20):
            (a * 100 // b).max()
        sum(i * i for i in range(2000))

    times = []
    for _ in range(50):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def decide(framework: Framework, cache: SchedulerCache, snapshot: Snapshot, pods: list[Pod]) -> list[float]:
    """Seconds for each pod; they are assumed and, at the end, forgotten."""
    times, placed, rng = [], [], random.Random(1)
    for pod in pods:
        start = time.perf_counter()
        cache.update_snapshot(snapshot)
        result = framework.schedule(pod, snapshot, NOMINATIONS.nominated_pods_for_node, rng)
        times.append(time.perf_counter() - start)
        placed.append(pod.with_node(result.node_name))
        cache.assume_pod(placed[-1])
    for pod in placed:
        cache.forget_pod(pod)
    return times


def best_run(run: Callable[[], list[float]], runs: int) -> dict[str, float]:
    """Milliseconds of the run with the lowest median."""
    found = min((sorted(run()) for _ in range(runs)), key=lambda times: times[len(times) // 2])
    return {"p50": found[len(found) // 2] * 1e3, "p99": found[int(len(found) * 0.99)] * 1e3}


def measure(name: str, nodes: int, pods: int, runs: int) -> dict[str, Any]:
    """One workload at one size."""
    workload = WORKLOADS[name]
    cache, framework, snapshot = make_cluster(workload, nodes), make_framework(), Snapshot()
    stream = [pod_of(workload, f"new-{i}") for i in range(pods)]
    fresh = [pod_of(workload, f"own-{i}", memory=400 * 2**20 + i) for i in range(pods)]
    gc.collect()
    gc.freeze()
    result = {
        "workload": name,
        "nodes": nodes,
        "pods": cache.pod_count(),
        "stream": best_run(lambda: decide(framework, cache, snapshot, stream), runs),
        "fresh": best_run(lambda: decide(framework, cache, snapshot, fresh), runs),
    }
    gc.unfreeze()
    return result


TEN_REASONS = 10


def hopeless_cluster(nodes: int) -> tuple[SchedulerCache, Pod]:
    """Nodes that reject the pod for ten different reasons."""
    cache = SchedulerCache()
    for i in range(nodes):
        why = i % TEN_REASONS
        amounts = {"ephemeral-storage": "10Gi", "example.com/card": "0" if why == 7 else "1"}
        amounts |= ({}, {}, {}, {"cpu": "500m"}, {"memory": "1Gi"}, {"pods": "0"}, {"ephemeral-storage": "1Gi"})[
            why % 7
        ]
        node = make_node(
            f"node-{i}",
            None if why == 2 else f"zone-{i % 3}",
            labels={"disk": "hdd" if why == 1 else "ssd"},
            capacity=amounts,
            unschedulable=why == 0,
            taints=[{"key": "gone", "effect": "NoSchedule"}] if why == 8 else [],
        )
        cache.add_node(node)
        if why == 9:
            cache.add_pod(make_pod(f"old-{i}", f"node-{i}", host_ports=[80]))
    return cache, make_pod(
        "p",
        labels={"color": "blue"},
        requests={"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi", "example.com/card": "1"},
        host_ports=[80],
        nodeSelector={"disk": "ssd"},
        **spread("DoNotSchedule"),
    )


def measure_reasons(nodes: int, runs: int) -> dict[str, Any]:
    """The pod that fits nowhere."""
    cache, pod = hopeless_cluster(nodes)
    framework, snapshot = make_framework(), Snapshot()
    cache.update_snapshot(snapshot)
    attempts, told, message = [], [], ""
    for _ in range(20 * runs):
        start = time.perf_counter()
        try:
            framework.schedule(pod, snapshot, NOMINATIONS.nominated_pods_for_node, random.Random(1))
        except FitError as error:
            decided = time.perf_counter()
            message = error.message()
            explain_rejection(framework, pod, snapshot, error.diagnosis, error.state)
            attempts.append(decided - start)
            told.append(time.perf_counter() - decided)
    reasons = message.count(",") + 1
    return {"nodes": nodes, "reasons": reasons, "attempt": min(attempts) * 1e3, "told": min(told) * 1e3}


FULL = unschedulable("node is full")
PER_NODE: Mapping[str, Callable[[str], Status | None]] = {
    "passes": lambda _: None,
    "one_reason": lambda _: FULL,
    "own_reasons": lambda name: unschedulable(f"{name} is full"),
}


def per_node_framework(judge: Callable[[str], Status | None]) -> Framework:
    """A profile of one filter, which is asked node by node."""

    class Judge:
        name = "Judge"
        per_node = True

        def __init__(self, args: Any, handle: Handle) -> None: ...

        @staticmethod
        def filter(_state: Any, _pod: Pod, node_info: Any) -> Status | None:
            return judge(node_info.node.name)

    made = {plugin.name: plugin for plugin in (Judge, PrioritySort, DefaultBinder)}
    sets = Plugins(multi_point=PluginSet(enabled=[Plugin(name=name) for name in made], disabled=[Plugin(name="*")]))
    profile = profile_with_defaults(KubeSchedulerProfile(scheduler_name="default-scheduler", plugins=sets))
    return Framework(profile, Registry(made), Handle(cluster_objects=ClusterObjects(), nominator=NOMINATIONS))


def measure_per_node(nodes: int, runs: int) -> dict[str, Any]:
    """The filter that is asked node by node."""
    workload = WORKLOADS["SchedulingBasic"]
    cache, snapshot, pod, result = SchedulerCache(), Snapshot(), pod_of(workload, "new"), {"per_node": nodes}
    for i in range(nodes):
        cache.add_node(node_of(i, workload.zones))
    cache.update_snapshot(snapshot)
    for name, judge in PER_NODE.items():
        framework, times = per_node_framework(judge), []
        for _ in range(5 * runs):
            start = time.perf_counter()
            try:
                framework.schedule(pod, snapshot, NOMINATIONS.nominated_pods_for_node, random.Random(1))
            except FitError as error:
                error.message()
            times.append(time.perf_counter() - start)
        result[name] = min(times) * 1e3
    return result


def report(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All that was asked for, one after the other."""
    for nodes in options.nodes:
        for name in options.workloads:
            yield measure(name, nodes, options.pods, options.runs)
        yield measure_reasons(nodes, options.runs)
        if options.per_node:
            yield measure_per_node(nodes, options.runs)


def show(result: dict[str, Any]) -> str:
    """One line."""
    if "reasons" in result:
        return (
            f"{'fits nowhere':28}{result['nodes']:>7}{result['reasons']:>9} reasons: attempt {result['attempt']:.3f}, "
            f"explanation {result['told']:.3f}"
        )
    if "per_node" in result:
        return (
            f"{'one node at a time':28}{result['per_node']:>7} passes {result['passes']:.3f}, one reason "
            f"{result['one_reason']:.3f}, own reasons {result['own_reasons']:.3f}"
        )
    stream, fresh = result["stream"], result["fresh"]
    return (
        f"{result['workload']:28}{result['nodes']:>7}{result['pods']:>9}"
        f"{stream['p50']:>12.3f}{stream['p99']:>9.3f}{fresh['p50']:>12.3f}{fresh['p99']:>9.3f}"
    )


def write(line: str) -> None:
    """Print at once, so that a long run shows where it is."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000, 15000])
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--pods", type=int, default=200, help="decisions a run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--per-node", action="store_true", help="measure a filter for one node at a time too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    calibration = calibrate()
    if not options.json:
        write(f"calibration {calibration:.3f} ms; milliseconds a decision")
        write(f"{'workload':28}{'nodes':>7}{'pods':>9}{'stream p50':>12}{'p99':>9}{'fresh p50':>12}{'p99':>9}")
    results = []
    for result in report(options):
        results.append(result)
        if not options.json:
            write(show(result))
    if options.json:
        json.dump({"calibration": calibration, "results": results}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
