"""NodeAffinity: spec.nodeSelector and node affinity, and affinity that the profile adds to every pod."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from schedcache.config.plugin_args import NodeAffinityArgs
from schedcache.framework import (
    SKIP,
    Code,
    CycleState,
    EventHint,
    Handle,
    Locality,
    PreFilterResult,
    RowView,
    Scores,
    Status,
    Verdicts,
    default_normalize_score,
    unresolvable,
)
from schedcache.model import Node, NodeSelectorTerm, Pod, PreferredSchedulingTerm
from schedcache.model.labels import IN
from schedcache.model.selectors import node_selector_term
from schedcache.plugins.nodes.matching import any_term, matches_term, required_node_affinity
from schedcache.plugins.nodes.selector_errors import preferred_terms_error

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

# PreScore has looked at the preferred terms; a profile may do without it.
_READABLE = "PreScoreNodeAffinity"
_REASON_POD = unresolvable("node(s) didn't match Pod's node affinity/selector")
_REASON_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
_REASON_CONFLICT = unresolvable("pod affinity terms conflict")


class NodeAffinity:
    """Matches node labels and names with what the pod and the profile ask for."""

    name = "NodeAffinity"
    filter_locality = Locality.NODE
    score_locality = Locality.NODE

    def __init__(self, args: NodeAffinityArgs | None, _handle: Handle) -> None:
        added = args.added_affinity if args is not None else None
        required = added.required if added is not None else None
        self._added = None if required is None else tuple(map(node_selector_term, required.node_selector_terms or ()))
        self._added_preferred = tuple(
            PreferredSchedulingTerm(t.weight, node_selector_term(t.preference))
            for t in (added.preferred if added is not None else None) or ()
        )

    def pre_filter(self, _state: CycleState, pod: Pod, _snapshot: "Snapshot") -> PreFilterResult | Status | None:
        spec = pod.spec
        if spec.node_affinity is None and self._added is None and not spec.node_selector:
            return SKIP
        names = _node_names(spec.node_affinity or ())
        if names is None:
            return None
        return PreFilterResult(names) if names else _REASON_CONFLICT

    def filter(self, _state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        codes = np.zeros(len(view), np.int16)
        codes[~required_node_affinity(pod.spec, view)] = 1
        if self._added is not None:
            codes[~any_term(self._added, view)] = 2
        return Verdicts(codes, (None, _REASON_POD, _REASON_ENFORCED))

    def pre_score(self, state: CycleState, pod: Pod, _view: RowView) -> Status | None:
        terms = pod.spec.preferred_node_affinity
        state[_READABLE] = True
        if not terms and not self._added_preferred:
            return SKIP
        problem = preferred_terms_error(terms)
        return Status(Code.ERROR, (problem,)) if problem else None

    def score(self, state: CycleState, pod: Pod, view: RowView) -> Scores:
        """The weights of the preferred terms that match, the profile's included."""
        if _READABLE not in state and (problem := preferred_terms_error(pod.spec.preferred_node_affinity)):
            raise ValueError(problem)
        total = np.zeros(len(view), np.int64)
        for term in (*self._added_preferred, *pod.spec.preferred_node_affinity):
            if term.weight:
                total += term.weight * matches_term(term.preference, view)
        return total

    @staticmethod
    def normalize_score(_state: CycleState, _pod: Pod, scores: Scores) -> Scores:
        return default_normalize_score(scores, reverse=False)

    def events_to_register(self) -> list[EventHint]:
        return [EventHint("Node", ("Add", "UpdateNodeLabel"), self._newly_matched, by_spec=True)]

    def _newly_matched(self, pod: Pod, old: Node | None, new: Node) -> bool:
        if self._added is not None and not _matches_any(self._added, new):
            return False
        return _matches(pod, new) and (old is None or not _matches(pod, old))


def _node_names(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """The nodes that the terms name (metadata.name In ...); None when some term leaves the name open, or there is no term."""
    names: frozenset[str] | None = None
    for term in terms:
        lists = [r.values for r in term.fields if r.key == "metadata.name" and r.operator == IN]
        if not lists:
            return None
        names = (names or frozenset()) | frozenset(lists[0]).intersection(*lists[1:])
    return names


def _matches(pod: Pod, node: Node) -> bool:
    spec = pod.spec
    if any(node.labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    return spec.node_affinity is None or _matches_any(spec.node_affinity, node)


def _matches_any(terms: Iterable[NodeSelectorTerm], node: Node) -> bool:
    return any(not term.problem() and term.matches(node.labels, node.name) for term in terms)
