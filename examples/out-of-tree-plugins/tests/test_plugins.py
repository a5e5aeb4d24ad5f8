"""The plugins as a profile uses them. Run with the package installed, or as it lies here (see the README)."""

import pytest

from schedcache.framework import PluginSetError
from schedcache.simulation import simulate

PLUGINS = {"multiPoint": {"enabled": [{"name": "MaintenanceWindow"}, {"name": "Headroom", "weight": 5}]}}


def config(**headroom):
    args = [{"name": "Headroom", "args": headroom}] if headroom else []
    profile = {"schedulerName": "default-scheduler", "plugins": PLUGINS, "pluginConfig": args}
    return {"profiles": [profile]}


def node(name, cpu="4", **annotations):
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "status": {"allocatable": allocatable},
    }


def pod(cpu, priority=0):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": "p"}, "spec": {"priority": priority, "containers": [container]}}


def test_nodes_before_maintenance_are_left_alone():
    nodes = [node("a", **{"example.com/maintenance": "planned"}), node("b", **{"example.com/maintenance": "done"})]
    answer = simulate(nodes, pod("1"), config())
    assert answer["feasible"] == ["b"]
    assert answer["rejected"]["a"]["reasons"] == ["node(s) were about to be serviced"]


@pytest.mark.parametrize(("cpu", "priority", "fits"), [("3", 0, True), ("3700m", 0, False), ("3700m", 1000, True)])
def test_ordinary_pods_leave_room(cpu, priority, fits):
    answer = simulate([node("a")], pod(cpu, priority), config(percent=10))
    assert (answer["feasible"] == ["a"]) is fits
    if not fits:
        assert answer["message"] == "0/1 nodes are available: 1 node(s) keep 10% of their cpu free."


def test_the_weight_of_the_profile_counts():
    answer = simulate([node("a", "4"), node("b", "8")], pod("2"), config())
    assert answer["scores"]["a"]["plugins"]["Headroom"] == 500


def test_bad_arguments_are_named():
    with pytest.raises(
        PluginSetError, match="plugin 'Headroom' cannot be made: percent: 200 is not in the range 0 to 100"
    ):
        simulate([node("a")], pod("1"), config(percent=200))
