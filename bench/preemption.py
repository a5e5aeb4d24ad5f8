# noqa: INP001  a script, no package
"""Milliseconds a decision with victims: four pods of 900m fill each node of four CPUs, and pods of higher priority want three.

The shape is that of kube-scheduler's PreemptionBasic.

    python bench/preemption.py [--nodes N ...] [--preemptors N] [--runs N] [--json]

Timed from the update of the snapshot over the attempt that fails to the victims. `gone`: they are gone, and the preemptor is
placed, before the next one is tried; `waiting`: all victims are still there in the end, and all preemptors nominated. All nodes
are tried each time. p50 and p99 of a run are given for the run whose p50 is lowest.
"""

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Sequence
from typing import Any

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot
from schedcache.config import KubeSchedulerProfile, profile_with_defaults
from schedcache.framework import FitError, Framework, Handle
from schedcache.model import Node, Pod
from schedcache.plugins.default_plugins import default_registry
from schedcache.simulation.preemption import RecordedPreemption

LOW_PER_NODE = 4
ZONE = "topology.kubernetes.io/zone"


class Nominations(dict[str, list[Pod]]):
    """Node name -> the pods nominated there."""

    def nominated_nodes(self) -> Sequence[str]:
        return list(self)

    def nominated_pods_for_node(self, node_name: str) -> Sequence[Pod]:
        return self.get(node_name, ())


def make_node(i: int) -> Node:
    """A node of scheduler_perf."""
    amounts = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {ZONE: f"zone-{i % 3}"}
    return Node.from_dict({"metadata": {"name": f"node-{i}", "labels": labels}, "status": {"allocatable": amounts}})


def make_pod(name: str, priority: int, cpu: str, node: str = "", started: int = 0) -> Pod:
    """A pod of that priority; `started`: seconds after some hour."""
    container = {"name": "pause", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": "500Mi"}}}
    start = f"2026-01-05T08:{started // 60 % 60:02}:{started % 60:02}Z" if node else ""
    return Pod.from_dict(
        {
            "metadata": {"name": name, "uid": name, "namespace": "default"},
            "spec": {"priority": priority, "nodeName": node, "containers": [container]},
            "status": {"startTime": start},
        }
    )


def run(nodes: int, preemptors: int, *, waiting: bool) -> list[float]:
    """Milliseconds for each preemptor but the first, which meets a table that is still empty."""
    cache, snapshot, rng = SchedulerCache(), Snapshot(), random.Random(1)
    for i in range(nodes):
        cache.add_node(make_node(i))
    for i in range(LOW_PER_NODE * nodes):
        cache.add_pod(make_pod(f"low-{i}", 0, "900m", f"node-{i % nodes}", rng.randrange(3600)))
    nominations, evictions = Nominations(), RecordedPreemption()
    profile = profile_with_defaults(KubeSchedulerProfile(scheduler_name="default-scheduler"))
    handle = Handle(cluster_objects=ClusterObjects(), nominator=nominations, preemption=evictions, chance=rng)
    framework = Framework(profile, default_registry(), handle)
    times = []
    for i in range(preemptors + 1):
        pod = make_pod(f"high-{i}", 100, "3")
        start = time.perf_counter()
        cache.update_snapshot(snapshot)
        try:
            framework.schedule(pod, snapshot, nominations.nominated_pods_for_node, rng)
            raise SystemExit("a pod that was to preempt has found room")
        except FitError as error:
            rejected = error.diagnosis.statuses
            node, status = framework.run_post_filter(error.state, pod, snapshot, rejected)
        times.append((time.perf_counter() - start) * 1e3)
        if not node:
            raise SystemExit(f"no room was made: {status.message}")
        if waiting:
            nominations.setdefault(node, []).append(pod)
            continue
        for victim in evictions.victims:
            cache.remove_pod(victim)
        cache.assume_pod(pod.with_node(node))
    return sorted(times[1:])


def measure(nodes: int, preemptors: int, runs: int, *, waiting: bool) -> dict[str, Any]:
    """One size one way."""
    found = []
    for _ in range(runs):
        gc.collect()
        found.append(run(nodes, preemptors, waiting=waiting))
    best = min(found, key=lambda times: times[len(times) // 2])
    return {
        "victims": "waiting" if waiting else "gone",
        "nodes": nodes,
        "pods": LOW_PER_NODE * nodes,
        "preemptors": preemptors,
        "p50": best[len(best) // 2],
        "p99": best[int(len(best) * 0.99)],
    }


def main() -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--preemptors", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for nodes in options.nodes:
        for waiting in (False, True):
            result = measure(nodes, options.preemptors, options.runs, waiting=waiting)
            line = (
                f"{nodes:>6} nodes, {result['pods']:>7} pods, victims {result['victims']:8}"
                f" p50 {result['p50']:.2f}, p99 {result['p99']:.2f} ms"
            )
            sys.stdout.write((json.dumps(result) if options.json else line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
