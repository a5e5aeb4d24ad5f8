"""What deploy/ puts into a cluster: valid for the API server, restricted, and with no right beyond those that are used."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import kubernetes_validate
import pytest
import yaml

import schedcache
from schedcache.cli.commands import make_parser
from schedcache.cli.flag_settings import settings_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "deploy").rglob("*.yaml"))
KUBERNETES = "1.37"
IMAGE = f"localhost/schedcache:{schedcache.__version__}"

READ = {"list", "watch"}
READ_BY_PLUGINS = {
    "": ("namespaces", "services", "replicationcontrollers", "persistentvolumes", "persistentvolumeclaims"),
    "apps": ("replicasets", "statefulsets"),
    "storage.k8s.io": ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
    "policy": ("poddisruptionbudgets",),
}
SCHEDULER_RIGHTS = {
    ("", "nodes"): READ,
    # Where a bind had no clear answer, the pod is read.
    ("", "pods"): READ | {"get", "delete"},
    **{(group, resource): READ for group, resources in READ_BY_PLUGINS.items() for resource in resources},
    # Which volume a claim is to have, and for which node one is to be made.
    ("", "persistentvolumes"): READ | {"patch"},
    ("", "persistentvolumeclaims"): READ | {"patch"},
    ("", "pods/binding"): {"create"},
    ("", "pods/status"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}
OBSERVER_RIGHTS = {("", "nodes"): READ, ("", "pods"): READ}


def documents(*paths: pathlib.Path) -> list[dict[str, Any]]:
    return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str, *paths: pathlib.Path) -> list[dict[str, Any]]:
    return [document for document in documents(*paths) if document["kind"] == kind]


def one(kind: str, folder: str) -> dict[str, Any]:
    """Of the object that runs and what it needs; who may ask it is in a file of its own."""
    files = [path for path in FILES if path.parent.name == folder and path.name != "access.yaml"]
    (found,) = of_kind(kind, *files)
    return found


def rights(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in role["rules"]:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    return granted


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_object_keeps_to_the_schema_of_its_kind(path):
    for document in documents(path):
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_the_schema_check_sees_a_misspelt_field():
    deployment = one("Deployment", "scheduler")
    deployment["spec"]["template"]["spec"]["serviceAcountName"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES, strict=True)


def test_yamllint_has_no_complaint():
    done = subprocess.run(
        [sys.executable, "-m", "yamllint", "--strict", "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("folder", "expected"), [("scheduler", SCHEDULER_RIGHTS), ("observe", OBSERVER_RIGHTS)])
def test_the_role_grants_what_is_used_and_nothing_else(folder, expected):
    assert rights(one("ClusterRole", folder)) == expected


def test_no_role_has_a_wildcard():
    roles = [role for kind in ("ClusterRole", "Role") for role in of_kind(kind, *FILES)]
    assert len(roles) == 5
    for role in roles:
        assert "*" not in json.dumps(role["rules"])


@pytest.mark.parametrize("folder", ["scheduler", "observe"])
def test_the_deployment_runs_as_the_account_that_holds_the_role(folder):
    account, binding, role = (one(kind, folder) for kind in ("ServiceAccount", "ClusterRoleBinding", "ClusterRole"))
    name, namespace = account["metadata"]["name"], account["metadata"]["namespace"]
    deployment = one("Deployment", folder)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert deployment["metadata"]["namespace"] == namespace
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == name


def pod_specs() -> list[Any]:
    return [
        pytest.param(deployment["spec"]["template"]["spec"], id=deployment["metadata"]["name"])
        for deployment in of_kind("Deployment", *FILES)
    ]


@pytest.mark.parametrize("spec", pod_specs())
def test_pods_keep_to_the_restricted_pod_security_standard(spec):
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & spec.keys()
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("spec", pod_specs())
def test_images_are_the_one_that_is_built_and_never_pulled_anew(spec):
    for container in spec["containers"]:
        assert container["image"] == IMAGE
        assert container["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize("folder", ["scheduler", "observe"])
def test_probes_ask_the_probe_port(folder):
    (container,) = one("Deployment", folder)["spec"]["template"]["spec"]["containers"]
    port, secure = (next(p for p in container["ports"] if p["name"] == name) for name in ("probes", "https"))
    assert f"--probe-port={port['containerPort']}" in container["args"]
    assert f"--secure-port={secure['containerPort']}" in container["args"]
    paths = {probe: container[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {
        "startupProbe": {"path": "/livez", "port": port["name"]},
        "livenessProbe": {"path": "/livez", "port": port["name"]},
        "readinessProbe": {"path": "/readyz", "port": port["name"]},
    }


@pytest.mark.parametrize("folder", ["scheduler", "observe"])
def test_nothing_is_answered_without_tls(folder):
    (container,) = one("Deployment", folder)["spec"]["template"]["spec"]["containers"]
    _, *flags = container["args"]
    settings = settings_of(make_parser().parse_args(["run", *flags]))
    assert (settings.secure_port, settings.port, settings.bind_address) == (10259, None, None)


@pytest.mark.parametrize("folder", ["scheduler", "observe"])
def test_it_may_ask_the_api_server_about_its_clients(folder):
    path = ROOT / "deploy" / folder / "access.yaml"
    (delegator,), (lookup,), (reader,) = (
        of_kind(kind, path) for kind in ("ClusterRoleBinding", "RoleBinding", "ClusterRole")
    )
    account = one("ServiceAccount", folder)["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    assert delegator["subjects"] == lookup["subjects"] == [subject]
    assert delegator["roleRef"]["name"] == "system:auth-delegator"
    assert lookup["metadata"]["namespace"] == "kube-system"
    assert lookup["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "extension-apiserver-authentication-reader",
    }
    assert reader["metadata"]["name"] == f"{account['name']}-dump-reader"
    assert reader["rules"] == [{"nonResourceURLs": ["/dump", "/compare"], "verbs": ["get"]}]


def test_two_schedulers_share_the_lease_that_their_role_is_for():
    deployment = one("Deployment", "scheduler")["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["type"] == "RollingUpdate"
    assert deployment["template"]["spec"]["schedulerName"] == "default-scheduler"
    (container,) = deployment["template"]["spec"]["containers"]
    _, *flags = container["args"]
    election = settings_of(make_parser().parse_args(["run", *flags])).leader_election
    role, binding = one("Role", "scheduler"), one("RoleBinding", "scheduler")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == election.resource_namespace
    assert role["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": [election.resource_name],
            "verbs": ["get", "update"],
        },
    ]
    account = one("ServiceAccount", "scheduler")["metadata"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]


def test_the_kind_cluster_has_three_workers_in_three_zones():
    config = yaml.safe_load((ROOT / "kind-config.yaml").read_text())
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    assert [node["role"] for node in config["nodes"]].count("control-plane") == 1
    assert len({node["labels"]["topology.kubernetes.io/zone"] for node in workers}) == len(workers) == 3
