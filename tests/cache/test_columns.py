"""The snapshot as columns: rows, their reuse and growth, interned ids, what changed since."""

import numpy as np
import pytest

from schedcache.cache import Columns, NodeInfo, Snapshot, interning
from schedcache.cache import columns as columns_module
from schedcache.cache.interning import InternedColumn
from schedcache.model import Taint
from schedcache.testing import make_node, make_pod
from tests.cache.support import make_cache, updated

GI = 1024**3


def row(snapshot, name):
    return snapshot.columns.row_of[name]


def test_a_row_shows_its_node():
    cache = make_cache()
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    amounts = {"cpu": "3500m", "memory": "8Gi", "ephemeral-storage": "1Gi", "pods": "7", "x.io/gpu": "2"}
    cache.add_node(make_node("plain"))
    cache.add_node(make_node("n1", capacity=amounts, taints=taints, unschedulable=True, labels={"disk": "ssd"}))
    cache.add_pod(
        make_pod("a", "n1", requests={"cpu": "1", "x.io/gpu": "1", "ephemeral-storage": "1k"}, host_ports=[80])
    )
    cache.add_pod(make_pod("b", "n1", anti_affinity={"x": "y"}))
    cache.add_pod(make_pod("c", "n1", affinity={"podAffinity": {}}))
    columns = updated(cache).columns
    r, gpu = columns.row_of["n1"], columns.resource_index["x.io/gpu"]
    assert list(columns.resource_index)[:3] == ["cpu", "memory", "ephemeral-storage"]
    assert columns.allocatable[[0, 1, 2, gpu], r].tolist() == [3500, 8 * GI, GI, 2]
    assert columns.requested[[0, 1, 2, gpu], r].tolist() == [1000, 0, 1000, 1]
    assert columns.non_zero_requested[:, r].tolist() == [1200, 3 * 200 * 1024**2]
    assert (columns.pod_count[r], columns.allowed_pods[r]) == (3, 7)
    assert (columns.affinity_pods[r], columns.required_anti_affinity_pods[r]) == (2, 1)
    assert columns.unschedulable[[columns.row_of["plain"], r]].tolist() == [False, True]
    assert columns.taint_sets[columns.taint_set[r]] == (Taint("k", "v", "NoSchedule"),)
    assert columns.taint_sets[columns.taint_set[columns.row_of["plain"]]] == ()
    assert columns.host_ports == {("TCP", 80): {r: ("0.0.0.0",)}}
    assert columns.label_values("disk")[columns.label_ids("disk")[r]] == "ssd"
    assert columns.label_ids("disk")[columns.row_of["plain"]] == -1
    assert (columns.names[r], columns.infos[r]) == ("n1", cache.nodes["n1"])
    assert columns.order.dtype == np.intp
    assert columns.allocatable.flags.c_contiguous


def test_ips_of_one_port_are_sorted():
    cache = make_cache("n1")
    ports = [{"hostPort": 80, "hostIP": ip, "protocol": "UDP"} for ip in ("10.0.0.9", "10.0.0.1")]
    cache.add_pod(make_pod("a", "n1", containers=[{"name": "c", "ports": ports}]))
    snapshot = updated(cache)
    assert snapshot.columns.host_ports == {("UDP", 80): {0: ("10.0.0.1", "10.0.0.9")}}
    cache.update_pod(make_pod("a", "n1"), make_pod("a", "n1", containers=[{"name": "c", "ports": ports[:1]}]))
    assert updated(cache, snapshot).columns.host_ports == {("UDP", 80): {0: ("10.0.0.9",)}}


def test_amounts_beyond_64_bits_are_clamped():
    cache = make_cache()
    cache.add_node(make_node("n1", capacity={"memory": "9999E", "x.io/y": "9999E", "pods": "9999E"}))
    for name in "ab":
        cache.add_pod(make_pod(name, "n1", requests={"memory": "7E", "x.io/y": "7E", "cpu": "9E"}))
    columns = updated(cache).columns
    y = columns.resource_index["x.io/y"]
    top = 2**63 - 1
    assert cache.nodes["n1"].requested.memory == 14 * 10**18, "the sum itself is exact"
    assert columns.requested[[0, 1, y], 0].tolist() == [top] * 3
    assert columns.allocatable[[1, y], 0].tolist() == [top] * 2
    assert columns.non_zero_requested[:, 0].tolist() == [top] * 2
    assert columns.allowed_pods[0] == top
    cache.add_node(make_node("n2", capacity={"memory": "-9999E", "cpu": "-9E"}))
    columns = updated(cache).columns
    assert columns.allocatable[[0, 1], columns.row_of["n2"]].tolist() == [0, 0]


