"""NodeDeclaredFeatures: features that the pod requires and the node must declare (KEP-5328)."""

from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.framework import (
    SKIP,
    CycleState,
    EventHint,
    Handle,
    Locality,
    RowView,
    Status,
    Verdicts,
    failing,
    one_reason,
    unresolvable,
)
from schedcache.model import Node, Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_STATE_KEY = "PreFilterNodeDeclaredFeatures"
_REASON = unresolvable("node(s) didn't match Pod's required features")


class NodeDeclaredFeatures:
    """Compares what follows from the pod's spec with status.declaredFeatures."""

    name = "NodeDeclaredFeatures"
    filter_locality = Locality.NODE

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def pre_filter(state: CycleState, pod: Pod, _snapshot: "Snapshot") -> Status | None:
        state[_STATE_KEY] = True
        return None if pod.spec.required_features else SKIP

    @staticmethod
    def filter(state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        if _STATE_KEY not in state:
            return failing(len(view), f'error reading "{_STATE_KEY}" from cycle-state: not found')
        required = pod.spec.required_features
        nodes = (view.node_info(i).node for i in range(len(view)))
        lacking = (node is None or not required <= node.declared_features for node in nodes)
        return one_reason(np.fromiter(lacking, np.bool_, len(view)), _REASON)

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint("Node", ("Add", "UpdateNodeDeclaredFeature"), _features_changed, by_spec=True),
            EventHint("TargetPod", ("Update",), _requires_other_features),
        ]


def _features_changed(_pod: Pod, old: Node | None, new: Node) -> bool:
    return old is None or old.declared_features != new.declared_features


def _requires_other_features(_pod: Pod, old: Pod, new: Pod) -> bool:
    return old.spec.required_features != new.spec.required_features
