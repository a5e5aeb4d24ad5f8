"""What people are told of a pod that fits nowhere."""

import pytest

from schedcache.framework import FitError, unresolvable, unschedulable
from schedcache.framework.explanation import explain_rejection
from tests.framework.world import make_framework, make_pod, make_snapshot, plugin, rejecting, schedule


def explain(framework, snapshot):
    pod = make_pod("p")
    with pytest.raises(FitError) as caught:
        schedule(framework, pod, snapshot)
    return explain_rejection(framework, pod, snapshot, caught.value.diagnosis, caught.value.state)


def test_reasons_come_most_frequent_first_with_nodes_for_example():
    names = [f"n{i}" for i in range(6)]
    framework = make_framework(
        rejecting("A", "n5", status=unschedulable("full")),
        rejecting("B", *names, status=unresolvable("wrong", "late")),
    )
    assert explain(framework, make_snapshot(*names))[:3] == [
        "5 of 6 nodes: late [B] (n0, n1, n2, ...)",
        "5 of 6 nodes: wrong [B] (n0, n1, n2, ...)",
        "1 of 6 nodes: full [A]; evicting pods might help (n5)",
    ]


def test_a_node_with_several_objections_has_them_all_told_and_the_nearest_come_first():
    framework = make_framework(
        rejecting("A", "n1", "n2", status=unschedulable("full")),
        rejecting("B", "n1", "n2", status=unresolvable("wrong")),
        rejecting(
            "C", "n2", "n3", status=unschedulable("busy"), explain=lambda state, pod, view: f"ask {view.name(0)}"
        ),
    )
    assert explain(framework, make_snapshot("n1", "n2", "n3"))[-3:] == [
        "node n3: busy (ask n3) [C]",
        "node n1: full [A]; and wrong [B]",
        "node n2: full [A]; and wrong [B]; and busy (ask n2) [C]",
    ]


def test_a_bare_reason_is_not_told_twice():
    framework = make_framework(rejecting("A", "n1", status=unschedulable("full")))
    assert explain(framework, make_snapshot("n1")) == ["1 of 1 nodes: full [A]; evicting pods might help (n1)"]


def test_a_pod_rejected_as_a_whole_is_said_to_be():
    framework = make_framework(plugin("A", pre_filter=lambda *_: unresolvable("no such claim")))
    assert explain(framework, make_snapshot("n1")) == ["no node was considered: A: no such claim"]
