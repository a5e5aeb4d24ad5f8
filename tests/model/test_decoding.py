"""Pods and nodes from JSON: what is kept, what null means, what is shared, and how faults are named."""

import gc
import json

import pytest

from schedcache.model import ContainerImage, MalformedObjectError, Node, OwnerRef, Pod, Taint, Toleration, Volume
from schedcache.model.kinds import CLUSTER_OBJECTS
from schedcache.testing import as_stored, make_pod, node_manifest, pod_manifest


def make(**spec):
    return Pod.from_dict(pod_manifest("p", **spec))


def test_json_and_python_values_give_the_same():
    obj = as_stored(pod_manifest("p", "n1", requests={"cpu": "1"}, host_ports=[80], claims=["c"], labels={"a": "b"}))
    first, second = Pod.from_dict(obj), Pod.from_json(json.dumps(obj).encode())
    for field in Pod.__struct_fields__:
        assert getattr(first, field) == getattr(second, field), field
    assert first.shape is second.shape


class TestSharing:
    def test_pods_of_one_template_share_their_shape(self):
        first = make_pod("a", "n1", requests={"cpu": "1"}, labels={"x": "y"}, claims=["c1"])
        second = make_pod("b", "n2", requests={"cpu": "1"}, labels={"x": "y"}, claims=["c2"])
        assert first.shape is second.shape
        assert first.requests is second.requests
        assert (first.node_name, second.node_name) == ("n1", "n2")
        assert [v.claim_name for pod in (first, second) for v in pod.volumes] == ["c1", "c2"]

    def test_specs_are_shared_across_labels_and_namespaces(self):
        first = make_pod("a", labels={"x": "1"})
        second = make_pod("a", labels={"x": "2"}, namespace="other")
        assert first.shape is not second.shape
        assert first.spec is second.spec
        assert (second.namespace, second.labels) == ("other", {"x": "2"})

    def test_what_differs_is_not_shared(self):
        assert make(priority=1).spec is not make(priority=2).spec

    def test_a_shape_goes_with_its_last_pod(self):
        from schedcache.model.pod_decode import _shapes  # noqa: PLC0415  the table is no one else's business

        pod = make_pod("a", labels={"only": "here"})
        key = next(k for k, v in _shapes.items() if v is pod.shape)
        del pod
        gc.collect()
        assert key not in _shapes


class TestNull:
    def test_of_lists_and_maps_in_a_pod_is_empty(self):
        obj = {
            "metadata": {"name": "p", "labels": None, "annotations": None, "ownerReferences": None, "creationTimestamp": None},
            "spec": {
                "containers": [{"name": "c", "ports": None, "resources": None}, {"resources": {"requests": None}}],
                "initContainers": None, "nodeSelector": None, "tolerations": None, "affinity": None, "volumes": None,
                "topologySpreadConstraints": None, "overhead": None, "nodeName": None, "priority": None,
            },
            "status": {"conditions": None, "containerStatuses": None, "phase": None},
        }  # fmt: skip
        pod = Pod.from_json(json.dumps(obj).encode())
        assert (pod.node_name, pod.priority, pod.namespace, dict(pod.labels)) == ("", 0, "default", {})
        assert pod.spec.node_affinity is None
        assert pod.volumes == pod.spec.tolerations == ()
        assert pod.spec.container_count == 2

    def test_of_parts_in_a_node_is_empty(self):
        """kubernetes-client/python#895: untagged images have no names."""
        images = [{"names": None, "sizeBytes": 393898239}, {"names": ["registry.example/app:1"], "sizeBytes": 50}]
        node = Node.from_dict({"metadata": {"name": "n1"}, "status": {"images": images, "allocatable": None}})
        assert node.images == (ContainerImage((), 393898239), ContainerImage(("registry.example/app:1",), 50))
        for empty in ({"images": None, "conditions": None}, None):
            bare = Node.from_dict(
                {"metadata": {"name": "n2", "labels": None}, "spec": {"taints": None}, "status": empty}
            )
            assert (bare.images, bare.taints, dict(bare.labels)) == ((), (), {})
            assert bare.allocatable.milli_cpu == 0

    def test_label_values_are_empty_texts(self):
        assert Pod.from_dict({"metadata": {"name": "p", "labels": {"a": None}}}).labels == {"a": ""}

    def test_everything_missing_but_the_name(self):
        obj = {"metadata": {"name": "x"}}
        pod, node = Pod.from_dict(obj), Node.from_dict(obj)
        assert (pod.name, pod.uid, pod.scheduler_name) == ("x", "", "default-scheduler")
        assert (pod.finished, pod.terminating) == (False, False)
        assert (node.name, node.zone_key) == ("x", "")


