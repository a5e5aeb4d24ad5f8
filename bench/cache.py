# noqa: INP001  a script, no package
"""How fast the cache is and how much memory it takes: 5,000 nodes, 150,000 pods of 300 shapes.

    python bench/cache.py [--nodes N] [--pods N] [--shapes N] [--runs N] [--json]

Pods are decoded beforehand from JSON as an API server sends it, validation is off, stories are on, the garbage collector is
frozen. Times are the minimum of the runs; `calibration` is what a fixed loop took beside them, to compare machines and moods.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path

from schedcache.cache import SchedulerCache, Snapshot, Stories
from schedcache.model import Node, Pod

TIMES = "2026-01-05T08:00:0{}Z"


def node(i: int) -> Node:
    """A worker with the labels, conditions and images that a cloud's nodes have."""
    name = f"ip-10-{i // 65536}-{i // 256 % 256}-{i % 256}.internal"
    zone = f"eu-west-1{'abc'[i % 3]}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "eu-west-1",
        "node.kubernetes.io/instance-type": "m7i.8xlarge",
    }
    images = [
        {"names": [f"registry.example/app-{j}@sha256:{j:064x}", f"registry.example/app-{j}:1.0"], "sizeBytes": 10**8}
        for j in range(i % 7, i % 7 + 20)
    ]
    amounts = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    obj = {
        "metadata": {
            "name": name,
            "uid": f"{i:08x}-1111-4111-8111-111111111111",
            "resourceVersion": str(i),
            "labels": labels,
        },
        "spec": {},
        "status": {"allocatable": amounts, "images": images, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return Node.from_json(json.dumps(obj).encode())


def pod(i: int, node_name: str, shapes: int, *, affinity: bool, version: int) -> bytes:
    """A running replica of one of `shapes` templates, as JSON."""
    shape = i % shapes
    app = f"app-{shape}"
    labels = {"app.kubernetes.io/name": app, "pod-template-hash": f"{shape:010x}"}
    requests = {"cpu": f"{100 + shape}m", "memory": f"{128 + shape}Mi"}
    container = {"name": "app", "image": f"registry.example/{app}:1.0", "resources": {"requests": requests}}
    spec: dict[str, object] = {
        "nodeName": node_name,
        "schedulerName": "schedcache",
        "containers": [container],
        "priority": 0,
    }
    if affinity:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
        }
        spec["affinity"] = {
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        }
    owner = {"kind": "ReplicaSet", "name": f"{app}-{shape:010x}", "uid": f"{shape:08x}-2222-4222-8222-222222222222"}
    metadata = {
        "name": f"{app}-{shape:010x}-{i:05x}",
        "namespace": f"team-{shape % 20}",
        "uid": f"{i:08x}-3333-4333-8333-333333333333",
        "resourceVersion": str(10**8 + 2 * i + version),
        "creationTimestamp": TIMES.format(i % 10),
        "labels": labels,
        "ownerReferences": [{**owner, "apiVersion": "apps/v1", "controller": True}],
    }
    status = {
        "phase": "Running",
        "startTime": TIMES.format((i + 1) % 10),
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")],
        "containerStatuses": [{"name": "app", "resources": {"requests": requests}, "allocatedResources": requests}],
    }
    return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def calibration() -> float:
    """Seconds for a million turns of a loop that does next to nothing."""
    started = time.perf_counter()
    slots: dict[int, int] = {}
    for i in range(1_000_000):
        slots[i & 1023] = i
    return time.perf_counter() - started


def resident() -> int:
    """Bytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cache_of(nodes: list[Node]) -> SchedulerCache:
    """An empty cluster."""
    cache = SchedulerCache(stories=Stories())
    for each in nodes:
        cache.add_node(each)
    return cache


def best(runs: int, run: Callable[[], float]) -> float:
    """The minimum, with the garbage collector out of the way."""
    gc.collect()
    gc.freeze()
    return min(run() for _ in range(runs))


def memory(options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Growth of the resident set by nodes, and by pods with the objects that they are decoded to."""
    gc.collect()
    before = resident()
    nodes = [node(i) for i in range(options.nodes)]
    cache = cache_of(nodes)
    gc.collect()
    between = resident()
    yield "bytes a node", (between - before) / options.nodes
    for i in range(options.pods):
        cache.add_pod(Pod.from_json(pod(i, nodes[i % len(nodes)].name, options.shapes, affinity=False, version=1)))
    gc.collect()
    filled = resident()
    yield "bytes a pod", (filled - between) / options.pods
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    yield "bytes a node of a snapshot", (resident() - filled) / options.nodes


def cycles(options: argparse.Namespace, nodes: list[Node], *, affinity: bool) -> float:
    """Cycles of assume, finish and confirm a second; the confirming object is another than the assumed one."""

    def decoded(version: int) -> list[Pod]:
        return [
            Pod.from_json(pod(i, nodes[i % len(nodes)].name, options.shapes, affinity=affinity, version=version))
            for i in range(options.pods)
        ]

    assumed, confirmed = decoded(0), decoded(1)

    def run() -> float:
        cache = cache_of(nodes)
        started = time.perf_counter()
        for before, after in zip(assumed, confirmed, strict=True):
            cache.assume_pod(before)
            cache.finish_binding(before)
            cache.add_pod(after)
        return time.perf_counter() - started

    return int(options.pods) / best(options.runs, run)


def snapshots(options: argparse.Namespace, nodes: list[Node]) -> Iterator[tuple[str, float]]:
    """Microseconds of an update after so many changed nodes, each flipping whether it has affinity pods."""
    cache, snapshot = cache_of(nodes), Snapshot()
    for i in range(options.pods):
        cache.add_pod(Pod.from_json(pod(i, nodes[i % len(nodes)].name, options.shapes, affinity=False, version=1)))
    cache.update_snapshot(snapshot)
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "kubernetes.io/arch"):
        snapshot.columns.label_ids(key)
    numbers = count(options.pods)
    for changed in sorted({1, 10, 100, len(nodes)}):
        flips = [
            Pod.from_json(pod(next(numbers), each.name, options.shapes, affinity=True, version=1))
            for each in nodes[:changed]
        ]

        def run(flips: list[Pod] = flips) -> float:
            took = []
            for change in (cache.assume_pod, cache.forget_pod):
                for each in flips:
                    change(each)
                started = time.perf_counter()
                cache.update_snapshot(snapshot)
                took.append(time.perf_counter() - started)
            return max(took)

        yield f"update_snapshot, {changed} changed, us", 1e6 * best(max(options.runs, 5000 // changed), run)
    yield from reader(options, cache)


def reader(options: argparse.Namespace, cache: SchedulerCache) -> Iterator[tuple[str, float]]:
    """A first snapshot of everything: at once, in pieces (the longest pause of the loop), and a dump."""

    def whole() -> float:
        snapshot, started = Snapshot(), time.perf_counter()
        cache.update_snapshot(snapshot)
        return time.perf_counter() - started

    def longest_piece() -> float:
        pieces, longest = cache.update_snapshot_in_pieces(Snapshot()), 0.0
        while True:
            started = time.perf_counter()
            more = next(pieces, StopIteration)
            longest = max(longest, time.perf_counter() - started)
            if more is StopIteration:
                return longest

    def dump() -> float:
        started = time.perf_counter()
        cache.dump()
        return time.perf_counter() - started

    yield "readers' snapshot at once, ms", 1e3 * best(options.runs, whole)
    yield "readers' snapshot, longest piece, ms", 1e3 * best(options.runs, longest_piece)
    yield "dump, ms", 1e3 * best(options.runs, dump)


def measure(options: argparse.Namespace) -> Iterator[tuple[str, float]]:
    """Every figure, with its unit in its name."""
    yield from memory(options)
    nodes = [node(i) for i in range(options.nodes)]
    yield "calibration, ms", 1e3 * best(options.runs, calibration)
    yield "cycles a second, plain", cycles(options, nodes, affinity=False)
    yield "cycles a second, with affinity", cycles(options, nodes, affinity=True)
    yield from snapshots(options, nodes)


def report(figures: Mapping[str, float]) -> str:
    """A table, one figure a line."""
    return "\n".join(f"{name:40} {value:12,.1f}" for name, value in figures.items())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Speed and size of the scheduler cache.")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--shapes", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args()
    figures = dict(measure(options))
    sys.stdout.write((json.dumps(figures) if options.json else report(figures)) + "\n")


if __name__ == "__main__":
    main()
