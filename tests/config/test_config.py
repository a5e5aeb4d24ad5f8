"""KubeSchedulerConfiguration: read strictly, filled in and validated as kube-scheduler does, every problem at once."""

import pytest
import yaml

from schedcache.config import ConfigError, config_from_dict, load_config, to_yaml
from schedcache.config.duration import Duration, go_duration

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def problems(text):
    with pytest.raises(ConfigError) as caught:
        load_config(HEADER + text, "f.yaml")
    return caught.value.problems


def args_problems(plugin, args):
    config = {"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]}
    with pytest.raises(ConfigError) as caught:
        config_from_dict(config)
    return [p.removeprefix("profiles[0].pluginConfig[0].args.") for p in caught.value.problems]


def test_an_empty_file_is_kube_schedulers_default():
    config = load_config(HEADER).config
    assert config == config_from_dict(None).config
    assert (config.parallelism, config.percentage_of_nodes_to_score) == (16, 0)
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.client_connection.qps, config.client_connection.burst) == (50.0, 100)
    election = config.leader_election
    assert (election.leader_elect, election.resource_name, election.resource_namespace) == (
        True,
        "kube-scheduler",
        "kube-system",
    )
    durations = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert [str(duration) for duration in durations] == ["15s", "10s", "2s"]
    [profile] = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    assert [p.name for p in profile.plugins.multi_point.enabled][:3] == ["SchedulingGates", "PrioritySort", "NodeName"]
    args = {config.name: config.args for config in profile.plugin_config}
    assert args["InterPodAffinity"].hard_pod_affinity_weight == 1
    assert args["VolumeBinding"].bind_timeout_seconds == 600
    assert [(p.utilization, p.score) for p in args["VolumeBinding"].shape] == [(0, 10), (100, 0)]
    assert args["DefaultPreemption"].min_candidate_nodes_absolute == 100
    assert [r.name for r in args["NodeResourcesFit"].scoring_strategy.resources] == ["cpu", "memory"]


def test_the_effective_configuration_is_a_configuration():
    config = load_config(HEADER + "profiles:\n- schedulerName: a\n- schedulerName: b\n").config
    assert load_config(to_yaml(config)).config == config
    profiles = yaml.safe_load(to_yaml(config))["profiles"]
    assert [p["schedulerName"] for p in profiles] == ["a", "b"]
    args = {plugin["name"]: plugin["args"] for plugin in profiles[0]["pluginConfig"]}
    assert args["NodeAffinity"] == {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeAffinityArgs"}


def test_the_effective_configuration_cannot_be_changed():
    config = config_from_dict(None).config
    for part, field in (
        (config, "parallelism"),
        (config.profiles[0], "plugins"),
        (config.leader_election, "leader_elect"),
    ):
        with pytest.raises(AttributeError, match="immutable type"):
            setattr(part, field, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: 4\nparallelism: 5", "f.yaml: not valid YAML: line 4: duplicate key 'parallelism'"),
        ("profiles:\n- {schedulerName: a, schedulerName: a}", "line 4: duplicate key 'schedulerName'"),
        ("null: 2", "f.yaml:3: null: unknown field"),
        ("1: 2", "f.yaml:3: 1: unknown field"),
        ("? [a]\n: b", "line 3: found unhashable key"),
        ("profiles: [", "f.yaml: not valid YAML: line 4: "),
        ("---\nkind: X", "f.yaml:4: another document begins here, but only the first is read"),
        ("profiles: " + "[" * 2000, "exceeded maximum nesting depth"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_line(text, expected):
    [problem] = problems(text)
    assert expected in problem


def test_the_document_that_is_read_is_the_first_one_be_it_empty():
    for before in ("---\n", "---\n# a licence\n", "null\n", "--- ~\n...\n"):
        with pytest.raises(ConfigError) as caught:
            load_config(before + "---\n" + HEADER, "f.yaml")
        line = (before + "---\n").count("\n") + 1
        assert str(caught.value) == (
            f"f.yaml:{line}: another document begins here, but only the first is read, which is empty"
        )
    for before in ("---\n", "# a licence\n---\n", "\ufeff---\n", "%YAML 1.1\n---\n"):
        load_config(before + HEADER + "---\n---\n# the end\n")


def test_a_key_may_be_merged_in_and_given_anew():
    text = "profiles:\n- &one {schedulerName: a, percentageOfNodesToScore: 5}\n- {<<: *one, schedulerName: b}\n"
    assert [p.scheduler_name for p in load_config(HEADER + text).config.profiles] == ["a", "b"]


def test_a_weight_of_zero_counts_as_one_and_an_empty_list_as_none():
    strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 0}]}
    config = config_from_dict(
        {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]}]}
    ).config
    args = {c.name: c.args for c in config.profiles[0].plugin_config}["NodeResourcesFit"]
    assert [r.weight for r in args.scoring_strategy.resources] == [1]
    assert args.ignored_resources == []


