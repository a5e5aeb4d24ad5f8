"""check-config finds what run would stumble over, and prints what a file amounts to."""

import pytest

from schedcache.app.plugins import watched_kinds
from schedcache.cache import ClusterObjects
from schedcache.cli import main
from schedcache.config import config_from_dict
from schedcache.framework import EventHint, Framework, Handle, PluginSetError, Registry
from schedcache.plugins.default_plugins import default_registry
from schedcache.queue import Nominator

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def check(tmp_path, capsys):
    def checked(text):
        file = tmp_path / "config.yaml"
        file.write_text(HEADER + text)
        status = main(["check-config", str(file)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err.replace(str(file), "FILE")

    return checked


def test_a_sound_file_is_printed_and_can_be_checked_again(check):
    status, out, _ = check("profiles: [{schedulerName: mine}]\n")
    assert (status, "schedulerName: mine" in out) == (0, True)
    again = check(out.removeprefix(HEADER))
    assert again == (0, out, again[2])


def test_what_does_nothing_here_is_noted(check):
    status, _, err = check("parallelism: 4\n")
    assert status == 0
    assert "note: parallelism: " in err


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            "plugins: {score: {enabled: [{name: NodeResourceFit}]}}",
            "FILE:3: profiles[0].plugins.score.enabled[0].name: there is no plugin 'NodeResourceFit'; did you mean 'NodeResourcesFit'?",
        ),
        (
            "plugins: {filter: {enabled: [{name: ImageLocality}]}}",
            "profile 'x': plugin 'ImageLocality' does not take part in filter",
        ),
        (
            "plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            "profile 'x': plugin 'NodeName' is enabled twice at preFilter",
        ),
        ("plugins: {queueSort: {disabled: [{name: '*'}]}}", "profile 'x' needs one queue sort plugin, it has 0"),
        ("plugins: {bind: {disabled: [{name: '*'}]}}", "profile 'x' needs at least one bind plugin"),
        (
            "plugins: {score: {enabled: [{name: ImageLocality, weight: 9223372036854775807}]}}",
            "FILE:3: profiles[0].plugins.score.enabled[0].weight: expected `int` <= 2147483647",
        ),
    ],
)
def test_a_profile_that_cannot_run_is_refused(check, profile, said):
    status, out, err = check(f"profiles: [{{schedulerName: x, {profile}}}]\n")
    assert (status, out) == (2, "")
    assert said in err


class Foreign:
    name = "Foreign"

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, view):
        raise NotImplementedError


class ReadsConfigMaps(Foreign):
    kinds = ("ConfigMap",)


class WaitsFor(Foreign):
    resource = "Nodes"

    def events_to_register(self):
        return [EventHint(self.resource, ("Add",))]


def with_foreign(plugin):
    plugins = {"multiPoint": {"enabled": [{"name": "Foreign"}]}}
    [profile] = config_from_dict({"profiles": [{"plugins": plugins}]}).config.profiles
    registry = Registry({**default_registry(), "Foreign": plugin})
    return Framework(profile, registry, Handle(cluster_objects=ClusterObjects(), nominator=Nominator()))


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (ReadsConfigMaps, "'Foreign' reads objects of kind 'ConfigMap'; expected one of CSI"),
        (WaitsFor, "'Foreign' waits for events of 'Nodes', which never come; expected one of CSI"),
    ],
)
def test_a_plugin_that_reads_or_waits_for_what_cannot_be_watched_is_named(plugin, said):
    with pytest.raises(PluginSetError, match=said):
        watched_kinds(with_foreign(plugin))


@pytest.mark.parametrize("resource", ["Pod", "AssignedPod", "TargetPod", "StorageClass", "*"])
def test_a_plugin_may_wait_for_what_is_watched(resource):
    watched_kinds(with_foreign(type("Waits", (WaitsFor,), {"resource": resource})))
