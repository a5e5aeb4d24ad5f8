"""Recomputes from scratch everything that the cache keeps up to date step by step, and compares."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from reprlib import Repr

import numpy as np

from schedcache.cache.columns import Columns
from schedcache.cache.errors import CacheCorruptedError
from schedcache.cache.image_states import ImageStates, summaries
from schedcache.cache.interning import ABSENT
from schedcache.cache.node_entries import NodeEntries
from schedcache.cache.node_info import NodeInfo
from schedcache.cache.pod_state import PodState
from schedcache.cache.snapshot import Snapshot
from schedcache.model import Node, Pod

_BRIEF = Repr()
_BRIEF.maxdict = _BRIEF.maxset = _BRIEF.maxlist = 8
_BRIEF.maxstring = 200
_BRIEF.maxother = 200


def check_node(entries: NodeEntries, pod_states: Mapping[str, PodState], info: NodeInfo) -> None:
    """Compare one entry with the pods that it holds. Raises CacheCorruptedError."""
    for uid, pod in info.pods_by_uid.items():
        state = pod_states.get(uid)
        require(f"pod {uid} on node {info.name} is the cached one", state is not None and state.pod is pod)
        expect(f"node of pod {uid}", info.name, pod.node_name)
    _check_info(info, info.name, info.pods_by_uid)
    expect(f"{info.name} in the node tree", info.node is not None, info.name in entries.tree)


def check_entries(entries: NodeEntries, pod_states: Mapping[str, PodState]) -> None:
    """Compare the entries' aggregates, lists and indexes with the pods and nodes. Raises CacheCorruptedError."""
    pods: dict[str, dict[str, Pod]] = {}
    for uid, state in pod_states.items():
        pods.setdefault(state.pod.node_name, {})[uid] = state.pod
    expect("nodes with pods but without an entry", set(), pods.keys() - entries.nodes.keys())
    for name, info in entries.nodes.items():
        _check_info(info, name, pods.get(name, {}))
    for newer, older in pairwise(entries.nodes.values()):
        require(f"{newer} newer than {older}", newer.generation > older.generation)
    known = {n: i.node for n, i in entries.nodes.items() if i.node is not None}
    zones = {(name, zone) for zone, names in entries.tree.zones.items() for name in names}
    expect("zones in the node tree", {(name, node.zone_key) for name, node in known.items()}, zones)
    filed = {name: entries.tree.zone(name) for name in known}
    expect("zones that nodes are filed under", {name: node.zone_key for name, node in known.items()}, filed)
    expect("size of the node tree", len(known), len(entries.tree))
    _check_images(entries.nodes, entries.images)


def check_pod_states(
    pod_states: Mapping[str, PodState], assumed_pods: Mapping[str, PodState], ttl: float, now: float
) -> None:
    """Compare the pod states with each other and with the time to live. Raises CacheCorruptedError."""
    for uid, state in pod_states.items():
        expect("UID of a pod state", uid, state.pod.uid)
        if uid not in assumed_pods:
            expect(f"deadline of confirmed pod {uid}", None, state.deadline)
    for uid, state in assumed_pods.items():
        require(f"assumed pod {uid} is cached", pod_states.get(uid) is state)
        if not state.binding_finished or not ttl:
            expect(f"deadline of pod {uid}, which does not expire", None, state.deadline)
        else:
            in_time = state.deadline is not None and state.deadline <= now + ttl
            require(f"pod {uid} expires in {ttl} s at the latest", in_time)


def check_snapshot(entries: NodeEntries, snapshot: Snapshot) -> None:
    """Compare a snapshot that has just been updated with the cache's entries and with one made from scratch.

    Raises CacheCorruptedError.
    """
    newest = max((info.generation for info in entries.nodes.values()), default=0)
    require(f"the snapshot is of generation {newest} or later", snapshot.generation >= newest)
    known = {name for name, info in entries.nodes.items() if info.node is not None}
    expect("nodes in the snapshot's map", known, set(snapshot.node_info_map))
    for name, info in snapshot.node_info_map.items():
        expect(f"generation of {name} in the snapshot", entries.nodes[name].generation, info.generation)
    expect("pods assumed in the snapshot alone", {}, dict(snapshot.assumed))
    check_snapshot_itself(snapshot)


