"""A suggestion is for misspellings: a name of another build is near to none of ours."""

import pytest

from schedcache.config.defaults import default_plugin_names
from schedcache.config.hints import nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("NodeResourceFit", "NodeResourcesFit"),
        ("nodename", "NodeName"),
        ("TaintTolerations", "TaintToleration"),
        ("TaintTolreation", "TaintToleration"),
        ("PodTopologySpreed", "PodTopologySpread"),
        ("NodeResourceBalancedAlocation", "NodeResourcesBalancedAllocation"),
    ],
)
def test_a_slip_of_the_hand_is_recognized(name, meant):
    assert nearest(name, default_plugin_names()) == meant


@pytest.mark.parametrize(
    "name",
    [
        "Coscheduling",
        "NetworkOverhead",
        "TopologicalSort",
        "NodeResourcesFitPlus",
        "NodeResourcesAllocatable",
        "NodeResourceTopologyMatch",
        "PreemptionToleration",
        "LoadAwareScheduling",
        "NodeResourceLimits",
        "ServiceAffinity",
        "CapacityScheduling",
        "",
        "*",
    ],
)
def test_another_name_is_not(name):
    assert nearest(name, default_plugin_names()) == ""


def test_nothing_is_near_where_nothing_is_known():
    assert nearest("NodeName", ()) == ""
