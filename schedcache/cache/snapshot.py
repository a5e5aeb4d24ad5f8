"""The cluster at one moment, for one reader: what a scheduling cycle works on."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence

import msgspec
import numpy as np

from schedcache.cache.columns import Columns, Int64s
from schedcache.cache.errors import (
    AlreadyAddedError,
    AlreadyCachedError,
    InconsistentSnapshotError,
    NoUIDError,
    PodNotOnNodeError,
    SnapshotInUseError,
    UnknownNodeError,
)
from schedcache.cache.image_states import ImageStates, summaries
from schedcache.cache.node_info import NodeInfo
from schedcache.cache.node_tree import NodeTree
from schedcache.cache.pod_table import PodTable
from schedcache.cache.terms import TermIndex
from schedcache.model import Node, Pod


class SnapshotChanges(msgspec.Struct, frozen=True):
    """What differs between a snapshot and a cache.

    `infos` are frozen, oldest change first; `removed` names are gone; `order` is None if it has not changed. `anew`: the
    infos are complete, and what the snapshot holds is to be discarded.
    """

    anew: bool
    infos: Sequence[NodeInfo]
    removed: Sequence[str]
    order: Sequence[str] | None
    num_nodes: int
    generation: int
    epoch: object


class Snapshot:
    """Node aggregates as of the last `SchedulerCache.update_snapshot`, in kube-scheduler's terms and as `columns`.

    The NodeInfo objects are frozen and shared with the cache and other snapshots. A snapshot belongs to one thread.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.epoch: object = None
        """Which filling of which cache it follows; if that changes, everything is replaced."""
        self.columns = Columns()
        self.term_index = TermIndex(self.columns)
        self._pod_table = PodTable(self.columns)
        self.node_info_map: dict[str, NodeInfo] = {}
        self._claims: dict[str, int] = {}
        self._update: SnapshotChanges | None = None
        """The changes of an update that is under way."""
        self._list: list[NodeInfo] | None = None
        self._position: dict[int, int] = {}
        self._derived: dict[str, tuple[int, list[NodeInfo]]] = {}
        self._assumed: dict[str, Pod] = {}
        self._assumed_on: Counter[str] = Counter()
        self._originals: dict[str, NodeInfo] = {}

    @classmethod
    def build(cls, pods: Iterable[Pod], nodes: Iterable[Node]) -> "Snapshot":
        """A snapshot from lists, without a cache. Pods without a node, or on nodes that are not listed, count on no node.

        The claims of pods on nodes that are not listed still count as used, as in kube-scheduler. Raises NoUIDError, and
        AlreadyAddedError for two pods with one UID.
        """
        infos = _aggregate(pods, nodes)
        tree = NodeTree()
        for info in infos.values():
            if info.node is not None:
                tree.set(info.name, info.node.zone_key)
        snapshot = cls()
        listed = [info for info in infos.values() if info.node is not None]
        newest = max((info.generation for info in infos.values()), default=0)
        snapshot.apply(
            SnapshotChanges(
                anew=True,
                infos=listed,
                removed=(),
                order=tree.list(),
                num_nodes=len(tree),
                generation=newest,
                epoch=None,
            )
        )
        for info in infos.values():
            if info.node is None:
                snapshot._count_claims(None, info)
        return snapshot

    @property
    def num_nodes(self) -> int:
        return len(self.columns.order)

    @property
    def node_info_list(self) -> list[NodeInfo]:
        """In the order in which nodes are considered: round robin over zones. The list follows the snapshot's updates."""
        if self._list is None:
            infos, rows = self.columns.infos, self.columns.order.tolist()
            self._list = [infos[row] for row in rows]
            self._position = {row: i for i, row in enumerate(rows)}
        return self._list

    @property
    def have_pods_with_affinity_list(self) -> list[NodeInfo]:
        """Nodes with at least one pod that has any pod (anti-)affinity block."""
        return self._with("affinity", lambda columns: columns.affinity_pods)

    @property
    def have_pods_with_required_anti_affinity_list(self) -> list[NodeInfo]:
        """Nodes with at least one pod that has a required anti-affinity term."""
        return self._with("anti-affinity", lambda columns: columns.required_anti_affinity_pods)

    @property
    def pod_table(self) -> PodTable:
        """The pods of every row by importance, as of now; good until the snapshot changes."""
        return self._pod_table.refresh()

    @property
    def pod_table_behind(self) -> int:
        """How many pods `pod_table` would look at if it were asked for now; it takes a few microseconds for each."""
        return self._pod_table.behind()

    def pod_table_in_pieces(self, size: int) -> Iterator[None]:
        """Get the table ready, pausing after every `size` pods; the snapshot may not change before the last piece is done.

        Where this is abandoned, nothing is lost but the time.
        """
        return self._pod_table.refresh_in_pieces(size)

    def check_pod_table(self) -> list[str]:
        """What is wrong with it as it was when it was last asked for."""
        return self._pod_table.check()

    @property
    def used_pvcs(self) -> KeysView[str]:
        """`namespace/name` of every claim that a pod on a listed node refers to."""
        return self._claims.keys()

    @property
    def claim_node_counts(self) -> Mapping[str, int]:
        """Claim -> the number of nodes on which it is in use."""
        return self._claims

    @property
    def half_updated(self) -> bool:
        """Whether an update in pieces is under way; until it is done, the content must not be used."""
        return self._update is not None

    @property
    def assumed(self) -> Mapping[str, Pod]:
        """UID -> the pods that are assumed only in this snapshot."""
        return self._assumed

    @property
    def assumed_on(self) -> KeysView[str]:
        """The nodes that show pods which are assumed only in this snapshot."""
        return self._originals.keys()

    def get(self, name: str) -> NodeInfo:
        """The node of this name. Raises UnknownNodeError."""
        info = self.node_info_map.get(name)
        if info is None:
            raise UnknownNodeError(f"node {name!r} is not in the snapshot")
        return info

    def is_pvc_used(self, key: str) -> bool:
        return key in self._claims

    def assume(self, pod: Pod) -> None:
        """Count a pod on its node, only in this snapshot, until `forget`, `forget_all` or the next update.

        Raises NoUIDError, UnknownNodeError, AlreadyCachedError if it is on that node, and SnapshotInUseError while an update in
        pieces is under way.
        """
        if not pod.uid:
            raise NoUIDError(f"pod {pod.full_name} has no UID")
        if self.half_updated:
            raise SnapshotInUseError(
                f"pod {pod.uid} ({pod.full_name}): an update of the snapshot in pieces is under way"
            )
        info = self.get(pod.node_name)
        if pod.uid in self._assumed or pod.uid in info.pods_by_uid:
            raise AlreadyCachedError(f"pod {pod.uid} ({pod.full_name}) is already in the snapshot")
        changed = info.copy()
        changed.add_pod(pod)
        changed.frozen = True
        self._originals.setdefault(info.name, info)
        self._assumed[pod.uid] = pod
        self._assumed_on[info.name] += 1
        self._write(changed)

    def forget(self, pod: Pod) -> None:
        """Undo `assume`. Raises PodNotOnNodeError if the pod is not assumed in this snapshot."""
        assumed = self._assumed.pop(pod.uid, None)
        if assumed is None:
            raise PodNotOnNodeError(f"pod {pod.uid} ({pod.full_name}) is not assumed in the snapshot")
        name = assumed.node_name
        self._assumed_on[name] -= 1
        if self._assumed_on[name]:
            changed = self.node_info_map[name].copy()
            changed.remove_pod(assumed)
            changed.frozen = True
            self._write(changed)
        else:
            self._write(self._originals.pop(name))

    def forget_all(self) -> None:
        """Undo every `assume`."""
        self._assumed.clear()
        self._assumed_on.clear()
        for name in list(self._originals):
            self._write(self._originals.pop(name))

    def apply(self, changes: SnapshotChanges) -> None:
        """Apply what changed in the cache. Raises InconsistentSnapshotError."""
        self._update = changes
        for _ in self._apply(changes, len(changes.infos) + 1):
            pass
        self._update = None

    def apply_in_pieces(self, changes: SnapshotChanges, size: int) -> Iterator[None]:
        """The same, pausing at the start and after every `size` nodes; the snapshot must not be used before the last piece is done.

        If it is abandoned before that, the next update replaces everything. Raises SnapshotInUseError, and changes nothing, if
        another update came between two pieces.
        """
        self._update = changes
        for _ in self._apply(changes, size):
            yield
            if self._update is not changes:
                raise SnapshotInUseError("another update of the snapshot came between two pieces of this one")
        self._update = None

    def _apply(self, changes: SnapshotChanges, size: int) -> Iterator[None]:
        yield
        self.epoch = None
        if changes.anew:
            self._start_over()
        self.forget_all()
        for name in changes.removed:
            self._remove(name)
        for i, info in enumerate(changes.infos, 1):
            self._write(info)
            if i % size == 0:
                yield
        if changes.order is not None:
            self.columns.set_order(changes.order)
            self._list = None
            self._derived.clear()
        self.generation = changes.generation
        if not len(self.columns.order) == len(self.node_info_map) == changes.num_nodes:
            raise InconsistentSnapshotError(
                f"the snapshot lists {len(self.columns.order)} nodes and holds {len(self.node_info_map)}, "
                f"the node tree has {changes.num_nodes}"
            )
        self.epoch = changes.epoch

    def _start_over(self) -> None:
        """Keep nothing, not even rows: what was wrong in the cache may be wrong here as well."""
        if self.columns.rows or self._claims or self.node_info_map:
            self.columns = Columns()
            self.term_index = TermIndex(self.columns)
            self._pod_table = PodTable(self.columns)
            for kept in (
                self.node_info_map,
                self._claims,
                self._derived,
                self._assumed,
                self._assumed_on,
                self._originals,
            ):
                kept.clear()

    def _write(self, info: NodeInfo) -> None:
        row, old = self.columns.write(info)
        self.node_info_map[info.name] = info
        if self._list is not None and row in self._position:
            self._list[self._position[row]] = info
        if info.pvc_ref_counts or (old is not None and old.pvc_ref_counts):
            self._count_claims(old, info)
        if self.term_index.active:
            self.term_index.apply(row, old, info)

    def _remove(self, name: str) -> None:
        del self.node_info_map[name]
        row, old = self.columns.remove(name)
        self._count_claims(old, None)
        if self.term_index.active:
            self.term_index.apply(row, old, None)

    def _count_claims(self, old: NodeInfo | None, new: NodeInfo | None) -> None:
        before = old.pvc_ref_counts.keys() if old is not None else ()
        after = new.pvc_ref_counts.keys() if new is not None else ()
        for claim in before:
            if claim not in after:
                left = self._claims[claim] - 1
                if left:
                    self._claims[claim] = left
                else:
                    del self._claims[claim]
        for claim in after:
            if claim not in before:
                self._claims[claim] = self._claims.get(claim, 0) + 1

    def _with(self, which: str, count: Callable[[Columns], Int64s]) -> list[NodeInfo]:
        columns = self.columns
        version, infos = self._derived.get(which, (-1, []))
        if version != columns.version:
            rows = columns.order[np.nonzero(count(columns)[columns.order])[0]]
            infos = [columns.infos[row] for row in rows]
            self._derived[which] = columns.version, infos
        return infos


def _aggregate(pods: Iterable[Pod], nodes: Iterable[Node]) -> dict[str, NodeInfo]:
    infos: dict[str, NodeInfo] = {}
    images = ImageStates()
    for node in nodes:
        info = infos.setdefault(node.name, NodeInfo(node.name))
        info.set_node(node, images.replace_node(info.node, node, info.image_refs))
    seen: set[str] = set()
    for pod in pods:
        if not pod.uid:
            raise NoUIDError(f"pod {pod.full_name} has no UID")
        if pod.uid in seen:
            raise AlreadyAddedError(f"pod {pod.uid} ({pod.full_name}) is listed twice")
        seen.add(pod.uid)
        if pod.node_name:
            infos.setdefault(pod.node_name, NodeInfo(pod.node_name)).add_pod(pod)
    for info in infos.values():
        info.image_states = summaries(info.image_refs)
        info.frozen = True
    return infos