def test_a_new_snapshot_shows_nothing():
    snapshot = Snapshot()
    assert (snapshot.columns.order.tolist(), snapshot.columns.order.dtype) == ([], np.intp)
    assert (snapshot.num_nodes, snapshot.node_info_list, snapshot.have_pods_with_affinity_list) == (0, [], [])
    assert snapshot.columns.changed_since(-1).tolist() == []


def test_a_freed_row_is_used_again_and_keeps_nothing():
    cache = make_cache()
    cache.add_node(
        make_node("n1", labels={"disk": "ssd"}, unschedulable=True, taints=[{"key": "k", "effect": "NoSchedule"}])
    )
    cache.add_node(make_node("n2"))
    snapshot = updated(cache)
    cache.add_pod(make_pod("a", "n1", requests={"x.io/y": "1"}, host_ports=[80], anti_affinity={"x": "y"}))
    columns = updated(cache, snapshot).columns
    assert columns.label_ids("disk")[:2].tolist() == [0, -1]
    cache.remove_node(make_node("n1"))
    updated(cache, snapshot)
    assert (columns.rows, columns.order.tolist(), columns.names[0]) == (2, [1], "")
    assert columns.taint_set[0] == -1
    assert not columns.unschedulable[0]
    assert columns.allowed_pods[0] == columns.pod_count[0] == columns.affinity_pods[0] == 0
    assert columns.infos[0].node is None
    cache.add_node(make_node("n3"))
    updated(cache, snapshot)
    assert (columns.rows, columns.row_of["n3"], columns.order.tolist()) == (2, 0, [1, 0])
    assert not columns.unschedulable[0]
    assert columns.label_ids("disk")[0] == -1
    assert columns.requested[:, 0].tolist() == [0] * len(columns.resource_index)
    assert columns.required_anti_affinity_pods[0] == 0
    assert columns.host_ports == {}
    cache.add_node(make_node("n1"))
    updated(cache, snapshot)
    assert (columns.row_of["n1"], columns.pod_count[2]) == (2, 1), "the ghost's pod is back with its node"


def test_no_row_with_pods_of_lower_priority_is_left_out():
    cache = make_cache()
    for name in ("empty", "mixed", "negative"):
        cache.add_node(make_node(name))
    low = make_pod("low", "mixed", priority=3)
    cache.add_pod(low)
    cache.add_pod(make_pod("high", "mixed", priority=8))
    cache.add_pod(make_pod("negative", "negative", priority=-5))
    snapshot = updated(cache)
    columns = snapshot.columns

    def lower(priority):
        return {columns.names[r] for r in columns.with_lower_pods(columns.order, priority).tolist()}

    assert [lower(p) for p in (-5, -4, 3, 4, 99)] == [
        set(),
        {"negative"},
        {"negative"},
        {"negative", "mixed"},
        {"negative", "mixed"},
    ]
    cache.remove_pod(low)
    updated(cache, snapshot)
    assert "mixed" in lower(9)
    snapshot.assume(make_pod("guest", "empty", priority=-9))
    assert lower(-5) == {"empty"}
    snapshot.forget_all()
    assert lower(-5) == set()


def test_resources_that_nobody_names_any_more_are_dropped(monkeypatch):
    monkeypatch.setattr(columns_module, "_MANY_RESOURCES", 4)
    cache = make_cache()
    cache.add_node(make_node("n1", capacity={"cpu": "8", "x.io/kept": "7", "x.io/zero": "0"}))
    cache.add_node(make_node("n2"))
    cache.add_pod(make_pod("a", "n1", requests={"cpu": "1", "x.io/asked": "3"}))
    snapshot = updated(cache)
    columns = snapshot.columns
    for i in range(40):
        cache.update_node(None, make_node("n2", capacity={f"x.io/{i}": "1"}))
        updated(cache, snapshot)
        assert len(columns.resource_index) <= 4 + 2 * 7 + 1
    assert {"cpu", "memory", "x.io/kept", "x.io/zero", "x.io/asked", "x.io/39"} <= columns.resource_index.keys()
    index, r = columns.resource_index, row(snapshot, "n1")
    assert columns.allocatable[[index["cpu"], index["x.io/kept"], index["x.io/zero"]], r].tolist() == [8000, 7, 0]
    assert columns.requested[[index["cpu"], index["x.io/asked"]], r].tolist() == [1000, 3]
    assert columns.allocatable[index["x.io/39"], row(snapshot, "n2")] == 1
    many = {f"x.io/many{i}": "1" for i in range(10)}
    for version in range(2):
        cache.update_node(None, make_node("n2", capacity={**many, f"x.io/{version}": "1"}))
        updated(cache, snapshot)
    index = columns.resource_index
    for name in ("o", "p", "q"):
        cache.update_node(None, make_node("n2", capacity={**many, f"x.io/{name}": "1"}))
        updated(cache, snapshot)
    assert columns.resource_index is index, "what is in use is not gone through at every update"
    assert columns.allocatable.flags.c_contiguous


