"""Headroom: ordinary pods leave a share of every node's CPU free. A plugin for all nodes at once, by columns."""

from typing import Any

import numpy as np

from schedcache.framework import (
    CycleState,
    Handle,
    RowView,
    Scores,
    Status,
    Verdicts,
    one_reason,
    passing,
    unschedulable,
)
from schedcache.model import Pod


class Headroom:
    """Arguments: `percent` of a node's CPU to keep free (10), for pods of at least `priority` (1000).

    Among the nodes that are left, those with more CPU to spare score higher.
    """

    name = "Headroom"
    # The answers depend on the node and its pods: they are kept until either changes.
    filter_locality = "row"
    score_locality = "row"

    def __init__(self, args: Any, handle: Handle) -> None:
        args = args or {}
        self._percent = int(args.get("percent", 10))
        self._priority = int(args.get("priority", 1000))
        if not 0 <= self._percent <= 100:
            raise ValueError(f"percent: {self._percent} is not in the range 0 to 100")
        self._reason: Status = unschedulable(f"node(s) keep {self._percent}% of their cpu free")

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        if pod.priority >= self._priority:
            return passing(len(view))
        needed = view.requested("cpu") + pod.spec.requests.resource.milli_cpu
        too_full = needed * 100 > view.allocatable("cpu") * (100 - self._percent)
        return one_reason(too_full, self._reason)

    def score(self, state: CycleState, pod: Pod, view: RowView) -> Scores:
        capacity = np.maximum(view.allocatable("cpu"), 1)
        return np.clip((capacity - view.requested("cpu")) * 100 // capacity, 0, 100)
