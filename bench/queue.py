# noqa: INP001  a script, no package
"""What the scheduling queue costs: events over a large unschedulable pool, and the plain way in and out.

    python bench/queue.py [--pods N] [--updates N] [--json]

CPU time, not wall time; all pods are rejected by NodeResourcesFit, and its own hints are asked.
"""

import argparse
import gc
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from schedcache.model import Node, Pod
from schedcache.plugins.node_resources_fit import NodeResourcesFit
from schedcache.queue import EventHint, SchedulingQueue
from schedcache.queue.events import node_update_events
from schedcache.testing import VirtualClock, make_node, make_pod

RATE = 100  # node updates a second


def pods(count: int, shapes: int) -> Iterator[Pod]:
    """Pods too large for any node below: 100 CPU and more, each shape with its own amount."""
    for number in range(count):
        yield make_pod(f"p{number}", cpu=100 + number % shapes, memory="1Gi")


def node(cpu_milli: int) -> Node:
    """One node with that much CPU and plenty of everything else."""
    return make_node("n1", "a", cpu=f"{cpu_milli}m", memory="512Gi")


def hints() -> list[EventHint]:
    """As the scheduler registers them."""
    return [replace(e, plugin=NodeResourcesFit.name) for e in NodeResourcesFit.events_to_register()]


def full_pool(count: int, shapes: int) -> SchedulingQueue:
    """A queue with all pods rejected by NodeResourcesFit, out of their backoff."""
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock, hints=hints())
    for pod in pods(count, shapes):
        queue.add(pod)
    while (info := queue.pop_nowait()) is not None:
        info.unschedulable_plugins = {"NodeResourcesFit"}
        queue.add_unschedulable(info)
    clock.advance(60)
    return queue


def cpu(run: Callable[[], object]) -> float:
    """CPU seconds of one call; the collector's share is part of it."""
    gc.collect()
    started = time.process_time()
    run()
    return time.process_time() - started


def useless_updates(queue: SchedulingQueue, updates: int) -> float:
    """Allocatable grows, from update to update, and never reaches what the pods ask for. CPU seconds an update."""
    nodes = [node(1000 + step) for step in range(updates + 1)]

    def run() -> None:
        for old, new in itertools.pairwise(nodes):
            for event in node_update_events(old, new):
                queue.move(event, old, new)

    seconds = cpu(run)
    if queue.pop_nowait() is not None:
        raise SystemExit("an update that cannot help anybody brought a pod back")
    return seconds / updates


def helpful_update(queue: SchedulingQueue, shapes: int) -> tuple[float, int]:
    """One update that fits the smallest shape alone: CPU seconds, and the number of pods that woke, which must be all of it."""
    old, new = node(99_000), node(100_000)
    expected = sum(info.pod.requests.resource.milli_cpu == 100_000 for info in queue.unschedulable_pods())
    pending = queue.pending_counts()["unschedulable"]

    def run() -> None:
        for event in node_update_events(old, new):
            queue.move(event, old, new)

    seconds = cpu(run)
    woken = queue.active_pods()
    if any(info.pod.requests.resource.milli_cpu != 100_000 for info in woken) or len(woken) != expected:
        raise SystemExit(f"{len(woken)} of {pending} pods woke, expected the {expected} of one of {shapes} shapes")
    return seconds, len(woken)


def pool_figures(count: int, shapes: int, updates: int) -> dict[str, Any]:
    """The events' cost over one pool."""
    queue = full_pool(count, shapes)
    update = useless_updates(queue, updates)
    dump = cpu(queue.dump)
    helpful, woken = helpful_update(queue, shapes)
    return {
        "pods": count,
        "shapes": shapes,
        "update_us": round(update * 1e6, 1),
        "core_percent_at_100_per_s": round(update * RATE * 100, 3),
        "helpful_update_ms": round(helpful * 1e3, 2),
        "woken": woken,
        "dump_ms": round(dump * 1e3, 1),
    }


def way_through(count: int) -> dict[str, Any]:
    """Microseconds a pod: in, out and done; and back after a rejection."""
    some = list(pods(count, 20))
    queue = SchedulingQueue(hints=hints())
    added = cpu(lambda: [queue.add(pod) for pod in some])

    def drain() -> None:
        while (info := queue.pop_nowait()) is not None:
            queue.done(info.popped_uid)

    drained = cpu(drain)
    for pod in some:
        queue.add(pod)

    def fail() -> None:
        while (info := queue.pop_nowait()) is not None:
            info.unschedulable_plugins = {"NodeResourcesFit"}
            queue.add_unschedulable(info)

    failed = cpu(fail)
    each = {"add_us": added, "pop_done_us": drained, "pop_reject_us": failed}
    return {name: round(seconds / count * 1e6, 2) for name, seconds in each.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=500, help="node updates to measure over")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines for people")
    options = parser.parse_args()
    runs = [
        pool_figures(options.pods, 20, options.updates),
        pool_figures(options.pods, options.pods, max(options.updates // 10, 10)),
    ]
    through = way_through(options.pods)
    if options.json:
        sys.stdout.write(json.dumps({"pools": runs, "way_through": through}) + "\n")
        return
    for run in runs:
        sys.stdout.write(
            f"{run['pods']} pods of {run['shapes']} shapes: {run['update_us']} us a useless node update, "
            f"{run['core_percent_at_100_per_s']} % of a core at {RATE} a second; an update that helps one shape "
            f"wakes {run['woken']} pods in {run['helpful_update_ms']} ms; dump {run['dump_ms']} ms\n"
        )
    sys.stdout.write(", ".join(f"{name.removesuffix('_us')} {us} us" for name, us in through.items()) + " a pod\n")


if __name__ == "__main__":
    main()
