"""What the chart makes of its values: valid objects for several Kubernetes, restricted pods, and a clear no to wrong values."""

import json

import jsonschema
import kubernetes_validate
import pytest
import yaml

import schedcache
from schedcache.cli.commands import make_parser
from schedcache.cli.flag_settings import settings_of
from schedcache.config import load_config
from tests.packaging import pages
from tests.packaging.helm import (
    CHART,
    CI_VALUES,
    HelmError,
    container,
    helm,
    is_hook,
    of_kind,
    one,
    pod_spec,
    render,
)

KUBERNETES = ("1.33", "1.35", "1.37")
TLS_VALUES = [path for path in CI_VALUES if path.name.startswith("tls-")]
pytestmark = pytest.mark.usefixtures("helm_built")
each_values = pytest.mark.parametrize("values", [None, *CI_VALUES], ids=lambda path: path.stem if path else "default")

ENDPOINT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["port", "path", "scheme"],
    "properties": {
        "port": {"type": "string"},
        "scheme": {"enum": ["http", "https"]},
        "path": {"pattern": "^/"},
        "interval": {"pattern": "^[0-9]+(ms|s|m|h)$"},
        "scrapeTimeout": {"pattern": "^[0-9]+(ms|s|m|h)$"},
        "bearerTokenFile": {"type": "string"},
        "tlsConfig": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "insecureSkipVerify": {"type": "boolean"},
                "serverName": {"type": "string"},
                "ca": {"type": "object", "required": ["secret"]},
            },
        },
        "relabelings": {"type": "array"},
        "metricRelabelings": {"type": "array"},
    },
}
RULE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["alert", "expr", "labels", "annotations"],
    "properties": {
        "alert": {"type": "string"},
        "expr": {"type": "string"},
        "for": {"pattern": "^[0-9]+(s|m|h)$"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
FOREIGN = {
    "ServiceMonitor": {
        "type": "object",
        "additionalProperties": False,
        "required": ["selector", "endpoints"],
        "properties": {
            "selector": {"required": ["matchLabels"]},
            "namespaceSelector": {"required": ["matchNames"]},
            "endpoints": {"type": "array", "minItems": 1, "items": ENDPOINT},
        },
    },
    "PrometheusRule": {
        "type": "object",
        "additionalProperties": False,
        "required": ["groups"],
        "properties": {
            "groups": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name", "rules"],
                    "properties": {"name": {"type": "string"}, "rules": {"type": "array", "items": RULE}},
                },
            }
        },
    },
    "Certificate": {
        "type": "object",
        "additionalProperties": False,
        "required": ["secretName", "issuerRef", "dnsNames"],
        "properties": {
            "secretName": {"type": "string"},
            "dnsNames": {"type": "array", "minItems": 1},
            "usages": {"type": "array"},
            "privateKey": {"type": "object"},
            "issuerRef": {"type": "object", "required": ["name", "kind"]},
        },
    },
}
"""Kinds that are not Kubernetes' own: as much of their spec's schema as the chart uses."""


def test_lint_has_no_complaint():
    values = [argument for path in CI_VALUES for argument in ("--values", path)]
    for arguments in ([], *(values[n : n + 2] for n in range(0, len(values), 2))):
        helm("lint", "--strict", "--quiet", CHART, *arguments)


@pytest.mark.parametrize("version", KUBERNETES)
@each_values
def test_every_object_keeps_to_the_schema_of_its_kind(values, version):
    for found in render(values):
        if found["kind"] in FOREIGN:
            jsonschema.validate(found["spec"], FOREIGN[found["kind"]])
        else:
            kubernetes_validate.validate(found, version, strict=True)


def test_each_kind_of_object_is_made_by_some_values():
    kinds = {found["kind"] for values in [None, *CI_VALUES] for found in render(values)}
    assert kinds >= FOREIGN.keys() | {
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "FlowSchema", "Lease", "NetworkPolicy", "Pod",
        "PodDisruptionBudget", "PriorityLevelConfiguration", "Role", "RoleBinding", "Service", "ServiceAccount",
    }  # fmt: skip


