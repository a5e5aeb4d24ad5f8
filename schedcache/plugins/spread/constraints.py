"""Which spread constraints a pod has, and over which nodes each of them counts."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import msgspec
import numpy as np
import numpy.typing as npt

from schedcache.cache import ClusterObjects, Columns, Snapshot
from schedcache.config.plugin_args import PodTopologySpreadArgs
from schedcache.framework import RowView
from schedcache.model import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    LabelSelector,
    Pod,
    PodSpec,
    Requirement,
    TopologySpreadConstraint,
    selector_from_labels,
)
from schedcache.plugins.nodes.domains import Ints, Slots, slot_count, slots_of, sum_by_slot
from schedcache.plugins.nodes.matching import Mask, required_node_affinity, untolerated

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"

_SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(3, HOSTNAME_LABEL, SCHEDULE_ANYWAY, None),
    TopologySpreadConstraint(5, ZONE_LABEL, SCHEDULE_ANYWAY, None),
)
_REMEMBERED = 256


class ConstraintSource:
    """Finds a pod's constraints: its own, or the profile's defaults with a selector made from services and owner."""

    def __init__(self, args: PodTopologySpreadArgs, objects: ClusterObjects) -> None:
        self.system_defaulted = args.defaulting_type == "System"
        self._defaults = _SYSTEM_DEFAULTS if self.system_defaulted else _given(args)
        self._objects = objects
        self._of_services: OrderedDict[tuple[str, frozenset[tuple[str, str]]], Mapping[str, str]] = OrderedDict()
        self._services_generation = -1

    def has_defaults(self, action: str) -> bool:
        """Whether any default constraint has that `whenUnsatisfiable`."""
        return any(c.when_unsatisfiable == action for c in self._defaults)

    def constraints(self, pod: Pod, action: str) -> tuple[TopologySpreadConstraint, ...]:
        """The constraints with that `whenUnsatisfiable`.

        Raises ValueError for a selector that Kubernetes would refuse.
        """
        own = pod.spec.topology_spread
        if own:
            for constraint in own:
                problem = constraint.selector.problem() if constraint.selector is not None else ""
                if problem and constraint.when_unsatisfiable == action:
                    raise ValueError(f"topology spread constraint on {constraint.topology_key}: {problem}")
            return tuple(c for c in own if c.when_unsatisfiable == action)
        if not self.has_defaults(action):
            return ()
        selector = self.default_selector(pod)
        if selector.empty:
            return ()
        chosen = (c for c in self._defaults if c.when_unsatisfiable == action)
        return tuple(msgspec.structs.replace(c, selector=selector) for c in chosen)

    def default_selector(self, pod: Pod) -> LabelSelector:
        """The selectors of the services that select the pod, and of its controller, combined; empty if there are none.

        The rule of DefaultSelector in kube-scheduler's plugins/helper/spread.go.
        """
        labels = self._services_of(pod)
        controller, more = self._controller_selector(pod)
        if controller:
            labels = {**labels, **controller}
        return LabelSelector(tuple(dict.fromkeys((*selector_from_labels(labels).requirements, *more))))

    def _services_of(self, pod: Pod) -> Mapping[str, str]:
        generation = self._objects.generation("Service")
        if generation != self._services_generation:
            self._of_services.clear()
            self._services_generation = generation
        key = (pod.namespace, frozenset(pod.labels.items()))
        merged = self._of_services.get(key)
        if merged is None:
            merged = self._of_services[key] = self._merge_services(pod)
            if len(self._of_services) > _REMEMBERED:
                self._of_services.popitem(last=False)
        return merged

    def _merge_services(self, pod: Pod) -> Mapping[str, str]:
        merged: dict[str, str] = {}
        labels = pod.labels
        for service in self._objects.indexed("Service", "namespace", pod.namespace):
            selector = service.selector
            if selector is not None and all(labels.get(k) == v for k, v in selector.items()):
                merged.update(selector)
        return merged

    def _controller_selector(self, pod: Pod) -> tuple[Mapping[str, str], Sequence[Requirement]]:
        owner = pod.owner
        if owner is None or owner.kind not in ("ReplicationController", "ReplicaSet", "StatefulSet"):
            return {}, ()
        found = self._objects.get(owner.kind, pod.namespace, owner.name)
        if found is None or found.selector is None:
            return {}, ()
        if owner.kind == "ReplicationController":
            return found.selector, ()
        return {}, () if found.selector.problem() else found.selector.requirements


def _given(args: PodTopologySpreadArgs) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(
        TopologySpreadConstraint(
            max_skew=c.max_skew,
            topology_key=c.topology_key or "",
            when_unsatisfiable=c.when_unsatisfiable or "",
            selector=None,
            min_domains=c.min_domains,
            node_affinity_policy=c.node_affinity_policy or HONOR,
            node_taints_policy=c.node_taints_policy or "Ignore",
        )
        for c in args.default_constraints
    )


class SpreadDomains:
    """The domains of one constraint: `slots` by label, `counted` the same with 0 for nodes whose pods do not count.

    `unlabelled_slot` is the slot that nodes without the label are counted in, 0 if they are in none.
    """

    __slots__ = ("counted", "exists", "key", "size", "slots", "unlabelled_slot", "values")

    def __init__(self, columns: Columns, key: str, eligible: Mask, *, need_label: bool) -> None:
        self.key = key
        self.values = columns.label_values(key)
        self.size = slot_count(columns, key)
        self.slots = slots_of(columns, key)
        # Where the label need not be there, kube-scheduler reads it as the empty text, which is a value like any other.
        self.unlabelled_slot = 0 if need_label or "" not in self.values else self.values.index("") + 1
        self.counted: Slots = np.where(eligible, np.where(self.slots > 0, self.slots, self.unlabelled_slot), 0)
        self.exists: Mask = np.zeros(self.size, np.bool_)
        """By slot: some node's pods count there."""
        self.exists[self.counted] = True
        self.exists[0] = False

    def sums(self, counts: npt.NDArray[np.int32]) -> Ints:
        """Pods by slot."""
        return sum_by_slot(self.counted, counts, self.size)

    def number_of(self, rows: npt.NDArray[np.intp]) -> int:
        """In how many domains the rows are; those without the label are in one together."""
        seen = np.zeros(self.size, np.bool_)
        seen[self.slots[rows]] = True
        number = int(np.count_nonzero(seen))
        return number - 1 if self.unlabelled_slot and seen[0] and seen[self.unlabelled_slot] else number


