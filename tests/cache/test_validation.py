"""Validation finds every kind of damage, and finds nothing in a sound cache."""

import re

import pytest

from schedcache.cache import CacheCorruptedError, NodeInfo, SchedulerCache, Snapshot, validator
from schedcache.cache.image_states import ImageStateSummary
from schedcache.cache.terms import PodTerm
from schedcache.model import LabelSelector, Resource
from tests.cache.support import make_cache, make_node, make_pod, updated


def furnished():
    """A cache with a bit of everything, and its snapshot, both sound."""
    cache = make_cache()
    cache.add_node(make_node("n1", zone="a", images=[(["i"], 5)], labels={"disk": "ssd"}))
    cache.add_node(make_node("n2", zone="b", images=[(["i"], 5)], taints=[{"key": "k", "effect": "NoSchedule"}]))
    cache.add_node(make_node("gone"))
    cache.add_pod(
        make_pod(
            "a", "n1", requests={"cpu": "1", "x.io/y": "1"}, host_ports=[80], claims=["c"], anti_affinity={"x": "y"}
        )
    )
    cache.assume_pod(make_pod("b", "n2"))
    cache.add_pod(make_pod("early", "n9"))
    snapshot = updated(cache)
    snapshot.columns.label_ids("disk")
    cache.remove_node(make_node("gone"))
    updated(cache, snapshot)
    assert snapshot.have_pods_with_affinity_list
    return cache, snapshot


def test_a_sound_cache_passes():
    cache, snapshot = furnished()
    cache.check(snapshot)


def _info(cache):
    info = cache.nodes["n1"] = cache.nodes["n1"].copy()
    return info


CACHE_DAMAGE = {
    "requested": ("requested of node n1: expected ", lambda c: setattr(_info(c).requested, "memory", 1)),
    "requested scalar": ("requested of node n1: expected ", lambda c: _info(c).requested.scalar.update({"x.io/y": 2})),
    "non-zero requested": (
        "non_zero_requested of node n1: expected ",
        lambda c: setattr(_info(c).non_zero_requested, "milli_cpu", 1),
    ),
    "ports": ("used_ports of node n1: expected ", lambda c: _info(c).used_ports.update({("0.0.0.0", "TCP", 80): 2})),
    "claims": (
        "pvc_ref_counts of node n1: expected {'default/c': 1}, found {}",
        lambda c: _info(c).pvc_ref_counts.clear(),
    ),
    "pods": ("pods_by_uid of node n1: expected ", lambda c: _info(c).pods_by_uid.update({"x": make_pod("x", "n1")})),
    "another object of a pod": (
        "pods_by_uid of node n1: expected ",
        lambda c: _info(c).pods_by_uid.update({"uid-a": make_pod("a", "n1")}),
    ),
    "affinity pods": (
        "pods_with_affinity_by_uid of node n1: expected ",
        lambda c: _info(c).pods_with_affinity_by_uid.clear(),
    ),
    "anti-affinity pods": (
        "pods_with_required_anti_affinity_by_uid of node n1: expected ",
        lambda c: _info(c).pods_with_required_anti_affinity_by_uid.clear(),
    ),
    "allocatable": ("allocatable of node n1: expected ", lambda c: setattr(_info(c), "allocatable", Resource(1))),
    "node object": (
        "name of the node object of n1: expected 'n1', found 'other'",
        lambda c: setattr(_info(c), "node", make_node("other")),
    ),
    "name": ("name of a node entry: expected 'n1', found 'n7'", lambda c: setattr(_info(c), "name", "n7")),
    "ghost without pods": (
        "non_zero_requested of node n9: expected ",
        lambda c: c.nodes.__setitem__("n9", type(_info(c))("n9")),
    ),
    "entry for nobody": (
        "node n8 without node object has pods: does not hold",
        lambda c: c.nodes.__setitem__("n8", NodeInfo("n8")),
    ),
    "entry missing": (
        "nodes that pods are on, without entry: expected set(), found {'n9'}",
        lambda c: c.nodes.pop("n9"),
    ),
    "order of the list": (" newer than NodeInfo(", lambda c: c.nodes.move_to_end("n1", last=False)),
    "generation twice": (
        " newer than NodeInfo(",
        lambda c: setattr(next(iter(c.nodes.values())), "generation", list(c.nodes.values())[1].generation),
    ),
    "tree lacks a node": (
        "zones in the node tree: expected {('n1', ':\\x00:a')}, found set()",
        lambda c: c.node_tree.remove("n1"),
    ),
    "tree has a node too many": (
        "zones in the node tree: expected set(), found {('n9', '')}",
        lambda c: c.node_tree.set("n9", ""),
    ),
    "zone in the tree": (
        "zones in the node tree: expected {('n1', ':\\x00:a')}, found {('n1', 'elsewhere')}",
        lambda c: c.node_tree.set("n1", "elsewhere"),
    ),
    "size of the tree": (
        "size of the node tree: expected 2, found 3",
        lambda c: c.node_tree._zone_of.update({"x": "a"}),
    ),
    "pod state missing": ("requested of node n1: expected ", lambda c: c.pod_states.pop("uid-a")),
    "pod state under another UID": (
        "UID of a pod state: expected 'x', found 'uid-a'",
        lambda c: c.pod_states.update({"x": c.pod_states.pop("uid-a")}),
    ),
    "deadline of a confirmed pod": (
        "deadline of confirmed pod uid-a: expected None, found 1.0",
        lambda c: setattr(c.pod_states["uid-a"], "deadline", 1.0),
    ),
    "deadline before the binding has finished": (
        "deadline of pod uid-b, whose binding has not finished: expected None, found 1.0",
        lambda c: setattr(c.pod_states["uid-b"], "deadline", 1.0),
    ),
    "assumed pod not cached": (
        "assumed pod x is cached: does not hold",
        lambda c: c.assumed_pods.update({"x": c.pod_states["uid-a"]}),
    ),
    "image count": (
        "nodes of images: expected {'i': {'n1', 'n2'}}, found {'i': {'n1', 'n2', 'n9'}}",
        lambda c: c.image_states.states["i"].nodes.add("n9"),
    ),
    "image summary": (
        "images shown of node n2: expected ",
        lambda c: setattr(c.image_states.states["i"], "summary", c.image_states.states["i"].summary.__class__(5, 1)),
    ),
    "image summary that no node shows": (
        "number of nodes with image i: expected 2, found 1",
        lambda c: (_summarise(c.image_states.states["i"], 1), setattr(c.image_states, "version", 99)),
    ),
    "image size": ("size of image i: expected 6, found 5", lambda c: setattr(c.image_states.states["i"], "size", 6)),
    "image too many": (
        "nodes of images: expected {}, found {'j': {'n1', 'n2'}}",
        lambda c: c.image_states.states.update({"j": c.image_states.states["i"]}),
    ),
    "images shown": (
        "images shown of node n1: expected ",
        lambda c: setattr(c.nodes["n1"], "image_states", {"i": ImageStateSummary(5, 1)}),
    ),
    "image record of a node": (
        "image records of node n1: expected {'i'}, found set()",
        lambda c: setattr(_info(c), "image_refs", ()),
    ),
    "image record replaced": (
        "one record of image i: does not hold",
        lambda c: c.image_states.states.update({"i": _clone(c.image_states.states["i"])}),
    ),
}


