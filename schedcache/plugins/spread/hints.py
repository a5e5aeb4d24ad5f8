"""Which cluster events may help a pod that PodTopologySpread rejected (kube-scheduler 1.37)."""

from collections.abc import Iterable, Mapping, Sequence

from schedcache.framework import EventHint
from schedcache.model import Node, Pod, TopologySpreadConstraint
from schedcache.plugins.spread.constraints import DO_NOT_SCHEDULE, HONOR, ConstraintSource


class SpreadHints:
    """The hints look at the waiting pod's DoNotSchedule constraints; pods change domains' counts, nodes the domains."""

    def __init__(self, source: ConstraintSource) -> None:
        self._source = source

    def events(self) -> Sequence[EventHint]:
        # Default constraints get their selector from the pod's controller, which is not part of its shape.
        by_shape = not self._source.has_defaults(DO_NOT_SCHEDULE)
        return (
            EventHint("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), self._assigned_pod, by_shape),
            EventHint("TargetPod", ("UpdatePodToleration", "UpdatePodLabel"), self._target_pod),
            EventHint("Node", ("Add", "Delete", "UpdateNodeLabel", "UpdateNodeTaint"), self._node, by_shape),
        )

    def _assigned_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        if any(changed is not None and not _involved(changed, pod) for changed in (old, new)):
            return False
        constraints = self._constraints(pod)
        if old is not None and new is not None:
            return _match_changed(constraints, old, new)
        changed = old if new is None else new
        return changed is not None and any(_matches(c, changed) for c in constraints)

    def _target_pod(self, pod: Pod, old: Pod, new: Pod) -> bool:
        constraints = self._constraints(pod)
        if old.spec.tolerations != new.spec.tolerations and any(c.node_taints_policy == HONOR for c in constraints):
            return True
        return _match_changed(constraints, old, new)

    def _node(self, pod: Pod, old: Node | None, new: Node | None) -> bool:
        constraints = self._constraints(pod)
        had, has = (node is not None and _has_keys(node, constraints) for node in (old, new))
        if old is None or new is None:
            return had or has
        if had != has:
            return True
        return has and (_moved(old.labels, new.labels, constraints) or old.taints != new.taints)

    def _constraints(self, pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
        return self._source.constraints(pod, DO_NOT_SCHEDULE)


def _involved(changed: Pod, waiting: Pod) -> bool:
    return bool(changed.node_name or changed.nominated_node_name) and changed.namespace == waiting.namespace


def _matches(constraint: TopologySpreadConstraint, pod: Pod) -> bool:
    return constraint.selector is not None and constraint.selector.matches(pod.labels)


def _match_changed(constraints: Iterable[TopologySpreadConstraint], old: Pod, new: Pod) -> bool:
    return old.labels != new.labels and any(_matches(c, old) != _matches(c, new) for c in constraints)


def _has_keys(node: Node, constraints: Iterable[TopologySpreadConstraint]) -> bool:
    return all(c.topology_key in node.labels for c in constraints)


def _moved(old: Mapping[str, str], new: Mapping[str, str], constraints: Iterable[TopologySpreadConstraint]) -> bool:
    return any(old.get(c.topology_key) != new.get(c.topology_key) for c in constraints)
