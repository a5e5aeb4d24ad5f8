"""NodeName: a pod that names its node fits nowhere else."""

from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.framework import (
    SKIP,
    CycleState,
    EventHint,
    Handle,
    PreFilterResult,
    RowView,
    Status,
    Verdicts,
    one_reason,
    unresolvable,
)
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_REASON = unresolvable("node(s) didn't match the requested node name")


class NodeName:
    """Looks at spec.nodeName of the pod; a pod without it skips the filter."""

    name = "NodeName"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def pre_filter(_state: CycleState, pod: Pod, _snapshot: "Snapshot") -> PreFilterResult | Status | None:
        return PreFilterResult(frozenset((pod.node_name,))) if pod.node_name else SKIP

    @staticmethod
    def filter(_state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        if not pod.node_name:
            return one_reason(np.zeros(len(view), np.bool_), _REASON)
        return one_reason(view.rows != view.columns.row_of.get(pod.node_name, -1), _REASON)

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [EventHint("Node", ("Add",))]