@each_values
def test_no_two_objects_have_one_name_and_all_have_the_labels(values):
    objects = render(values, namespace="elsewhere")
    names = [(found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"]) for found in objects]
    assert len(names) == len(set(names))
    ours = [found for found in objects if not found["metadata"]["name"].endswith(("-extra", "-text"))]
    for found in ours:
        assert found["metadata"]["labels"].items() >= {"app.kubernetes.io/instance": "schedcache"}.items()
        # What lets it read a ConfigMap of the API server's is where that is.
        there = "kube-system" if found["metadata"]["name"].endswith("-auth-reader") else "elsewhere"
        assert found["metadata"].get("namespace", there) == there


@each_values
def test_pods_keep_to_the_restricted_standard_and_have_no_token_that_they_do_not_need(values):
    objects = render(values)
    specs = [pod_spec(objects), *(found["spec"] for found in objects if found["kind"] == "Pod")]
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert not any("hostPath" in volume for volume in spec.get("volumes", ()))
        assert ("serviceAccountName" in spec) == (spec.get("automountServiceAccountToken") is not False)
        for one_container in spec["containers"]:
            assert one_container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert one_container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert "cpu" not in one_container["resources"].get("limits", {})


@each_values
def test_it_never_schedules_itself(values):
    objects = render(values)
    assert pod_spec(objects)["schedulerName"] == "default-scheduler"


def settings(values, tmp_path):
    """What `schedcache run` makes of the rendered flags, with the rendered configuration where there is one."""
    objects = render(values)
    command, *flags = container(objects)["args"]
    assert command == "run"
    configs = [found for found in of_kind("ConfigMap", objects) if found["metadata"]["name"].endswith("-config")]
    for found in configs:
        (tmp_path / "config.yaml").write_text(found["data"]["config.yaml"])
    mounted = [f"--config={tmp_path}/config.yaml" if flag.startswith("--config=") else flag for flag in flags]
    if not configs:
        mounted = [flag for flag in mounted if not flag.startswith("--config=")]
    return settings_of(make_parser().parse_args([command, *mounted]))


@pytest.mark.parametrize(
    "values",
    [None, *(path for path in CI_VALUES if "plugins" not in path.name)],
    ids=lambda path: path.stem if path else "default",
)
def test_the_program_takes_the_flags_and_the_configuration(values, tmp_path):
    found = settings(values, tmp_path)
    observes = "--observe" in container(render(values))["args"]
    assert [profile.scheduler_name for profile in found.profiles] == [] if observes else found.profiles


def test_values_become_flags(tmp_path):
    found = settings(CHART / "ci" / "everything-values.yaml", tmp_path)
    assert [profile.scheduler_name for profile in found.profiles] == ["batch"]
    assert (found.qps, found.burst) == (200, 400)
    election = found.leader_election
    assert (election.lease_duration_seconds, election.renew_deadline_seconds, election.retry_period_seconds) == (
        30,
        20,
        4,
    )


def test_several_profiles_and_extenders_come_from_the_inline_configuration(tmp_path):
    found = settings(CHART / "ci" / "profiles-values.yaml", tmp_path)
    assert [profile.scheduler_name for profile in found.profiles] == ["pack", "plain"]
    assert [extender.url_prefix for extender in found.configuration.extenders] == ["https://extender.example.com"]
    assert found.leader_election.resource_name == "packing"


def test_a_changed_configuration_makes_new_pods():
    def checksum(name):
        values = {"kubeSchedulerConfiguration": {"profiles": [{"schedulerName": name}]}}
        return one("Deployment", render(values))["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum("one") != checksum("two")


def test_an_inline_configuration_says_by_itself_what_it_is():
    objects = render({"kubeSchedulerConfiguration": {"profiles": [{"schedulerName": "one"}]}})
    (found,) = of_kind("ConfigMap", objects)
    assert load_config(found["data"]["config.yaml"], "config.yaml").config.profiles[0].scheduler_name == "one"


def test_a_configuration_of_somebody_else_is_mounted_and_read():
    objects = render(CHART / "ci" / "existing-config-values.yaml")
    assert "--config=/etc/schedcache/scheduler.yaml" in container(objects)["args"]
    assert {"name": "config", "configMap": {"name": "schedulers"}} in pod_spec(objects)["volumes"]
    assert of_kind("ServiceAccount", objects) == of_kind("ClusterRole", objects) == []
    assert pod_spec(objects)["serviceAccountName"] == "scheduler"


def test_replicas_share_the_one_lease_that_the_role_is_for(tmp_path):
    for values, lease in ((None, "schedcache"), (CHART / "ci" / "profiles-values.yaml", "packing")):
        objects = render(values)
        election = settings(values, tmp_path).leader_election
        assert (election.resource_namespace, election.resource_name) == ("kube-system", lease)
        made = one("Lease", objects)
        assert (made["metadata"]["namespace"], made["metadata"]["name"], "spec" in made) == (
            "kube-system",
            lease,
            False,
        )
        assert one("Role", objects)["rules"] == [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": [lease],
                "verbs": ["get", "update"],
            },
        ]


@pytest.mark.parametrize("name", ["minimal-values.yaml", "observer-values.yaml"])
def test_without_election_there_is_nothing_of_it(name, tmp_path):
    objects = render(CHART / "ci" / name)
    assert of_kind("Lease", objects) == of_kind("Role", objects) == of_kind("FlowSchema", objects) == []
    assert settings(CHART / "ci" / name, tmp_path).leader_election is None or "--observe" in container(objects)["args"]


def test_two_replicas_by_default_on_two_machines_and_not_drained_at_once():
    objects = render()
    deployment = one("Deployment", objects)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["replicas"] == 2
    (spread,) = pod_spec(objects)["topologySpreadConstraints"]
    selectors = [
        deployment["spec"]["selector"],
        one("PodDisruptionBudget", objects)["spec"]["selector"],
        spread["labelSelector"],
    ]
    for selector in selectors:
        assert selector["matchLabels"].items() <= labels.items()
    assert of_kind("PodDisruptionBudget", render({"replicaCount": 1})) == []


def test_nothing_of_the_chart_version_is_in_the_pods_or_their_selector():
    """A new version of the chart alone replaces no pod, and a selector cannot be changed at all."""
    deployment = one("Deployment", render())["spec"]
    texts = json.dumps([deployment["selector"], deployment["template"]["metadata"]])
    assert "helm.sh/chart" not in texts
    assert "app.kubernetes.io/version" not in texts


def test_a_spread_constraint_with_a_selector_keeps_it():
    zone, host = pod_spec(render(CHART / "ci" / "everything-values.yaml"))["topologySpreadConstraints"]
    assert zone["labelSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "schedcache"
    assert host["labelSelector"]["matchLabels"] == {"app.kubernetes.io/component": "scheduler"}


def test_requests_are_put_where_those_of_kube_scheduler_are():
    main, election = of_kind("FlowSchema", render(namespace="elsewhere"))
    subject = {"kind": "ServiceAccount", "serviceAccount": {"name": "schedcache", "namespace": "elsewhere"}}
    for schema, level in ((main, "workload-high"), (election, "leader-election")):
        assert schema["spec"]["priorityLevelConfiguration"]["name"] == level
        assert [rule["subjects"] for rule in schema["spec"]["rules"]] == [[subject]]
    # Whichever is looked at first takes the request.
    assert election["spec"]["matchingPrecedence"] < main["spec"]["matchingPrecedence"] <= 1000
    own = of_kind("FlowSchema", render(CHART / "ci" / "everything-values.yaml"))[0]
    assert own["spec"]["priorityLevelConfiguration"]["name"] == own["metadata"]["name"]


def test_wheels_are_read_from_their_volume():
    objects = render(CHART / "ci" / "plugins-values.yaml")
    (variable,) = container(objects)["env"]
    assert variable == {
        "name": "PYTHONPATH",
        "value": "/opt/schedcache:/opt/plugins/my_plugins-1.0-py3-none-any.whl:/opt/plugins/more_plugins-2.1-py3-none-any.whl",
    }
    assert {"name": "plugins", "mountPath": "/opt/plugins", "readOnly": True} in container(objects)["volumeMounts"]
    assert {"name": "plugins", "configMap": {"name": "my-plugins"}} in pod_spec(objects)["volumes"]


def test_a_digest_counts_more_than_a_tag():
    assert container(render())["image"] == f"localhost/schedcache:{schedcache.__version__}"
    assert container(render({"image": {"tag": "dev"}}))["image"] == "localhost/schedcache:dev"
    assert "@sha256:" in container(render(CHART / "ci" / "everything-values.yaml"))["image"]


def test_the_chart_is_of_the_version_of_the_program():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == schedcache.__version__


def test_names_follow_the_release():
    assert one("Deployment", render(release="schedcache-blue"))["metadata"]["name"] == "schedcache-blue"
    assert one("Deployment", render(release="blue"))["metadata"]["name"] == "blue-schedcache"
    assert one("Deployment", render({"fullnameOverride": "x"}))["metadata"]["name"] == "x"
    # The longest that Helm and labels allow.
    for found in render({"nameOverride": "n" * 63, "networkPolicy": {"enabled": True}}, release="r" * 53):
        labels = found["metadata"]["labels"]
        assert max(map(len, labels.values())) <= 63
    names = [found["metadata"]["name"] for found in render(release="r" * 53)]
    assert max(map(len, names)) <= 85
    assert all(len(found["metadata"]["name"]) <= 63 for found in render(release="r" * 53) if found["kind"] == "Pod")


def test_names_that_look_like_numbers_are_names():
    values = {"nameOverride": "789", "networkPolicy": {"enabled": True, "httpsFrom": [{"podSelector": {}}]}}
    for found in render(values, release="123", namespace="456"):
        metadata = found["metadata"]
        assert metadata.get("namespace", "456") in ("456", "kube-system")
        assert metadata["labels"]["app.kubernetes.io/instance"] == "123"
        assert all(isinstance(value, str) for value in metadata["labels"].values())
        for subject in found.get("subjects", ()):
            assert subject["namespace"] == "456"


def test_large_numbers_are_written_as_numbers():
    assert "--kube-api-burst=1000000" in container(render({"kubeApi": {"burst": 1_000_000}}))["args"]


@each_values
def test_probes_ask_the_probe_port(values):
    found = container(render(values))
    port = next(port for port in found["ports"] if port["name"] == "probes")
    assert f"--probe-port={port['containerPort']}" in found["args"]
    assert [found[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")] == [
        {"path": "/livez", "port": "probes"},
        {"path": "/livez", "port": "probes"},
        {"path": "/readyz", "port": "probes"},
    ]


def test_helm_test_has_a_pod_for_each_profile():
    def scheduled_by(values):
        pods = [found["spec"] for found in render(values) if found["kind"] == "Pod"]
        return [spec["schedulerName"] for spec in pods if "schedulerName" in spec]

    assert scheduled_by(None) == ["schedcache"]
    assert scheduled_by(CHART / "ci" / "profiles-values.yaml") == ["pack", "plain"]
    assert scheduled_by(CHART / "ci" / "observer-values.yaml") == []
    assert not any(map(is_hook, render(CHART / "ci" / "minimal-values.yaml")))


@pytest.mark.parametrize("values", TLS_VALUES, ids=lambda path: path.stem)
def test_what_helm_test_makes_for_the_dump_goes_away(values):
    hooks = [found for found in render(values) if is_hook(found)]
    assert [hook["kind"] for hook in hooks].count("Pod") == 3
    for hook in hooks:
        policy = hook["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert {"before-hook-creation", "hook-succeeded"} <= set(policy)
        # Of what failed only the pods stay, with their logs; nobody goes on having rights.
        assert ("hook-failed" in policy) == (hook["kind"] != "Pod")


def test_without_a_role_for_readers_nothing_tests_reading():
    objects = render({"rbac": {"create": False}})
    assert not [found for found in objects if "rbac" in found["apiVersion"]]
    pods = [found["metadata"]["name"] for found in objects if found["kind"] == "Pod"]
    assert pods == ["schedcache-test-anonymous", "schedcache-test-0"]


def test_the_scripts_of_helm_test_are_python():
    for hook in render(TLS_VALUES[0]):
        for one_container in hook["spec"]["containers"] if hook["kind"] == "Pod" else ():
            assert one_container["command"] == ["python3", "-c"]
            (script,) = one_container["args"]
            compile(script, hook["metadata"]["name"], "exec")


def test_without_https_nothing_is_reachable_but_probes():
    objects = render({"networkPolicy": {"enabled": True}, "tls": {"enabled": False}})
    assert of_kind("Service", objects) == []
    assert [port["name"] for port in container(objects)["ports"]] == ["probes"]
    (rule,) = one("NetworkPolicy", objects)["spec"]["ingress"]
    assert rule == {"ports": [{"port": 8081, "protocol": "TCP"}]}


def test_who_may_reach_the_https_port_can_be_limited():
    _, rule = one("NetworkPolicy", render(CHART / "ci" / "tls-self-signed-values.yaml"))["spec"]["ingress"]
    assert rule["ports"] == [{"port": 10259, "protocol": "TCP"}]
    tests, monitoring = rule["from"]
    assert tests["podSelector"]["matchLabels"]["app.kubernetes.io/name"] == "schedcache-test"
    assert monitoring == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def test_prometheus_finds_the_https_port_and_verifies_what_it_can():
    objects = render(CHART / "ci" / "tls-cert-manager-values.yaml")
    service, monitor = one("Service", objects), one("ServiceMonitor", objects)["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    certificate = one("Certificate", objects)["spec"]
    assert endpoint["tlsConfig"]["serverName"] in certificate["dnsNames"]
    assert endpoint["tlsConfig"]["ca"]["secret"]["name"] == certificate["secretName"]
    assert {"name": "certificate", "secret": {"secretName": certificate["secretName"]}} in pod_spec(objects)["volumes"]
    (self_signed,) = one("ServiceMonitor", render(CHART / "ci" / "tls-self-signed-values.yaml"))["spec"]["endpoints"]
    assert self_signed["tlsConfig"] == {"insecureSkipVerify": True}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"observ": True}, "additional properties 'observ' not allowed"),
        ({"image": {"pullpolicy": "Always"}}, "at '/image': additional properties 'pullpolicy' not allowed"),
        ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy': value must be one of"),
        ({"image": {"digest": "sha256:abc"}}, "at '/image/digest'"),
        ({"replicaCount": "two"}, "at '/replicaCount': got string, want integer"),
        ({"replicaCount": -1}, "at '/replicaCount'"),
        ({"schedulerName": "no: yes"}, "at '/schedulerName'"),
        ({"kubeSchedulerConfiguration": {"percentageOfNodesToScore": 5}}, "missing property 'profiles'"),
        ({"kubeSchedulerConfiguration": {"profiles": [{}]}}, "missing property 'schedulerName'"),
        (
            {"kubeSchedulerConfiguration": {"profiles": [{"schedulerName": "x"}], "leaderElection": {}}},
            "at '/kubeSchedulerConfiguration/leaderElection'",
        ),
        ({"plugins": {"wheels": ["native-1.0-cp311-cp311-linux_x86_64.whl"]}}, "at '/plugins/wheels/0'"),
        ({"plugins": {"wheels": ["a-1-py3-none-any.whl"]}}, "plugins.volume: needed for plugins.wheels"),
        ({"leaderElection": {"enabled": False}}, "replicaCount: 2 replicas would all schedule at once"),
        ({"leaderElection": {"leaseDuration": "15"}}, "at '/leaderElection/leaseDuration'"),
        (
            {"existingConfigMap": {"name": "x"}, "kubeSchedulerConfiguration": {"profiles": [{"schedulerName": "x"}]}},
            "existingConfigMap.name: there is a kubeSchedulerConfiguration as well",
        ),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name: needed if serviceAccount.create is false"),
        (
            {"serviceMonitor": {"enabled": True}, "tls": {"enabled": False}},
            "serviceMonitor.enabled: needs tls.enabled",
        ),
        ({"tls": {"certManager": {"enabled": True}}}, "tls.certManager.issuerRef.name: needed"),
        (
            {"tls": {"existingSecret": "x", "certManager": {"enabled": True, "issuerRef": {"name": "y"}}}},
            "tls.existingSecret: cert-manager makes one",
        ),
        ({"extraArgs": ["observe"]}, "at '/extraArgs/0'"),
        ({"nameOverride": "a: b"}, "at '/nameOverride'"),
        ({"fullnameOverride": "1a"}, "at '/fullnameOverride'"),
        ({"leaderElection": {"resourceName": "a: b"}}, "at '/leaderElection/resourceName'"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_by_name(values, message):
    with pytest.raises(HelmError) as refused:
        render(values)
    assert message in str(refused.value)


def test_a_kubernetes_that_nobody_has_tried_is_refused():
    with pytest.raises(HelmError, match=r"kubeVersion: >=1\.33\.0-0"):
        helm("template", "x", CHART, "--kube-version", "1.32.0")


def test_the_examples_of_the_readme_are_values_that_the_chart_takes():
    blocks = [block for block in pages.blocks("charts/schedcache/README.md") if block.language == "yaml"]
    assert len(blocks) == 3
    for block in blocks:
        assert pod_spec(render(yaml.safe_load(block.code)))


def test_the_notes_say_what_to_do_next(tmp_path):
    def notes(values):
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        output = helm(
            "install", "x", CHART, "--dry-run=client", "--namespace", "there", "--values", tmp_path / "values.yaml"
        )
        return output.partition("NOTES:")[2]

    text = notes({})
    assert "whose spec.schedulerName is schedcache." in text
    assert "helm test -n there x" in text
    assert "schedcache dump -n there -l app.kubernetes.io/instance=x" in text
    assert "kubectl -n there port-forward deployment/x-schedcache 10259" in text
    assert "Only administrators may read it yet" in text
    assert "WARNING" not in text
    assert "WARNING: default-scheduler" in notes({"schedulerName": "default-scheduler"})
    assert "schedules nothing" in notes({"observe": True})
    assert "port-forward deployment/x-schedcache 9251" in notes({"tls": {"enabled": False}, "loopbackPort": 9251})
