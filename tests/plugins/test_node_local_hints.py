"""Which events bring back a pod that one of the node-local plugins rejected."""

import pytest
from msgspec.structs import replace

from schedcache.config.plugin_args import NodeAffinityArgs
from schedcache.model import Taint, wire
from schedcache.plugins.default_plugins import default_registry
from schedcache.testing import make_node
from tests.framework.world import make_pod
from tests.plugins.cluster import handle

CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}


def helps(plugin, resource, action, pod, old, new, args=None):
    """Whether any registration of the plugin for the event says that it may help."""
    made = default_registry()[plugin](args, handle())
    found = [e for e in made.events_to_register() if e.resource == resource and action in e.actions]
    assert found, f"{plugin} does not register {resource}/{action}"
    return any(e.fn is None or e.fn(pod, old, new) for e in found)


def with_requests(pod, cpu):
    return replace(pod, requests=make_pod("x", cpu=cpu).requests)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_node("n"), True),
        (None, make_node("n", unschedulable=True), False),
        (make_node("n", unschedulable=True), make_node("n"), True),
        (make_node("n"), make_node("n"), False),
    ],
)
def test_node_unschedulable_waits_for_an_uncordoned_node(old, new, expected):
    assert helps("NodeUnschedulable", "Node", "UpdateNodeTaint", make_pod("p"), old, new) is expected


@pytest.mark.parametrize(("tolerations", "expected"), [([CORDON], True), ([{"key": "other"}], False)])
def test_node_unschedulable_waits_for_the_toleration_of_the_cordon(tolerations, expected):
    new = make_pod("p", tolerations=tolerations)
    assert helps("NodeUnschedulable", "TargetPod", "UpdatePodToleration", make_pod("p"), make_pod("p"), new) is expected


def tainted(effect="NoSchedule"):
    return replace(make_node("n"), taints=(Taint("k", "", effect),))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_node("n"), True),
        (None, tainted(), False),
        (None, tainted("PreferNoSchedule"), True),
        (tainted(), make_node("n"), True),
        (tainted(), tainted("NoExecute"), False),
        (make_node("n"), make_node("n"), False),
    ],
)
def test_taint_toleration_waits_for_a_node_it_newly_tolerates(old, new, expected):
    assert helps("TaintToleration", "Node", "UpdateNodeTaint", make_pod("p"), old, new) is expected


def labelled(**labels):
    return make_node("n", labels=labels)


SSD = make_pod("p", nodeSelector={"disk": "ssd"})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, labelled(disk="ssd"), True),
        (None, labelled(disk="hdd"), False),
        (labelled(disk="hdd"), labelled(disk="ssd"), True),
        (labelled(disk="ssd"), labelled(disk="ssd", more="x"), False),
    ],
)
def test_node_affinity_waits_for_a_node_that_newly_matches(old, new, expected):
    assert helps("NodeAffinity", "Node", "UpdateNodeLabel", SSD, old, new) is expected


def test_node_affinity_added_by_the_profile_must_match_too():
    expression = wire.SelectorRequirement(key="pool", operator="Exists")
    terms = [wire.NodeSelectorTermWire(match_expressions=[expression])]
    added = NodeAffinityArgs(added_affinity=wire.NodeAffinityWire(required=wire.NodeSelectorWire(terms)))
    assert not helps("NodeAffinity", "Node", "Add", SSD, None, labelled(disk="ssd"), added)
    assert helps("NodeAffinity", "Node", "Add", SSD, None, labelled(disk="ssd", pool="a"), added)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, make_node("n", cpu="2"), True),
        (None, make_node("n", cpu="1"), False),
        (None, make_node("n", cpu="2", pods="0"), False),
        (make_node("n", cpu="1"), make_node("n", cpu="2"), True),
        (make_node("n", cpu="2"), make_node("n", cpu="2"), False),
        (make_node("n", cpu="2", pods="1"), make_node("n", cpu="2", pods="2"), True),
    ],
)
def test_resources_fit_waits_for_a_node_with_more_room(old, new, expected):
    assert helps("NodeResourcesFit", "Node", "UpdateNodeAllocatable", make_pod("p", cpu="2"), old, new) is expected


def test_resources_fit_waits_for_placed_pods_to_go():
    pod = make_pod("p")
    assert helps("NodeResourcesFit", "AssignedPod", "Delete", pod, make_pod("gone", node="n"), None)
    assert helps("NodeResourcesFit", "AssignedPod", "Delete", pod, make_pod("gone", nominated="n"), None)
    assert not helps("NodeResourcesFit", "AssignedPod", "Delete", pod, make_pod("gone"), None)


@pytest.mark.parametrize(("asks", "expected"), [("1", True), ("", False)])
def test_resources_fit_waits_for_less_of_what_the_pod_asks_for(asks, expected):
    running = make_pod("r", cpu="2", node="n")
    smaller = with_requests(running, "1")
    pod = make_pod("p", cpu=asks or None)
    assert helps("NodeResourcesFit", "AssignedPod", "UpdatePodScaleDown", pod, running, smaller) is expected
    assert not helps("NodeResourcesFit", "AssignedPod", "UpdatePodScaleDown", pod, smaller, running)
    assert not helps(
        "NodeResourcesFit", "AssignedPod", "UpdatePodScaleDown", pod, running, replace(smaller, node_name="")
    )


def on_port(port, *, protocol="TCP", node="n"):
    ports = [{"containerPort": 80, "hostPort": port, "protocol": protocol}]
    return make_pod("x", node, containers=[{"name": "c", "ports": ports}])


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        (on_port(80), True),
        (on_port(81), False),
        (on_port(80, protocol="UDP"), False),
        (on_port(80, node=""), False),
        (make_pod("plain", node="n"), False),
    ],
)
def test_node_ports_waits_for_its_port(deleted, expected):
    assert helps("NodePorts", "AssignedPod", "Delete", on_port(80, node=""), deleted, None) is expected


def test_declared_features_wait_for_other_features():
    plain, capable = make_node("n"), make_node("n", status={"declaredFeatures": ["UserNamespacesHostNetworkSupport"]})
    pod, other = make_pod("p"), make_pod("p", hostNetwork=True, hostUsers=False)
    assert helps("NodeDeclaredFeatures", "Node", "Add", pod, None, plain)
    assert helps("NodeDeclaredFeatures", "Node", "UpdateNodeDeclaredFeature", pod, plain, capable)
    assert not helps("NodeDeclaredFeatures", "Node", "UpdateNodeDeclaredFeature", pod, plain, make_node("n"))
    assert helps("NodeDeclaredFeatures", "TargetPod", "Update", pod, pod, other)
    assert not helps("NodeDeclaredFeatures", "TargetPod", "Update", pod, pod, make_pod("p"))


@pytest.mark.parametrize(
    ("plugin", "resource", "action"),
    [
        ("SchedulingGates", "TargetPod", "UpdatePodSchedulingGatesEliminated"),
        ("NodeName", "Node", "Add"),
        ("NodePorts", "Node", "Add"),
        ("TaintToleration", "TargetPod", "UpdatePodToleration"),
        ("NodeResourcesFit", "TargetPod", "UpdatePodScaleDown"),
    ],
)
def test_some_events_always_help(plugin, resource, action):
    assert helps(plugin, resource, action, make_pod("p"), None, None)
