"""All nodes at once, one node at a time, kept from before or computed afresh: the same answers.

The clusters are those recorded from kube-scheduler in tests/plugins/vectors, and random histories of a small one.
"""

import gzip
import itertools
import json
import random
from pathlib import Path

import numpy as np
import pytest

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot
from schedcache.config import config_from_dict
from schedcache.framework import CycleState, Framework, Handle, PluginError, RowView
from schedcache.framework.kept import most_specs
from schedcache.plugins.default_plugins import default_registry
from schedcache.queue import Nominator
from schedcache.simulation.cluster import OfflineCluster, read_pod
from schedcache.testing import make_node
from tests.framework.world import make_pod

VECTORS = Path(__file__).parents[1] / "plugins" / "vectors"
LINES = gzip.decompress((VECTORS / "random.jsonl.gz").read_bytes()).decode().splitlines()


def world(line):
    case = json.loads(line)
    config = config_from_dict(case["config"]).config
    pod = read_pod(case["pod"])
    profile = next(p for p in config.profiles if p.scheduler_name == pod.scheduler_name)
    cluster = OfflineCluster(case["objects"], {p.scheduler_name for p in config.profiles})
    handle = Handle(cluster_objects=cluster.objects, nominator=cluster)
    return Framework(profile, default_registry(), handle), pod, cluster.snapshot()


def statuses(found):
    codes, table = found.verdicts()
    return {
        name: table[i] and (table[i].plugin, table[i].code, sorted(table[i].reasons))
        for name, i in zip(found.view.names(), codes.tolist(), strict=True)
    }


def filtered(framework, state, pod, view):
    return framework.run_filters(state, pod, view, framework.handle.nominator.nominated_pods_for_node)


@pytest.mark.parametrize("line", LINES[::3], ids=itertools.count())
def test_columns_and_single_rows_agree_on_verdicts_and_raw_scores(line):
    framework, pod, snapshot = world(line)
    state = CycleState()
    pre_filter = framework.run_pre_filter(state, pod, snapshot)
    if pre_filter.status is not None:
        return
    view = framework.candidates(snapshot, pre_filter)
    at_once = filtered(framework, state, pod, view.hypothetical())
    one_by_one = [filtered(framework, state, pod, view.take(np.array([i]))) for i in range(len(view))]
    expected = {name: status for found in one_by_one for name, status in statuses(found).items()}
    assert statuses(at_once) == expected
    assert statuses(filtered(framework, state, pod, view)) == expected
    feasible = view.take(at_once.feasible)
    if not len(feasible):
        return
    try:
        totals = framework.run_scores(state, pod, feasible.hypothetical()).total
    except PluginError:
        return
    assert framework.run_scores(state, pod, feasible).total.tolist() == totals.tolist()
    for plugin in framework.points["score"]:
        if plugin.name in state.skip_score:
            continue
        raw = plugin.score(state, pod, feasible)
        rows = [plugin.score(state, pod, feasible.take(np.array([i])))[0] for i in range(len(feasible))]
        assert raw.tolist() == rows, plugin.name


@pytest.mark.parametrize("line", LINES[1::5], ids=itertools.count())
def test_pods_taken_off_and_put_on_in_thought_count_as_if_it_were_so(line):
    framework, pod, snapshot = world(line)
    rng = random.Random(line)
    state = CycleState()
    if framework.run_pre_filter(state, pod, snapshot).status is not None:
        return
    view = RowView(snapshot, snapshot.columns.order).hypothetical()
    for position in range(len(view)):
        pods = list(view.node_info(position).pods)
        for gone in rng.sample(pods, rng.randint(0, len(pods))):
            view.remove_pod(position, gone)
            if rng.random() < 0.3:
                view.add_pod(position, gone)
        for guest in rng.sample(sorted(snapshot.node_info_map), 2):
            for new in list(snapshot.get(guest).pods)[:1]:
                if new not in pods:
                    view.add_pod(position, new)
    nodes = [view.node_info(i).node for i in range(len(view))]
    local = [p for p in framework.points["filter"] if p.name in ("NodeResourcesFit", "NodePorts")]
    for position, node in enumerate(nodes):
        there = [p.with_node(node.name) for p in view.pods(position)]
        real = Snapshot.build(there, [node])
        row = RowView(real, real.columns.order)
        for plugin in local:
            if plugin.name not in state.skip_filter:
                codes, table = plugin.filter(state, pod, view)
                real_codes, real_table = plugin.filter(state, pod, row)
                assert table[codes[position]] == real_table[real_codes[0]], plugin.name


