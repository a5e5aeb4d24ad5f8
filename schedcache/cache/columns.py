"""The snapshot as numpy columns, one row per node, for plugins that look at all nodes at once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from schedcache.cache.interning import InternedColumn
from schedcache.cache.node_info import HostPort, NodeInfo
from schedcache.model import Node, Resource, Taint
from schedcache.model.quantity import clamped

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
_FIXED = ("cpu", "memory", "ephemeral-storage")
_FIRST_CAPACITY = 64
_MAX_LABEL_KEYS = 512
_MANY_RESOURCES = 128
# Up to here sorting in Python beats the overhead of numpy's.
_FEW_ROWS = 32
_NOBODY = NodeInfo("")
_NOBODY.frozen = True


class Columns:
    """One row per node. Only the rows in `order` are live; a row is used again after its node has gone.

    Arrays are replaced when they grow, so fetch them again after each update of the snapshot. Amounts are
    milli-CPU, bytes and whole units, clamped to 0..2**63-1: no API server stores negative ones. `requested` and `allocatable`
    are [resource, row], `non_zero_requested` is [milli-CPU and bytes, row]. The index of a resource may change with each update
    of the snapshot.

    `version` counts the rows written. `generation[row]` is the version at which the row last changed in any way,
    `node_generation[row]` the one at which its node object did; `changed_since` says which rows to look at again.
    """

    def __init__(self) -> None:
        n = _FIRST_CAPACITY
        self.rows = 0
        """The number of rows in use, including freed ones: every live row is below it."""
        self.order: Rows = np.empty(0, np.intp)
        """Live rows, in the order in which nodes are considered."""
        self.names: list[str] = []
        self.infos: list[NodeInfo] = []
        self.row_of: dict[str, int] = {}
        self.version = 0
        self.topology_version = 0
        """Changes when a node comes or goes or its labels or taints change, but not with its status."""
        self.generation: Int64s = np.zeros(n, np.int64)
        self.node_generation: Int64s = np.zeros(n, np.int64)
        self.resource_index: dict[str, int] = {name: i for i, name in enumerate(_FIXED)}
        self.allocatable: Int64s = np.zeros((len(_FIXED), n), np.int64)
        self.requested: Int64s = np.zeros((len(_FIXED), n), np.int64)
        self.non_zero_requested: Int64s = np.zeros((2, n), np.int64)
        self.pod_count: Int64s = np.zeros(n, np.int64)
        self.priority_floor: Int64s = np.zeros(n, np.int64)
        self.allowed_pods: Int64s = np.zeros(n, np.int64)
        self.affinity_pods: Int64s = np.zeros(n, np.int64)
        self.required_anti_affinity_pods: Int64s = np.zeros(n, np.int64)
        self.unschedulable: npt.NDArray[np.bool_] = np.zeros(n, np.bool_)
        self.host_ports: dict[tuple[str, int], dict[int, tuple[str, ...]]] = {}
        """(protocol, port) -> row -> the IPs on which it is taken."""
        self._most_resources = _MANY_RESOURCES
        self._taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(n)
        self._labels: dict[str, InternedColumn[str]] = {}
        self._free: list[int] = []
        self._log: list[int] = []
        self._log_start = 0

    @property
    def taint_set(self) -> npt.NDArray[np.int32]:
        """Index in `taint_sets` for each row."""
        return self._taints.ids

    @property
    def taint_sets(self) -> list[tuple[Taint, ...]]:
        """The distinct taint lists; ids are stable as long as this is the same list."""
        return self._taints.values

    def label_ids(self, key: str) -> npt.NDArray[np.int32]:
        """For each row the index in `label_values(key)` of its label `key`, -1 if the node does not have it."""
        return self._label(key).ids

    @property
    def label_keys(self) -> list[str]:
        """The labels that have been asked for."""
        return list(self._labels)

    def label_values(self, key: str) -> list[str]:
        """Id -> value; it only grows, and ids are stable as long as this is the same list."""
        return self._label(key).values

    def interned(self) -> Iterator[tuple[str, InternedColumn[Any]]]:
        """The interned columns by name: taints, and the labels that have been asked for."""
        yield "taints", self._taints
        for key, column in self._labels.items():
            yield f"label {key}", column

    def with_lower_pods(self, rows: Rows, priority: int) -> Rows:
        """Those of the rows with pods of lower priority, and some where such a pod has been: none that has one is left out."""
        return rows[(self.priority_floor[rows] < priority) & (self.pod_count[rows] > 0)]

    def changed_since(self, version: int) -> Rows:
        """Rows written after `version`, each once, freed ones included."""
        if version < self._log_start:
            return np.nonzero(self.generation[: self.rows] > version)[0]
        rows = self._log[version - self._log_start :]
        if len(rows) > _FEW_ROWS:
            return np.unique(np.array(rows, np.intp))
        return np.array(sorted(set(rows)), np.intp)

    def latest_writes(self) -> Iterator[tuple[int, int]]:
        """(version, row): the last write to each row that `changed_since` still has on record."""
        last = {row: version for version, row in enumerate(self._log, self._log_start + 1)}
        return ((version, row) for row, version in last.items())

    @property
    def free_rows(self) -> Sequence[int]:
        """Rows that have no node and will be used again."""
        return self._free

    def write(self, info: NodeInfo) -> tuple[int, NodeInfo | None]:
        """Bring the row of a node up to date. Returns it and what it showed before (None: the node is new here)."""
        node = info.node
        if node is None:
            raise ValueError(f"{info!r} has no node object and therefore no row")
        if len(self.resource_index) > self._most_resources:
            self._drop_unknown_resources()
        row = self.row_of.get(info.name)
        if row is None:
            row, old = self._new_row(info.name), _NOBODY
        else:
            old = self.infos[row]
        self.infos[row] = info
        self._stamp(row)
        if info.requested.scalar:
            self._add_resources(info.requested.scalar)
        if old.node is not node:
            self._write_node(row, old.node, node)
        self._write_pods(row, old, info)
        return row, None if old is _NOBODY else old

    def remove(self, name: str) -> tuple[int, NodeInfo]:
        """Free the row of a node. Returns it and what it showed."""
        row = self.row_of.pop(name)
        old = self.infos[row]
        self.names[row], self.infos[row] = "", _NOBODY
        self._stamp(row)
        self.node_generation[row] = self.version
        self.topology_version += 1
        self._write_pods(row, old, _NOBODY)
        self._write_amounts(self.allocatable, row, old.allocatable, _NOBODY.allocatable)
        self.allowed_pods[row] = 0
        self.unschedulable[row] = False
        self._taints.set(row, None)
        for column in self._labels.values():
            column.set(row, None)
        self._free.append(row)
        return row, old

    def set_order(self, names: Iterable[str]) -> None:
        """Which rows are live, and their order; names without a row are left out."""
        rows = (self.row_of.get(name) for name in names)
        self.order = np.array([row for row in rows if row is not None], np.intp)

    def _new_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.rows
            self.rows += 1
            if row == len(self.generation):
                self._grow(2 * row)
            self.names.append(name)
            self.infos.append(_NOBODY)
        self.row_of[name] = row
        return row

    def _stamp(self, row: int) -> None:
        self.version += 1
        self.generation[row] = self.version
        if len(self._log) > 4 * len(self.generation):
            half = len(self._log) // 2
            del self._log[:half]
            self._log_start += half
        self._log.append(row)

    def _write_node(self, row: int, old: Node | None, node: Node) -> None:
        self.node_generation[row] = self.version
        before = old.allocatable if old is not None else _NOBODY.allocatable
        self._add_resources(node.allocatable.scalar)
        self._write_amounts(self.allocatable, row, before, node.allocatable)
        self.allowed_pods[row] = clamped(node.allocatable.allowed_pod_number)
        self.unschedulable[row] = node.unschedulable
        if old is None or old.taints != node.taints:
            self.topology_version += 1
            self._taints.set(row, node.taints)
        if old is None or old.labels != node.labels:
            self.topology_version += 1
            for key, column in self._labels.items():
                column.set(row, node.labels.get(key))

    def _write_pods(self, row: int, old: NodeInfo, new: NodeInfo) -> None:
        self._write_amounts(self.requested, row, old.requested, new.requested)
        non_zero = new.non_zero_requested
        self.non_zero_requested[CPU, row] = clamped(non_zero.milli_cpu)
        self.non_zero_requested[MEMORY, row] = clamped(non_zero.memory)
        self.pod_count[row] = len(new.pods_by_uid)
        self.priority_floor[row] = new.priority_floor
        self.affinity_pods[row] = len(new.pods_with_affinity_by_uid)
        self.required_anti_affinity_pods[row] = len(new.pods_with_required_anti_affinity_by_uid)
        if old.used_ports != new.used_ports:
            self._write_ports(row, old.used_ports, new.used_ports)

    def _write_amounts(self, column: Int64s, row: int, old: Resource, new: Resource) -> None:
        column[CPU, row] = clamped(new.milli_cpu)
        column[MEMORY, row] = clamped(new.memory)
        column[EPHEMERAL_STORAGE, row] = clamped(new.ephemeral_storage)
        if (old.scalar or new.scalar) and old.scalar != new.scalar:
            for name in old.scalar.keys() | new.scalar.keys():
                column[self.resource_index[name], row] = clamped(new.scalar.get(name, 0))

    def _write_ports(self, row: int, old: Iterable[HostPort], new: Iterable[HostPort]) -> None:
        by_port: dict[tuple[str, int], list[str]] = {(protocol, port): [] for _, protocol, port in old}
        for ip, protocol, port in new:
            by_port.setdefault((protocol, port), []).append(ip)
        for key, ips in by_port.items():
            taken = self.host_ports.setdefault(key, {})
            if ips:
                taken[row] = tuple(sorted(ips))
            else:
                taken.pop(row, None)
                if not taken:
                    del self.host_ports[key]

    def _add_resources(self, names: Iterable[str]) -> None:
        missing = [name for name in names if name not in self.resource_index]
        if missing:
            for name in missing:
                self.resource_index[name] = len(self.resource_index)
            more = np.zeros((len(missing), len(self.generation)), np.int64)
            self.allocatable = np.concatenate([self.allocatable, more])
            self.requested = np.concatenate([self.requested, more])

    def _drop_unknown_resources(self) -> None:
        """Let go of the resources that no node and no pod on one names any more."""
        named = set(_FIXED).union(*(_named(self.infos[row]) for row in self.row_of.values()))
        kept = [name for name in self.resource_index if name in named]
        indexes = [self.resource_index[name] for name in kept]
        self.resource_index = {name: i for i, name in enumerate(kept)}
        self.allocatable, self.requested = self.allocatable[indexes], self.requested[indexes]
        self._most_resources = 2 * len(kept) + _MANY_RESOURCES

    def _label(self, key: str) -> InternedColumn[str]:
        column = self._labels.get(key)
        if column is None:
            if len(self._labels) >= _MAX_LABEL_KEYS:
                del self._labels[next(iter(self._labels))]
            column = self._labels[key] = InternedColumn(len(self.generation))
            for row in self.row_of.values():
                node = self.infos[row].node
                column.set(row, node.labels.get(key) if node is not None else None)
        else:
            self._labels[key] = self._labels.pop(key)  # the least recently used goes first
        return column

    def _grow(self, capacity: int) -> None:
        for name in (
            "generation",
            "node_generation",
            "pod_count",
            "priority_floor",
            "allowed_pods",
            "affinity_pods",
            "required_anti_affinity_pods",
            "unschedulable",
            "allocatable",
            "requested",
            "non_zero_requested",
        ):
            setattr(self, name, _widened(getattr(self, name), capacity))
        self._taints.grow(capacity)
        for column in self._labels.values():
            column.grow(capacity)


def _widened(array: npt.NDArray[np.generic], capacity: int) -> npt.NDArray[np.generic]:
    wider = np.zeros((*array.shape[:-1], capacity), array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider


def _named(info: NodeInfo) -> Iterable[str]:
    """The scalar resources that `Columns.write` has seen of an entry."""
    return info.requested.scalar.keys() | (info.node.allocatable.scalar.keys() if info.node is not None else set())
