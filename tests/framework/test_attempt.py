"""One attempt to place a pod: the order of the extension points, what ends it, who is chosen."""

from collections import Counter

import numpy as np
import pytest

from schedcache.framework import (
    SKIP,
    Code,
    FitError,
    NoNodesError,
    PluginError,
    PreFilterResult,
    Status,
    Verdicts,
    one_reason,
    unresolvable,
    unschedulable,
)
from tests.framework.world import make_framework, make_pod, make_snapshot, nominated, plugin, rejecting, schedule


def scoring(name, scores, **more):
    """Scores by node name, 0 where none is given."""
    return plugin(
        name, score=lambda state, pod, view: np.array([scores.get(n, 0) for n in view.names()], np.int64), **more
    )


def test_without_nodes_there_is_nothing_to_diagnose():
    with pytest.raises(NoNodesError) as caught:
        schedule(make_framework(), make_pod("p"), make_snapshot())
    assert caught.value.message() == "no nodes available to schedule pods"


def test_the_highest_weighted_sum_wins():
    framework = make_framework(
        scoring("A", {"n1": 100, "n2": 10}), scoring("B", {"n1": 10, "n2": 50}), weights={"A": 1, "B": 3}
    )
    result = schedule(framework, make_pod("p"), make_snapshot("n1", "n2"))
    assert result.node_name == "n2"
    assert (result.feasible_count, result.evaluated_count) == (2, 2)
    assert {name: scores.tolist() for name, scores in result.scores.by_plugin().items()} == {
        "A": [100, 10],
        "B": [30, 150],
    }
    assert result.scores.total.tolist() == [130, 160]


def test_equal_nodes_are_chosen_equally_often_and_a_seed_repeats_the_choice():
    framework, snapshot = make_framework(scoring("A", {"n3": -0})), make_snapshot("n1", "n2", "n3", "n4")
    chosen = [schedule(framework, make_pod("p"), snapshot, seed).node_name for seed in range(400)]
    assert set(Counter(chosen)) == {"n1", "n2", "n3", "n4"}
    assert min(Counter(chosen).values()) > 60
    assert chosen == [schedule(framework, make_pod("p"), snapshot, seed).node_name for seed in range(400)]


def test_a_single_feasible_node_is_not_scored():
    framework = make_framework(rejecting("F", "n1"), scoring("A", {"n2": 10_000}))
    result = schedule(framework, make_pod("p"), make_snapshot("n1", "n2"))
    assert (result.node_name, result.scores, result.feasible_count, result.evaluated_count) == ("n2", None, 1, 2)


def test_without_score_plugins_every_node_is_worth_one():
    result = schedule(make_framework(), make_pod("p"), make_snapshot("n1", "n2"))
    assert result.scores.total.tolist() == [1, 1]


def test_the_first_filter_that_fails_counts():
    framework = make_framework(rejecting("A", "n1"), rejecting("B", "n1", "n2", status=unresolvable("x", "y")))
    with pytest.raises(FitError) as caught:
        schedule(framework, make_pod("p"), make_snapshot("n1", "n2"))
    diagnosis = caught.value.diagnosis
    assert dict(diagnosis.statuses) == {
        "n1": Status(Code.UNSCHEDULABLE, ("A says no",), "A"),
        "n2": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("x", "y"), "B"),
    }
    assert caught.value.message() == "0/2 nodes are available: 1 A says no, 1 x, 1 y."
    assert diagnosis.unschedulable_plugins == {"A", "B"}
    assert diagnosis.code_counts() == {Code.UNSCHEDULABLE: 1, Code.UNSCHEDULABLE_AND_UNRESOLVABLE: 1}
    columns = diagnosis.statuses.rows_with(Code.UNSCHEDULABLE).tolist()
    assert len(columns) == 1


def test_reasons_are_sorted_as_text():
    framework = make_framework(rejecting("A", "n0"), rejecting("B", *(f"n{i}" for i in range(11))))
    with pytest.raises(FitError, match=r"^0/11 nodes are available: 1 A says no, 10 B says no\.$"):
        schedule(framework, make_pod("p"), make_snapshot(*(f"n{i}" for i in range(11))))


def test_a_later_filter_sees_only_the_rows_that_passed():
    seen = []

    def watch(state, pod, view):
        seen.append(view.names())
        return Verdicts(np.zeros(len(view), np.int16), (None,))

    schedule(make_framework(rejecting("A", "n1"), plugin("B", filter=watch)), make_pod("p"), make_snapshot("n1", "n2"))
    assert seen == [["n2"]]


def test_pre_filter_names_the_nodes_worth_looking_at():
    narrow = plugin("Narrow", pre_filter=lambda state, pod, snapshot: PreFilterResult(frozenset({"n2", "ghost"})))
    framework = make_framework(narrow, rejecting("F", "n2"))
    with pytest.raises(FitError) as caught:
        schedule(framework, make_pod("p"), make_snapshot("n1", "n2"))
    left_out = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) didn't satisfy plugin(s) [Narrow]",), "Narrow")
    assert caught.value.diagnosis.statuses["n1"] == left_out
    assert caught.value.diagnosis.unschedulable_plugins == {"Narrow", "F"}