def _summarise(state, num_nodes):
    state.summary = ImageStateSummary(state.size, num_nodes)


def _clone(state):
    clone = type(state)(state.name, state.size)
    clone.nodes, clone.summary = set(state.nodes), state.summary
    return clone


@pytest.mark.parametrize(("message", "damage"), CACHE_DAMAGE.values(), ids=CACHE_DAMAGE)
def test_damage_to_the_cache_is_found_and_named(message, damage):
    cache, _ = furnished()
    damage(cache)
    with pytest.raises(CacheCorruptedError, match=re.escape(message)):
        cache.check()


def _row(s):
    return s.columns.row_of["n1"]


def _show(s, info):
    s.node_info_map[info.name] = s.columns.infos[s.columns.row_of[info.name]] = info


def _without_node(info):
    info = info.copy()
    info.node, info.frozen = None, True
    return info


TERM = PodTerm(None, LabelSelector(()))


def _column(message, name, value=99):
    return message, lambda s: getattr(s.columns, name).__setitem__((..., _row(s)), value)


SNAPSHOT_DAMAGE = {
    "allocatable": _column("allocatable cpu: expected {'n1': 4000}, found {'n1': 99}", "allocatable"),
    "requested": _column("requested cpu: expected {'n1': 1000}, found {'n1': 99}", "requested"),
    "non_zero_requested": _column(
        "non_zero_requested: expected {'n1': [1000, 209715200]}, found {'n1': [99, 99]}", "non_zero_requested"
    ),
    "pod_count": _column("pod_count: expected {'n1': 1}, found {'n1': 99}", "pod_count"),
    "allowed_pods": _column("allowed_pods: expected {'n1': 110}, found {'n1': 99}", "allowed_pods"),
    "affinity_pods": _column("affinity_pods: expected {'n1': 1}, found {'n1': 99}", "affinity_pods"),
    "required_anti_affinity_pods": _column(
        "required_anti_affinity_pods: expected {'n1': 1}, found {'n1': 99}", "required_anti_affinity_pods"
    ),
    "unschedulable": _column("unschedulable: expected {'n1': False}, found {'n1': True}", "unschedulable", True),
    "taints": (
        "taints in row 1: expected (), found (Taint(key='k', value='', effect='NoSchedule'),)",
        lambda s: s.columns.taint_set.__setitem__(_row(s), s.columns.taint_set[s.columns.row_of["n2"]]),
    ),
    "label": (
        "label disk in row 1: expected 'ssd', found None",
        lambda s: s.columns.label_ids("disk").__setitem__(_row(s), -1),
    ),
    "host ports": (
        "host ports: expected {('TCP', 80): {1: ('0.0.0.0',)}}, found {}",
        lambda s: s.columns.host_ports.clear(),
    ),
    "order": (
        "nodes listed in the snapshot: expected ['n1', 'n2'], found ['n1']",
        lambda s: setattr(s.columns, "order", s.columns.order[:1]),
    ),
    "order twice": (
        "nodes listed in the snapshot: expected {1: 'n2'}, found {1: 'n1'}",
        lambda s: setattr(s.columns, "order", s.columns.order[[0, 0]]),
    ),
    "map": ("nodes in the snapshot's map: expected {'n1'}, found set()", lambda s: s.node_info_map.pop("n1")),
    "row": ("rows of nodes: expected {'n1'}, found set()", lambda s: s.columns.row_of.pop("n1")),
    "object in the row": (
        "n1 shown in its row: does not hold",
        lambda s: s.columns.infos.__setitem__(_row(s), s.get("n1").copy()),
    ),
    "old object": (
        "generation of n1 in the snapshot: expected ",
        lambda s: s.node_info_map.__setitem__("n1", s.get("n2")),
    ),
    "thawed object": ("n1 frozen: does not hold", lambda s: setattr(s.get("n1"), "frozen", False)),
    "stale list": (
        "node_info_list: expected ['n1', 'n2'], found ['n1']",
        lambda s: setattr(s, "_list", s.node_info_list[:1]),
    ),
    "object without node": (
        "row 1 shows NodeInfo('n1', pods=1",
        lambda s: _show(s, _without_node(s.get("n1"))),
    ),
    "term index": (
        "term index against a recount: expected [], found ['pods that match ",
        lambda s: (s.term_index.counts(TERM), s.term_index._matched[TERM].counts.add(0, 1)),
    ),
    "claims": (
        "claims in use: expected {'default/c': 1}, found {'default/c': 2}",
        lambda s: s._claims.update({"default/c": 2}),
    ),
    "affinity list": ("affinity list: expected [NodeInfo('n1', pods=1", lambda s: s._derived["affinity"][1].clear()),
    "anti-affinity list": (
        "required anti-affinity list: expected [NodeInfo('n1', pods=1",
        lambda s: (s.have_pods_with_required_anti_affinity_list, s._derived["anti-affinity"][1].clear()),
    ),
    "unschedulable free row": (
        "unschedulable of free rows is zero: does not hold",
        lambda s: s.columns.unschedulable.__setitem__(s.columns._free[0], True),
    ),
    "non-zero requests of a free row": (
        "non_zero_requested of free rows is zero: does not hold",
        lambda s: s.columns.non_zero_requested.__setitem__((0, s.columns._free[0]), 1),
    ),
    "taints of a free row": (
        "taint sets of free rows: does not hold",
        lambda s: s.columns.taint_set.__setitem__(s.columns._free[0], 0),
    ),
    "taint set twice": (
        "taint sets with two ids: expected [], found [()]",
        lambda s: s.columns.taint_sets.append(s.columns.taint_sets[0]),
    ),
    "label value twice": (
        "values of label disk with two ids: expected [], found ['ssd']",
        lambda s: s.columns.label_values("disk").append("ssd"),
    ),
    "free row in use": (
        "pod_count of free rows is zero: does not hold",
        lambda s: s.columns.pod_count.__setitem__(s.columns._free[0], 1),
    ),
    "label of a free row": (
        "label disk of free rows: does not hold",
        lambda s: s.columns.label_ids("disk").__setitem__(s.columns._free[0], 0),
    ),
    "version": ("the newest generation of a row: expected 1, found 4", lambda s: setattr(s.columns, "version", 1)),
    "resource": ("resources: expected set(), found {'x.io/y'}", lambda s: s.columns.resource_index.pop("x.io/y")),
    "no taints": (
        "row 2 has a taint set: does not hold",
        lambda s: s.columns.taint_set.__setitem__(s.columns.row_of["n2"], -1),
    ),
    "free row twice": ("rows to use again: expected [0], found [0, 1]", lambda s: s.columns._free.append(_row(s))),
    "free row forgotten": ("rows to use again: expected [0], found []", lambda s: s.columns._free.clear()),
    "generation of a row": _column("nodes change with their rows: does not hold", "generation", 1),
    "generation of a node object": _column("nodes change with their rows: does not hold", "node_generation"),
    "no record of writes": ("the newest write on record: expected 4, found 0", lambda s: s.columns._log.clear()),
    "record of writes": ("generation of row 0: expected 1, found 4", lambda s: s.columns._log.__setitem__(-1, _row(s))),
    "generation of the snapshot": (" or later: does not hold", lambda s: setattr(s, "generation", 1)),
}


