"""The live path decides as `simulate` does: one cache, one snapshot brought up to date, kept results and all."""

import copy
import gzip
import json
import random
from pathlib import Path

import pytest

from schedcache.cache import SchedulerCache, Snapshot
from schedcache.config import config_from_dict
from schedcache.framework import Framework, Handle, SchedulingFailure
from schedcache.model import Node, Pod
from schedcache.plugins.default_plugins import default_registry
from schedcache.simulation import simulate
from schedcache.simulation.cluster import OfflineCluster

VECTORS = Path(__file__).parents[1] / "plugins" / "vectors" / "random.jsonl.gz"
COPIES = 8


def cases():
    lines = gzip.decompress(VECTORS.read_bytes()).decode().splitlines()
    for case in map(json.loads, lines[::5]):
        # A gated pod is never tried.
        if (case["want"]["preFilterRejected"] or {}).get("stage") != "PreEnqueue":
            yield pytest.param(case, id=case["name"])


class LivePath:
    """What the loop does between a pop and a bind, without the loop."""

    def __init__(self, case, rng):
        config = config_from_dict(case["config"]).config
        self.profile = next(
            (p for p in config.profiles if p.scheduler_name == case["pod"]["spec"].get("schedulerName")),
            config.profiles[0],
        )
        offline = OfflineCluster(case["objects"], {p.scheduler_name for p in config.profiles})
        self.objects, self.nominator, self.rng = offline.objects, offline, rng
        self.cache, self.snapshot = SchedulerCache(validate=True), Snapshot()
        handle = Handle(cluster_objects=self.objects, nominator=self.nominator)
        self.framework = Framework(self.profile, default_registry(), handle)
        events = [o for o in case["objects"] if o["kind"] in ("Node", "Pod")]
        rng.shuffle(events)
        for obj in events:
            self.show(obj)

    def show(self, obj):
        if obj["kind"] == "Node":
            self.cache.add_node(Node.from_dict(obj))
        elif obj["spec"].get("nodeName") and obj["status"].get("phase") not in ("Succeeded", "Failed"):
            self.cache.add_pod(Pod.from_dict(obj))

    def place(self, pod):
        """(node, message): one of them is empty."""
        self.cache.update_snapshot(self.snapshot)
        try:
            result = self.framework.schedule(pod, self.snapshot, self.nominator.nominated_pods_for_node, self.rng)
        except SchedulingFailure as error:
            return "", error.message()
        self.cache.assume_pod(pod.with_node(result.node_name))
        return result.node_name, ""


@pytest.mark.parametrize("case", list(cases()))
def test_pods_that_come_one_after_the_other_go_where_simulate_says(case):
    live = LivePath(case, random.Random(case["name"]))
    cluster = list(case["objects"])
    for number in range(COPIES):
        obj = {**copy.deepcopy(case["pod"]), "kind": "Pod"}
        obj["metadata"] |= {"name": f"copy-{number}", "uid": f"copy-{number}"}
        want = simulate(cluster, obj, case["config"])
        node, message = live.place(Pod.from_dict(obj))
        assert message == want["message"]
        if message:
            return
        assert node in want["selected"]
        obj["spec"]["nodeName"] = node
        cluster.append(obj)


def test_the_random_clusters_place_pods_and_refuse_some():
    placed = [case.values[0]["want"]["selected"] != [] for case in cases()]
    assert 10 < sum(placed) < len(placed)
