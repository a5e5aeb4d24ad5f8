"""TaintToleration: taints with NoSchedule and NoExecute filter, those with PreferNoSchedule cost score."""

from collections.abc import Sequence
from typing import Any

from schedcache.framework import (
    CycleState,
    EventHint,
    Handle,
    Locality,
    RowView,
    Scores,
    Status,
    Verdicts,
    default_normalize_score,
    one_reason,
    unresolvable,
)
from schedcache.model import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Node, Pod, Taint, tolerated
from schedcache.plugins.nodes.matching import by_taints, untolerated

_STATE_KEY = "PreScoreTaintToleration"
_REASON = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration:
    """Matches the node's taints with the pod's tolerations."""

    name = "TaintToleration"
    filter_locality = Locality.NODE
    score_locality = Locality.NODE

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def filter(_state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        return one_reason(untolerated(pod.spec.tolerations, view), _REASON)

    @staticmethod
    def pre_score(state: CycleState, _pod: Pod, _view: RowView) -> Status | None:
        state[_STATE_KEY] = True
        return None

    @staticmethod
    def score(state: CycleState, pod: Pod, view: RowView) -> Scores:
        """The number of taints with effect PreferNoSchedule that the pod does not tolerate."""
        if _STATE_KEY not in state:
            raise LookupError(f'failed to read "{_STATE_KEY}" from cycleState: not found')
        useful = tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))

        def intolerable(taints: Sequence[Taint]) -> int:
            return sum(t.effect == PREFER_NO_SCHEDULE and not tolerated(t, useful) for t in taints)

        return by_taints(view, intolerable)

    @staticmethod
    def normalize_score(_state: CycleState, _pod: Pod, scores: Scores) -> Scores:
        return default_normalize_score(scores, reverse=True)

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [
            EventHint("Node", ("Add", "UpdateNodeTaint"), _newly_tolerated, by_spec=True),
            EventHint("TargetPod", ("UpdatePodToleration",)),
        ]


def _newly_tolerated(pod: Pod, old: Node | None, new: Node) -> bool:
    return not _repels(new, pod) and (old is None or _repels(old, pod))


def _repels(node: Node, pod: Pod) -> bool:
    tolerations = pod.spec.tolerations
    return any(t.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(t, tolerations) for t in node.taints)
