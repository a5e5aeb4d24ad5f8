"""The simulate command from files to exit status, and simulate() as a function."""

import json
import re

import pytest

from schedcache.cli import main
from schedcache.config import config_from_dict
from schedcache.model import MalformedObjectError
from schedcache.simulation import InputError, ProfileError, SourcedObject, WhatIf, parse_objects, simulate

NODES = """
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}, status: {capacity: {cpu: 2, memory: 4Gi, pods: 9}}}
- {kind: Node, metadata: {name: n2, labels: {kubernetes.io/hostname: n2}}, status: {capacity: {cpu: 4, memory: 8Gi, pods: 9}}}
---
kind: PodList
items:
- metadata: {name: done}
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 2}}}]}
  status: {phase: Succeeded}
- metadata: {name: running, creationTimestamp: 2026-01-01T00:00:00Z}
  spec: {nodeName: n2, containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi}}}]}
- metadata: {name: waiting, namespace: web}
  spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}
"""
POD = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: {requests: {cpu: %s}}}]}}"


def what_if(text=NODES, config=None):
    return WhatIf(parse_objects(text, "cluster.yaml"), config_from_dict(config).config)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cluster.yaml").write_text(NODES)
    for cpu in ("1", "3", "9"):
        (tmp_path / f"pod-{cpu}.yaml").write_text(POD % cpu)
    return tmp_path


def run(capsys, *arguments):
    status = main(["simulate", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_one_pod_of_the_cluster_is_taken_out_first():
    world = what_if()
    answer = world.ask([world.take_out("web/waiting")])
    assert answer.fits
    [pod] = answer.report["pods"]
    assert (pod["pod"], pod["feasible"], pod["selected"]) == ("web/waiting", ["n1", "n2"], ["n2"])
    assert answer.report["nodes"] == {
        "n1": {"requested": {"cpu": "0m", "memory": "0", "pods": 0}},
        "n2": {"requested": {"cpu": "1000m", "memory": str(2**30), "pods": 1}},
    }
    assert answer.report["replicas"] is None


def test_a_running_pod_frees_its_room_when_it_is_asked_about():
    world = what_if()
    answer = world.ask([world.take_out("default/running")]).report
    assert answer["nodes"]["n2"]["requested"]["pods"] == 0
    assert answer["pods"][0]["feasible"] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("default/done", "pod default/done: has finished"),
        ("web/none", "pod web/none: is not among the cluster objects"),
    ],
)
def test_a_pod_that_is_not_there_is_said_not_to_be(name, text):
    with pytest.raises(InputError, match=text):
        what_if().take_out(name)


def test_each_pod_is_asked_alone():
    world = what_if()
    pods = world.pods_of(parse_objects(f"{POD % '3'}\n---\n{POD.replace('name: p', 'name: q') % '3'}", "pods"))
    answer = world.ask(pods)
    assert answer.fits
    assert [p["selected"] for p in answer.report["pods"]] == [["n2"], ["n2"]]


def test_replicas_are_placed_one_after_the_other_until_the_next_does_not_fit():
    world = what_if()
    answer = world.ask(world.pods_of(parse_objects(POD % "1", "pod")), replicas=10)
    assert not answer.fits
    assert sorted(answer.report["replicas"]["placed"]) == ["n1", "n1", "n2", "n2", "n2"]
    assert answer.report["replicas"]["stopped_by"] == "0/2 nodes are available: 2 Insufficient cpu."
    again = what_if()
    assert again.ask(again.pods_of(parse_objects(POD % "1", "pod")), replicas=10) == answer
    few = what_if()
    few_answer = few.ask(few.pods_of(parse_objects(POD % "1", "pod")), replicas=3)
    assert few_answer.fits
    assert few_answer.report["replicas"]["stopped_by"] == ""


def test_replicas_keep_apart_from_one_another():
    term = "{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: a}}}"
    apart = f"{{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"
    pod = f"{{kind: Pod, metadata: {{name: p, labels: {{app: a}}}}, spec: {{affinity: {apart}, containers: []}}}}"
    world = what_if()
    answer = world.ask(world.pods_of(parse_objects(pod, "pod")), replicas=5).report["replicas"]
    assert sorted(answer["placed"]) == ["n1", "n2"]
    assert "anti-affinity rules" in answer["stopped_by"]


