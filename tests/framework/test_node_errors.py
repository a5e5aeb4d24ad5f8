"""A filter that fails at some nodes: these count as rejected, and the attempt fails only where nothing else is left."""

import numpy as np
import pytest

from schedcache.framework import Code, CycleState, FitError, NodeSampling, PluginError, RowView, Status, Verdicts
from tests.framework.test_sampling import sampled
from tests.framework.world import make_framework, make_pod, make_snapshot, nominated, plugin, rejecting, schedule

NAMES = ("n1", "n2", "n3")
TOLD = 'running "Odd" filter plugin: broken disk'


def returning(*names):
    return {"filter": rejecting("Odd", *names, status=Status(Code.ERROR, ("broken disk",))).filter}


def raising(*names):
    def judge(state, pod, node_info):
        if node_info.name in names:
            raise OSError("broken disk")

    return {"per_node": True, "filter": judge}


def answering_nonsense(*names):
    return {"per_node": True, "filter": lambda s, p, node_info: "broken disk" if node_info.name in names else None}


@pytest.fixture(params=["returned", "raised"])
def failing_at(request):
    return {"returned": returning, "raised": raising}[request.param]


@pytest.fixture(params=[None, "row", "node"])
def locality(request):
    return {} if request.param is None else {"filter_locality": request.param}


def test_pods_go_to_the_other_nodes(failing_at, locality):
    framework = make_framework(plugin("Odd", **failing_at("n1", "n3"), **locality))
    for _ in range(3):
        assert schedule(framework, make_pod("p"), make_snapshot(*NAMES)).node_name == "n2"


def test_an_answer_that_is_none_about_a_node_rejects_that_node():
    framework = make_framework(plugin("Odd", **answering_nonsense("n1", "n2")))
    assert schedule(framework, make_pod("p"), make_snapshot(*NAMES)).node_name == "n3"


def test_what_is_wrong_is_among_the_reasons(failing_at, locality):
    framework = make_framework(plugin("Odd", **failing_at("n2"), **locality))
    found = framework.evaluate(make_pod("p"), make_snapshot(*NAMES), lambda _name: (), exhaustive=True)
    assert dict(found.diagnosis().statuses) == {"n2": Status(Code.ERROR, (TOLD,), "Odd")}
    assert found.diagnosis().errors() == {TOLD: ["n2"]}
    assert found.fits
    assert found.scores.view.names() == ["n1", "n3"]


def test_where_no_other_node_is_left_the_attempt_fails_and_the_node_is_named(failing_at, locality):
    framework = make_framework(plugin("Odd", **failing_at("n2"), **locality), rejecting("Full", "n1", "n3"))
    with pytest.raises(PluginError) as caught:
        schedule(framework, make_pod("p"), make_snapshot(*NAMES))
    assert str(caught.value) == f"{TOLD} (on node n2)"
    assert caught.value.message() == TOLD
    assert (caught.value.plugin, caught.value.node_name) == ("Odd", "n2")


def test_an_error_at_all_nodes_names_none(failing_at):
    framework = make_framework(plugin("Odd", **failing_at(*NAMES)))
    with pytest.raises(PluginError) as caught:
        schedule(framework, make_pod("p"), make_snapshot(*NAMES))
    assert (str(caught.value), caught.value.node_name) == (TOLD, "")


def test_an_error_at_a_node_that_was_rejected_before_does_not_count(failing_at, locality):
    full = rejecting("Full", *NAMES)
    full.filter_locality = locality.get("filter_locality")
    with pytest.raises(FitError, match="3 Full says no"):
        schedule(
            make_framework(full, plugin("Odd", **failing_at("n1"), **locality)), make_pod("p"), make_snapshot(*NAMES)
        )


def test_an_error_is_not_kept(locality):
    """It may be over though nothing about the node has changed."""
    broken = {"n1", "n2"}

    def judge(state, pod, node_info):
        if node_info.name in broken:
            raise OSError("broken disk")

    framework = make_framework(plugin("Odd", per_node=True, filter=judge, **locality))
    snapshot = make_snapshot(*NAMES)
    assert schedule(framework, make_pod("p"), snapshot).node_name == "n3"
    broken.clear()
    assert schedule(framework, make_pod("p"), snapshot).feasible_count == 3


def test_the_pods_own_nominated_node_can_be_the_odd_one(failing_at):
    framework = make_framework(plugin("Odd", **failing_at("n1")), rejecting("Full", "n2"))
    assert schedule(framework, make_pod("p", nominated="n1"), make_snapshot(*NAMES)).node_name == "n3"


@pytest.mark.parametrize("full", [(), ("n1", "n2")])
def test_an_error_beside_a_nominated_pod_counts_like_any_other(full):
    def judge(state, pod, view):
        codes = (view.pod_count() > 0).astype(np.int16)
        return Verdicts(codes, (None, Status(Code.ERROR, ("broken disk",))))

    nominations = nominated(make_pod("guest", nominated="n3", priority=5))
    framework = make_framework(plugin("Odd", filter=judge), rejecting("Full", *full), nominations=nominations)
    if full:
        with pytest.raises(PluginError, match=r"broken disk \(on node n3\)"):
            schedule(framework, make_pod("p"), make_snapshot(*NAMES))
    else:
        assert schedule(framework, make_pod("p"), make_snapshot(*NAMES)).feasible_count == 2


def test_nodes_are_sampled_from_those_that_are_left(failing_at):
    names = [f"n{i:03}" for i in range(250)]
    framework = sampled(plugin("Odd", **failing_at(*names[:100])), sampling=NodeSampling(50))
    found = [schedule(framework, make_pod("p"), make_snapshot(*names)) for _ in range(4)]
    assert {result.feasible_count for result in found} == {125}
    assert all(result.node_name >= "n100" for result in found)


def test_a_fault_of_a_filter_for_all_nodes_is_the_attempts():
    def judge(state, pod, view):
        raise OSError("broken disk")

    with pytest.raises(PluginError, match="broken disk"):
        schedule(make_framework(plugin("Odd", filter=judge)), make_pod("p"), make_snapshot(*NAMES))


def test_a_status_that_no_row_has_is_no_error():
    framework = make_framework(plugin("Odd", **returning("n9"), filter_locality="row"))
    found = framework.run_filters(CycleState(), make_pod("p"), all_rows(make_snapshot(*NAMES)), lambda _name: ())
    assert not found.faulty
    assert found.errors() == []


def all_rows(snapshot):
    return RowView(snapshot, snapshot.columns.order)
