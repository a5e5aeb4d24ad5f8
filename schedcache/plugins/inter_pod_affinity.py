"""InterPodAffinity: pods that want to be near others or away from them, and others that do not want them near.

Rules of kube-scheduler 1.37 without its alpha fast path for hostname. Terminating pods count like any other. If PreFilter finds
nothing to check, hypothetically added pods are not checked either: a nominated pod's own anti-affinity is then ignored.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from schedcache.cache import Snapshot
from schedcache.cache.terms import Counts, Owned, OwnedTerm, Ownership, PodTerm, owned_terms
from schedcache.config.plugin_args import InterPodAffinityArgs
from schedcache.framework import (
    MAX_NODE_SCORE,
    SKIP,
    CycleState,
    EventHint,
    Handle,
    PreFilterResult,
    RowView,
    Scores,
    Status,
    Verdicts,
    failing,
    passing,
    unresolvable,
    unschedulable,
)
from schedcache.model import Pod, PodShape
from schedcache.plugins.affinity.hints import AffinityHints
from schedcache.plugins.affinity.terms import AffinityTerms, KeyedTerm, OwnTerms, terms_problem
from schedcache.plugins.nodes.domains import DomainCounts, Ints, Worth
from schedcache.plugins.nodes.matching import Mask

NAME = "InterPodAffinity"
_AFFINITY, _ANTI_AFFINITY, _EXISTING = 1, 2, 3
_TABLE = (
    None,
    unresolvable("node(s) didn't match pod affinity rules"),
    unschedulable("node(s) didn't match pod anti-affinity rules"),
    unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
)
_PRE_SCORE = "PreScore" + NAME


class _Affinity:
    """Required affinity: in each of the keys' domains there must be a pod that matches all terms.

    The first of a group that wants to be together may go anywhere that has the labels: when no pod in any domain matches,
    and it matches itself.
    """

    def __init__(self, terms: OwnTerms, shape: PodShape, snapshot: Snapshot) -> None:
        columns = snapshot.columns
        counts = _matching(snapshot, terms.affinity)
        self._domains = [DomainCounts(columns, key, counts) for key in terms.affinity_keys]
        self._in_a_domain: Mask = np.zeros(columns.rows, np.bool_)
        for domains in self._domains:
            self._in_a_domain |= domains.slots > 0
        self._total = int(counts[self._in_a_domain].sum())
        self._worth = Worth(lambda other: int(terms.affinity_matches(other)))
        self._matches_itself = terms.affinity_matches(shape)

    def failing(self, view: RowView, changed: npt.NDArray[np.intp]) -> Mask:
        rows = view.rows
        failing = self._verdict(rows, np.int64(0))
        if len(changed):
            deltas = view.moved_worth(self._worth)[changed]
            failing[changed] = self._verdict(rows[changed], deltas)
        return failing

    def _verdict(self, rows: npt.NDArray[np.intp], deltas: Ints | np.int64) -> Mask:
        labelled = np.ones(len(rows), np.bool_)
        near = np.ones(len(rows), np.bool_)
        for domains in self._domains:
            slots = domains.slots[rows]
            labelled &= slots > 0
            near &= domains.sums[slots] + deltas > 0
        if self._matches_itself:
            near |= self._total + deltas * self._in_a_domain[rows] == 0
        failing: Mask = ~(labelled & near)
        return failing


class _Repulsion:
    """Anti-affinity by topology key: no pod that counts may be in the node's domain.

    `tally(shape)` says what one pod of a shape counts for, by topology key.
    """

    def __init__(self, domains: Sequence[DomainCounts], tally: Callable[[PodShape], Mapping[str, int]]) -> None:
        self._domains = {d.key: d for d in domains}
        self._tally = tally
        self._tallies: dict[PodShape, Mapping[str, int]] = {}
        self._worth_by_key = {key: Worth(partial(self._count, key)) for key in self._domains}

    @property
    def anything(self) -> bool:
        return any(d.sums.any() for d in self._domains.values())

    def failing(self, view: RowView, changed: npt.NDArray[np.intp]) -> Mask:
        rows = view.rows
        failing = np.zeros(len(rows), np.bool_)
        for domains in self._domains.values():
            failing |= (domains.sums > 0)[domains.slots[rows]]
        if len(changed):
            failing[changed] = self._changed(view, changed)
        return failing

    def _changed(self, view: RowView, changed: npt.NDArray[np.intp]) -> Mask:
        rows = view.rows[changed]
        self._learn_keys(view)
        failing = np.zeros(len(rows), np.bool_)
        for key, worth in self._worth_by_key.items():
            domains = self._domains.get(key)
            if domains is None:
                columns = view.columns
                domains = self._domains[key] = DomainCounts(columns, key, np.zeros(columns.rows, np.int32))
            slots = domains.slots[rows]
            failing |= (slots > 0) & (domains.sums[slots] + view.moved_worth(worth)[changed] > 0)
        return failing

    def _learn_keys(self, view: RowView) -> None:
        """Note the keys that the view's own pods bring in, which need not be among those of pods in place."""
        for shape in view.moved_shapes() - self._tallies.keys():
            tally = self._tallies[shape] = self._tally(shape)
            for key in tally:
                if key not in self._worth_by_key:
                    self._worth_by_key[key] = Worth(partial(self._count, key))

    def _count(self, key: str, shape: PodShape) -> int:
        return self._tallies[shape].get(key, 0)