def test_replicas_of_a_gated_pod_are_not_placed():
    gated = POD.replace("spec: {", "spec: {schedulingGates: [{name: wait}], ") % "1"
    world = what_if()
    answer = world.ask(world.pods_of(parse_objects(gated, "pod")), replicas=2)
    assert not answer.fits
    assert answer.report["replicas"]["placed"] == []
    assert "[SchedulingGates]" in answer.report["replicas"]["stopped_by"]


def test_replicas_of_several_pods_are_refused():
    world = what_if()
    with pytest.raises(InputError, match="replicas are copies of one pod, but there are 2"):
        world.ask(world.pods_of(parse_objects(f"{POD % '3'}\n---\n{POD % '2'}", "pods")), replicas=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {overhead: {cpu: lots}}",
            "Pod default/x: spec.overhead.cpu: 'lots' is not",
        ),
        ("kind: Node\nmetadata: {name: x}\nstatus: {allocatable: 5}", "Node x: status.allocatable: "),
        ("kind: Pod\nmetadata: hello", "Pod without name: metadata: expected `object | null`, got `str`"),
        ("kind: Pod\nmetadata: {name: x}\nspec: hello", "Pod x: spec: expected `object | null`, got `str`"),
        ("kind: Pod\nmetadata: {name: x}\nspec: {containers: [null]}", "Pod x: spec.containers[0]: expected `object`"),
        ("kind: Pod\nmetadata: {name: x}\nspec: {containers: {a: b}}", "Pod x: spec.containers: expected `array"),
        ("kind: Pod\nmetadata: {name: x}\nspec: {containers: [{ports: [5]}]}", "Pod x: spec.containers[0].ports[0]: "),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{resources: {limits: [5]}}]}",
            "Pod x: spec.containers[0].resources.limits: expected `object",
        ),
        ("kind: Pod\nmetadata: {name: x}\nspec: {affinity: near}", "Pod x: spec.affinity: expected `object"),
        ("kind: Pod\nmetadata: {name: x}\nspec: {topologySpreadConstraints: [3]}", "Constraints[0]: expected `object`"),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {priorityClassName: 5}",
            "Pod x: spec.priorityClassName: expected `str",
        ),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {containers: [{resources: {requests: {cpu: -1}}}]}",
            "Pod x: spec.containers[0].resources.requests.cpu: -1 is negative",
        ),
        ("kind: Pod\nmetadata: {name: x}\nspec: {overhead: {cpu: -1m}}", "Pod x: spec.overhead.cpu: -1m is negative"),
        (
            "kind: Pod\nmetadata: {name: x}\nspec: {overhead: {cpu: ' -1m'}}",
            "Pod x: spec.overhead.cpu:  -1m is negative",
        ),
        (
            "kind: Node\nmetadata: {name: x}\nstatus: {capacity: {cpu: -4}}",
            "Node x: status.capacity.cpu: -4 is negative",
        ),
        ("kind: Pod\nmetadata: {namespace: x}", "Pod without name: metadata.name: is missing"),
        ("kind: Node\nstatus: {allocatable: {cpu: 1}}", "Node without name: metadata.name: is missing"),
        ("kind: Node\nmetadata: {name: x}\nstatus: hello", "Node x: status: expected `object"),
        ("kind: PersistentVolume\nmetadata: {name: x}\nspec: 4", "PersistentVolume x: spec: expected `object"),
        ("kind: Namespace\nmetadata: {name: x, labels: hi}", "Namespace x: metadata.labels: expected `object"),
        ("kind: PriorityClass\nmetadata: {name: x}\nvalue: lots", "PriorityClass x: value: expected `int"),
        ("kind: PriorityClass\nvalue: 3", "PriorityClass without name: metadata.name: is missing"),
        ("metadata: {name: x}", "object without kind: "),
        ("kind: List\nitems: 5", "items: expected a list, got 5"),
        ("[1, 2]", "expected a Kubernetes object, got "),
        ("kind: List\nitems: [7]", "items: expected Kubernetes objects, got 7"),
        ("a: b: c", "neither YAML nor JSON: "),
        ('{"kind": "Pod"', "neither YAML nor JSON: "),
    ],
)
def test_bad_input_is_named_with_file_object_and_field(text, message):
    with pytest.raises(InputError) as caught:
        what_if(text)
    assert str(caught.value).startswith("cluster.yaml: ")
    assert message in str(caught.value)