@pytest.mark.parametrize("seed", range(6))
def test_kept_results_follow_every_change_of_the_cluster(seed):
    rng = random.Random(seed)
    cache, snapshot = SchedulerCache(), Snapshot()
    handle = Handle(cluster_objects=ClusterObjects(), nominator=Nominator())
    framework = Framework(config_from_dict(None).config.profiles[0], default_registry(), handle)
    specs = [
        {"cpu": "500m"},
        {"cpu": "2", "tolerations": [{"key": "a", "operator": "Exists"}]},
        {"cpu": "1", "nodeSelector": {"disk": "ssd"}},
    ]
    nodes, placed = {}, {}
    for step in range(120):
        change(rng, step, cache, nodes, placed)
        cache.update_snapshot(snapshot)
        if not snapshot.num_nodes:
            continue
        pod = make_pod(f"new-{step}", **specs[rng.randrange(3)])
        assert attempt(framework, pod, snapshot) == attempt(framework, pod, snapshot, kept=False), step


def change(rng, step, cache, nodes, placed):
    """Something happens to a node or a pod; often to many at once, so that columns grow and rows are used again."""
    for _ in range(rng.choice([1, 1, 2, 90])):
        what = rng.random()
        if what < 0.5 or not nodes:
            name = f"n{rng.randrange(150)}"
            taints = [{"key": rng.choice("ab"), "effect": rng.choice(["NoSchedule", "PreferNoSchedule"])}]
            node = make_node(
                name,
                cpu=rng.choice(["1", "4"]),
                labels={"disk": rng.choice(["ssd", "hdd"])},
                taints=taints if rng.random() < 0.3 else [],
                unschedulable=rng.random() < 0.1,
            )
            cache.update_node(nodes.get(name), node)
            nodes[name] = node
        elif what < 0.6:
            cache.remove_node(nodes.pop(rng.choice(sorted(nodes))))
        elif what < 0.85:
            pod = make_pod(f"p{step}-{rng.random()}", cpu=rng.choice(["100m", "1"]), node=rng.choice(sorted(nodes)))
            cache.add_pod(pod)
            placed[pod.uid] = pod
        elif placed:
            cache.remove_pod(placed.pop(rng.choice(sorted(placed))))


def attempt(framework, pod, snapshot, *, kept=True):
    """What comes out, by what is kept or by asking the plugins about every row."""
    state = CycleState()
    candidates = framework.candidates(snapshot, framework.run_pre_filter(state, pod, snapshot))
    found = filtered(framework, state, pod, candidates if kept else candidates.hypothetical())
    feasible = found.view.take(found.feasible)
    scores = framework.run_scores(state, pod, feasible).total.tolist() if len(feasible) else []
    return statuses(found), scores


def test_no_more_specs_are_kept_than_fit_and_old_ones_lend_their_arrays():
    framework = Framework(
        config_from_dict(None).config.profiles[0],
        default_registry(),
        Handle(cluster_objects=ClusterObjects(), nominator=Nominator()),
    )
    snapshot = Snapshot.build([], [make_node(f"n{i}", cpu="4" if i % 2 else "1") for i in range(100)])
    most = most_specs(snapshot)
    pods = [make_pod(f"p{i}", cpu=f"{500 + 10 * i}m") for i in range(most + 40)]
    for pod in [*pods, *reversed(pods)]:
        assert attempt(framework, pod, snapshot) == attempt(framework, pod, snapshot, kept=False)
    assert len(framework._kept._by_columns[snapshot.columns]) == most