def test_resources_are_gone_through_only_when_many_have_come(monkeypatch):
    monkeypatch.setattr(columns_module, "_MANY_RESOURCES", 20)
    cache = make_cache()
    snapshot = updated(cache)
    made_anew = 0
    for i in range(60):
        before = snapshot.columns.resource_index
        cache.update_node(None, make_node("n1", capacity={f"x.io/{i}": "1"}))
        made_anew += updated(cache, snapshot).columns.resource_index is not before
        assert len(snapshot.columns.resource_index) <= 2 * 4 + 20 + 1
    assert 1 <= made_anew <= 3


def test_growth_keeps_every_column():
    cache = make_cache("n0")
    snapshot = updated(cache)
    columns = snapshot.columns
    columns.label_ids("kubernetes.io/hostname")
    for i in range(1, 200):
        cache.add_node(make_node(f"n{i}", unschedulable=i % 2 == 0, capacity={"x.io/y": str(i)}))
        cache.add_pod(make_pod(f"p{i}", f"n{i}", requests={"cpu": str(i)}))
    updated(cache, snapshot)
    assert columns.rows == 200
    assert len(columns.generation) == len(columns.label_ids("kubernetes.io/hostname")) == 256
    assert columns.allocatable.shape == columns.requested.shape == (4, 256)
    for name in (
        "generation",
        "node_generation",
        "pod_count",
        "allowed_pods",
        "allocatable",
        "requested",
        "non_zero_requested",
    ):
        assert getattr(columns, name).dtype == np.int64, name
    assert columns.unschedulable.dtype == np.bool_
    assert columns.taint_set.dtype == np.int32
    for i in (0, 63, 64, 127, 128, 199):
        r = columns.row_of[f"n{i}"]
        assert columns.requested[0, r] == i * 1000
        assert columns.allocatable[3, r] == i
        assert columns.unschedulable[r] == (i % 2 == 0 and i > 0)


