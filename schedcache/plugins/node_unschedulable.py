"""NodeUnschedulable: cordoned nodes, unless the pod tolerates the cordon's taint."""

from typing import Any

from schedcache.framework import (
    CycleState,
    EventHint,
    Handle,
    Locality,
    RowView,
    Verdicts,
    one_reason,
    passing,
    unresolvable,
)
from schedcache.model import NO_SCHEDULE, Node, Pod, Taint, tolerated
from schedcache.model.taints import TAINT_NODE_UNSCHEDULABLE

_CORDON = Taint(TAINT_NODE_UNSCHEDULABLE, "", NO_SCHEDULE)
_REASON = unresolvable("node(s) were unschedulable")


class NodeUnschedulable:
    """Looks at spec.unschedulable of the node."""

    name = "NodeUnschedulable"
    filter_locality = Locality.NODE

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def filter(_state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        cordoned = view.columns.unschedulable[view.index]
        if not cordoned.any() or tolerated(_CORDON, pod.spec.tolerations):
            return passing(len(view))
        return one_reason(cordoned, _REASON)

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint("Node", ("Add", "UpdateNodeTaint"), _uncordoned, by_spec=True),
            EventHint("TargetPod", ("UpdatePodToleration",), _tolerates_cordon),
        ]


def _uncordoned(_pod: Pod, old: Node | None, new: Node) -> bool:
    return not new.unschedulable and (old is None or old.unschedulable)


def _tolerates_cordon(_pod: Pod, _old: Pod | None, new: Pod) -> bool:
    return tolerated(_CORDON, new.spec.tolerations)
