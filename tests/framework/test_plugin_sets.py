"""From plugin sets to the plugins of each extension point: order, weights, and profiles that make no sense."""

import pytest

from schedcache.cache import ClusterObjects
from schedcache.config import config_from_dict
from schedcache.framework import Framework, Handle, PluginSetError, Registry
from schedcache.plugins.default_plugins import default_registry
from schedcache.queue import Nominator


def framework(plugins=None, registry=None, **profile):
    config = config_from_dict({"profiles": [{"schedulerName": "x", "plugins": plugins or {}, **profile}]}).config
    handle = Handle(cluster_objects=ClusterObjects(), nominator=Nominator())
    return Framework(config.profiles[0], registry or default_registry(), handle)


def names(made, point):
    return [plugin.name for plugin in made.points[point]]


DEFAULT_FILTERS = [
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
]


def test_the_default_profile_is_kube_schedulers():
    made = framework()
    assert names(made, "filter") == DEFAULT_FILTERS
    assert names(made, "pre_filter") == [n for n in DEFAULT_FILTERS if n in names(made, "pre_filter")]
    assert names(made, "queue_sort") == ["PrioritySort"]
    assert names(made, "bind") == ["DefaultBinder"]
    assert made._scores.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_a_plugin_enabled_at_its_own_point_comes_first_there():
    made = framework({"filter": {"enabled": [{"name": "NodePorts"}, {"name": "NodeAffinity"}]}})
    rest = [name for name in DEFAULT_FILTERS if name not in ("NodePorts", "NodeAffinity")]
    assert names(made, "filter") == ["NodePorts", "NodeAffinity", *rest]


def test_disabled_and_enabled_again_it_comes_last():
    made = framework({"filter": {"disabled": [{"name": "NodeName"}], "enabled": [{"name": "NodeName"}]}})
    assert names(made, "filter") == [*DEFAULT_FILTERS[1:], "NodeName"]


def test_a_star_leaves_what_is_named():
    made = framework({"filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodePorts"}]}})
    assert names(made, "filter") == ["NodePorts"]
    assert "NodeAffinity" in names(made, "score")


def test_multi_point_changes_the_default_list_in_place_and_a_weight_left_out_is_one():
    made = framework({"multiPoint": {"enabled": [{"name": "TaintToleration"}, {"name": "ImageLocality", "weight": 7}]}})
    assert names(made, "filter") == DEFAULT_FILTERS
    assert made._scores.weights["TaintToleration"] == 1
    assert made._scores.weights["ImageLocality"] == 7


def test_the_weight_at_score_counts_before_the_one_at_multi_point():
    made = framework(
        {
            "score": {"enabled": [{"name": "ImageLocality", "weight": 9}]},
            "multiPoint": {"disabled": [{"name": "NodePorts"}]},
        }
    )
    assert names(made, "score")[0] == "ImageLocality"
    assert made._scores.weights["ImageLocality"] == 9
    assert "NodePorts" not in names(made, "filter")


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        ({"filter": {"enabled": [{"name": "Nowhere"}]}}, "there is no plugin 'Nowhere'"),
        ({"filter": {"enabled": [{"name": "ImageLocality"}]}}, "'ImageLocality' does not take part in filter"),
        ({"score": {"enabled": [{"name": "ImageLocality"}] * 2}}, "'ImageLocality' is enabled twice at score"),
        ({"multiPoint": {"enabled": [{"name": "NodePorts"}] * 2}}, "'NodePorts' is enabled twice"),
        ({"bind": {"disabled": [{"name": "*"}]}}, "needs at least one bind plugin"),
        ({"queueSort": {"disabled": [{"name": "*"}]}}, "needs one queue sort plugin, it has 0"),
    ],
)
def test_a_senseless_profile_is_refused(plugins, text):
    with pytest.raises(PluginSetError, match=text):
        framework(plugins)


def test_arguments_reach_the_plugin_and_defaults_where_there_are_none():
    seen = {}
    registry = default_registry()

    class Mine:
        name = "Mine"

        def __init__(self, args, handle):
            seen["args"], seen["handle"] = args, handle

        @staticmethod
        def filter(state, pod, view):
            raise NotImplementedError

    registry.register("Mine", Mine)
    made = framework(
        {"filter": {"enabled": [{"name": "Mine"}]}},
        registry,
        pluginConfig=[{"name": "Mine", "args": {"key": [1, "b"]}}],
    )
    assert seen["args"] == {"key": [1, "b"]}
    assert seen["handle"].scheduler_name == "x"
    assert seen["handle"].waiting_pods is made.waiting_pods


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({}, "its name is None, expected 'Foreign'"),
        ({"name": "Other"}, "its name is 'Other', expected 'Foreign'"),
        ({"name": "Foreign", "filter_locality": "pod"}, "its filter_locality is 'pod', expected 'node' or 'row'"),
        ({"name": "Foreign", "score_locality": True}, "its score_locality is True, expected 'node' or 'row'"),
    ],
)
def test_a_plugin_that_would_be_misread_in_silence_cannot_be_made(attributes, said):
    made = type("Made", (), {"__init__": lambda *_: None, **attributes})
    registry = Registry({**default_registry(), "Foreign": made})
    with pytest.raises(PluginSetError, match=f"profile 'x': plugin 'Foreign' cannot be made: {said}"):
        framework({"multiPoint": {"enabled": [{"name": "Foreign"}]}}, registry)
