"""What an attempt finds out, for a decision and for those who want to know all of it."""

import random

import numpy as np
import pytest

from schedcache.framework import (
    Code,
    FitError,
    NoNodesError,
    PluginError,
    PreFilterResult,
    Status,
    Verdicts,
    unresolvable,
    unschedulable,
)
from tests.framework.world import make_framework, make_pod, make_snapshot, nominated, plugin, rejecting, schedule


def scoring(name, scores, calls=None, **more):
    def score(state, pod, view):
        if calls is not None:
            calls.append((name, view.names()))
        return np.array([scores.get(n, 0) for n in view.names()], np.int64)

    return plugin(name, score=score, **more)


def evaluate(framework, pod, snapshot, *, exhaustive=True):
    nominated_pods = framework.handle.nominator.nominated_pods_for_node
    return framework.evaluate(pod, snapshot, nominated_pods, exhaustive=exhaustive)


def lists(by_plugin):
    return {name: scores.tolist() for name, scores in by_plugin.items()}


@pytest.mark.parametrize("locality", [None, "row"])
def test_a_pod_that_fits_has_its_choices_its_scores_and_what_the_others_lack(locality):
    def halve(state, pod, scores):
        scores //= 2  # as plugins from kube-scheduler do, in place
        return scores

    more = {} if locality is None else {"score_locality": locality}
    framework = make_framework(
        rejecting("F", "n2"),
        scoring("A", {"n1": 100, "n3": 100, "n4": 40}, normalize_score=halve, **more),
        scoring("B", {"n1": 1, "n3": 1}, **more),
        weights={"A": 2, "B": 3},
    )
    found = evaluate(framework, make_pod("p"), make_snapshot("n1", "n2", "n3", "n4"))
    assert found.fits
    assert (found.evaluated_count, found.feasible.names()) == (4, ["n1", "n3", "n4"])
    assert found.pre_filter.status is None
    assert found.choices() == ["n1", "n3"]
    assert found.choose(random.Random(0)) in found.choices()
    assert found.scores.total.tolist() == [103, 103, 40]
    assert lists(found.scores.by_plugin()) == {"A": [100, 100, 40], "B": [3, 3, 0]}
    assert lists(found.scores.raw_by_plugin()) == {"A": [100, 100, 40], "B": [1, 1, 0]}
    assert dict(found.diagnosis().statuses) == {"n2": Status(Code.UNSCHEDULABLE, ("F says no",), "F")}


def test_a_decision_asks_for_nothing_that_cannot_change_it():
    calls = []
    framework = make_framework(rejecting("F", "n1", calls=calls), scoring("A", {}, calls))
    snapshot, pod = make_snapshot("n1", "n2", "n3"), make_pod("p", nominated="n3")
    found = evaluate(framework, pod, snapshot, exhaustive=False)
    assert (found.choices(), found.evaluated_count, found.feasible_count) == (["n3"], 1, 1)
    assert found.diagnosis() is None
    assert calls == [("F", ["n3"])]
    calls.clear()
    found = evaluate(framework, pod, snapshot)
    assert (found.choices(), found.evaluated_count, found.feasible_count) == (["n3"], 3, 2)
    assert found.choose(random.Random(0)) == "n3"
    assert list(found.diagnosis().statuses) == ["n1"]
    assert calls == [("F", ["n3"]), ("F", ["n1", "n2", "n3"]), ("A", ["n2", "n3"])]


def test_a_single_feasible_node_is_scored_for_those_who_want_to_know():
    framework = make_framework(rejecting("F", "n1"), scoring("A", {"n2": 7}))
    snapshot = make_snapshot("n1", "n2")
    assert evaluate(framework, make_pod("p"), snapshot, exhaustive=False).scores is None
    assert evaluate(framework, make_pod("p"), snapshot).scores.total.tolist() == [7]


def test_a_nominated_node_that_prefilter_leaves_out_is_taken_all_the_same():
    narrow = plugin("Narrow", pre_filter=lambda *_: PreFilterResult(frozenset({"n1"})))
    framework = make_framework(narrow, rejecting("F", "n1"))
    snapshot, pod = make_snapshot("n1", "n2"), make_pod("p", nominated="n2")
    assert schedule(framework, pod, snapshot).node_name == "n2"
    assert evaluate(framework, pod, snapshot).choices() == ["n2"]


