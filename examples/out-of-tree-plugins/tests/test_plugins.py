"""The plugins as a profile uses them. Run with the package installed, or as it lies here (see the README)."""

import pytest
from schedcache_examples.headroom import Headroom
from schedcache_examples.maintenance_window import ANNOTATION, MaintenanceWindow

from schedcache.framework import PluginSetError
from schedcache.simulation import simulate
from schedcache.testing import World, make_node, make_pod, node_manifest, pod_manifest

PLANNED = make_node("a", annotations={ANNOTATION: "planned"})


def profile(**headroom):
    """A configuration with Headroom, given these arguments."""
    enabled = {"multiPoint": {"enabled": [{"name": "Headroom", "weight": 5}]}}
    args = [{"name": "Headroom", "args": headroom}]
    return {"profiles": [{"schedulerName": "schedcache", "plugins": enabled, "pluginConfig": args}]}


async def test_nodes_before_maintenance_are_left_alone():
    async with World(plugins=[MaintenanceWindow]) as world:
        world.add(PLANNED, make_node("b", annotations={ANNOTATION: "done"}), make_pod("web-0", cpu="1"))
        await world.settle()
        assert world.node_of("web-0") == "b"


async def test_a_pod_gets_its_turn_when_the_maintenance_is_over():
    async with World(plugins=[MaintenanceWindow]) as world:
        world.add(PLANNED, make_pod("web-0", cpu="1"))
        await world.settle()
        assert world.verdict(world.pod("web-0")) == {"a": ("node(s) were about to be serviced",)}
        world.update(PLANNED, make_node("a"))
        await world.advance(2)
        assert world.node_of("web-0") == "a"


@pytest.mark.parametrize(("cpu", "priority", "fits"), [("3", 0, True), ("3700m", 0, False), ("3700m", 1000, True)])
def test_ordinary_pods_leave_room(cpu, priority, fits):
    world = World(profile(percent=10), plugins=[Headroom])
    world.add(make_node("a", cpu="4"))
    verdict = world.verdict(make_pod("web-0", cpu=cpu, priority=priority))
    assert verdict == ({} if fits else {"a": ("node(s) keep 10% of their cpu free",)})


def test_bad_arguments_are_named():
    with pytest.raises(
        PluginSetError, match="plugin 'Headroom' cannot be made: percent: 200 is not in the range 0 to 100"
    ):
        World(profile(percent=200), plugins=[Headroom])


def test_the_weight_of_the_profile_counts():
    """Of a pod that has a choice, `simulate` tells the scores; it knows the plugins by their entry points."""
    nodes = [node_manifest("a", cpu="4"), node_manifest("b", cpu="8")]
    answer = simulate(nodes, pod_manifest("web-0", cpu="2"), profile())
    assert answer["scores"]["a"]["plugins"]["Headroom"] == 500
