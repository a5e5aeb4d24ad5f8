"""What object updates amount to."""

import pytest

from schedcache.ports import ClusterEvent
from schedcache.queue.events import is_wildcard, node_update_events, pod_update_events
from tests.queue.support import make_node, make_pod

READY = {"type": "Ready", "status": "True"}
OTHER = {"type": "X", "status": "True"}


def labels(events):
    return [event.label for event in events]


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        ({}, {}, []),
        ({"resource_version": "1"}, {"resource_version": "2"}, []),
        (
            {"status": {"conditions": [{**READY, "lastHeartbeatTime": "2026-01-05T08:00:00Z"}]}},
            {"status": {"conditions": [{**READY, "lastHeartbeatTime": "2026-01-05T08:00:10Z"}]}},
            [],
        ),
        ({}, {"images": [(["a"], 1)]}, []),
        ({"status": {"conditions": [READY]}}, {"status": {"conditions": [{**READY, "status": "False"}]}}, ["NodeUpdateNodeCondition"]),
        ({"status": {"conditions": [READY, OTHER]}}, {"status": {"conditions": [OTHER, READY]}}, []),
        ({"cpu": "4"}, {"cpu": "4000m"}, []),
        ({"cpu": "4"}, {"cpu": "5"}, ["NodeUpdateNodeAllocatable"]),
        ({"cpu": "5"}, {"cpu": "4"}, ["NodeUpdateNodeAllocatable"]),
        ({}, {"labels": {"a": "b"}}, ["NodeUpdateNodeLabel"]),
        ({}, {"annotations": {"a": "b"}}, ["NodeUpdateNodeAnnotation"]),
        ({}, {"status": {"declaredFeatures": ["F"]}}, ["NodeUpdateNodeDeclaredFeature"]),
        ({}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, ["NodeUpdateNodeTaint"]),
        ({"unschedulable": True}, {}, ["NodeUpdateNodeTaint"]),
        ({}, {"unschedulable": True}, []),
        (
            {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]},
            {"cpu": "8", "labels": {"a": "b"}},
            ["NodeUpdateNodeTaint", "NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"],
        ),
    ],
)  # fmt: skip
def test_node_updates(old, new, events):
    assert labels(node_update_events(make_node(**old), make_node(**new))) == events


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        ({}, {"resource_version": 2}, ["Update"]),
        ({}, {"labels": {"a": "b"}}, ["UpdatePodLabel"]),
        ({"cpu": "2"}, {"cpu": "1"}, ["UpdatePodScaleDown"]),
        ({"cpu": "1"}, {"cpu": "2"}, ["UpdatePodScaleUp"]),
        ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, {"schedulingGates": [{"name": "a"}]}, ["Update"]),
        ({"schedulingGates": [{"name": "a"}]}, {}, ["UpdatePodSchedulingGatesEliminated"]),
        ({}, {"tolerations": [{"operator": "Exists"}]}, ["UpdatePodToleration"]),
        (
            {"cpu": "2", "schedulingGates": [{"name": "a"}]},
            {"cpu": "1", "labels": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
            ["UpdatePodLabel", "UpdatePodScaleDown", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration"],
        ),
    ],
)
@pytest.mark.parametrize(
    ("node", "target", "resource"),
    [("", False, "UnscheduledPod"), ("", True, "TargetPod"), ("n1", False, "AssignedPod")],
)
def test_pod_updates(old, new, actions, node, target, resource):
    events = pod_update_events(make_pod("p", node=node, **old), make_pod("p", node=node, **new), target=target)
    assert labels(events) == [resource + action for action in actions]


def test_a_pod_that_grows_in_one_resource_and_shrinks_in_another_is_both():
    def resized(cpu, memory):
        return make_pod("p", cpu=cpu, memory=memory, requests={"example.com/gpu": "1"})

    events = pod_update_events(resized("1", "2Gi"), resized("2", "1Gi"))
    assert labels(events) == ["UnscheduledPodUpdatePodScaleDown", "UnscheduledPodUpdatePodScaleUp"]


def asking(requests):
    return make_pod("p", cpu=None, requests=requests)


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "example.com/gpu"])
def test_a_request_of_nothing_is_more_than_none(resource):
    other = {"memory" if resource == "cpu" else "cpu": "1"}
    none, zero = asking(other), asking({**other, resource: "0"})
    assert labels(pod_update_events(none, zero)) == ["UnscheduledPodUpdatePodScaleUp"]
    assert labels(pod_update_events(zero, none, target=True)) == ["TargetPodUpdatePodScaleDown"]
    assert labels(pod_update_events(zero, asking({resource: "0"}))) == ["UnscheduledPodUpdatePodScaleDown"]


def test_one_request_of_nothing_for_another_is_both():
    events = pod_update_events(asking({"cpu": "0"}), asking({"memory": "0"}))
    assert labels(events) == ["UnscheduledPodUpdatePodScaleDown", "UnscheduledPodUpdatePodScaleUp"]


def test_the_same_requests_written_otherwise_are_no_rescaling():
    assert labels(pod_update_events(asking({"cpu": "1"}), asking({"cpu": "1000m"}))) == ["UnscheduledPodUpdate"]


def with_gpus(**amounts):
    return make_node("n", capacity=amounts)


def test_none_of_a_resource_is_not_no_such_resource():
    without, none = with_gpus(), with_gpus(**{"example.com/gpu": "0"})
    assert labels(node_update_events(without, none)) == ["NodeUpdateNodeAllocatable"]
    assert labels(node_update_events(none, without)) == ["NodeUpdateNodeAllocatable"]
    assert labels(node_update_events(none, none)) == []


def test_equal_events_are_one_object():
    first = node_update_events(make_node(cpu="1"), make_node(cpu="2"))
    assert first[0] is node_update_events(make_node(cpu="2"), make_node(cpu="3"))[0]


def test_only_everything_about_everything_is_a_wildcard():
    assert is_wildcard(ClusterEvent("*", ("All",), "UnschedulableTimeout"))
    assert not is_wildcard(ClusterEvent("Node", ("All",)))
    assert not is_wildcard(ClusterEvent("*", ("Add",)))
