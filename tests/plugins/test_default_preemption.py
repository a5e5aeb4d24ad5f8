"""Whom preemption evicts and where, beside what kube-scheduler's own decisions (test_vectors) show."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from schedcache.framework import Code, FitError, PluginError, Registry, Status, one_reason, unschedulable
from schedcache.framework.filtering import passing
from schedcache.framework.row_view import HypotheticalView
from schedcache.model import Pod
from schedcache.plugins.default_plugins import default_registry
from schedcache.plugins.default_preemption import DefaultPreemption
from schedcache.plugins.preemption.budgets import Budgets
from schedcache.plugins.preemption.costs import costs_of
from schedcache.plugins.preemption.dry_run import dry_run
from schedcache.ports import Victims
from tests.plugins.cluster import handle
from tests.plugins.preemptions import Cluster, budget, node, one_by_one, pod, random_cluster


def attempt(cluster, preemptor):
    """What PostFilter makes of a pod that fits nowhere."""
    nominated = cluster.nominations.nominated_pods_for_node
    with pytest.raises(FitError) as caught:
        cluster.framework.schedule(preemptor, cluster.snapshot, nominated, random.Random(0))
    statuses = caught.value.diagnosis.statuses
    return cluster.framework.run_post_filter(caught.value.state, preemptor, cluster.snapshot, statuses)


def victims(cluster):
    return [victim.name for victim in cluster.evictions.victims]


@pytest.mark.parametrize("batch", range(8))
def test_all_candidates_at_once_come_out_as_one_by_one(batch):
    seen = set()
    for seed in range(batch * 40, batch * 40 + 40):
        cluster, preemptor = random_cluster(seed)
        framework, snapshot = cluster.framework, cluster.snapshot
        try:
            framework.schedule(preemptor, snapshot, cluster.nominations.nominated_pods_for_node, random.Random(0))
            continue
        except PluginError:
            continue
        except FitError as error:
            state, rows = error.state, error.diagnosis.statuses.rows_with(Code.UNSCHEDULABLE)
        candidates, hopeless = dry_run(framework, state, preemptor, snapshot, rows, Budgets(cluster.objects))
        found = (
            {}
            if candidates is None
            else {
                snapshot.columns.names[row]: ([p.name for p in candidates.pods(i)], int(candidates.costs.violations[i]))
                for i, row in enumerate(candidates.rows.tolist())
            }
        )
        assert found == one_by_one(cluster, state, preemptor, rows), seed
        if candidates is not None:
            told = [Victims(candidates.pods(i), found[name][1]) for i, name in enumerate(found)]
            assert [cost.tolist() for cost in candidates.costs] == [cost.tolist() for cost in costs_of(told)], seed
        assert sorted([*(() if candidates is None else candidates.rows), *hopeless.rows]) == sorted(rows)
        seen.update(kind for names, broken in found.values() for kind in (f"{len(names)} victims", f"{broken} broken"))
    assert {"1 victims", "2 victims", "0 broken", "1 broken"} <= seen


def test_as_few_as_possible_go_and_the_youngest_of_the_least_important_first():
    pods = [
        pod("old", 0, "1", "n1", start="2026-01-05T08:00:00Z"),
        pod("young", 0, "1", "n1", start="2026-01-05T09:00:00Z"),
        pod("not-started", 0, "1", "n1"),
        pod("important", 5, "1", "n1"),
    ]
    cluster = Cluster([node("n1")], pods)
    assert attempt(cluster, pod("p", 10, "2"))[0] == "n1"
    assert victims(cluster) == ["young", "not-started"]


@pytest.mark.parametrize(
    ("worse", "better", "budgets"),
    [
        pytest.param([pod("x", 0, "4", "n1")], [pod("y", 9, "4", "n2", app="b")], [budget("b", 0)], id="budgets"),
        pytest.param([pod("x", 9, "4", "n1")], [pod("y", 8, "4", "n2")], [], id="highest priority"),
        pytest.param(
            [pod("x", 5, "2", "n1"), pod("x2", 4, "2", "n1")],
            [pod("y", 5, "2", "n2"), pod("y2", 3, "2", "n2")],
            [],
            id="sum",
        ),
        pytest.param(
            [pod("x", 0, "2", "n1"), pod("x2", -2, "2", "n1")], [pod("y", 0, "4", "n2")], [], id="number by their sum"
        ),
        pytest.param(
            [pod("x", 0, "4", "n1", start="2026-01-05T08:00:00Z")],
            [pod("y", 0, "4", "n2", start="2026-01-05T09:00:00Z")],
            [],
            id="start",
        ),
    ],
)
def test_the_cheapest_node_is_chosen(worse, better, budgets):
    for nodes in ([node("n1"), node("n2")], [node("n2"), node("n1")]):
        cluster = Cluster(nodes, [*worse, *better], budgets)
        assert attempt(cluster, pod("p", 10, "4"))[0] == "n2"


def test_chance_decides_between_equals_and_names_where_there_is_none():
    nodes, pods = [node(f"n{i}") for i in range(4)], [pod(f"p{i}", 0, "4", f"n{i}") for i in range(4)]
    chosen = {attempt(Cluster(nodes, pods, chance=random.Random(seed)), pod("p", 1, "4"))[0] for seed in range(30)}
    assert chosen == {"n0", "n1", "n2", "n3"}
    assert attempt(Cluster(nodes[::-1], pods), pod("p", 1, "4"))[0] == "n0"


def test_a_pod_that_two_budgets_cover_uses_up_both():
    # By importance p0..p3: `one` has room for three, `two` for one. p1 breaks `two`, after it has taken from `one`.
    pods = [pod(f"p{i}", 0, "1", "n1", start=f"2026-01-05T0{i}:00:00Z", labels={"tier": "x"}) for i in range(4)]
    cluster = Cluster([node("n1")], pods, [budget("one", 2), budget("two", 1, labels={"tier": "x"})])
    off = np.ones((1, 4), np.bool_)
    view = HypotheticalView.with_pods_off(cluster.snapshot, np.array([0]), cluster.snapshot.pod_table, off)
    assert Budgets(cluster.objects).violating(view.lifted).tolist() == [[False, True, True, True]]


def test_budgets_that_change_are_seen():
    cluster = Cluster([node("n1"), node("n2")], [pod("x", 0, "4", "n1"), pod("y", 1, "4", "n2", app="b")])
    assert attempt(cluster, pod("p", 2, "4"))[0] == "n1"
    cluster.objects.add("PodDisruptionBudget", budget("b", 1))
    assert attempt(cluster, pod("p", 2, "4"))[0] == "n1"
    cluster.objects.add("PodDisruptionBudget", budget("b", 0))
    assert attempt(cluster, pod("p", 2, "4"))[0] == "n2"
    cluster.objects.add("PodDisruptionBudget", budget("b", 0, app="b"))
    assert attempt(cluster, pod("p", 2, "4"))[0] == "n1"


def test_each_look_for_victims_is_told_once_and_so_are_budgets_that_it_breaks():
    cluster = Cluster([node("n1")], [pod("x", 0, "2", "n1"), pod("y", 1, "2", "n1")], [budget("b", 0)])
    attempt(cluster, pod("p", 2, "4"))
    assert (cluster.metrics.evaluated, cluster.metrics.violations) == (["Success"], [2])
    attempt(cluster, pod("p", 0, "4"))
    assert (cluster.metrics.evaluated, cluster.metrics.violations) == (["Success", "Unschedulable"], [2])


def with_port(name, priority, ip, on=""):
    port = {"containerPort": 80, "hostPort": 80, "hostIP": ip, "protocol": "TCP"}
    made = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"priority": priority, "nodeName": on, "containers": [{"name": "c", "ports": [port]}]},
    }
    return Pod.from_dict(made)


@pytest.mark.parametrize(
    ("wanted", "gone"), [("0.0.0.0", ["x", "y"]), ("10.0.0.1", ["x"])], ids=["every address", "one address"]
)
def test_only_pods_whose_ports_are_in_the_way_have_to_go(wanted, gone):
    pods = [with_port("x", 1, "10.0.0.1", "n1"), with_port("y", 0, "10.0.0.2", "n1"), pod("z", 0, "1", "n1")]
    cluster = Cluster([node("n1")], pods)
    assert attempt(cluster, with_port("p", 2, wanted))[0] == "n1"
    assert victims(cluster) == gone


DISK = [{"name": "d", "gcePersistentDisk": {"pdName": "d"}}]


@pytest.mark.parametrize("wanted", [{"host_ports": [80]}, {"cpu": "4", "volumes": DISK}], ids=["host port", "disk"])
def test_pods_that_are_taken_off_are_not_looked_at_node_by_node(wanted, monkeypatch):
    pods = [pod(f"p{i}", i, "4", f"n{i}", host_ports=[80]) for i in range(5)]
    cluster = Cluster([node(f"n{i}") for i in range(5)], pods)

    def look(_view, position):
        raise AssertionError(f"the pods of node {position} were looked at")

    monkeypatch.setattr(HypotheticalView, "pods", look)
    assert attempt(cluster, pod("p", 9, **wanted))[0] == "n0"


EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("priority", "condition", "waits"),
    [
        pytest.param(9, EVICTED, True, id="lower"),
        pytest.param(10, EVICTED, False, id="equal"),
        pytest.param(11, EVICTED, False, id="higher"),
        pytest.param(9, {**EVICTED, "status": "False"}, False, id="lower, not disrupted"),
        pytest.param(9, {**EVICTED, "reason": "EvictionByEvictionAPI"}, False, id="lower, evicted by another"),
    ],
)
def test_only_pods_of_lower_priority_that_go_for_a_preemptor_are_waited_for(priority, condition, waits):
    going = pod("going", priority, "1", "n1", terminating=True, status={"conditions": [condition]})
    cluster = Cluster([node("n1")], [going, pod("low", 0, "3", "n1")])
    node_name, status = attempt(cluster, pod("p", 10, "3", nominated="n1"))
    told = "not eligible due to a terminating pod on the nominated node."
    assert (node_name, status.message.endswith(told)) == ((None, True) if waits else ("n1", False))
    assert victims(cluster) == ([] if waits else ["low"])


def test_without_anything_to_evict_with_nothing_is_preempted():
    plugin = DefaultPreemption(None, handle())
    cluster = Cluster([node("n1")], [pod("x", 0, "4", "n1")])
    assert plugin.post_filter({}, pod("p", 1), cluster.snapshot, {}) == (None, unschedulable())
    assert plugin.pre_enqueue(pod("p", 1)) is None


def test_the_preemptor_waits_as_long_as_its_victims_are_being_deleted():
    class Busy:
        def is_running(self, uid):
            return uid == "uid-p"

    plugin = DefaultPreemption(None, replace(handle(), preemption=Busy()))
    held = plugin.pre_enqueue(pod("p"))
    assert held == Status(
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("waiting for the preemption for this pod to be finished",)
    )
    assert plugin.pre_enqueue(pod("other")) is None
    assert plugin.events_to_register() == [], "no event opens the gate: the executor does"


class Contrary:
    """Rejects the pod as a whole, and passes it everywhere: eviction of nobody would do."""

    name = "Contrary"

    def __init__(self, _args, _handle):
        pass

    def pre_filter(self, _state, _pod, _snapshot):
        return unschedulable("not today")

    def filter(self, _state, _pod, view):
        return passing(len(view))


class Broken(Contrary):
    """Says no at first, and fails once pods are off."""

    name = "Broken"

    def pre_filter(self, _state, _pod, _snapshot):
        return None

    def filter(self, _state, _pod, view):
        if view.changed:
            raise RuntimeError("out of order")
        return passing(len(view))


def with_plugin(plugin, *nodes_and_pods):
    registry = Registry({**default_registry(), plugin.name: plugin})
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}],
    }
    return Cluster(*nodes_and_pods, registry=registry, config=config)


def test_a_node_that_needs_no_victims_is_an_error():
    cluster = with_plugin(Contrary, [node("n1")], [pod("x", 0, "1", "n1")])
    node_name, status = attempt(cluster, pod("p", 1))
    assert (node_name, status.code) == (None, Code.ERROR)
    assert status.message == 'preemption: expected at least one victim pod on node "n1"'


class BrokenAtOne(Broken):
    """The same, but only on the node n1."""

    name = "BrokenAtOne"

    def filter(self, _state, _pod, view):
        at = np.array([name == "n1" and bool(view.changed) for name in view.names()])
        return one_reason(at, Status(Code.ERROR, ("out of order",)))


def test_a_node_at_which_a_filter_fails_in_the_dry_run_is_no_candidate():
    nodes_and_pods = [node("n1"), node("n2")], [pod("x", 0, "4", "n1"), pod("y", 5, "4", "n2")]
    cluster = with_plugin(BrokenAtOne, *nodes_and_pods)
    node_name, status = attempt(cluster, pod("p", 6, "4"))
    assert (node_name, status.code, victims(cluster)) == ("n2", Code.SUCCESS, ["y"])


def test_a_filter_that_fails_in_the_dry_run_is_an_error_that_names_it():
    cluster = with_plugin(Broken, [node("n1")], [pod("x", 0, "4", "n1")])
    node_name, status = attempt(cluster, pod("p", 1, "4"))
    assert (node_name, status.code) == (None, Code.ERROR)
    assert status.message == 'preemption: running "Broken" filter plugin: out of order'
    assert victims(cluster) == []
