"""Random clusters with pods to preempt, and preemption one node at a time, told as plainly as can be: the reference."""

import random
from collections import defaultdict

import numpy as np

from schedcache.cache import ClusterObjects, Snapshot
from schedcache.config import config_from_dict
from schedcache.framework import Framework, Handle
from schedcache.framework.row_view import HypotheticalView
from schedcache.model.objects import PodDisruptionBudget
from schedcache.plugins.default_plugins import default_registry
from schedcache.ports import NoMetrics
from schedcache.queue import Nominator
from schedcache.simulation.preemption import RecordedPreemption
from schedcache.testing import make_node, make_pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Metrics(NoMetrics):
    """What is told of looks for victims."""

    def __init__(self):
        self.evaluated = []
        self.violations = []

    def preemption_evaluated(self, result, seconds):
        assert seconds >= 0
        self.evaluated.append(result)

    def preemption_violations(self, number):
        self.violations.append(number)


class Cluster:
    """A framework of the default profile over some nodes, pods, budgets and nominations."""

    def __init__(self, nodes, pods, budgets=(), nominations=None, *, chance=None, registry=None, config=None):
        self.snapshot = Snapshot.build(pods, nodes)
        self.objects = ClusterObjects()
        for budget in budgets:
            self.objects.add("PodDisruptionBudget", budget)
        self.nominations = Nominator()
        for node_name, guests in (nominations or {}).items():
            for guest in guests:
                self.nominations.add(guest, node_name)
        self.evictions = RecordedPreemption()
        self.metrics = Metrics()
        [profile] = config_from_dict(config).config.profiles
        handle = Handle(
            cluster_objects=self.objects,
            nominator=self.nominations,
            preemption=self.evictions,
            chance=chance,
            metrics=self.metrics,
        )
        self.framework = Framework(profile, default_registry() if registry is None else registry, handle)


def node(name, zone="a", **fields):
    return make_node(name, zone, **fields)


def pod(name, priority=0, cpu="1", on="", *, app="a", labels=None, start="", status=None, **fields):
    own = {"app": app} if app else {}
    status = ({"startTime": start} if start else {}) | (status or {})
    return make_pod(
        name, node=on, cpu=cpu, labels={**own, **(labels or {})}, priority=priority, status=status, **fields
    )


def budget(name, allowed, app="a", *, labels=None, disrupted=()):
    return PodDisruptionBudget.from_dict(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"selector": {"matchLabels": {"app": app} if labels is None else labels}},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-05T12:00:00Z"),
            },
        }
    )


def one_by_one(cluster, state, preemptor, rows):
    """Node name -> (names of the victims by importance, budgets broken), for the rows that evictions make fit."""
    found = {}
    for row in rows.tolist():
        victims = _on_one(cluster, state, preemptor, row)
        if victims is not None:
            found[cluster.snapshot.columns.names[row]] = victims
    return found


def _on_one(cluster, state, preemptor, row):
    view = HypotheticalView(cluster.snapshot, np.array([row], np.intp))
    info = cluster.snapshot.columns.infos[row]
    lower = sorted((p for p in info.pods if p.priority < preemptor.priority), key=_importance)

    def fits():
        nominated = cluster.nominations.nominated_pods_for_node
        return len(cluster.framework.run_filters(state, preemptor, view, nominated).feasible) == 1

    for victim in lower:
        view.remove_pod(0, victim)
    if not lower or not fits():
        return None
    breaking = _breaking(lower, sorted(cluster.objects.list("PodDisruptionBudget"), key=lambda b: b.name))
    victims = []
    for candidate in [p for p in lower if p in breaking] + [p for p in lower if p not in breaking]:
        view.add_pod(0, candidate)
        if not fits():
            view.remove_pod(0, candidate)
            victims.append(candidate)
    return [p.name for p in sorted(victims, key=_importance)], sum(p in breaking for p in victims)


def _breaking(pods, budgets):
    used = defaultdict(int)
    breaking = []
    for candidate in pods:
        for covering in budgets:
            if covering.namespace != candidate.namespace or not candidate.labels or covering.selector.empty:
                continue
            if not covering.selector.matches(candidate.labels) or candidate.name in covering.disrupted_pods:
                continue
            used[covering.name] += 1
            if used[covering.name] > covering.disruptions_allowed:
                breaking.append(candidate)
                break
    return breaking


def _importance(p):
    return -p.priority, p.start_time or "9999", p.namespace, p.name


def random_cluster(seed):
    """A cluster and a pod that may have to preempt there."""
    rng = random.Random(seed)
    nodes = [node(f"n{i}", rng.choice("abc"), pods=rng.choice(["3", "110"])) for i in range(rng.randint(1, 7))]
    pods = [
        random_pod(rng, f"p{i}", rng.choice([-5, 0, 0, 5, 100]), on=rng.choice(nodes).name)
        for i in range(rng.randint(0, 30))
    ]
    budgets = [
        budget(f"b{i}", rng.randint(0, 2), rng.choice("abc"), disrupted=[p.name for p in pods if rng.random() < 0.03])
        for i in range(rng.randint(0, 4))
    ]
    guests = {n.name: [random_pod(rng, f"guest-{n.name}", 50)] for n in nodes if rng.random() < 0.2}
    preemptor = random_pod(rng, "preemptor", rng.choice([5, 50]), cpu=rng.choice(["500m", "2", "3"]))
    return Cluster(nodes, pods, budgets, guests), preemptor


def random_pod(rng, name, priority, on="", cpu=None, *, apart=True):
    """`apart`: some go by what else runs in the cluster."""
    spec = {}
    own_term = {"topologyKey": rng.choice([HOST, ZONE]), "labelSelector": {"matchLabels": {"app": rng.choice("abc")}}}
    if apart and rng.random() < 0.15:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own_term]}}
    if apart and rng.random() < 0.2:
        spec["topologySpreadConstraints"] = [
            {**own_term, "maxSkew": rng.randint(1, 2), "whenUnsatisfiable": "DoNotSchedule"}
        ]
    if rng.random() < 0.15:
        spec["host_ports"] = [rng.choice([80, 81])]
    if rng.random() < 0.1:
        spec["volumes"] = [{"name": "d", "gcePersistentDisk": {"pdName": rng.choice(["d1", "d2"])}}]
    return pod(
        name,
        priority,
        cpu or rng.choice(["100m", "500m", "1", "1500m"]),
        on,
        app=rng.choice(["a", "b", "c", ""]),
        start=f"2026-01-05T08:{rng.randrange(60):02}:{rng.randrange(60):02}Z" if on and rng.random() < 0.9 else "",
        terminating=bool(on) and rng.random() < 0.1,
        **spec,
    )
