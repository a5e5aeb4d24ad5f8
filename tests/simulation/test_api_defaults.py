"""What the API server would have filled in, as far as scheduling sees it."""

import copy

import pytest

from schedcache.simulation.admission import Admission
from schedcache.simulation.api_defaults import with_api_defaults


def defaulted(spec, *, labels=None, objects=()):
    pod = {"kind": "Pod", "metadata": {"name": "p", "labels": labels or {}}, "spec": spec}
    before = copy.deepcopy(pod)
    made = with_api_defaults(pod, Admission(objects))
    assert pod == before
    assert with_api_defaults(made, Admission(objects)) == made
    return made


def container(**resources):
    return {"name": "c", "resources": resources}


def test_requests_come_from_limits_where_they_are_missing():
    spec = {
        "containers": [container(limits={"cpu": "1", "memory": "1Gi"}, requests={"cpu": "500m"})],
        "initContainers": [container(limits={"cpu": "2"})],
    }
    made = defaulted(spec)["spec"]
    assert made["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert made["initContainers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_names_phase_and_scheduler():
    made = defaulted({"containers": []})
    assert made["metadata"]["namespace"] == "default"
    assert made["metadata"]["uid"]
    assert made["status"]["phase"] == "Pending"
    assert (made["spec"]["schedulerName"], made["spec"]["priority"]) == ("default-scheduler", 0)


@pytest.mark.parametrize(("host_network", "expected"), [(True, 80), (False, None)])
def test_host_ports_of_a_pod_on_the_host_network(host_network, expected):
    spec = {"hostNetwork": host_network, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
    [port] = defaulted(spec)["spec"]["containers"][0]["ports"]
    assert (port.get("hostPort"), port["protocol"]) == (expected, "TCP")


@pytest.mark.parametrize(
    ("resources", "containers", "expected"),
    [
        (
            {"limits": {"cpu": "2"}},
            [container(requests={"cpu": "300m"}), container(requests={"cpu": "1"})],
            {"cpu": "1300m"},
        ),
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, [container()], {"cpu": "2", "memory": "1Gi"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, [container(requests={"cpu": "300m"})], {"cpu": "1"}),
        ({"requests": {"cpu": "1"}}, [container(requests={"memory": "1Gi"})], {"cpu": "1"}),
        (
            {"limits": {"cpu": "1"}},
            [container(limits={"hugepages-2Mi": "4Mi"}), container(limits={"hugepages-2Mi": "2Mi"})],
            {"cpu": "1", "hugepages-2Mi": "6291456"},
        ),
    ],
)
def test_pod_level_requests(resources, containers, expected):
    made = defaulted({"resources": resources, "containers": containers})["spec"]
    assert made["resources"]["requests"] == expected


def test_pod_level_requests_need_pod_level_resources():
    assert "resources" not in defaulted({"containers": [container(limits={"cpu": "1"})]})["spec"]


def test_priority_comes_from_the_class():
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    usual = {"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7, "globalDefault": True}
    objects = [high, usual]
    assert defaulted({"priorityClassName": "high"}, objects=objects)["spec"]["priority"] == 1000
    assert defaulted({}, objects=objects)["spec"]["priority"] == 7
    assert defaulted({"priority": 3}, objects=objects)["spec"]["priority"] == 3
    assert defaulted({"priorityClassName": "system-node-critical"})["spec"]["priority"] == 2_000_001_000
    assert "priority" not in defaulted({"priorityClassName": "unheard-of"})["spec"]


def test_label_keys_become_part_of_the_selectors_once():
    term = {"topologyKey": "z", "labelSelector": {"matchLabels": {"app": "a"}}}
    spec = {
        "topologySpreadConstraints": [{**term, "matchLabelKeys": ["hash", "absent"]}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{**term, "mismatchLabelKeys": ["hash"]}],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "z", "matchLabelKeys": ["hash"]}}
                ],
            }
        },
    }
    made = defaulted(spec, labels={"hash": "1"})["spec"]
    expression = {"key": "hash", "operator": "In", "values": ["1"]}
    assert made["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [expression]
    apart = made["affinity"]["podAntiAffinity"]
    required = apart["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]
    assert required["matchExpressions"] == [{**expression, "operator": "NotIn"}]
    assert "labelSelector" not in apart["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]


@pytest.mark.parametrize(
    ("obj", "path", "expected"),
    [
        ({"kind": "Node", "status": {"capacity": {"cpu": "1"}}}, ("status", "allocatable"), {"cpu": "1"}),
        ({"kind": "PersistentVolumeClaim", "spec": {}}, ("spec", "volumeMode"), "Filesystem"),
        ({"kind": "PersistentVolume", "spec": {"volumeMode": "Block"}}, ("spec", "volumeMode"), "Block"),
        ({"kind": "StorageClass"}, ("volumeBindingMode",), "Immediate"),
        ({"kind": "Namespace"}, ("metadata", "labels"), {"kubernetes.io/metadata.name": "x"}),
    ],
)
def test_other_kinds(obj, path, expected):
    found = with_api_defaults({**obj, "metadata": {"name": "x"}}, Admission())
    for step in path:
        found = found[step]
    assert found == expected