def check_snapshot_itself(snapshot: Snapshot) -> None:
    """Compare a snapshot's lists, indexes and columns with its nodes. Raises CacheCorruptedError."""
    columns = snapshot.columns
    names = snapshot.node_info_map.keys()
    listed = [columns.names[row] for row in columns.order]
    expect("nodes listed in the snapshot", sorted(names), sorted(listed))
    expect("rows of nodes", set(names), set(columns.row_of))
    expect("node_info_list", listed, [info.name for info in snapshot.node_info_list])
    for name, info in zip(listed, snapshot.node_info_list, strict=True):
        require(f"{name} shown in the list", snapshot.node_info_map[name] is info)
        require(f"{name} shown in its row", columns.infos[columns.row_of[name]] is info)
        require(f"{name} frozen", info.frozen)
    _check_columns(columns)
    claims = Counter(claim for info in snapshot.node_info_list for claim in info.pvc_ref_counts)
    expect("term index against a recount", [], snapshot.term_index.check())
    expect("pod table against one made anew", [], snapshot.check_pod_table())
    expect("claims in use", dict(claims), dict(snapshot.claim_node_counts))
    infos = snapshot.node_info_list
    expect("affinity list", [i for i in infos if i.pods_with_affinity], snapshot.have_pods_with_affinity_list)
    expect(
        "required anti-affinity list",
        [i for i in infos if i.pods_with_required_anti_affinity],
        snapshot.have_pods_with_required_anti_affinity_list,
    )


def expect(what: str, want: object, got: object) -> None:
    """Raises CacheCorruptedError with the difference if they are not equal."""
    if want != got:
        wanted, found = _differing(want, got)
        raise CacheCorruptedError(f"{what}: expected {_BRIEF.repr(wanted)}, found {_BRIEF.repr(found)}")


def require(what: str, holds: object) -> None:
    """Raises CacheCorruptedError if it does not hold."""
    if not holds:
        raise CacheCorruptedError(f"{what}: does not hold")


def _differing(want: object, got: object) -> tuple[object, object]:
    """The parts of two collections that differ: all nodes would make a message of thousands of lines."""
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        want, got = dict(enumerate(want)), dict(enumerate(got))
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        same = {key for key in want.keys() & got.keys() if want[key] == got[key]}
        return {k: v for k, v in want.items() if k not in same}, {k: v for k, v in got.items() if k not in same}
    if isinstance(want, AbstractSet) and isinstance(got, AbstractSet):
        return want - got, got - want
    return want, got


def _check_info(info: NodeInfo, name: str, pods: Mapping[str, Pod]) -> None:
    fresh = NodeInfo(name)
    for pod in pods.values():
        fresh.add_pod(pod)
    expect("name of a node entry", name, info.name)
    for field in (
        "requested",
        "non_zero_requested",
        "pods_by_uid",
        "pods_with_affinity_by_uid",
        "pods_with_required_anti_affinity_by_uid",
        "used_ports",
        "pvc_ref_counts",
    ):
        expect(f"{field} of node {name}", getattr(fresh, field), getattr(info, field))
    require(
        f"no pod on node {name} is below its priority_floor", not pods or info.priority_floor <= fresh.priority_floor
    )
    if info.node is None:
        require(f"node {name} without node object has pods", bool(pods))
    else:
        expect(f"name of the node object of {name}", name, info.node.name)
        expect(f"allocatable of node {name}", info.node.allocatable, info.allocatable)


def _check_images(nodes: Mapping[str, NodeInfo], records: ImageStates) -> None:
    on: dict[str, set[str]] = {}
    for name, info in nodes.items():
        if info.node is not None:
            images = {n for image in info.node.images for n in image.names}
            for image in images:
                on.setdefault(image, set()).add(name)
            expect(f"image records of node {name}", images, {state.name for state in info.image_refs})
            for state in info.image_refs:
                require(f"one record of image {state.name}", records.states.get(state.name) is state)
            if info.images_version == records.version:
                expect(f"images shown of node {name}", summaries(info.image_refs), info.image_states)
    expect("nodes of images", on, {name: state.nodes for name, state in records.states.items()})
    for state in records.states.values():
        expect(f"size of image {state.name}", state.size, state.summary.size)
        expect(f"number of nodes with image {state.name}", len(state.nodes), state.summary.num_nodes)