def test_pre_filters_that_leave_no_node_end_the_attempt():
    def only(name, *nodes):
        return plugin(name, pre_filter=lambda state, pod, snapshot: PreFilterResult(frozenset(nodes)))

    framework = make_framework(only("B", "n1"), only("A", "n2"))
    with pytest.raises(FitError) as caught:
        schedule(framework, make_pod("p"), make_snapshot("n1", "n2"))
    assert caught.value.message() == ("0/2 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously.")
    assert caught.value.diagnosis.unschedulable_plugins == {"A", "B"}


def test_an_unresolvable_pre_filter_ends_at_once_an_unschedulable_one_lets_the_others_prepare():
    calls = []

    def answering(name, status):
        return plugin(name, pre_filter=lambda state, pod, snapshot: calls.append(name) or status)

    with pytest.raises(FitError) as caught:
        schedule(
            make_framework(answering("A", unschedulable("later")), answering("B", None)),
            make_pod("p"),
            make_snapshot("n1"),
        )
    assert calls == ["A", "B"]
    assert caught.value.diagnosis.pre_filter_status == Status(Code.UNSCHEDULABLE, ("later",), "A")
    assert dict(caught.value.diagnosis.statuses) == {"n1": Status(Code.UNSCHEDULABLE, ("later",), "A")}
    calls.clear()
    with pytest.raises(FitError, match=r"^0/1 nodes are available: never\.$"):
        schedule(
            make_framework(answering("A", unresolvable("never")), answering("B", None)),
            make_pod("p"),
            make_snapshot("n1"),
        )
    assert calls == ["A"]


def test_a_skipped_filter_and_a_skipped_score_are_not_called():
    def never(*_):
        raise AssertionError("skipped plugins are not called")

    skipping = plugin("S", pre_filter=lambda *_: SKIP, filter=never, pre_score=lambda *_: SKIP, score=never)
    result = schedule(make_framework(skipping), make_pod("p"), make_snapshot("n1", "n2"))
    assert result.scores.total.tolist() == [0, 0]
    assert result.scores.by_plugin() == {}


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        ({"pre_filter": lambda *_: Status(Code.ERROR, ("bad",))}, 'running PreFilter plugin "P": bad'),
        ({"filter": lambda *_: 1 / 0}, 'running "P" filter plugin: division by zero'),
        (
            {"filter": lambda s, p, view: Verdicts(np.ones(len(view), np.int16), (None, Status(Code.ERROR, ("bad",))))},
            'running "P" filter plugin: bad',
        ),
        ({"score": lambda *_: 1 / 0}, 'running Score plugins: plugin "P" failed with: division by zero'),
        ({"score": lambda *_: np.zeros(2, np.int64), "pre_score": lambda *_: 1 / 0}, 'running PreScore plugin "P": '),
        (
            {"score": lambda *_: np.zeros(2, np.int64), "normalize_score": lambda *_: 1 / 0},
            'running Normalize on Score plugins: plugin "P" failed with: ',
        ),
        (
            {"score": lambda *_: np.array([0, 101])},
            'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score 101, ',
        ),
        (
            {"score": lambda s, p, view: np.full(len(view), -1), "score_locality": "row"},
            'applying score defaultWeights on Score plugins: plugin "P" returns an invalid score -1, ',
        ),
    ],
)
def test_a_plugin_that_fails_ends_the_attempt_and_is_named(methods, text):
    with pytest.raises(PluginError) as caught:
        schedule(make_framework(plugin("P", **methods)), make_pod("p"), make_snapshot("n1", "n2"))
    assert str(caught.value).startswith(text)
    assert caught.value.plugin == "P"


@pytest.mark.parametrize("locality", [None, "row"])
def test_an_error_on_a_row_that_failed_before_does_not_count(locality):
    def judge(state, pod, view):
        codes = np.array([2 if name == "n1" else 0 for name in view.names()], np.int16)
        return Verdicts(codes, (None, unschedulable("unused"), Status(Code.ERROR, ("bad",))))

    before = rejecting("A", "n1")
    faulty = plugin("B", filter=judge)
    if locality:
        before.filter_locality = faulty.filter_locality = locality
    assert schedule(make_framework(before, faulty), make_pod("p"), make_snapshot("n1", "n2")).node_name == "n2"
    assert schedule(make_framework(faulty, before), make_pod("p"), make_snapshot("n1", "n2")).node_name == "n2"
    with pytest.raises(FitError):
        schedule(make_framework(before, faulty, rejecting("C", "n2")), make_pod("p"), make_snapshot("n1", "n2"))
    with pytest.raises(PluginError, match="bad"):
        schedule(make_framework(faulty, before, rejecting("C", "n2")), make_pod("p"), make_snapshot("n1", "n2"))


