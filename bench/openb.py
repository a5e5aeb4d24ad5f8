# ruff: noqa: INP001, E402  a script, no package, that sets its path first
"""A production GPU cluster's pods onto its nodes: the openb trace, 8,152 pods in order of creation onto 1,523 nodes.

    python bench/openb.py [--pods default|gpuspec33] [--first N] [--offline] [--idle SECONDS] [--json]

First schedcache alone, in memory: decisions a second, one pod after the other. Then, unless `--offline`, schedcache and the
real kube-scheduler, each on a kube-apiserver and etcd of its own with the same objects, all pods created before it starts:
pods a second from the first bind to the last, until nothing has been bound for `--idle` seconds. No pod ever leaves, which
fills the cluster: the pods ask for 98 % of all GPU thousandths. GPUs allocated are thousandths added up.
"""

import sys
from pathlib import Path

# From the root: a script's own folder comes first on the path, and here it has modules named like the standard library's.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import yaml

from bench import openb_trace
from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot
from schedcache.config import config_from_dict
from schedcache.framework import FitError, Framework, Handle
from schedcache.model import Node, Pod
from schedcache.plugins.default_plugins import default_registry
from schedcache.queue import Nominator
from schedcache.testing import Cluster, ControlPlane, as_stored, find_binaries
from schedcache.testing.processes import SupervisedProcess

Result = dict[str, Any]


def gpus_of(pods: Sequence[Mapping[str, Any]]) -> float:
    """GPUs that the pods ask for."""
    containers = (pod["spec"]["containers"][0] for pod in pods)
    return sum(int(c["resources"]["requests"].get(openb_trace.GPU_MILLI, 0)) for c in containers) / 1000


def offline(nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> Result:
    """All decisions in memory."""
    cache, snapshot, nominator, rng = SchedulerCache(), Snapshot(), Nominator(), random.Random(1)
    for node in nodes:
        cache.add_node(Node.from_dict(node))
    [profile] = config_from_dict(None).config.profiles
    framework = Framework(profile, default_registry(), Handle(cluster_objects=ClusterObjects(), nominator=nominator))
    waiting = [(obj, Pod.from_dict(as_stored(obj))) for obj in pods]
    placed = []
    start = time.perf_counter()
    for obj, pod in waiting:
        cache.update_snapshot(snapshot)
        try:
            result = framework.schedule(pod, snapshot, nominator.nominated_pods_for_node, rng)
        except FitError:
            continue
        cache.assume_pod(pod.with_node(result.node_name))
        placed.append(obj)
    seconds = time.perf_counter() - start
    return result_of("schedcache, in memory", placed, seconds, len(pods) / seconds)


def result_of(name: str, placed: Sequence[Mapping[str, Any]], seconds: float, rate: float) -> Result:
    """One line of the report."""
    return {
        "scheduler": name,
        "placed": len(placed),
        "gpus": round(gpus_of(placed), 2),
        "seconds": round(seconds, 2),
        "pods/s": round(rate, 1),
    }


def kube_scheduler(directory: Path, kubeconfig: Path) -> SupervisedProcess:
    """The real one, with its defaults but for the limits on its requests."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
    }
    file = directory / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    program = find_binaries(["kube-scheduler"])["kube-scheduler"]
    command = [str(program), f"--config={file}", "--secure-port=0", "-v=0"]
    return SupervisedProcess(command, directory / "kube-scheduler.log")


def schedcache(directory: Path, kubeconfig: Path) -> SupervisedProcess:
    """Ours."""
    flags = ["--kubeconfig", str(kubeconfig), "--scheduler-name", "default-scheduler", "--leader-elect=false"]
    limits = ["--kube-api-qps", "5000", "--kube-api-burst", "5000", "--port", "0"]
    command = [sys.executable, "-m", "schedcache", "run", *flags, *limits]
    return SupervisedProcess(command, directory / "schedcache.log")


async def live(
    name: str, start: Any, nodes: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]], idle: float
) -> Result:
    """A scheduler on a control plane of its own."""
    admission = ("ServiceAccount", "TaintNodesByCondition")
    async with ControlPlane(disable_admission_plugins=admission) as servers, Cluster(servers) as cluster:
        await cluster.create_namespace(openb_trace.NAMESPACE)
        for node in nodes:
            await cluster.create_node(dict(node))
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        await cluster.create_pods(pods)
        path = f"/api/v1/namespaces/{openb_trace.NAMESPACE}/pods"
        _, version = await cluster.list_with_version(path)
        process = start(servers.directory, servers.kubeconfig)
        placed, first, last = [], 0.0, 0.0
        try:
            async for bound, at in _binds(cluster, path, version, idle):
                first, last = first or at, at
                placed.append(by_name[bound])
        finally:
            process.kill()
        seconds = last - first
    return result_of(name, placed, seconds, len(placed) / seconds if seconds else 0.0)


async def _binds(cluster: Cluster, path: str, version: str, idle: float) -> AsyncIterator[tuple[str, float]]:
    """Pods as they are bound, with the time; ends when there was none for `idle` seconds (a minute for the first)."""
    seen: set[str] = set()
    events = cluster.watch(path, version)
    deadline = time.monotonic() + 60
    while True:
        try:
            _, pod = await asyncio.wait_for(anext(events), max(deadline - time.monotonic(), 0.01))
        except (TimeoutError, StopAsyncIteration):
            return
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName") and name not in seen:
            seen.add(name)
            deadline = time.monotonic() + idle
            yield name, time.perf_counter()


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", choices=("default", "gpuspec33"), default="gpuspec33")
    parser.add_argument("--first", type=int, help="only so many pods")
    parser.add_argument("--offline", action="store_true", help="in memory alone")
    parser.add_argument("--idle", type=float, default=15.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    nodes = list(openb_trace.nodes())
    pods = list(openb_trace.pods(options.pods))[: options.first]
    results = [offline(nodes, pods)]
    if not options.offline:
        results.append(asyncio.run(live("schedcache", schedcache, nodes, pods, options.idle)))
        results.append(asyncio.run(live("kube-scheduler", kube_scheduler, nodes, pods, options.idle)))
    total = sum(int(row["gpu"] or 0) for row in openb_trace.node_rows())
    if options.json:
        sys.stdout.write(
            json.dumps({"pods": len(pods), "gpus": total, "asked": gpus_of(pods), "results": results}) + "\n"
        )
        return
    sys.stdout.write(f"{len(pods)} pods, which ask {gpus_of(pods):.0f} of {total} GPUs\n")
    for result in results:
        sys.stdout.write(
            f"{result['scheduler']:24}{result['placed']:>6} placed{result['gpus']:>9.1f} GPUs "
            f"({100 * result['gpus'] / total:.1f} %){result['pods/s']:>9.1f} pods/s\n"
        )


if __name__ == "__main__":
    main()
