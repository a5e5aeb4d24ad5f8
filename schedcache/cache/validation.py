"""Everything that the cache keeps up to date step by step, recomputed from scratch and compared."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from schedcache.cache.columns import Columns
from schedcache.cache.errors import CacheCorruptedError
from schedcache.cache.node_info import NodeInfo
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache.scheduler_cache import SchedulerCache
    from schedcache.cache.snapshot import Snapshot


_CHECKED_PER_CALL = 5_000


class Validator:
    """Checks a cache after each call, as thoroughly as the size of the cluster allows.

    Up to 5,000 nodes and pods everything is checked each time. Beyond that every n-th call checks everything and those
    between only the node that they changed, so that a call costs tens of milliseconds on average, however large the cluster.

    `report` None: a difference is raised from the call, which has done its work by then. Otherwise it is reported once, and
    nothing more is checked until `start_over`: who was told will rebuild the cache.
    """

    def __init__(self, report: Callable[[CacheCorruptedError], None] | None = None) -> None:
        self._report = report
        self._reported = False
        self._calls = 0
        self._updates = 0

    def after_call(self, cache: "SchedulerCache", info: NodeInfo | None) -> None:
        """`info` is the entry that the call changed, None for all of them. Raises CacheCorruptedError."""
        if self._reported:
            return
        self._calls += 1
        with self._told():
            if info is None or self._calls * _CHECKED_PER_CALL >= len(cache.nodes) + len(cache.pod_states):
                self._calls = 0
                check_cache(cache)
            elif info.name in cache.nodes:
                check_node(cache, info)

    def after_update(self, cache: "SchedulerCache", snapshot: "Snapshot") -> None:
        """A snapshot was brought up to date. Raises CacheCorruptedError."""
        if self._reported:
            return
        self._updates += 1
        if self._updates * _CHECKED_PER_CALL >= len(cache.nodes) + len(cache.pod_states):
            self._updates = 0
            with self._told():
                check_snapshot(cache, snapshot)

    def start_over(self) -> None:
        """The cache is being rebuilt."""
        self._reported = False

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except CacheCorruptedError as error:
            if self._report is None:
                raise
            self._reported = True
            self._report(error)


def check_node(cache: "SchedulerCache", info: NodeInfo) -> None:
    """Compare one entry with the pods that it holds. Raises CacheCorruptedError."""
    for uid, pod in info.pods_by_uid.items():
        state = cache.pod_states.get(uid)
        _require(f"pod {uid} on node {info.name} is the cached one", state is not None and state.pod is pod)
        _expect(f"node of pod {uid}", info.name, pod.node_name)
    _check_info(info, info.name, info.pods_by_uid)
    _expect(f"{info.name} in the node tree", info.node is not None, info.name in cache.node_tree)


def check_cache(cache: "SchedulerCache") -> None:
    """Compare a cache's aggregates, lists and indexes with its pods and nodes. Raises CacheCorruptedError."""
    _check_pod_states(cache)
    pods: dict[str, dict[str, Pod]] = {}
    for uid, state in cache.pod_states.items():
        pods.setdefault(state.pod.node_name, {})[uid] = state.pod
    _expect("nodes that pods are on, without entry", set(), pods.keys() - cache.nodes.keys())
    for name, info in cache.nodes.items():
        _check_info(info, name, pods.get(name, {}))
    for newer, older in pairwise(cache.nodes.values()):
        _require(f"{newer} newer than {older}", newer.generation > older.generation)
    known = {n: i.node for n, i in cache.nodes.items() if i.node is not None}
    zones = {(name, zone) for zone, names in cache.node_tree.zones.items() for name in names}
    _expect("zones in the node tree", {(name, node.zone_key) for name, node in known.items()}, zones)
    _expect("size of the node tree", len(known), len(cache.node_tree))
    _check_images(cache)


def check_snapshot(cache: "SchedulerCache", snapshot: "Snapshot") -> None:
    """Compare a snapshot that has just been updated with its cache and with one made from scratch. Raises CacheCorruptedError."""
    columns = snapshot.columns
    newest = max((info.generation for info in cache.nodes.values()), default=0)
    _require(f"the snapshot is of generation {newest} or later", snapshot.generation >= newest)
    known = {name for name, info in cache.nodes.items() if info.node is not None}
    listed = [columns.names[row] for row in columns.order]
    _expect("nodes listed in the snapshot", sorted(known), sorted(listed))
    _expect("nodes in the snapshot's map", known, set(snapshot.node_info_map))
    _expect("rows of nodes", known, set(columns.row_of))
    _expect("node_info_list", listed, [info.name for info in snapshot.node_info_list])
    for name, info in snapshot.node_info_map.items():
        _expect(f"generation of {name} in the snapshot", cache.nodes[name].generation, info.generation)
        _require(f"{name} shown in its row", columns.infos[columns.row_of[name]] is info)
        _require(f"{name} frozen", info.frozen)
    _check_columns(columns)
    claims = [claim for info in snapshot.node_info_list for claim in info.pvc_ref_counts]
    _expect("term index against a recount", [], snapshot.term_index.check())
    _expect("claims in use", {c: claims.count(c) for c in claims}, dict(snapshot.claim_node_counts))
    infos = snapshot.node_info_list
    _expect("affinity list", [i for i in infos if i.pods_with_affinity], snapshot.have_pods_with_affinity_list)
    _expect(
        "required anti-affinity list",
        [i for i in infos if i.pods_with_required_anti_affinity],
        snapshot.have_pods_with_required_anti_affinity_list,
    )


