"""PodTopologySpread: keep the numbers of matching pods in the domains of a topology key close together.

Rules of kube-scheduler 1.37 (KEP-895, KEP-3022 minDomains, KEP-3094 inclusion policies). Two of its quirks are kept: an
empty selector counts no running pod, though it matches every pod that is added, removed or being scheduled; and pods
added or removed count whether or not they are terminating.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from schedcache.cache import Snapshot
from schedcache.cache.terms import Counts, PodTerm
from schedcache.config.plugin_args import PodTopologySpreadArgs
from schedcache.framework import (
    SKIP,
    Code,
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
from schedcache.model import LabelSelector, Pod, PodShape, TopologySpreadConstraint
from schedcache.plugins.nodes.domains import Ints, Worth
from schedcache.plugins.spread.constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    ConstraintSource,
    SpreadDomains,
    Topology,
    TopologyMemory,
)
from schedcache.plugins.spread.hints import SpreadHints
from schedcache.plugins.spread.scoring import SpreadScoring, normalized

NAME = "PodTopologySpread"
REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = REASON + " (missing required label)"

_PASS, _NO_LABEL, _SKEWED = 0, 1, 2
_TABLE = (None, unresolvable(REASON_LABEL), unschedulable(REASON))
_PRE_SCORE = "PreScore" + NAME
# What the minimum starts from where no domain exists (math.MaxInt32 there too).
_NO_DOMAIN = 2**31 - 1


def matching_pods(snapshot: Snapshot, namespace: str, selector: LabelSelector | None) -> Counts:
    """By row, the pods of the namespace that a constraint with this selector counts."""
    if selector is None or selector.empty:
        return np.zeros(snapshot.columns.rows, np.int32)
    term = PodTerm(frozenset((namespace,)), selector, ignore_terminating=True)
    return snapshot.term_index.counts(term)


class _HardConstraint:
    """A DoNotSchedule constraint with the numbers of matching pods by domain."""

    __slots__ = ("_domains", "_least", "_max_skew", "_next_least", "_own", "_short_of_domains", "_sums", "_worth")

    def __init__(self, constraint: TopologySpreadConstraint, domains: SpreadDomains, pod: Pod, counts: Counts) -> None:
        self._domains = domains
        self._sums = domains.sums(counts)
        existing = self._sums[domains.exists]
        self._least, self._next_least = _two_least(existing)
        # With fewer domains than minDomains the least is taken to be 0 (KEP-3022).
        needed = 1 if constraint.min_domains is None else constraint.min_domains
        self._short_of_domains = len(existing) < needed
        self._max_skew = constraint.max_skew
        self._worth = Worth(_matcher(pod.namespace, constraint.selector))
        self._own = self._worth[pod.shape]

    def codes(self, view: RowView, changed: npt.NDArray[np.intp]) -> npt.NDArray[np.int16]:
        by_slot = np.where(self._skewed(self._sums, self._least), np.int16(_SKEWED), np.int16(_PASS))
        by_slot[0] = _NO_LABEL
        codes: npt.NDArray[np.int16] = by_slot[self._domains.slots[view.rows]]
        if len(changed):
            codes[changed] = self._changed_codes(view, changed)
        return codes

    def explain(self, row: int) -> str:
        """How full the row's domain is, and which one is the emptiest; "" if the row may take the pod."""
        domains = self._domains
        slot = int(domains.slots[row])
        if not slot or not self._skewed(self._sums[slot], self._least):
            return ""
        key, value = domains.key, domains.values[slot - 1]
        if self._short_of_domains:
            return f"{key} {value!r} has {self._sums[slot]} matching pods, and there are fewer domains than minDomains"
        emptiest = next(
            v for i, v in enumerate(domains.values, 1) if domains.exists[i] and self._sums[i] == self._least
        )
        return (
            f"{key} {value!r} has {self._sums[slot]} matching pods, the emptiest is {emptiest!r} with {self._least}, "
            f"maxSkew is {self._max_skew}"
        )

    def _skewed(self, matching: Ints, least: Any) -> Any:
        return matching + self._own - (0 if self._short_of_domains else least) > self._max_skew

    def _changed_codes(self, view: RowView, changed: npt.NDArray[np.intp]) -> npt.NDArray[np.int16]:
        """As `codes`, with the pods added to and removed from each row counted in its own domain."""
        rows = view.rows[changed]
        slots = self._domains.slots[rows]
        deltas = view.moved_worth(self._worth)[changed] * (self._domains.counted[rows] > 0)
        before = self._sums[slots]
        matching = before + deltas
        # The least of the other domains: where this one alone is the least, that is the next.
        others = np.where(before == self._least, self._next_least, self._least)
        least = np.where(deltas == 0, self._least, np.minimum(others, matching))
        skewed = self._skewed(matching, least)
        return np.where(slots == 0, _NO_LABEL, np.where(skewed, _SKEWED, _PASS)).astype(np.int16)