def test_unknown_fields_are_all_named_with_line_and_hint():
    assert problems(
        "paralelism: 3\nprofiles:\n- plugins:\n    filter:\n      enabled:\n      - nme: X\n        name: Y\n"
    ) == [
        "f.yaml:3: paralelism: unknown field; did you mean 'parallelism'?",
        "f.yaml:8: profiles[0].plugins.filter.enabled[0].nme: unknown field; did you mean 'name'?",
    ]


def test_every_wrong_value_is_told_at_once_in_the_order_of_the_lines():
    text = "parallelism: four\nprofiles:\n- plugins:\n    score: {enabled: [{name: A, weight: 1.5}]}\n  schedulerNaem: x\nextenders: {}\n"
    with pytest.raises(ConfigError) as caught:
        load_config(HEADER + text, "f.yaml", plugins=())
    assert [problem.split(": ", 2)[:2] for problem in caught.value.problems] == [
        ["f.yaml:3", "parallelism"],
        ["f.yaml:6", "profiles[0].plugins.score.enabled[0].weight"],
        ["f.yaml:6", "profiles[0].plugins.score.enabled[0].name"],
        ["f.yaml:7", "profiles[0].schedulerNaem"],
        ["f.yaml:8", "extenders"],
    ]


def test_types_are_named_with_line():
    [problem] = problems("podMaxBackoffSeconds: soon\n")
    assert problem.startswith("f.yaml:3: podMaxBackoffSeconds: expected `int")


def test_unknown_fields_of_arguments_are_found_deep_inside():
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpresions": []}]}}
    [problem] = args_problems("NodeAffinity", {"addedAffinity": affinity})
    assert problem.endswith("nodeSelectorTerms[0].matchExpresions: unknown field; did you mean 'matchExpressions'?")


def test_arguments_of_plugins_from_elsewhere_are_left_alone():
    profile = {
        "plugins": {"filter": {"enabled": [{"name": "Mine"}]}},
        "pluginConfig": [{"name": "Mine", "args": {"anything": [1, None]}}],
    }
    [found] = config_from_dict({"profiles": [profile]}).config.profiles
    assert {c.name: c.args for c in found.plugin_config}["Mine"] == {"anything": [1, None]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: 0", "f.yaml:3: parallelism: 0 is not greater than zero"),
        ("percentageOfNodesToScore: 101", "f.yaml:3: percentageOfNodesToScore: 101 is not in the range 0 to 100"),
        ("podInitialBackoffSeconds: 0", "f.yaml:3: podInitialBackoffSeconds: 0 is not greater than 0"),
        ("podMaxBackoffSeconds: 0", "f.yaml:3: podMaxBackoffSeconds: 0 is less than podInitialBackoffSeconds, 1"),
        ("clientConnection: {burst: -1}", "f.yaml:3: clientConnection.burst: -1 is negative"),
        (
            "leaderElection: {leaseDuration: 5s}",
            "f.yaml:3: leaderElection.leaseDuration: 5s is not greater than renewDeadline, 10s",
        ),
        (
            "leaderElection: {renewDeadline: 1s}",
            "f.yaml:3: leaderElection.renewDeadline: 1s is not greater than 1.2 times retryPeriod, 2s",
        ),
        ("leaderElection:\n  retryPeriod: -1s", "f.yaml:4: leaderElection.retryPeriod: must be greater than zero"),
        (
            "leaderElection: {resourceLock: endpoints}",
            "f.yaml:3: leaderElection.resourceLock: 'endpoints' is not \"leases\", the only kind",
        ),
        (
            "extenders: [{urlPrefix: 'http://x', prioritizeVerb: p}]",
            "f.yaml:3: extenders[0].weight: 0 is not greater than 0, which an extender that prioritizes needs",
        ),
    ],
)
def test_what_kube_scheduler_refuses_is_refused(text, expected):
    assert expected in problems(text)