@pytest.mark.parametrize(("message", "damage"), SNAPSHOT_DAMAGE.values(), ids=SNAPSHOT_DAMAGE)
def test_damage_to_a_snapshot_is_found_and_named(message, damage):
    cache, snapshot = furnished()
    damage(snapshot)
    with pytest.raises(CacheCorruptedError, match=re.escape(message)):
        cache.check(snapshot)


@pytest.mark.parametrize("damage", [damage for _, damage in SNAPSHOT_DAMAGE.values()], ids=SNAPSHOT_DAMAGE)
def test_a_rebuild_of_the_cache_from_the_same_objects_mends_the_snapshot(damage):
    cache, snapshot = furnished()
    damage(snapshot)
    nodes = [info.node for info in cache.nodes.values() if info.node]
    pods = [state.pod for state in cache.pod_states.values()]
    cache.reset()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    cache.check(updated(cache, snapshot))


def test_a_difference_is_told_once_until_the_cache_is_reset_and_no_call_is_cut_short():
    told = []
    cache = SchedulerCache(validate=True, on_corruption=told.append)
    cache.add_node(make_node("n1"))
    cache.nodes["n1"].requested.milli_cpu = 7
    cache.assume_pod(make_pod("a", "n1", requests={"cpu": "1"}))
    cache.finish_binding(make_pod("a", "n1"))
    cache.update_snapshot(Snapshot())
    assert [error.kind for error in told] == ["corruption"]
    cache.reset(keep_assumed=["uid-a"])
    cache.nodes["n1"].requested.milli_cpu = 7
    cache.add_node(make_node("n1"))
    assert len(told) == 2
    cache.forget_pod(make_pod("a", "n1"))
    assert cache.pod_count() == 0