@pytest.mark.parametrize("exhaustive", [False, True])
def test_a_pod_that_fits_nowhere_says_why(exhaustive):
    guest = make_pod("guest", nominated="n1", priority=9)
    crowd = plugin(
        "Crowd",
        filter=lambda s, p, view: Verdicts((view.pod_count() > 0).astype(np.int8), (None, unschedulable("crowded"))),
    )
    framework = make_framework(crowd, rejecting("F", "n1", "n2"), nominations=nominated(guest))
    found = evaluate(framework, make_pod("p"), make_snapshot("n1", "n2"), exhaustive=exhaustive)
    assert (found.fits, found.choices(), found.scores) == (False, [], None)
    assert {name: status.message for name, status in found.diagnosis().statuses.items()} == {
        "n1": "crowded",
        "n2": "F says no",
    }
    assert isinstance(found.failure(), FitError)
    assert found.failure().message() == "0/2 nodes are available: 1 F says no, 1 crowded."
    assert found.failure().state is found.state
    with pytest.raises(FitError):
        found.choose(random.Random(0))


def test_a_pod_rejected_by_prefilter_and_one_without_nodes():
    framework = make_framework(plugin("A", pre_filter=lambda *_: unresolvable("never")))
    found = evaluate(framework, make_pod("p"), make_snapshot("n1"))
    assert found.pre_filter.status == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("never",), "A")
    assert (found.fits, found.filtered, found.feasible, found.evaluated_count) == (False, None, None, 0)
    assert found.diagnosis().pre_filter_status == found.pre_filter.status
    nowhere = evaluate(framework, make_pod("p"), make_snapshot())
    assert (nowhere.pre_filter, nowhere.diagnosis()) == (None, None)
    assert isinstance(nowhere.failure(), NoNodesError)


def test_an_error_leaves_what_was_found_before_it():
    framework = make_framework(rejecting("F", "n1"), plugin("P", score=lambda *_: 1 / 0))
    found = evaluate(framework, make_pod("p"), make_snapshot("n1", "n2", "n3"))
    assert not found.fits
    assert found.choices() == []
    assert found.feasible.names() == ["n2", "n3"]
    assert list(found.diagnosis().statuses) == ["n1"]
    assert isinstance(found.failure(), PluginError)
    assert (found.error.plugin, found.error.point) == ("P", "score")
    early = evaluate(make_framework(plugin("P", pre_filter=lambda *_: 1 / 0)), make_pod("p"), make_snapshot("n1"))
    assert (early.error.point, early.pre_filter, early.diagnosis()) == ("pre_filter", None, None)


def test_an_error_in_work_that_no_decision_needs_does_not_end_the_attempt():
    failing_score = make_framework(rejecting("F", "n1"), plugin("P", score=lambda *_: 1 / 0))
    single, snapshot = make_pod("p"), make_snapshot("n1", "n2")
    assert schedule(failing_score, single, snapshot).node_name == "n2"
    found = evaluate(failing_score, single, snapshot)
    assert (found.fits, found.choices(), found.error, found.scores) == (True, ["n2"], None, None)
    assert (found.aside.plugin, found.aside.point) == ("P", "score")
    assert list(found.diagnosis().statuses) == ["n1"]

    def fails_on_others(state, pod, view):
        if len(view) > 1:
            raise ZeroDivisionError
        return Verdicts(np.zeros(1, np.int8), (None,))

    failing_filter = make_framework(plugin("F", filter=fails_on_others))
    returning = make_pod("p", nominated="n2")
    assert schedule(failing_filter, returning, snapshot).node_name == "n2"
    found = evaluate(failing_filter, returning, snapshot)
    assert (found.fits, found.choices(), found.error) == (True, ["n2"], None)
    assert (found.aside.plugin, found.aside.point, found.exhaustive) == ("F", "filter", False)
    assert found.diagnosis() is None