def _check_pod_states(cache: "SchedulerCache") -> None:
    for uid, state in cache.pod_states.items():
        _expect("UID of a pod state", uid, state.pod.uid)
        if uid not in cache.assumed_pods:
            _expect(f"deadline of confirmed pod {uid}", None, state.deadline)
    for uid, state in cache.assumed_pods.items():
        _require(f"assumed pod {uid} is cached", cache.pod_states.get(uid) is state)


def _check_info(info: NodeInfo, name: str, pods: Mapping[str, Pod]) -> None:
    fresh = NodeInfo(name)
    for pod in pods.values():
        fresh.add_pod(pod)
    _expect("name of a node entry", name, info.name)
    for field in (
        "requested",
        "non_zero_requested",
        "pods_by_uid",
        "pods_with_affinity_by_uid",
        "pods_with_required_anti_affinity_by_uid",
        "used_ports",
        "pvc_ref_counts",
    ):
        _expect(f"{field} of node {name}", getattr(fresh, field), getattr(info, field))
    if info.node is None:
        _require(f"node {name} without node object has pods", bool(pods))
    else:
        _expect(f"name of the node object of {name}", name, info.node.name)
        _expect(f"allocatable of node {name}", info.node.allocatable, info.allocatable)


def _check_images(cache: "SchedulerCache") -> None:
    on: dict[str, set[str]] = {}
    for name, info in cache.nodes.items():
        if info.node is not None:
            images = {n for image in info.node.images for n in image.names}
            for image in images:
                on.setdefault(image, set()).add(name)
            _expect(f"image records of node {name}", images, {state.name for state in info.image_refs})
            for state in info.image_refs:
                _require(f"one record of image {state.name}", cache.image_states.states.get(state.name) is state)
    _expect("nodes of images", on, {name: state.nodes for name, state in cache.image_states.states.items()})
    for state in cache.image_states.states.values():
        _expect(f"size of image {state.name}", state.size, state.summary.size)
        _expect(f"number of nodes with image {state.name}", len(state.nodes), state.summary.num_nodes)


def _check_columns(columns: Columns) -> None:
    fresh = Columns()
    rows = [columns.row_of[name] for name in columns.row_of]
    fresh_rows = [fresh.write(columns.infos[row])[0] for row in rows]
    for field in (
        "non_zero_requested",
        "pod_count",
        "allowed_pods",
        "affinity_pods",
        "required_anti_affinity_pods",
        "unschedulable",
    ):
        _expect_rows(field, getattr(fresh, field)[..., fresh_rows], getattr(columns, field)[..., rows])
    for name, index in columns.resource_index.items():
        for field in ("allocatable", "requested"):
            got = getattr(columns, field)[index, rows]
            i = fresh.resource_index.get(name)
            want = np.zeros_like(got) if i is None else getattr(fresh, field)[i, fresh_rows]
            _expect_rows(f"{field} {name}", want, got)
    _expect("resources", set(), fresh.resource_index.keys() - columns.resource_index.keys())
    for row in rows:
        node = columns.infos[row].node
        if node is None:
            raise CacheCorruptedError(f"row {row} shows {columns.infos[row]}, which has no node object")
        _require(f"row {row} has a taint set", columns.taint_set[row] >= 0)
        _expect(f"taints in row {row}", node.taints, columns.taint_sets[columns.taint_set[row]])
        for key in columns.label_keys:
            found = columns.label_ids(key)[row]
            _expect(
                f"label {key} in row {row}",
                node.labels.get(key),
                None if found < 0 else columns.label_values(key)[found],
            )
    _check_host_ports(columns, rows)
    _check_free_rows(columns, rows)
    _check_versions(columns)


def _check_host_ports(columns: Columns, rows: list[int]) -> None:
    ports: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}
    for row in rows:
        for ip, protocol, port in sorted(columns.infos[row].used_ports):
            taken = ports.setdefault((protocol, port), {})
            taken[row] = (*taken.get(row, ()), ip)
    _expect("host ports", ports, columns.host_ports)


def _check_free_rows(columns: Columns, rows: list[int]) -> None:
    free = sorted(set(range(columns.rows)) - set(rows))
    for field in (
        "pod_count",
        "allowed_pods",
        "affinity_pods",
        "required_anti_affinity_pods",
        "requested",
        "allocatable",
    ):
        _require(f"{field} of free rows is zero", not getattr(columns, field)[..., free].any())
    for key in columns.label_keys:
        _require(f"label {key} of free rows", (columns.label_ids(key)[free] == -1).all())
    _expect("rows to use again", free, sorted(columns.free_rows))


def _check_versions(columns: Columns) -> None:
    written = columns.generation[: columns.rows]
    _expect("the newest generation of a row", columns.version, int(written.max(initial=0)))
    _require("nodes change with their rows", (columns.node_generation[: columns.rows] <= written).all())
    on_record = list(columns.latest_writes())
    _expect("the newest write on record", columns.version, max((version for version, _ in on_record), default=0))
    for version, row in on_record:
        _expect(f"generation of row {row}", version, int(written[row]))


def _expect_rows(what: str, want: np.ndarray, got: np.ndarray) -> None:
    _expect(what, want.tolist(), got.tolist())


def _expect(what: str, want: object, got: object) -> None:
    if want != got:
        raise CacheCorruptedError(f"{what}: expected {want!r}, found {got!r}")


def _require(what: str, holds: object) -> None:
    if not holds:
        raise CacheCorruptedError(f"{what}: does not hold")