class Topology:
    """The domains of several constraints of one pod; `complete` says by row which nodes have all their keys."""

    __slots__ = ("_version", "complete", "domains")

    def __init__(
        self, spec: PodSpec, constraints: Sequence[TopologySpreadConstraint], snapshot: Snapshot, *, need_all_keys: bool
    ) -> None:
        columns = snapshot.columns
        self._version = _version(columns)
        live = np.zeros(columns.rows, np.bool_)
        live[columns.order] = True
        self.complete: Mask = live.copy()
        for constraint in constraints:
            self.complete &= slots_of(columns, constraint.topology_key) > 0
        base = self.complete if need_all_keys else live
        view = RowView(snapshot, columns.order)
        self.domains = tuple(
            SpreadDomains(columns, c.topology_key, base & _included(c, spec, view), need_label=need_all_keys)
            for c in constraints
        )

    def is_current(self, columns: Columns) -> bool:
        """Whether no node's labels or taints have changed since, and label ids mean what they did."""
        return self._version == _version(columns) and all(
            columns.label_values(domains.key) is domains.values for domains in self.domains
        )


def _version(columns: Columns) -> tuple[int, int]:
    return columns.topology_version, len(columns.order)


def _included(constraint: TopologySpreadConstraint, spec: PodSpec, view: RowView) -> Mask:
    """By row, whether the constraint's policies let the node's pods count."""
    included = np.ones(len(view), np.bool_)
    if constraint.node_affinity_policy == HONOR:
        included &= required_node_affinity(spec, view)
    if constraint.node_taints_policy == HONOR:
        included &= ~untolerated(spec.tolerations, view)
    by_row = np.zeros(view.columns.rows, np.bool_)
    by_row[view.rows] = included
    return by_row


class TopologyMemory:
    """Topologies kept until nodes or their labels or taints change: by snapshot, then by what they were made for."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Columns, OrderedDict[object, Topology]] = WeakKeyDictionary()

    def get(self, columns: Columns, key: object, make: Callable[[], Topology]) -> Topology:
        """The topology of that key, made again if it is out of date."""
        kept = self._kept.setdefault(columns, OrderedDict())
        topology = kept.pop(key, None)
        if topology is None or not topology.is_current(columns):
            topology = make()
        kept[key] = topology
        if len(kept) > _REMEMBERED:
            kept.popitem(last=False)
        return topology