@pytest.mark.parametrize("model", [Pod, Node, *CLUSTER_OBJECTS.values()])
class TestName:
    @pytest.mark.parametrize("obj", [{}, *({"metadata": m} for m in (None, {}, {"name": None}, {"name": ""}))])
    def test_must_be_there(self, model, obj):
        for read in (lambda: model.from_dict(obj), lambda: model.from_json(json.dumps(obj).encode())):
            with pytest.raises(MalformedObjectError, match=r" without name: metadata\.name: is missing$") as error:
                read()
            assert (error.value.kind, error.value.field) == (model.__name__, "metadata.name")

    def test_of_a_manifest_may_be_left_to_the_api_server(self, model):
        assert model.from_dict({"metadata": {"generateName": "web-"}}).name == "web-"
        assert model.from_dict({"metadata": {"name": "web-x", "generateName": "web-"}}).name == "web-x"


class TestFaults:
    @pytest.mark.parametrize(
        ("patch", "field"),
        [
            ({"spec": {"containers": "none"}}, "spec.containers"),
            ({"spec": {"tolerations": [{"key": 5}]}}, "spec.tolerations[0].key"),
            ({"spec": {"priority": "high"}}, "spec.priority"),
            ({"status": []}, "status"),
            ({"metadata": {"name": "p", "namespace": "ns", "labels": {"a": 1}}}, "metadata.labels[...]"),
        ],
    )
    def test_of_type_name_object_and_field(self, patch, field):
        obj = {"metadata": {"name": "p", "namespace": "ns"}, **patch}
        for read in (lambda: Pod.from_dict(obj), lambda: Pod.from_json(json.dumps(obj).encode())):
            with pytest.raises(MalformedObjectError, match="Pod ns/p") as error:
                read()
            assert error.value.field == field
            assert "expected" in error.value.problem

    def test_of_syntax(self):
        with pytest.raises(MalformedObjectError, match="Pod without name: not valid JSON"):
            Pod.from_json(b'{"metadata":')

    def test_of_a_node(self):
        with pytest.raises(MalformedObjectError, match=r"Node n1: spec\.taints"):
            Node.from_dict({"metadata": {"name": "n1"}, "spec": {"taints": 5}})

    def test_in_overhead_and_status(self):
        with pytest.raises(MalformedObjectError, match=r"spec\.overhead\.cpu: '1x'"):
            make(overhead={"cpu": "1x"})
        obj = as_stored(pod_manifest("p", requests={"cpu": "1"}))
        obj["status"] = {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "?"}}]}
        with pytest.raises(MalformedObjectError, match=r"status\.containerStatuses\[\]\.allocatedResources\.cpu"):
            Pod.from_dict(obj)