def test_nominated_pods_of_at_least_the_priority_take_their_room():
    running = make_pod("r", node="n1")
    guest = make_pod("guest", nominated="n1", priority=5)
    room_for_two = plugin("Two", filter=lambda s, p, view: one_reason(view.pod_count() >= 2, unschedulable("crowded")))
    framework = make_framework(room_for_two, nominations=nominated(guest))
    snapshot = make_snapshot("n1", pods=[running])
    with pytest.raises(FitError, match="1 crowded"):
        schedule(framework, make_pod("p", priority=5), snapshot)
    assert schedule(framework, make_pod("p", priority=6), snapshot).node_name == "n1"
    assert schedule(framework, guest, snapshot).node_name == "n1"


def test_the_pod_must_fit_without_the_nominated_ones_too():
    company = plugin("Company", filter=lambda s, p, view: one_reason(view.pod_count() == 0, unschedulable("lonely")))
    framework = make_framework(company, nominations=nominated(make_pod("guest", nominated="n1")))
    with pytest.raises(FitError, match="1 lonely"):
        schedule(framework, make_pod("p"), make_snapshot("n1"))


def test_the_own_nominated_node_is_taken_when_it_fits_whatever_the_scores():
    framework = make_framework(scoring("A", {"n1": 100}), rejecting("F", "n3"))
    snapshot = make_snapshot("n1", "n2", "n3")
    result = schedule(framework, make_pod("p", nominated="n2"), snapshot)
    assert (result.node_name, result.feasible_count, result.evaluated_count) == ("n2", 1, 1)
    assert schedule(framework, make_pod("p", nominated="n3"), snapshot).node_name == "n1"
    assert schedule(framework, make_pod("p", nominated="gone"), snapshot).node_name == "n1"


def test_pods_that_need_what_is_not_built_are_told_apart():
    framework = make_framework()
    assert framework.unsupported(make_pod("p")) == ""
    assert "resource claims" in framework.unsupported(make_pod("p", resourceClaims=[{"name": "gpu"}]))
    assert "scheduling group" in framework.unsupported(make_pod("p", schedulingGroup={"podGroupName": "g"}))


def test_per_node_plugins_see_the_pods_that_are_added_in_thought():
    seen = {}

    class Plain:
        name = "Plain"
        per_node = True

        def __init__(self, args, handle):
            pass

        def filter(self, state, pod, node_info):
            seen.setdefault(node_info.node.name, []).append(sorted(p.name for p in node_info.pods))
            return unschedulable("full") if len(node_info.pods) > 1 else None

        def score(self, state, pod, node_info):
            return 10 * len(node_info.pods)

    guest = make_pod("guest", nominated="n1", priority=9)
    framework = make_framework(Plain, nominations=nominated(guest))
    snapshot = make_snapshot("n1", "n2", "n3", pods=[make_pod("r1", node="n1"), make_pod("r2", node="n2")])
    assert schedule(framework, make_pod("p"), snapshot).node_name == "n2"
    assert seen == {"n1": [["guest", "r1"], ["r1"]], "n2": [["r2"]], "n3": [[]]}


def test_post_filters_stop_at_success_and_collect_reasons():
    def answering(name, node, status):
        return plugin(name, post_filter=lambda *_: (node, status))

    snapshot, pod = make_snapshot("n1"), make_pod("p")

    def run(*plugins):
        framework = make_framework(rejecting("F", "n1"), *plugins)
        with pytest.raises(FitError) as caught:
            schedule(framework, pod, snapshot)
        return framework.run_post_filter(caught.value.state, pod, snapshot, caught.value.diagnosis.statuses)

    won = Status(Code.SUCCESS, ("made room",))
    assert run(answering("A", None, unschedulable("a")), answering("B", "n1", won)) == ("n1", won)
    assert run(answering("A", None, unschedulable("a")), answering("B", "", unschedulable("b"))) == (
        "",
        Status(Code.UNSCHEDULABLE, ("a", "b"), "A"),
    )
    error = Status(Code.ERROR, ("not found",))
    assert run(answering("A", None, error), answering("B", "n1", won)) == (
        None,
        Status(Code.ERROR, ("not found",), "A"),
    )
    node, status = run(plugin("A", post_filter=lambda *_: 1 / 0))
    assert (node, status.code) == (None, Code.ERROR)


def test_hints_kinds_and_gates_are_passed_on_to_the_queue():
    gate = plugin(
        "Gate", pre_enqueue=lambda pod: unresolvable("held") if pod.name == "held" else None, kinds=("Namespace",)
    )
    framework = make_framework(gate, scoring("A", {}))
    assert framework.kinds() == {"Namespace"}
    [(name, held)] = framework.pre_enqueue_plugins()
    assert (name, held(make_pod("held")), held(make_pod("free"))) == ("Gate", True, False)
    [hint] = framework.queueing_hints()
    assert (hint.plugin, hint.resource, hint.actions) == ("Gate", "*", ("All",))
