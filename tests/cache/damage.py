"""A cache with a bit of everything, and ways to damage it and its snapshot, each with how validation tells it."""

from schedcache.cache import NodeInfo
from schedcache.cache.image_states import ImageStateSummary
from schedcache.cache.terms import PodTerm
from schedcache.model import LabelSelector, Resource
from schedcache.testing import make_node, make_pod
from tests.cache.support import make_cache, updated


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


def _info(cache):
    info = cache.nodes["n1"] = cache.nodes["n1"].copy()
    return info


CACHE_DAMAGE = {
    "requested": ("requested of node n1: expected ", lambda c: setattr(_info(c).requested, "memory", 1)),
    "priority floor": (
        "no pod on node n1 is below its priority_floor: does not hold",
        lambda c: setattr(_info(c), "priority_floor", 1),
    ),
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
        "nodes with pods but without an entry: expected set(), found {'n9'}",
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
    "zone that a node is filed under": (
        "zones that nodes are filed under: expected {'n1': ':\\x00:a'}, found {'n1': 'elsewhere'}",
        lambda c: c.node_tree._zone_of.update({"n1": "elsewhere"}),
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
        "deadline of pod uid-b, which does not expire: expected None, found 1.0",
        lambda c: setattr(c.pod_states["uid-b"], "deadline", 1.0),
    ),
    "deadline too late": (
        "pod uid-b expires in 30.0 s at the latest: does not hold",
        lambda c: (c.finish_binding(make_pod("b", "n2")), setattr(c.pod_states["uid-b"], "deadline", c._clock() + 31)),
    ),
    "deadline missing": (
        "pod uid-b expires in 30.0 s at the latest: does not hold",
        lambda c: (c.finish_binding(make_pod("b", "n2")), setattr(c.pod_states["uid-b"], "deadline", None)),
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


def row_of_n1(s):
    return s.columns.row_of["n1"]


def _show(s, info):
    s.node_info_map[info.name] = s.columns.infos[s.columns.row_of[info.name]] = info
    s._list = None


def _without_node(info):
    info = info.copy()
    info.node, info.frozen = None, True
    return info


TERM = PodTerm(None, LabelSelector(()))


def _column(message, name, value=99):
    return message, lambda s: getattr(s.columns, name).__setitem__((..., row_of_n1(s)), value)


SNAPSHOT_DAMAGE = {
    "allocatable": _column("allocatable cpu: expected {'n1': 4000}, found {'n1': 99}", "allocatable"),
    "requested": _column("requested cpu: expected {'n1': 1000}, found {'n1': 99}", "requested"),
    "non_zero_requested": _column(
        "non_zero_requested: expected {'n1': [1000, 209715200]}, found {'n1': [99, 99]}", "non_zero_requested"
    ),
    "pod_count": _column("pod_count: expected {'n1': 1}, found {'n1': 99}", "pod_count"),
    "priority_floor": _column("priority_floor: expected {'n1': 0}, found {'n1': 99}", "priority_floor"),
    "allowed_pods": _column("allowed_pods: expected {'n1': 110}, found {'n1': 99}", "allowed_pods"),
    "affinity_pods": _column("affinity_pods: expected {'n1': 1}, found {'n1': 99}", "affinity_pods"),
    "required_anti_affinity_pods": _column(
        "required_anti_affinity_pods: expected {'n1': 1}, found {'n1': 99}", "required_anti_affinity_pods"
    ),
    "unschedulable": _column("unschedulable: expected {'n1': False}, found {'n1': True}", "unschedulable", True),
    "taints": (
        "taints in row 1: expected (), found (Taint(key='k', value='', effect='NoSchedule'),)",
        lambda s: s.columns.taint_set.__setitem__(row_of_n1(s), s.columns.taint_set[s.columns.row_of["n2"]]),
    ),
    "label": (
        "label disk in row 1: expected 'ssd', found None",
        lambda s: s.columns.label_ids("disk").__setitem__(row_of_n1(s), -1),
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
        lambda s: s.columns.infos.__setitem__(row_of_n1(s), s.get("n1").copy()),
    ),
    "old object": (
        "generation of n1 in the snapshot: expected ",
        lambda s: s.node_info_map.__setitem__("n1", s.get("n2")),
    ),
    "object in the list": (
        "n1 shown in the list: does not hold",
        lambda s: s.node_info_list.__setitem__(0, s.get("n1").copy()),
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
    "pod table": (
        "pod table against one made anew: expected [], found ['node n1: 1 pods that are not its 1'",
        lambda s: s.pod_table.starts.__setitem__((row_of_n1(s), 0), 7),
    ),
    "kinds of the pod table": (
        "pod table against one made anew: expected [], found ['kinds are not counted as often as they are used'",
        lambda s: s.pod_table._uses.__setitem__(1, 9),
    ),
    "requests in the pod table": (
        "pod table against one made anew: expected [], found ['cpu of pods such as those in default",
        lambda s: s.pod_table.amounts("cpu").__setitem__(1, 9),
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
        "unschedulable of rows without node is zero: does not hold",
        lambda s: s.columns.unschedulable.__setitem__(s.columns._free[0], True),
    ),
    "non-zero requests of a free row": (
        "non_zero_requested of rows without node is zero: does not hold",
        lambda s: s.columns.non_zero_requested.__setitem__((0, s.columns._free[0]), 1),
    ),
    "taints of a free row": (
        "taints: none for rows without node: does not hold",
        lambda s: s.columns.taint_set.__setitem__(s.columns._free[0], 0),
    ),
    "taint set twice": (
        "taints: one id for each value: does not hold",
        lambda s: s.columns.taint_sets.append(s.columns.taint_sets[0]),
    ),
    "label value twice": (
        "label disk: one id for each value: does not hold",
        lambda s: s.columns.label_values("disk").append("ssd"),
    ),
    "cells of rows never used": (
        "requested memory of rows without node is zero: does not hold",
        lambda s: s.columns.requested.__setitem__((1, -1), 1),
    ),
    "type of a column": (
        "type and capacity of pod_count: expected ",
        lambda s: setattr(s.columns, "pod_count", s.columns.pod_count.astype("int8")),
    ),
    "length of a column": (
        "type and capacity of allowed_pods: expected ",
        lambda s: setattr(s.columns, "allowed_pods", s.columns.allowed_pods[:8].copy()),
    ),
    "length of a column of ids": (
        "label disk: type and capacity: expected ",
        lambda s: setattr(s.columns._labels["disk"], "ids", s.columns.label_ids("disk")[:8].copy()),
    ),
    "id of a value": (
        "label disk: one id for each value: does not hold",
        lambda s: s.columns._labels["disk"]._id_of.update({"ssd": 5}),
    ),
    "id that leads nowhere": (
        "the check failed: IndexError",
        lambda s: s.columns.taint_set.__setitem__(row_of_n1(s), 99),
    ),
    "node object of no generation": (
        "nodes change with their rows: does not hold",
        lambda s: s.columns.node_generation.__setitem__(row_of_n1(s), 0),
    ),
    "free row in use": (
        "pod_count of rows without node is zero: does not hold",
        lambda s: s.columns.pod_count.__setitem__(s.columns._free[0], 1),
    ),
    "label of a free row": (
        "label disk: none for rows without node: does not hold",
        lambda s: s.columns.label_ids("disk").__setitem__(s.columns._free[0], 0),
    ),
    "version": ("the newest generation of a row: expected 1, found 4", lambda s: setattr(s.columns, "version", 1)),
    "resource": ("resources: expected set(), found {'x.io/y'}", lambda s: s.columns.resource_index.pop("x.io/y")),
    "no taints": (
        "row 2 has a taint set: does not hold",
        lambda s: s.columns.taint_set.__setitem__(s.columns.row_of["n2"], -1),
    ),
    "free row twice": ("rows to use again: expected [0], found [0, 1]", lambda s: s.columns._free.append(row_of_n1(s))),
    "free row forgotten": ("rows to use again: expected [0], found []", lambda s: s.columns._free.clear()),
    "generation of a row": _column("nodes change with their rows: does not hold", "generation", 1),
    "generation of a node object": _column("nodes change with their rows: does not hold", "node_generation"),
    "no record of writes": ("the newest write on record: expected 4, found 0", lambda s: s.columns._log.clear()),
    "record of writes": (
        "generation of row 0: expected 1, found 4",
        lambda s: s.columns._log.__setitem__(-1, row_of_n1(s)),
    ),
}