def _matcher(namespace: str, selector: LabelSelector | None) -> Callable[[PodShape], int]:
    """Whether a pod matches, its being empty or terminating aside: what added, removed and incoming pods count for."""

    def matches(shape: PodShape) -> int:
        return int(shape.namespace == namespace and selector is not None and selector.matches(shape.labels))

    return matches


def _two_least(counts: Ints) -> tuple[int, int]:
    if not len(counts):
        return _NO_DOMAIN, _NO_DOMAIN
    where = counts.argmin()
    rest = np.delete(counts, where)
    return int(counts[where]), int(rest.min(initial=_NO_DOMAIN))


class PodTopologySpread:
    """Filters by DoNotSchedule constraints and scores by ScheduleAnyway ones."""

    name: ClassVar[str] = NAME
    kinds: ClassVar[Sequence[str]] = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._source = ConstraintSource(args, handle.cluster_objects)
        self._memory = TopologyMemory()

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult | Status | None:
        try:
            constraints = self._source.constraints(pod, DO_NOT_SCHEDULE)
        except ValueError as error:
            return Status(Code.ERROR, (f"get constraints from pod: obtaining pod's hard constraints: {error}",))
        if not constraints:
            return SKIP
        topology = self._topology(pod, constraints, snapshot, need_all_keys=True)
        state[NAME] = [
            _HardConstraint(c, domains, pod, matching_pods(snapshot, pod.namespace, c.selector))
            for c, domains in zip(constraints, topology.domains, strict=True)
        ]
        return None

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        if NAME not in state:
            return failing(len(view), 'reading "PreFilterPodTopologySpread" from cycleState: not found')
        changed = np.array(view.changed, np.intp)
        found: npt.NDArray[np.int16] | None = None
        for constraint in state[NAME]:
            codes = constraint.codes(view, changed)
            found = codes if found is None else np.where(found == _PASS, codes, found)
        if found is None or not found.any():
            return passing(len(view))
        return Verdicts(found, _TABLE)

    def explain(self, state: CycleState, _pod: Pod, view: RowView) -> str:
        """Of each constraint that the row of the view breaks, what is counted."""
        told = (constraint.explain(int(view.rows[0])) for constraint in state[NAME])
        return "; ".join(filter(None, told))

    def pre_score(self, state: CycleState, pod: Pod, view: RowView) -> Status | None:
        try:
            constraints = self._source.constraints(pod, SCHEDULE_ANYWAY)
        except ValueError as error:
            text = f"calculating preScoreState: obtaining pod's soft topology spread constraints: {error}"
            return Status(Code.ERROR, (text,))
        if not constraints:
            return SKIP
        snapshot = view.snapshot
        need_all_keys = bool(pod.spec.topology_spread) or not self._source.system_defaulted
        topology = self._topology(pod, constraints, snapshot, need_all_keys=need_all_keys)
        counts = [matching_pods(snapshot, pod.namespace, c.selector) for c in constraints]
        state[_PRE_SCORE] = SpreadScoring(constraints, topology, counts, view, need_all_keys=need_all_keys)
        return None

    def score(self, state: CycleState, pod: Pod, view: RowView) -> Scores:
        scoring: SpreadScoring | None = state.get(_PRE_SCORE)
        if scoring is None:
            raise LookupError(f'error reading "{_PRE_SCORE}" from cycleState: not found')
        return scoring.scores(view)

    def normalize_score(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        scoring: SpreadScoring = state[_PRE_SCORE]
        return normalized(scores, scoring.ignored)

    def events_to_register(self) -> Sequence[EventHint]:
        return SpreadHints(self._source).events()

    def _topology(
        self, pod: Pod, constraints: Sequence[TopologySpreadConstraint], snapshot: Snapshot, *, need_all_keys: bool
    ) -> Topology:
        spec = pod.spec
        policies = tuple((c.topology_key, c.node_affinity_policy, c.node_taints_policy) for c in constraints)
        return self._memory.get(
            snapshot.columns,
            (spec, policies, need_all_keys),
            lambda: Topology(spec, constraints, snapshot, need_all_keys=need_all_keys),
        )
