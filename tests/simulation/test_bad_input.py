"""What cannot be read is named: the object, the field, and what was expected there."""

import pytest

from schedcache.model import MalformedObjectError
from schedcache.simulation import simulate

NODE = {
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}},
}
POD = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}


@pytest.mark.parametrize("obj", ["text", 7, None, ["Node"]])
def test_an_object_must_have_fields(obj):
    with pytest.raises(MalformedObjectError, match=r"^object without name: expected fields and values, got "):
        simulate(objects=[NODE, obj], pod=POD)
    with pytest.raises(MalformedObjectError, match=r"^Pod without name: expected fields and values, got "):
        simulate(objects=[NODE], pod=obj)
    with pytest.raises(
        MalformedObjectError, match=r"^item of a PodList without name: expected fields and values, got "
    ):
        simulate(objects=[{"kind": "PodList", "items": [obj]}], pod=POD)


@pytest.mark.parametrize("metadata", [None, {}, {"name": ""}, {"namespace": "ns", "uid": "u"}])
def test_a_pod_must_have_a_name(metadata):
    nameless = {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "a", "containers": []}}
    for objects, pod in (([NODE, nameless], POD), ([NODE], nameless), ([NODE, {"spec": {}, "kind": "Pod"}], POD)):
        with pytest.raises(MalformedObjectError, match=r"^Pod without name: metadata\.name: is missing$"):
            simulate(objects=objects, pod=pod)


def test_a_name_that_the_api_server_would_complete_is_one():
    pod = {**POD, "metadata": {"generateName": "web-"}}
    assert simulate(objects=[NODE, {**pod, "kind": "Pod"}], pod=pod)["feasible"] == ["a"]


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("status", "allocatable", "cpu"), "4 cores", r"Node a: status\.allocatable\.cpu: '4 cores' is not a quantity"),
        (("status", "allocatable"), [], r"Node a: status\.allocatable: expected `object \| null`, got `array`"),
        (("spec", "taints"), "NoSchedule", r"Node a: spec\.taints: expected `array \| null`, got `str`"),
        (("metadata", "labels"), {"zone": 1}, r"Node a: metadata\.labels\[\.\.\.\]: expected `str \| null`, got `int`"),
    ],
)
def test_a_field_is_named_with_its_path(path, value, told):
    node = {"kind": "Node", "metadata": {"name": "a"}, "spec": {}, "status": {"allocatable": {}}}
    place = node
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(MalformedObjectError, match=f"^{told}"):
        simulate(objects=[node], pod=POD)


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "example.com/gpu"])
def test_absurd_amounts_keep_only_their_own_node_full(resource):
    absurd = [{"name": "c", "resources": {"requests": {resource: "9E"}}}]
    nodes = [
        {
            **NODE,
            "metadata": {"name": name},
            "status": {"allocatable": {**NODE["status"]["allocatable"], resource: "4"}},
        }
        for name in ("a", "b", "c")
    ]
    pods = [
        {"kind": "Pod", "metadata": {"name": f"{node}{i}"}, "spec": {"nodeName": node, "containers": absurd}}
        for node in ("a",)
        for i in range(3)
    ]
    pods += [
        {
            "kind": "Pod",
            "metadata": {"name": f"nominated-{i}"},
            "spec": {"containers": absurd, "schedulerName": "default-scheduler"},
            "status": {"nominatedNodeName": "b"},
        }
        for i in range(3)
    ]
    asking = {**POD, "spec": {"containers": [{"name": "c", "resources": {"requests": {resource: "1"}}}]}}
    assert simulate(objects=nodes + pods, pod=asking)["feasible"] == ["c"]
    assert simulate(objects=nodes, pod=pods[-1])["feasible"] == []
