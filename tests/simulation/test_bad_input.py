"""What cannot be read is named: the object, the field, and what was expected there."""

from functools import partial

import pytest

from schedcache.model import MalformedObjectError
from schedcache.simulation import simulate
from schedcache.testing import node_manifest, pod_manifest

NODE = node_manifest("a")
POD = pod_manifest("p", scheduler_name="default-scheduler")


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
    node = node_manifest("a")
    place = node
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(MalformedObjectError, match=f"^{told}"):
        simulate(objects=[node], pod=POD)


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "example.com/gpu"])
def test_absurd_amounts_keep_only_their_own_node_full(resource):
    pod = partial(pod_manifest, scheduler_name="default-scheduler")
    nodes = [node_manifest(name, capacity={resource: "4"}) for name in ("a", "b", "c")]
    pods = [pod(f"a{i}", "a", requests={resource: "9E"}) for i in range(3)]
    pods += [pod(f"nominated-{i}", requests={resource: "9E"}, nominated="b") for i in range(3)]
    asking = pod("asking", requests={resource: "1"})
    assert simulate(objects=nodes + pods, pod=asking)["feasible"] == ["c"]
    assert simulate(objects=nodes, pod=pods[-1])["feasible"] == []
