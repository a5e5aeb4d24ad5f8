"""DynamicResources: exists so that profiles may mention it; pods with resource claims are refused before it is called."""

from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.framework import (
    SKIP,
    Code,
    CycleState,
    Handle,
    NodeStatuses,
    RowView,
    Scores,
    Status,
    Verdicts,
    failing,
    passing,
    unschedulable,
)
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_STATE_KEY = "DynamicResources"
_NOT_FOUND = "not found"


class DynamicResources:
    """Filters nothing and scores 0.

    Its PostFilter needs what its PreFilter prepared, as in kube-scheduler: where another plugin's PreFilter ended the
    attempt before its turn, it fails with "not found" and keeps preemption from running.
    """

    name = "DynamicResources"

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def pre_filter(state: CycleState, _pod: Pod, _snapshot: "Snapshot") -> Status | None:
        state[_STATE_KEY] = True
        # It has no PreScore upstream either, so scoring is skipped from here.
        state.skip_score.add("DynamicResources")
        return SKIP

    @staticmethod
    def filter(state: CycleState, _pod: Pod, view: RowView) -> Verdicts:
        return passing(len(view)) if _STATE_KEY in state else failing(len(view), _NOT_FOUND)

    @staticmethod
    def post_filter(
        state: CycleState,
        _pod: Pod,
        _snapshot: "Snapshot",
        _rejected: NodeStatuses,
    ) -> tuple[str | None, Status]:
        if _STATE_KEY not in state:
            return None, Status(Code.ERROR, (_NOT_FOUND,))
        return None, unschedulable()

    @staticmethod
    def score(state: CycleState, _pod: Pod, view: RowView) -> Scores:
        if _STATE_KEY not in state:
            raise LookupError(_NOT_FOUND)
        return np.zeros(len(view), np.int64)