def check_rows(columns: Columns, rows: list[int], free: Sequence[int] = ()) -> None:
    """Compare the amounts, taints and labels of some rows with ones made from their nodes.

    `free` are the rows without a node, which have to be empty. Raises CacheCorruptedError.
    """
    nodes = [_node_in(columns, row) for row in rows]
    names = [node.name for node in nodes]
    fresh = Columns()
    fresh_rows = [fresh.write(columns.infos[row])[0] for row in rows]

    def compare(what: str, want: np.ndarray, got: np.ndarray) -> None:
        expect(f"type and capacity of {what}", (want.dtype, len(columns.generation)), (got.dtype, got.shape[-1]))
        require(f"{what} of rows without node is zero", not got[..., free].any())
        found = dict(zip(names, got[..., rows].T.tolist(), strict=True))
        expect(what, dict(zip(names, want[..., fresh_rows].T.tolist(), strict=True)), found)

    for field in (
        "non_zero_requested",
        "pod_count",
        "priority_floor",
        "allowed_pods",
        "affinity_pods",
        "required_anti_affinity_pods",
        "unschedulable",
    ):
        compare(field, getattr(fresh, field), getattr(columns, field))
    for name, index in columns.resource_index.items():
        for field in ("allocatable", "requested"):
            i, amounts = fresh.resource_index.get(name), getattr(fresh, field)
            want = np.zeros_like(amounts[0]) if i is None else amounts[i]
            compare(f"{field} {name}", want, getattr(columns, field)[index])
    expect("resources", set(), fresh.resource_index.keys() - columns.resource_index.keys())
    for row, node in zip(rows, nodes, strict=True):
        require(f"row {row} has a taint set", columns.taint_set[row] >= 0)
        expect(f"taints in row {row}", node.taints, columns.taint_sets[columns.taint_set[row]])
        for key in columns.label_keys:
            found = columns.label_ids(key)[row]
            expect(
                f"label {key} in row {row}",
                node.labels.get(key),
                None if found < 0 else columns.label_values(key)[found],
            )


def _check_columns(columns: Columns) -> None:
    rows = list(columns.row_of.values())
    free = sorted(set(range(len(columns.generation))) - set(rows))
    expect("names of rows", [_node_in(columns, row).name for row in rows], list(columns.row_of))
    check_rows(columns, rows, free)
    for what, interned in columns.interned():
        require(f"{what}: one id for each value", interned.is_sound())
        expect(
            f"{what}: type and capacity", (np.int32, len(columns.generation)), (interned.ids.dtype, len(interned.ids))
        )
        require(f"{what}: none for rows without node", (interned.ids[free] == ABSENT).all())
    _check_host_ports(columns, rows)
    expect("rows to use again", sorted(set(range(columns.rows)) - set(rows)), sorted(columns.free_rows))
    _check_versions(columns)


def _node_in(columns: Columns, row: int) -> Node:
    node = columns.infos[row].node
    if node is None:
        raise CacheCorruptedError(f"row {row} shows {columns.infos[row]}, which has no node object")
    return node


def _check_host_ports(columns: Columns, rows: list[int]) -> None:
    ports: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}
    for row in rows:
        for ip, protocol, port in sorted(columns.infos[row].used_ports):
            taken = ports.setdefault((protocol, port), {})
            taken[row] = (*taken.get(row, ()), ip)
    expect("host ports", ports, columns.host_ports)


def _check_versions(columns: Columns) -> None:
    written = columns.generation[: columns.rows]
    expect("the newest generation of a row", columns.version, int(written.max(initial=0)))
    by_node = columns.node_generation[: columns.rows]
    require("nodes change with their rows", ((by_node > 0) & (by_node <= written)).all())
    on_record = list(columns.latest_writes())
    expect("the newest write on record", columns.version, max((version for version, _ in on_record), default=0))
    for version, row in on_record:
        expect(f"generation of row {row}", version, int(written[row]))