def test_a_duration_that_is_none_says_so():
    [problem] = problems("leaderElection: {leaseDuration: 15 seconds}")
    assert "'15 seconds' is not a duration; expected numbers with units, such as 15s or 1m30s" in problem


def test_what_does_not_apply_without_leader_election_is_not_checked():
    assert load_config(HEADER + "leaderElection: {leaderElect: false, leaseDuration: 1s}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("schedulerName: a\n- schedulerName: a", "profiles[1].schedulerName: 'a' is also the name of another profile"),
        ("schedulerName: a\n- plugins: {}", "profiles[1].schedulerName: is missing; with several profiles each needs"),
        ("percentageOfNodesToScore: -1", "profiles[0].percentageOfNodesToScore: -1 is not in the range 0 to 100"),
        ("plugins: {filter: {enabled: [{name: EBSLimits}]}}", "plugin 'EBSLimits' is not part of kubescheduler.config"),
        ("pluginConfig: [{name: CinderLimits}]", "profiles[0].pluginConfig[0].name: plugin 'CinderLimits' is not part"),
        ("pluginConfig: [{name: X}, {name: X}]", "profiles[0].pluginConfig[1].name: 'X' is configured twice"),
        (
            "plugins: {queueSort: {enabled: [{name: A}, {name: B}]}}",
            "profiles[0].plugins.queueSort.enabled: only one queue sort plugin can be enabled",
        ),
        ("plugins: {score: {enabled: [{name: X, weight: -1}]}}", "enabled[0].weight: -1 is negative"),
        (
            "plugins: {placementScore: {enabled: [{name: X}, {name: Y}]}}",
            "placementScore: is for scheduling groups of pods",
        ),
        (
            "plugins: {podGroupPostFilter: {enabled: [{name: DefaultPreemption}]}}",
            "'DefaultPreemption' cannot be enabled",
        ),
        (
            "plugins: {score: {enabled: [{name: X, weight: 2147483648}]}}",
            "enabled[0].weight: expected `int` <= 2147483647",
        ),
    ],
)
def test_a_bad_profile_is_refused(text, expected):
    assert any(expected in problem for problem in problems("profiles:\n- " + text)), problems("profiles:\n- " + text)


def test_profiles_must_sort_the_queue_alike():
    text = "schedulerName: a\n- {schedulerName: b, plugins: {queueSort: {enabled: [{name: Other}]}}}"
    assert any("profiles[1].plugins.queueSort: must be the same" in p for p in problems("profiles:\n- " + text))