class TestVersions:
    def test_tell_changes_of_the_node_from_changes_of_its_pods(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        columns, r = snapshot.columns, row(snapshot, "n1")
        before = columns.version
        cache.add_pod(make_pod("a", "n1"))
        updated(cache, snapshot)
        assert columns.generation[r] == columns.version == before + 1
        assert columns.node_generation[r] <= before
        cache.update_node(None, make_node("n1", resource_version=2))
        updated(cache, snapshot)
        assert columns.node_generation[r] == columns.generation[r] == before + 2

    def test_a_row_is_named_once_however_often_it_changed(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        before = snapshot.columns.version
        for i in range(3):
            cache.add_pod(make_pod(f"a{i}", "n2"))
            updated(cache, snapshot)
        assert snapshot.columns.changed_since(before).tolist() == [row(snapshot, "n2")]
        assert snapshot.columns.changed_since(before).dtype == np.intp
        nothing = snapshot.columns.changed_since(snapshot.columns.version)
        assert (nothing.tolist(), nothing.dtype) == ([], np.intp)

    def test_are_remembered_for_a_while_and_found_without_memory_after(self):
        cache = make_cache("n1", "n2", "n3")
        cache.validate = False
        snapshot = updated(cache)
        columns, start = snapshot.columns, snapshot.columns.version
        for i in range(1000):
            cache.add_pod(make_pod(f"a{i}", ("n1", "n2")[i % 2]))
            updated(cache, snapshot)
        assert len(columns._log) <= 4 * len(columns.generation) + 1
        assert columns._log_start > start
        assert columns.changed_since(start).tolist() == [0, 1]
        assert columns.changed_since(columns.version - 1).tolist() == [1]
        assert columns.changed_since(columns._log_start).tolist() == [0, 1]
        assert columns.changed_since(0).tolist() == [0, 1, 2]

    def test_a_freed_row_is_among_the_changed(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        before, freed = snapshot.columns.version, row(snapshot, "n1")
        cache.remove_node(make_node("n1"))
        updated(cache, snapshot)
        assert snapshot.columns.changed_since(before).tolist() == [freed]
        assert snapshot.columns.node_generation[freed] == snapshot.columns.version


class TestLabels:
    def test_ids_follow_changes_of_labels(self):
        cache = make_cache()
        cache.add_node(make_node("n1", labels={"disk": "ssd"}))
        cache.add_node(make_node("n2", labels={"disk": "hdd"}))
        snapshot = updated(cache)
        columns = snapshot.columns
        values = columns.label_values("disk")
        cache.update_node(None, make_node("n1", labels={"disk": "nvme"}))
        cache.update_node(None, make_node("n2"))
        updated(cache, snapshot)
        assert columns.label_values("disk") is values
        assert values == ["ssd", "hdd", "nvme"]
        assert columns.label_ids("disk")[:2].tolist() == [2, -1]
        assert columns.label_ids("never")[:2].tolist() == [-1, -1]
        assert columns.label_keys == ["disk", "never"]

    def test_keys_are_bounded(self, monkeypatch):
        monkeypatch.setattr(columns_module, "_MAX_LABEL_KEYS", 2)
        columns = updated(make_cache("n1")).columns
        for key in ("a", "b", "c"):
            columns.label_ids(key)
        assert columns.label_keys == ["b", "c"]
        columns.label_ids("b")
        columns.label_ids("d")
        assert columns.label_keys == ["b", "d"], "the least recently used goes"

    def test_use_counts_before_the_bound_is_reached(self, monkeypatch):
        monkeypatch.setattr(columns_module, "_MAX_LABEL_KEYS", 3)
        columns = updated(make_cache("n1")).columns
        for key in ("a", "b", "a", "c", "d"):
            columns.label_ids(key)
        assert columns.label_keys == ["a", "c", "d"]

    def test_values_that_died_out_are_dropped(self, monkeypatch):
        monkeypatch.setattr(interning, "_SLACK", 4)
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        columns = snapshot.columns
        first = columns.label_values("kubernetes.io/hostname")
        for i in range(20):
            cache.add_node(make_node(f"x{i}", taints=[{"key": f"k{i}", "effect": "NoSchedule"}]))
            updated(cache, snapshot)
            cache.remove_node(make_node(f"x{i}"))
            updated(cache, snapshot)
        values = columns.label_values("kubernetes.io/hostname")
        assert values is not first
        assert len(values) <= 9
        assert len(columns.taint_sets) <= 9
        ids = columns.label_ids("kubernetes.io/hostname")[columns.order]
        assert [values[i] for i in ids] == ["n1", "n2"]


class TestInternedColumn:
    def test_equal_values_have_one_id(self):
        column = InternedColumn(4)
        for i, value in enumerate(["a", "b", "a", None]):
            column.set(i, value)
        assert column.ids.tolist() == [0, 1, 0, -1]
        assert column.values == ["a", "b"]

    def test_drops_dead_values_once_they_may_be_the_greater_part(self, monkeypatch):
        monkeypatch.setattr(interning, "_SLACK", 2)
        column = InternedColumn(2)
        before = column.values
        column.set(0, "a")
        column.set(0, "b")
        assert column.values is before
        column.set(0, "c")
        assert (column.values, column.ids.tolist()) == (["c"], [0, -1])
        column.set(1, "c")
        assert column.ids.tolist() == [0, 0]
        before = column.values
        for value in "def":
            column.set(1, value)
        assert column.values is before
        column.set(1, "g")
        assert (column.values, column.ids.tolist()) == (["c", "g"], [0, 1])
        before = column.values
        for value in "hijk":
            column.set(1, value)
        assert column.values is before
        column.set(1, "l")
        assert column.values == ["c", "l"]

    def test_grows_with_absent_rows(self):
        column = InternedColumn(1)
        column.set(0, "a")
        column.grow(3)
        assert column.ids.tolist() == [0, -1, -1]
        assert column.ids.dtype == np.int32


def test_only_a_node_with_its_object_has_a_row():
    with pytest.raises(ValueError, match="no node object"):
        Columns().write(NodeInfo("ghost"))


def test_two_snapshots_share_nodes_and_have_rows_of_their_own():
    cache = make_cache("n1", "n2")
    cycle = updated(cache)
    cache.remove_node(make_node("n1"))
    reader = Snapshot()
    updated(cache, reader)
    updated(cache, cycle)
    assert (row(cycle, "n2"), row(reader, "n2")) == (1, 0)
    assert cycle.get("n2") is reader.get("n2")