def test_two_pods_of_one_uid_are_named():
    text = "\n---\n".join(f"kind: Pod\nmetadata: {{name: {name}, uid: u}}" for name in "ab")
    with pytest.raises(InputError, match=r"Pod default/b: metadata\.uid: is that of default/a"):
        what_if(text)


def test_what_is_no_pod_cannot_be_placed():
    world = what_if()
    with pytest.raises(InputError, match="f: expected a Pod to place, got a Node"):
        world.pods_of(parse_objects("{kind: Node, metadata: {name: x}}", "f"))
    with pytest.raises(InputError, match="there is no pod to place"):
        world.pods_of([])


def test_json_lists_and_documents_in_a_row_are_read():
    nodes = json.dumps({"kind": "NodeList", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]})
    assert [o.obj["metadata"]["name"] for o in parse_objects(nodes, "f")] == ["a", "b"]
    assert [o.obj["kind"] for o in parse_objects("kind: Node\n---\n---\nkind: Pod\n", "f")] == ["Node", "Pod"]


def test_the_command_says_by_its_status_whether_the_pods_fit(capsys, files):
    cluster = files / "cluster.yaml"
    status, out, _ = run(capsys, "--cluster", cluster, "--pod", files / "pod-3.yaml")
    assert status == 0
    assert "default/p goes to n2" in out
    assert "NodeResourcesFit: Insufficient cpu" in out
    status, out, _ = run(capsys, "--cluster", cluster, "--pod", files / "pod-9.yaml")
    assert status == 1
    assert "default/p fits nowhere: 0/2 nodes are available: 2 Insufficient cpu." in out
    assert "node n1: Insufficient cpu (cpu: asks 9, 2 of 2 free) [NodeResourcesFit]" in out


def test_the_command_names_the_victims_of_a_preemption(capsys, tmp_path):
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    objects = [
        {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}},
        {
            "kind": "Pod",
            "metadata": {"name": "low", "uid": "low"},
            "spec": {"nodeName": "n1", "priority": 1, "containers": [container]},
        },
    ]
    high = {"kind": "Pod", "metadata": {"name": "high"}, "spec": {"priority": 5, "containers": [container]}}
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    (tmp_path / "pod.json").write_text(json.dumps(high))
    status, out, _ = run(capsys, "--cluster", tmp_path / "cluster.json", "--pod", tmp_path / "pod.json")
    assert status == 1
    assert "preemption: found a potential placement for pod on node n1, preempting 1 victims" in out
    assert "evicts default/low" in out


def test_the_command_prints_json(capsys, files):
    status, out, _ = run(
        capsys, "--cluster", files / "cluster.yaml", "--pod", "web/waiting", "--replicas", 2, "-o", "json"
    )
    report = json.loads(out)
    assert status == 0
    assert set(report) == {"pods", "nodes", "replicas"}
    assert report["replicas"] == {"placed": ["n2", "n1"], "stopped_by": "", "evicted": []}
    assert {"feasible", "rejected", "scores", "selected", "message", "warnings", "explanation"} <= set(
        report["pods"][0]
    )


def test_the_command_prints_where_replicas_go_and_what_stops_the_next(capsys, files):
    status, out, _ = run(capsys, "--cluster", files / "cluster.yaml", "--pod", files / "pod-1.yaml", "--replicas", 9)
    assert status == 1
    assert "5 replicas placed" in out
    assert "the next one does not fit: 0/2 nodes are available: 2 Insufficient cpu." in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--cluster", "gone.yaml", "--pod", "a/b"), "gone.yaml: cannot be read: "),
        (("--cluster", "cluster.yaml", "--pod", "gone.yaml"), "--pod: gone.yaml: no such file"),
        (("--cluster", "cluster.yaml", "--pod", "web/gone"), "pod web/gone: is not among the cluster objects"),
        (("--cluster", "cluster.yaml", "--pod", "web/waiting", "--config", "pod-1.yaml"), "pod-1.yaml"),
    ],
)
def test_bad_input_ends_with_status_2(capsys, files, monkeypatch, arguments, text):
    monkeypatch.chdir(files)
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert text in err


