"""Priorities of raw manifests, and what the API server would have refused."""

import json

import pytest

from schedcache.cli import main
from schedcache.config import config_from_dict
from schedcache.simulation import WhatIf, parse_objects

CLASSES = """
kind: PriorityClassList
items:
- {metadata: {name: high}, value: 1000}
- {metadata: {name: usual}, value: 50, globalDefault: true}
- {metadata: {name: humble}, value: 20, globalDefault: true}
- {metadata: {name: late}, value: 70, globalDefault: true}
"""
REFUSED = "the API server would refuse the pod"
UNKNOWN = f"spec.priorityClassName: no PriorityClass with name hihg was found; {REFUSED}"
OTHER = "spec.priority: 7 is not that of its class"


def asked(pod, cluster=CLASSES):
    world = WhatIf(parse_objects(cluster, "cluster.yaml"), config_from_dict(None).config)
    [made] = world.pods_of(parse_objects(pod, "pod.yaml"))
    return made.priority, world.ask([made]).report["pods"][0]["warnings"]


def pod(spec="", uid="", name="p"):
    return f"{{kind: Pod, metadata: {{name: {name}, uid: '{uid}'}}, spec: {{containers: [], {spec}}}}}"


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ("priorityClassName: high", 1000),
        ("priorityClassName: high, priority: 1000", 1000),
        ("priorityClassName: system-cluster-critical", 2_000_000_000),
        ("priorityClassName: system-node-critical", 2_000_001_000),
        ("", 20),
        ("priority: 20", 20),
    ],
)
def test_a_class_gives_the_priority_and_of_several_defaults_the_lowest_counts(spec, priority):
    assert asked(pod(spec)) == (priority, [])


@pytest.mark.parametrize(
    ("spec", "priority", "said"),
    [
        ("priorityClassName: hihg", 0, f"{UNKNOWN}, here its priority is 0"),
        ("priorityClassName: hihg, priority: 7", 7, f"{UNKNOWN}, here its priority is 7"),
        ("priorityClassName: high, priority: 7", 7, f"{OTHER}, 1000; {REFUSED}"),
        ("priority: 7", 7, f"{OTHER}, 20; {REFUSED}"),
    ],
)
def test_what_the_api_server_would_refuse_is_said_with_object_and_field(spec, priority, said):
    assert asked(pod(spec)) == (priority, [f"pod.yaml: Pod default/p: {said}"])


@pytest.mark.parametrize(
    "spec", ["priorityClassName: gone, priority: 7", "priorityClassName: high, priority: 7", "priority: 7"]
)
def test_a_pod_of_a_dump_was_let_in_whatever_its_class_is_now(spec):
    assert asked(pod(spec, uid="u")) == (7, [])


def test_a_pod_of_a_dump_without_its_priority_needs_its_class():
    assert asked(pod("priorityClassName: gone", uid="u"))[1] != []


def test_pods_of_the_cluster_are_warned_of_on_standard_error(tmp_path, capsys):
    cluster, placed = tmp_path / "cluster.yaml", tmp_path / "pod.yaml"
    cluster.write_text(
        "\n---\n".join([CLASSES, pod("priorityClassName: gone", name="other"), pod("priority: 5", name="p")])
    )
    placed.write_text(pod("priorityClassName: high"))
    assert main(["simulate", "--cluster", str(cluster), "--pod", str(placed), "-o", "json"]) == 1
    captured = capsys.readouterr()
    said = f"Pod default/other: {UNKNOWN.replace('hihg', 'gone')}, here its priority is 0"
    assert captured.err == f"warning: {cluster}: {said}\n"
    # The pod of the same name that is asked about stands for that of the cluster.
    assert json.loads(captured.out)["pods"][0]["warnings"] == []


def test_a_pod_taken_out_of_the_cluster_is_warned_of_in_its_answer():
    world = WhatIf(parse_objects(pod("priorityClassName: gone"), "cluster.yaml"), config_from_dict(None).config)
    answer = world.ask([world.take_out("default/p")])
    assert [REFUSED in warning for warning in answer.report["pods"][0]["warnings"]] == [True]
    assert answer.cluster_warnings == []


def test_without_a_default_class_the_priority_is_0():
    assert asked(pod(), cluster="{kind: List, items: []}") == (0, [])
