"""Pods put on nodes and taken off them in thought: never answered from results kept for the nodes as they are."""

import numpy as np
import pytest

from schedcache.framework import CycleState, RowView, Verdicts, unschedulable
from schedcache.framework.kept import KeptBySpec
from tests.framework.world import make_framework, make_pod, make_snapshot, plugin, schedule

RUNNING = [make_pod("r1", node="n1"), make_pod("r2", node="n2")]


def crowd(state, pod, view):
    return Verdicts((view.pod_count() >= 2).astype(np.int16), (None, unschedulable("crowded")))


def company(state, pod, view):
    return view.pod_count() * 10


def framework_of_local_plugins():
    return make_framework(
        plugin("Crowd", filter=crowd, filter_locality="row"),
        plugin("Company", score=company, score_locality="row"),
    )


def passing(framework, pod, view):
    found = framework.run_filters(CycleState(), pod, view, framework.handle.nominator.nominated_pods_for_node)
    return [view.name(i) for i in found.feasible.tolist()]


def totals(framework, pod, view):
    return framework.run_scores(CycleState(), pod, view).total.tolist()


def test_a_view_of_the_rows_as_they_are_has_no_way_to_change():
    view = RowView(make_snapshot("n1"), np.zeros(1, np.intp))
    assert not hasattr(view, "add_pod")
    assert not hasattr(view, "remove_pod")
    with pytest.raises(AttributeError):
        view._deltas = None


def test_filters_and_scores_of_a_changed_view_follow_every_change():
    framework, pod, guests = framework_of_local_plugins(), make_pod("p"), [make_pod(f"g{i}") for i in range(2)]
    snapshot = make_snapshot("n1", "n2", "n3", pods=RUNNING)
    plain = RowView(snapshot, snapshot.columns.order)
    view = plain.hypothetical()
    for _ in range(2):
        assert passing(framework, pod, plain) == ["n1", "n2", "n3"]
        assert totals(framework, pod, plain) == [10, 10, 0]
        view.add_pod(0, guests[0])
        view.remove_pod(1, RUNNING[1])
        assert passing(framework, pod, view) == ["n2", "n3"]
        assert totals(framework, pod, view) == [20, 0, 0]
        view.add_pod(1, RUNNING[1])
        view.add_pod(1, guests[1])
        assert passing(framework, pod, view) == ["n3"]
        assert totals(framework, pod, view) == [20, 20, 0]
        view.remove_pod(0, guests[0])
        view.remove_pod(1, guests[1])
        assert view.changed == []
        assert passing(framework, pod, view) == ["n1", "n2", "n3"]
    assert passing(framework, pod, plain) == ["n1", "n2", "n3"]


def test_all_candidates_at_once_each_with_its_own_pods_off_and_back_on():
    """As preemption goes about it."""
    pods = {f"n{i}": [make_pod(f"r{i}{j}", node=f"n{i}") for j in range(i + 1)] for i in range(5)}
    framework, pod = framework_of_local_plugins(), make_pod("p")
    snapshot = make_snapshot(*pods, pods=[p for there in pods.values() for p in there])
    schedule(framework, pod, snapshot)
    candidates = RowView(snapshot, snapshot.columns.order[1:]).hypothetical()
    names = candidates.names()
    for position, name in enumerate(names):
        for victim in pods[name]:
            candidates.remove_pod(position, victim)
    assert passing(framework, pod, candidates) == names
    victims = {name: list(reversed(pods[name])) for name in names}
    evicted = dict.fromkeys(names, 0)
    for step in range(5):
        back = [(i, victims[n][step]) for i, n in enumerate(names) if step < len(victims[n])]
        for position, victim in back:
            candidates.add_pod(position, victim)
        kept = passing(framework, pod, candidates)
        for position, victim in back:
            if names[position] not in kept:
                candidates.remove_pod(position, victim)
                evicted[names[position]] += 1
    assert evicted == {f"n{i}": i for i in range(1, 5)}


def test_what_happens_to_one_view_does_not_show_in_another():
    snapshot, guest = make_snapshot("n1", "n2"), make_pod("g")
    first = RowView(snapshot, snapshot.columns.order).hypothetical()
    first.add_pod(1, guest)
    copy, part = first.hypothetical(), first.take(np.array([1]))
    assert [v.pod_count().tolist() for v in (first, copy, part)] == [[0, 1], [0, 1], [1]]
    copy.remove_pod(1, guest)
    part.add_pod(0, make_pod("h"))
    assert [v.pod_count().tolist() for v in (first, copy, part)] == [[0, 1], [0, 0], [2]]


def test_nominated_pods_count_though_results_are_kept():
    framework, pod = framework_of_local_plugins(), make_pod("p", priority=5)
    snapshot = make_snapshot("n1", "n2", pods=RUNNING)
    view = RowView(snapshot, snapshot.columns.order)
    assert passing(framework, pod, view) == ["n1", "n2"]
    guest = make_pod("guest", nominated="n1", priority=5)
    framework.handle.nominator.add(guest, None)
    assert passing(framework, pod, view) == ["n2"]
    framework.handle.nominator.delete(guest)
    assert passing(framework, pod, view) == ["n1", "n2"]


def test_results_are_looked_up_for_plain_views_alone():
    class Other(RowView):
        pass

    snapshot, pod, kept = make_snapshot("n1", "n2"), make_pod("p"), KeptBySpec()
    order = snapshot.columns.order
    assert kept.of(pod, RowView(snapshot, order)) is not None
    unchanged = RowView(snapshot, order).hypothetical()
    assert kept.of(pod, unchanged) is None
    assert kept.of(pod, unchanged.take(np.arange(2))) is None
    assert kept.of(pod, unchanged.hypothetical()) is None
    assert kept.of(pod, Other(snapshot, order)) is None
    # Asking about one row costs less than bringing all of them up to date.
    assert kept.of(pod, RowView(snapshot, order[:1])) is None


@pytest.mark.parametrize("point", ["filter", "score"])
def test_a_row_local_plugin_that_fails_on_rows_nobody_asked_about_fails_no_attempt(point):
    def judge(state, pod, view):
        if "n3" in view.names():
            raise RuntimeError("n3 is broken")
        zeros = np.zeros(len(view), np.int64)
        return Verdicts(zeros, (None,)) if point == "filter" else zeros

    def not_n3(state, pod, view):
        return Verdicts(np.array([name == "n3" for name in view.names()], np.int8), (None, unschedulable("no")))

    before = plugin("Before", filter=not_n3, filter_locality="node")
    framework = make_framework(before, plugin("P", **{point: judge, f"{point}_locality": "row"}))
    snapshot = make_snapshot("n1", "n2", "n3")
    for _ in range(2):
        assert schedule(framework, make_pod("p"), snapshot).feasible_count == 2