def test_the_only_profile_answers_for_other_schedulers_with_a_warning():
    objects = [{"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "1"}}}]
    pod = {"metadata": {"name": "p"}, "spec": {"schedulerName": "other", "containers": []}}
    answer = simulate(objects, pod)
    assert answer["selected"] == ["n"]
    assert answer["warnings"] == ["schedulerName 'other' has no profile; the answer is that of 'default-scheduler'"]
    with pytest.raises(ProfileError, match="no profile is named 'other', there are 'a', 'b'"):
        simulate(objects, pod, {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]})


def test_a_malformed_object_is_named():
    with pytest.raises(MalformedObjectError, match=r"Node n: status\.allocatable\.cpu"):
        simulate(
            [{"kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "x"}}}], {"metadata": {}}
        )


def test_pods_with_resource_claims_are_refused_not_ignored():
    pod = {"metadata": {"name": "p"}, "spec": {"resourceClaims": [{"name": "gpu"}], "containers": []}}
    answer = simulate([{"kind": "Node", "metadata": {"name": "n"}}], pod)
    assert answer["selected"] == []
    assert "resource claims" in answer["message"]


def test_files_that_overlap_are_read_as_one():
    world = WhatIf([*parse_objects(NODES, "a"), *parse_objects(NODES, "b")], config_from_dict(None).config)
    assert world.ask([world.take_out("web/waiting")]) == what_if().ask([what_if().take_out("web/waiting")])


@pytest.mark.parametrize("kind", ["Node", "Pod", "PersistentVolumeClaim"])
def test_another_object_of_the_same_name_is_named(kind):
    first, second = ({"kind": kind, "metadata": {"name": "x", "uid": uid}} for uid in "ab")
    with pytest.raises(
        InputError, match=rf"^g: {kind} (default/)?x: metadata\.name: is that of another {kind} too, in f"
    ):
        WhatIf([SourcedObject("f", first), SourcedObject("g", second)], config_from_dict(None).config)


def test_manifests_of_one_name_must_say_the_same():
    text = "kind: Node\nmetadata: {name: x}\nstatus: {allocatable: {cpu: %s}}"
    assert len(what_if(f"{text % 1}\n---\n{text % 1}").cluster.nodes) == 1
    with pytest.raises(InputError, match=r"Node x: metadata\.name: is that of another Node too"):
        what_if(f"{text % 1}\n---\n{text % 2}")


def test_of_an_object_seen_at_two_moments_the_later_view_counts():
    text = "kind: Node\nmetadata: {name: x, uid: u}\nstatus: {allocatable: {cpu: %s}}"
    assert what_if(f"{text % 1}\n---\n{text % 2}").cluster.nodes["x"].allocatable.milli_cpu == 2000


def test_kinds_that_scheduling_does_not_read_are_left_alone():
    assert what_if(NODES + "\n---\nkind: Deployment\nmetadata: 5\n").cluster.nodes.keys() == {"n1", "n2"}


def test_a_pod_with_a_generated_name_gets_one():
    world = what_if()
    [pod] = world.pods_of(parse_objects(POD.replace("name: p", "generateName: web-") % "1", "pod"))
    assert re.fullmatch("web-[0-9a-f]{5}", pod.name)


def test_a_manifest_to_place_stands_for_the_pod_of_its_name():
    world = what_if()
    [pod] = world.pods_of(parse_objects(POD.replace("name: p", "name: running") % "1", "pod"))
    assert world.ask([pod]).report["nodes"]["n2"]["requested"]["pods"] == 0


def test_extenders_are_asked_nothing_and_a_pod_that_they_would_be_asked_about_says_so():
    gpu = {
        "urlPrefix": "http://gpu",
        "filterVerb": "f",
        "managedResources": [{"name": "a.b/gpu", "ignoredByScheduler": True}],
    }
    binder = {"urlPrefix": "http://binder", "bindVerb": "b"}
    world = what_if(config={"extenders": [gpu, binder]})
    spec = {"containers": [{"name": "c", "resources": {"limits": {"a.b/gpu": 1}}}]}
    [asks] = world.pods_of([SourcedObject("f", {"kind": "Pod", "metadata": {"name": "asks"}, "spec": spec})])
    [plain] = world.pods_of(parse_objects(POD % "1", "pod.yaml"))
    found = {answer["pod"]: answer for answer in world.ask([asks, plain]).report["pods"]}
    assert found["default/asks"]["warnings"] == [
        "extender http://gpu has no part in this answer: it is asked about such pods, and simulate asks nobody"
    ]
    # No node has a GPU, as far as the scheduler knows, and that is not its business.
    assert found["default/asks"]["feasible"] == ["n1", "n2"]
    assert found["default/p"]["warnings"] == []