class _Checks:
    """What the filter has to check for one pod."""

    def __init__(self, affinity: _Affinity | None, own: _Repulsion | None, existing: _Repulsion) -> None:
        self._affinity = affinity
        self._own = own
        self._existing = existing

    def verdicts(self, view: RowView) -> Verdicts:
        changed = np.array(view.changed, np.intp)
        codes = np.zeros(len(view), np.int16)
        codes[self._existing.failing(view, changed)] = _EXISTING
        if self._own is not None:
            codes[self._own.failing(view, changed)] = _ANTI_AFFINITY
        if self._affinity is not None:
            codes[self._affinity.failing(view, changed)] = _AFFINITY
        return Verdicts(codes, _TABLE) if codes.any() else passing(len(view))


class InterPodAffinity:
    """Filters by required terms, the pod's own and placed pods' anti-affinity, and scores by preferred ones."""

    name: ClassVar[str] = NAME
    kinds: ClassVar[Sequence[str]] = ("Namespace",)

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._args = args
        self._terms = AffinityTerms(handle.cluster_objects)

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult | Status | None:
        shape, spec = pod.shape, pod.spec
        problem = terms_problem(shape) if spec.has_pod_affinity else ""
        if problem:
            return unresolvable(f"parsing pod: {problem}")
        existing = self._existing_anti_affinity(shape, snapshot)
        if not spec.pod_affinity and not spec.pod_anti_affinity and not existing.anything:
            return SKIP
        own = self._terms.of(shape)
        affinity = _Affinity(own, shape, snapshot) if own.affinity_keys else None
        repelled = _own_anti_affinity(own, snapshot) if own.anti_affinity else None
        state[NAME] = _Checks(affinity, repelled, existing)
        return None

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        checks: _Checks | None = state.get(NAME)
        if checks is None:
            return failing(len(view), 'error reading "PreFilterInterPodAffinity" from cycleState: not found')
        return checks.verdicts(view)

    def pre_score(self, state: CycleState, pod: Pod, view: RowView) -> Status | None:
        snapshot, spec = view.snapshot, pod.spec
        has_preferred = bool(spec.preferred_pod_affinity or spec.preferred_pod_anti_affinity)
        if self._args.ignore_preferred_terms_of_existing_pods and not has_preferred:
            return SKIP
        worth: dict[str, Ints] = {}
        if has_preferred:
            for key, term, weight in self._terms.of(pod.shape).preferred:
                _accumulate(worth, key, _matching(snapshot, term), weight)
        for owned in self._owned_by_others(pod.shape, snapshot):
            _accumulate(
                worth, owned.term.topology_key, owned.counts.column(snapshot.columns.rows), self._weight(owned.term)
            )
        domains = [DomainCounts(snapshot.columns, key, amounts) for key, amounts in worth.items()]
        if not any(d.sums.any() for d in domains):
            return SKIP
        state[_PRE_SCORE] = domains
        return None

    def score(self, state: CycleState, pod: Pod, view: RowView) -> Scores:
        if _PRE_SCORE not in state:
            raise LookupError(f'failed to read "{_PRE_SCORE}" from cycleState: not found')
        scores = np.zeros(len(view), np.int64)
        for domains in state[_PRE_SCORE]:
            scores += domains.sums[domains.slots[view.rows]]
        return scores

    def normalize_score(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        """0 for the least, 100 for the most; in doubles, in kube-scheduler's order of operations: 29 of 100 gives 28."""
        if not len(scores) or scores.min() == scores.max():
            return np.zeros(len(scores), np.int64)
        low, high = scores.min(), scores.max()
        normalized: Scores = (MAX_NODE_SCORE * ((scores - low) / (high - low))).astype(np.int64)
        return normalized

    def events_to_register(self) -> Sequence[EventHint]:
        return AffinityHints(self._terms).events()

    def _weight(self, term: OwnedTerm) -> int:
        match term.ownership:
            case Ownership.PREFERRED:
                return term.weight
            case Ownership.REQUIRED_AFFINITY:
                return self._args.hard_pod_affinity_weight
            case Ownership.REQUIRED_ANTI_AFFINITY:
                return 0

    def _owned_by_others(self, shape: PodShape, snapshot: Snapshot) -> Sequence[Owned]:
        # Most clusters that never use affinity need no term index: one look at a column tells.
        if not snapshot.columns.affinity_pods.any():
            return ()
        return snapshot.term_index.owned_by_others(shape, self._terms.namespace_labels(shape.namespace))

    def _existing_anti_affinity(self, shape: PodShape, snapshot: Snapshot) -> _Repulsion:
        amounts: dict[str, Ints] = {}
        for owned in self._owned_by_others(shape, snapshot):
            if owned.term.ownership is Ownership.REQUIRED_ANTI_AFFINITY:
                _accumulate(amounts, owned.term.topology_key, owned.counts.column(snapshot.columns.rows), 1)
        labels = self._terms.namespace_labels(shape.namespace)

        def worth(other: PodShape) -> Mapping[str, int]:
            """How many anti-affinity terms of the other are about this pod, by topology key."""
            return _tally(
                t.topology_key
                for t in owned_terms(other)
                if t.ownership is Ownership.REQUIRED_ANTI_AFFINITY and t.matches(shape, labels)
            )

        return _Repulsion([DomainCounts(snapshot.columns, k, a) for k, a in amounts.items()], worth)


def _own_anti_affinity(own: OwnTerms, snapshot: Snapshot) -> _Repulsion:
    amounts: dict[str, Ints] = {}
    for key, term, _ in own.anti_affinity:
        _accumulate(amounts, key, _matching(snapshot, term), 1)

    def worth(other: PodShape) -> Mapping[str, int]:
        return _tally(t.topology_key for t in own.anti_affinity if _matches(t, other))

    return _Repulsion([DomainCounts(snapshot.columns, k, a) for k, a in amounts.items()], worth)


def _matches(keyed: KeyedTerm, shape: PodShape) -> bool:
    return keyed.term is not None and keyed.term.matches(shape)


def _matching(snapshot: Snapshot, term: PodTerm | None) -> Counts:
    return np.zeros(snapshot.columns.rows, np.int32) if term is None else snapshot.term_index.counts(term)


def _accumulate(amounts: dict[str, Ints], key: str, counts: Counts, weight: int) -> None:
    if not weight:
        return
    total = amounts.get(key)
    if total is None:
        amounts[key] = counts.astype(np.int64) * weight
    else:
        total += counts.astype(np.int64) * weight


def _tally(keys: Iterable[str]) -> Mapping[str, int]:
    tally: dict[str, int] = {}
    for key in keys:
        tally[key] = tally.get(key, 0) + 1
    return tally
