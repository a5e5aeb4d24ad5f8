"""Files that are no cluster: what a failed or interrupted kubectl leaves, and what only looks like nothing."""

import gzip
import json
import os

import pytest

from schedcache.cli import main
from schedcache.simulation import parse_objects
from schedcache.testing import node_manifest

NODE = node_manifest("n")
LIST = json.dumps({"kind": "List", "items": [NODE]}, indent=1)
POD = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
NOTHING = "there is no object in it; an empty cluster is a List without items"


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    """The exit status, standard output and standard error for a cluster file of these bytes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(POD)

    def ask(content, pod="pod.yaml"):
        (tmp_path / "cluster").write_bytes(content if isinstance(content, bytes) else content.encode())
        status = main(["simulate", "--cluster", "cluster", "--pod", pod])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return ask


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", NOTHING),
        (" \n\n", NOTHING),
        ("# nothing here\n", NOTHING),
        ("---\n---\n", NOTHING),
        ("null\n", NOTHING),
        ("kind: List\n", "items: is missing from a List"),
        ("kind: PodList\nmetadata: {}\n", "items: is missing from a PodList"),
        (LIST[: len(LIST) // 2], "neither YAML nor JSON: line "),
        (LIST[:-1], "neither YAML nor JSON: line "),
        ("apiVersion: v1\nitems:\n- kind: Node\n  metadata: {name: n}\n- kind: No", "object without kind: "),
        (LIST + LIST[:-1], "neither YAML nor JSON: line "),
        ("Error from server (Forbidden): nodes is forbidden\n", "object without kind: "),
        ("Error: nodes: no\n", "neither YAML nor JSON: line 1: "),
        ("No resources found in default namespace.\n", "expected a Kubernetes object, got 'No resources found"),
        ('{"kind": "Status", "message": "nodes is forbidden"}', "instead of objects: nodes is forbidden"),
        ("\0\0\0", "neither YAML nor JSON: unacceptable character"),
        (gzip.compress(LIST.encode()), "cannot be read: 'utf-8' codec"),
        ("kind: List\nitems: []\n".encode("utf-16"), "cannot be read: 'utf-8' codec"),
        ("[" * 100_000, "neither YAML nor JSON: line 1: "),
        ('{"a":' * 100_000, "neither YAML nor JSON: line 1: "),
    ],
    ids=str,
)
def test_a_file_that_is_no_cluster_is_bad_input_and_named(simulate, content, said):
    status, out, err = simulate(content)
    assert (status, out) == (2, "")
    assert err.startswith("schedcache simulate: cluster: ")
    assert said in err


@pytest.mark.parametrize("content", ["", "# no pod\n", "kind: PodList\nitems: []\n"])
def test_a_pod_file_without_pod_is_bad_input_and_named(simulate, tmp_path, content):
    (tmp_path / "none.yaml").write_text(content)
    status, _, err = simulate(LIST, pod="none.yaml")
    assert status == 2
    assert err.startswith("schedcache simulate: none.yaml: there is no ")


@pytest.mark.parametrize(
    "content", ['{"kind": "List", "items": []}', "kind: NodeList\nitems:\n", "\ufeffkind: List\nitems: []"]
)
def test_an_empty_list_is_a_cluster_without_objects(simulate, content):
    status, out, _ = simulate(content)
    assert status == 1
    assert "no nodes available to schedule pods" in out


def test_a_directory_and_a_file_that_may_not_be_read_are_bad_input(tmp_path, capsys):
    (tmp_path / "pod.yaml").write_text(POD)
    closed = tmp_path / "closed"
    closed.write_text(LIST)
    closed.chmod(0)
    for file in (tmp_path, *([] if os.access(closed, os.R_OK) else [closed])):
        assert main(["simulate", "--cluster", str(file), "--pod", str(tmp_path / "pod.yaml")]) == 2
        assert f"{file}: cannot be read: " in capsys.readouterr().err


def test_an_object_that_is_there_twice_counts_once(simulate):
    status, out, _ = simulate(LIST + LIST)
    assert status == 0
    assert "default/p goes to n" in out


def test_json_documents_in_a_row_are_read():
    text = f"{json.dumps(NODE)}\n{LIST}{json.dumps({'kind': 'PodList', 'items': []})}"
    assert [found.obj["kind"] for found in parse_objects(text, "f")] == ["Node", "Node"]


def test_a_kind_whose_name_ends_like_a_lists_is_an_object():
    assert [found.obj["kind"] for found in parse_objects("kind: AllowList\nmetadata: {name: x}", "f")] == ["AllowList"]