class TestPod:
    def test_host_ports(self):
        ports = [
            {"hostPort": 80},
            {"hostPort": 0},
            {"hostPort": -1},
            {"containerPort": 9},
            {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        ]
        inits = [
            {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 81}]},
            {"name": "i", "ports": [{"hostPort": 82}]},
        ]
        pod = make(containers=[{"name": "c", "ports": ports}], initContainers=inits)
        assert set(pod.spec.host_ports) == {("0.0.0.0", "TCP", 80), ("10.0.0.1", "UDP", 53), ("0.0.0.0", "TCP", 81)}
        assert len(pod.spec.host_ports) == 3

    @pytest.mark.parametrize(
        ("affinity", "any_block", "required_anti"),
        [
            (None, False, False),
            ({}, False, False),
            ({"nodeAffinity": {}}, False, False),
            ({"podAffinity": {}}, True, False),
            ({"podAntiAffinity": {}}, True, False),
            (
                {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}},
                True,
                True,
            ),
        ],
    )
    def test_affinity(self, affinity, any_block, required_anti):
        spec = make(affinity=affinity).spec
        assert (spec.has_pod_affinity, bool(spec.pod_anti_affinity)) == (any_block, required_anti)

    def test_volumes_that_scheduling_looks_at(self):
        volumes = [
            {"name": "a", "configMap": {"name": "x"}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
            {"name": "c", "ephemeral": {}},
            {"name": "d", "gcePersistentDisk": {"pdName": "disk"}},
            {"name": "e", "csi": {"driver": "inline"}},
        ]
        pod = make(volumes=volumes)
        assert pod.volumes == (
            Volume("b", "data", read_only=True),
            Volume("c", "p-c", ephemeral=True),
            Volume("d", source_kind="gcePersistentDisk", source=("disk",)),
            Volume("e", source_kind="csi", source=("inline",)),
        )

    def test_owner_is_the_controller(self):
        obj = as_stored(pod_manifest("p"))
        obj["metadata"]["ownerReferences"] = [
            {"kind": "Thing", "name": "t", "uid": "1"},
            {"kind": "ReplicaSet", "name": "r", "uid": "2", "controller": True},
        ]
        assert Pod.from_dict(obj).owner == OwnerRef("ReplicaSet", "r", "2")

    def test_conditions_and_phases(self):
        obj = as_stored(pod_manifest("p", phase="Succeeded"))
        obj["status"]["conditions"] = [
            {"type": "Ready", "status": "True"},
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "m",
                "observedGeneration": 3,
            },
        ]
        pod = Pod.from_dict(obj)
        assert pod.finished
        assert pod.condition("PodScheduled").reason == "Unschedulable"
        assert pod.condition("PodScheduled").observed_generation == 3
        assert pod.condition("Ready") is None
        assert make_pod("p", phase="Failed").finished
        assert not make_pod("p", phase="Running").finished

    def test_placed_is_the_same_pod_elsewhere(self):
        pod = make_pod("p", namespace="ns")
        placed = pod.with_node("n1")
        assert (placed.node_name, placed.uid, placed.full_name, pod.node_name) == ("n1", pod.uid, "ns/p", "")
        assert placed.shape is pod.shape

    def test_tolerations_and_gates(self):
        pod = make(
            tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}, {}],
            schedulingGates=[{"name": "g"}],
            schedulerName="mine",
            priority=7,
        )
        assert pod.spec.tolerations == (Toleration("k", "Exists", "", "NoSchedule"), Toleration())
        assert (pod.scheduling_gates, pod.scheduler_name, pod.priority) == (("g",), "mine", 7)

    def test_unknown_fields_are_ignored(self):
        assert make(somethingNew={"a": [1]}).name == "p"


class TestNode:
    def test_is_read_with_all_its_parts(self):
        obj = as_stored(
            node_manifest(
                "n1",
                zone="z",
                capacity={"cpu": "3500m", "x.io/y": "2", "odd": "1"},
                taints=[{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "w"}],
                unschedulable=True,
            )
        )
        obj["metadata"]["annotations"] = {"a": "b"}
        obj["status"]["declaredFeatures"] = ["F"]
        node = Node.from_json(json.dumps(obj).encode())
        assert node.taints == (Taint("k", "v", "NoExecute"), Taint("w", "", ""))
        assert (node.allocatable.milli_cpu, node.allocatable.allowed_pod_number, node.allocatable.scalar) == (
            3500,
            110,
            {"x.io/y": 2},
        )
        assert (node.unschedulable, node.annotations, node.declared_features) == (True, {"a": "b"}, frozenset({"F"}))

    def test_image_names_are_one_text_for_all_nodes(self):
        first, second = (
            Node.from_json(json.dumps(as_stored(node_manifest(n, images=[(["registry.example/a:1"], 5)]))).encode())
            for n in "ab"
        )
        assert first.images[0].names[0] is second.images[0].names[0]


def test_texts_of_taints():
    assert [str(Taint("k", "v", "NoSchedule")), str(Taint("k", "", "NoSchedule"))] == ["k=v:NoSchedule", "k:NoSchedule"]


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration("", "Exists"), True),
        (Toleration("k", "Exists"), True),
        (Toleration("other", "Exists"), False),
        (Toleration("k", "Equal", "v"), True),
        (Toleration("k", "", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("k", "Exists", "", "NoExecute"), False),
        (Toleration("k", "Lt", "v"), False),
    ],
)
def test_tolerations(toleration, tolerates):
    assert toleration.tolerates(Taint("k", "v", "NoSchedule")) is tolerates