def test_a_difference_in_a_snapshot_is_told():
    told = []
    cache, snapshot = SchedulerCache(validate=True, on_corruption=told.append), Snapshot()
    cache.add_node(make_node("n1"))
    cache.update_snapshot(snapshot)
    snapshot.columns.host_ports["TCP", 80] = {0: ("0.0.0.0",)}
    cache.update_snapshot(snapshot)
    cache.update_snapshot(snapshot)
    assert [str(error).split(":")[0] for error in told] == ["host ports"]


def test_a_message_tells_the_nodes_that_differ_and_no_others():
    cache = make_cache(*(f"n{i}" for i in range(300)))
    snapshot = updated(cache)
    snapshot.columns.pod_count[7] = 5
    with pytest.raises(CacheCorruptedError, match=r"^pod_count: expected \{'n7': 0\}, found \{'n7': 5\}$"):
        cache.check(snapshot)
    snapshot.columns.pod_count[:] = 5
    snapshot.columns.infos[0] = cache.nodes["n1"]
    with pytest.raises(CacheCorruptedError) as error:
        cache.check(snapshot)
    assert len(str(error.value)) < 1000


def test_a_message_says_what_was_expected_and_found():
    cache, _ = furnished()
    cache.pod_states["uid-a"].deadline = 7.0
    with pytest.raises(CacheCorruptedError, match=r"deadline of confirmed pod uid-a: expected None, found 7\.0"):
        cache.check()