@pytest.mark.parametrize(
    ("plugin", "args", "expected"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: 101 is not in the range",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "minCandidateNodesPercentage: cannot be zero at the same time",
        ),
        ("DynamicResources", {"bindingTimeout": "500ms"}, "bindingTimeout: 500ms is less than 1s"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight: 101 is not in the range 0 to 100"),
        ("NodeResourcesFit", {"ignoredResources": ["a/b/c"]}, "ignoredResources[0]: 'a/b/c' is not a resource name"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]: 'a/b' is not the part"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Best"}}, "scoringStrategy.type: 'Best' is not one of"),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight: 101 is not in the range 1 to 100",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio: must be given",
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"requestedToCapacityRatio": {"shape": []}}},
            "scoringStrategy.requestedToCapacityRatio: can only be given when",
        ),
        (
            "VolumeBinding",
            {"shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 11}]},
            "shape[1].utilization: points must be sorted",
        ),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds: -1 is negative"),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: 2 is not 1",
        ),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
            "resources[1].name: 'cpu' is listed twice",
        ),
        ("PodTopologySpread", {"defaultingType": "Mine"}, "defaultingType: 'Mine' is not one of System, List"),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
            "defaultingType: must be List when there are defaultConstraints",
        ),
        (
            "PodTopologySpread",
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 0, "topologyKey": "-", "whenUnsatisfiable": "Never", "labelSelector": {}}
                ],
            },
            "defaultConstraints[0].labelSelector: cannot be given",
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                    }
                }
            },
            "nodeSelectorTerms[0].matchExpressions[0]: 'Near' on 'a' is not a selector operator",
        ),
    ],
)
def test_bad_arguments_are_refused(plugin, args, expected):
    found = args_problems(plugin, args)
    assert any(expected in problem for problem in found), found


def test_what_an_extender_manages_in_the_schedulers_place_is_not_looked_at_by_the_plugin():
    text = """
profiles:
- pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/own]}}]
- {schedulerName: other, plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}
extenders:
- urlPrefix: http://x
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}, {name: example.com/licence}]
- urlPrefix: http://y
  managedResources: [{name: example.com/fpga, ignoredByScheduler: true}]
"""
    text = text.replace("- pluginConfig", "- schedulerName: one\n  pluginConfig")
    # In the place of the plugin's own, as in kube-scheduler.
    assert _ignored(load_config(HEADER + text).config.profiles) == [["example.com/gpu", "example.com/fpga"], None]


def _ignored(profiles):
    args = [{config.name: config.args for config in profile.plugin_config} for profile in profiles]
    return [found["NodeResourcesFit"].ignored_resources if "NodeResourcesFit" in found else None for found in args]


def test_settings_that_change_nothing_are_told():
    loaded = load_config(HEADER + "percentageOfNodesToScore: 50\nparallelism: 4\ndelayCacheUntilActive: true\n")
    assert [note.split(":")[0] for note in loaded.notes] == ["parallelism", "delayCacheUntilActive"]
    assert config_from_dict(None).notes == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [", "f.yaml: not valid YAML: "),
        ("- a", "f.yaml:1: the configuration: expected a KubeSchedulerConfiguration, got list"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration",
            "f.yaml:1: apiVersion: expected 'kubescheduler.config.k8s.io/v1', got 'kubescheduler.config.k8s.io/v1beta3'",
        ),
        ("kind: Pod", "f.yaml:1: kind: expected 'KubeSchedulerConfiguration', got 'Pod'"),
        (
            "kind: KubeSchedulerConfiguration",
            "f.yaml:1: apiVersion: is missing; expected 'kubescheduler.config.k8s.io/v1'",
        ),
        ("", "f.yaml: the configuration: expected a KubeSchedulerConfiguration, got nothing"),
    ],
)
def test_what_is_no_configuration_at_all_is_refused(text, expected):
    with pytest.raises(ConfigError) as caught:
        load_config(text, "f.yaml")
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [("15s", 15.0), ("1m30s", 90.0), ("1.5h", 5400.0), ("100ms", 0.1), ("0", 0.0), ("-2s", -2.0), ("1h2m3s", 3723.0)],
)
def test_durations_are_gos(text, value):
    assert Duration.parse(text).seconds == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "5", "s", "1x", "1m 30s", "1,5s"])
def test_other_durations_are_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0s"), (0.02, "20ms"), (1.5, "1.5s"), (90, "1m30s"), (3600, "1h0m0s"), (900, "15m0s"), (2e-6, "2µs")],
)
def test_durations_are_printed_as_go_does(value, text):
    assert go_duration(value) == text
