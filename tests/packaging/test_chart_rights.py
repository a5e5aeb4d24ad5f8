"""The rendered rights follow the profiles: what their plugins read and write, and nothing else."""

import itertools

import pytest

from schedcache.app.program import assembled
from schedcache.app.settings import Settings
from schedcache.config import config_from_dict
from schedcache.config.defaults import default_plugin_names
from schedcache.kube.watch.kinds import KINDS
from tests.packaging.helm import CHART, CI_VALUES, of_kind, one, render

READ = {"list", "watch"}
WRITES = {
    "DefaultBinder": {("", "pods/binding", "create")},
    "VolumeBinding": {("", "persistentvolumes", "patch"), ("", "persistentvolumeclaims", "patch")},
    "DefaultPreemption": {("", "pods", "delete")},
    "": {
        # Where a bind had no clear answer, the pod is read.
        ("", "pods", "get"),
        ("", "pods/status", "patch"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
    },
}
"""By plugin, what it does besides reading; "": what the scheduler does whatever the plugins are."""
VOLUME_PLUGINS = ("VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits")
pytestmark = pytest.mark.usefixtures("helm_built")


def rights(objects):
    return {
        (group, resource, verb)
        for rule in one("ClusterRole", objects)["rules"]
        for group, resource, verb in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def disabling(*names, **points):
    sets = {"multiPoint": {"disabled": [{"name": name} for name in names]}, **points}
    return {"profiles": [{"schedulerName": "x", "plugins": sets}]}


def enabled(*names):
    return {"enabled": [{"name": name} for name in names]}


ESSENTIAL = {"queueSort": enabled("PrioritySort"), "bind": enabled("DefaultBinder")}
CONFIGURATIONS = {
    "default": {},
    "no-preemption": disabling("DefaultPreemption"),
    "no-volumes": disabling(*VOLUME_PLUGINS),
    **{f"no-{name}": disabling(name) for name in (*VOLUME_PLUGINS, "PodTopologySpread", "InterPodAffinity")},
    **{
        f"of-volumes-only-{name}": disabling(*(other for other in VOLUME_PLUGINS if other != name))
        for name in VOLUME_PLUGINS
    },
    "nothing": disabling("*", **ESSENTIAL),
    "nothing-but-fit": disabling("*", **ESSENTIAL, filter=enabled("NodeResourcesFit"), preFilter=enabled("NodeResourcesFit")),
    "disabled-and-enabled-at-a-point": disabling("VolumeZone", filter=enabled("VolumeZone")),
    "one-of-two-profiles": {
        "profiles": [
            {"schedulerName": "x", "plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}},
            {"schedulerName": "y", "plugins": {"multiPoint": {"disabled": [{"name": n} for n in VOLUME_PLUGINS]}}},
        ]
    },
}  # fmt: skip


async def used(configuration, kubeconfig):
    """What a scheduler with this configuration does, by group, resource and verb."""
    config = config_from_dict(configuration or {"profiles": [{"schedulerName": "x"}]}).config
    async with assembled(Settings(configuration=config, kubeconfig=str(kubeconfig))) as program:
        watched = {(KINDS[kind].group, KINDS[kind].plural) for kind in program.source.ages()}
        plugins = {name for framework in program.scheduler.frameworks.values() for name in framework.plugins}
    reads = {(group, resource, verb) for (group, resource) in watched for verb in READ}
    return reads.union(*(writes for plugin, writes in WRITES.items() if not plugin or plugin in plugins))


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
async def test_the_role_has_what_the_plugins_use_and_nothing_else(configuration, unreachable_kubeconfig):
    granted = rights(render({"kubeSchedulerConfiguration": configuration}))
    assert granted == await used(configuration, unreachable_kubeconfig)


def test_the_chart_knows_the_default_plugins():
    listed = (CHART / "templates" / "_plugins.tpl").read_text().partition("list ")[2].partition("}}")[0]
    assert set(listed.replace('"', "").split()) == default_plugin_names()


def test_an_observer_reads_nodes_and_pods():
    objects = render(CHART / "ci" / "observer-values.yaml")
    assert rights(objects) == {("", kind, verb) for kind in ("nodes", "pods") for verb in READ}
    assert of_kind("Role", objects) == []


def test_rules_can_be_added():
    rules = one("ClusterRole", render(CHART / "ci" / "plugins-values.yaml"))["rules"]
    assert rules[-1] == {"apiGroups": ["example.com"], "resources": ["windows"], "verbs": ["list", "watch"]}


@pytest.mark.parametrize("values", [None, *CI_VALUES], ids=lambda path: path.stem if path else "default")
def test_no_rule_has_a_wildcard_and_all_are_bound_to_the_account(values):
    objects = render(values)
    for role in (*of_kind("ClusterRole", objects), *of_kind("Role", objects)):
        for rule in role["rules"]:
            assert not any("*" in text for texts in rule.values() for text in texts)
    account = one("Deployment", objects)["spec"]["template"]["spec"]["serviceAccountName"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}
    for binding in (*of_kind("ClusterRoleBinding", objects), *of_kind("RoleBinding", objects)):
        assert (binding["subjects"] == [subject]) == (not binding["metadata"]["name"].endswith("-dump-reader"))


def test_reviews_are_asked_for_only_where_https_is_served():
    assert not any(
        "auth" in item["metadata"]["name"] for item in render({"tls": {"enabled": False}}) if "Binding" in item["kind"]
    )
    objects = render(CHART / "ci" / "tls-self-signed-values.yaml")
    bound = {item["roleRef"]["name"] for item in objects if item["kind"] in ("ClusterRoleBinding", "RoleBinding")}
    assert bound >= {"system:auth-delegator", "extension-apiserver-authentication-reader"}
    (lookup,) = [item for item in of_kind("RoleBinding", objects) if item["metadata"]["name"].endswith("-auth-reader")]
    assert lookup["metadata"]["namespace"] == "kube-system"


def test_readers_of_the_dump_have_a_role_of_their_own():
    objects = render(CHART / "ci" / "tls-self-signed-values.yaml")
    (role,) = [item for item in of_kind("ClusterRole", objects) if item["metadata"]["name"] == "schedcache-dump-reader"]
    assert role["rules"] == [{"nonResourceURLs": ["/dump", "/compare"], "verbs": ["get"]}]
    (binding,) = [
        item for item in of_kind("ClusterRoleBinding", objects) if item["roleRef"]["name"] == role["metadata"]["name"]
    ]
    assert binding["subjects"] == [{"kind": "Group", "name": "platform", "apiGroup": "rbac.authorization.k8s.io"}]