CALLS = {
    "assume_pod": lambda c: c.assume_pod(make_pod("x", "n1")),
    "finish_binding": lambda c: c.finish_binding(make_pod("b", "n2")),
    "forget_pod": lambda c: c.forget_pod(make_pod("b", "n2")),
    "add_pod": lambda c: c.add_pod(make_pod("b", "n2")),
    "update_pod": lambda c: c.update_pod(make_pod("a", "n1"), make_pod("a", "n1")),
    "remove_pod": lambda c: c.remove_pod(make_pod("a", "n1")),
    "add_node": lambda c: c.add_node(make_node("n4")),
    "update_node": lambda c: c.update_node(None, make_node("n1")),
    "remove_node": lambda c: c.remove_node(make_node("n2")),
    "refused remove_node": lambda c: c.remove_node(make_node("n9")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_validates_where_asked_to(call):
    cache, _ = furnished()
    cache.pod_states["uid-early"].deadline = 7.0
    with pytest.raises(CacheCorruptedError, match="deadline"):
        call(cache)


def test_a_snapshot_is_validated_where_asked_to():
    cache, snapshot = furnished()
    snapshot.columns.pod_count[_row(snapshot)] = 9
    with pytest.raises(CacheCorruptedError, match="pod_count"):
        cache.update_snapshot(snapshot)
    cache.validate = False
    cache.update_snapshot(snapshot)


def test_a_reset_is_validated_where_asked_to():
    cache, _ = furnished()
    cache.assumed_pods["uid-b"].pod = make_pod("other", "n2")
    with pytest.raises(CacheCorruptedError, match="UID"):
        cache.reset(["uid-b"])


def _move(cache, name, claimed):
    """The pod of the node says that it is on another one, and so does its state."""
    pod = make_pod("a", claimed)
    cache.nodes[name].pods_by_uid["uid-a"] = pod
    cache.pod_states["uid-a"].pod = pod


class TestLargeClusters:
    @pytest.fixture
    def cache(self, monkeypatch):
        """Four nodes and pods, one of them damaged, where only one of them may be checked in a call."""
        monkeypatch.setattr(validator, "_CHECKED_PER_CALL", 1)
        cache = make_cache()
        cache.validate = False
        for name, pod in (("n1", "a"), ("n2", "b")):
            cache.add_node(make_node(name))
            cache.add_pod(make_pod(pod, name))
        cache.validate = True
        return cache

    def test_check_everything_every_so_many_calls(self, cache):
        cache.pod_states["uid-b"].deadline = 7.0
        for _ in range(2):
            for _ in range(3):
                cache.update_node(None, make_node("n1"))
            with pytest.raises(CacheCorruptedError, match="deadline"):
                cache.update_node(None, make_node("n1"))

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda cache: setattr(cache.nodes["n1"].requested, "memory", 5), "requested of node n1: expected"),
            (
                lambda cache: setattr(cache.pod_states["uid-a"], "pod", make_pod("a", "n1")),
                "uid-a on node n1 is the cached one",
            ),
            (lambda cache: cache.pod_states.pop("uid-a"), "pod uid-a on node n1 is the cached one"),
            (lambda cache: _move(cache, "n1", "n2"), "node of pod uid-a: expected 'n1', found 'n2'"),
            (lambda cache: cache.node_tree.remove("n2"), "n2 in the node tree: expected True, found False"),
        ],
        ids=["sum", "pod", "state", "node name", "tree"],
    )
    def test_check_the_changed_node_each_time(self, cache, damage, message):
        damage(cache)
        changed = "n2" if "n2" not in cache.node_tree else "n1"
        with pytest.raises(CacheCorruptedError, match=message):
            cache.assume_pod(make_pod("c", changed))

    def test_check_the_node_of_a_removal_that_is_refused(self, cache):
        cache.assume_pod(make_pod("c", "n9"))
        cache.nodes["n9"].requested.memory = 5
        with pytest.raises(CacheCorruptedError, match="requested of node n9: expected"):
            cache.remove_node(make_node("n9"))

    def test_check_nothing_of_a_node_that_has_gone(self, cache):
        cache.assume_pod(make_pod("c", "n9"))
        cache.forget_pod(make_pod("c", "n9"))
        assert "n9" not in cache.nodes

    def test_check_a_snapshot_every_so_many_updates(self, cache):
        snapshot = updated(cache)
        snapshot.columns.pod_count[:] = 9
        for _ in range(2):
            cache.update_snapshot(snapshot)
        with pytest.raises(CacheCorruptedError, match="pod_count"):
            cache.update_snapshot(snapshot)


def test_nothing_is_validated_otherwise():
    cache, _ = furnished()
    cache.validate = False
    cache.pod_states["uid-early"].deadline = 7.0
    cache.assume_pod(make_pod("x", "n1"))
    cache.reset()
