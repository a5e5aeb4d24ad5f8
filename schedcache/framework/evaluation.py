"""What one attempt to place a pod found out, step by step: for the scheduler to act on, and for people to read."""

import random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from schedcache.framework.diagnosis import (
    Diagnosis,
    FitError,
    NodeStatuses,
    NoNodesError,
    PluginError,
    SchedulingFailure,
)
from schedcache.framework.filtering import Feasibility
from schedcache.framework.interface import CycleState, Verdicts
from schedcache.framework.pre_filtering import PreFilterOutcome
from schedcache.framework.row_view import RowView
from schedcache.framework.scoring import ScoreTable
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot


class ScheduleResult(NamedTuple):
    """Where the pod goes. `scores` is None where there was but one feasible node, which no one had to score."""

    node_name: str
    state: CycleState
    feasible_count: int
    evaluated_count: int
    scores: ScoreTable | None = None


class Evaluation:
    """An attempt as `Framework.evaluate` leaves it: what it did not come to is None.

    It speaks of the snapshot as it was: ask before the next attempt, and before the snapshot moves on. `exhaustive`: every
    candidate was looked at and every feasible one scored, even where that could not change the choice.
    """

    __slots__ = (
        "_diagnosis",
        "aside",
        "error",
        "exhaustive",
        "feasible",
        "filtered",
        "on_nominated_node",
        "pod",
        "pre_filter",
        "scores",
        "snapshot",
        "state",
    )

    def __init__(self, pod: Pod, snapshot: "Snapshot", state: CycleState, *, exhaustive: bool) -> None:
        self.pod = pod
        self.snapshot = snapshot
        self.state = state
        """What the plugins prepared; it is passed on to PostFilter."""
        self.exhaustive = exhaustive
        self.pre_filter: PreFilterOutcome | None = None
        self.filtered: Feasibility | None = None
        """Of all candidates; of the nominated node alone where that is taken and the attempt is not exhaustive."""
        self.feasible: RowView | None = None
        """The rows of `filtered` that passed."""
        self.on_nominated_node = False
        """The pod fits on the node where preemption made room for it, and goes there whatever the scores."""
        self.scores: ScoreTable | None = None
        """Of `feasible`; None if there is no choice, unless the attempt is exhaustive."""
        self.error: PluginError | None = None
        """The error that ended the attempt without a decision."""
        self.aside: PluginError | None = None
        """An error in what only an exhaustive attempt does; the decision stands."""
        self._diagnosis: Diagnosis | None = None

    @property
    def fits(self) -> bool:
        """There is a node for the pod."""
        return self.error is None and self.feasible is not None and (self.on_nominated_node or len(self.feasible) > 0)

    @property
    def evaluated_count(self) -> int:
        """How many nodes were filtered."""
        return 0 if self.filtered is None else len(self.filtered.view)

    @property
    def feasible_count(self) -> int:
        """How many of them passed."""
        return 0 if self.feasible is None else len(self.feasible)

    def choices(self) -> list[str]:
        """The names of the nodes that the pod may go to, all equally good; none if it does not fit."""
        if not self.fits or self.feasible is None:
            return []
        if self.on_nominated_node:
            return [self.pod.nominated_node_name]
        return self.feasible.names() if self.scores is None else self.feasible.take(self.scores.best()).names()

    def choose(self, rng: random.Random) -> str:
        """The name of the node to take, `rng` deciding among equally good ones. Raises `failure()` where the pod does not fit."""
        feasible = self.feasible
        if not self.fits or feasible is None:
            raise self.failure()
        if self.on_nominated_node:
            return self.pod.nominated_node_name
        if self.scores is None:
            return feasible.name(0)
        best = self.scores.best()
        return feasible.name(int(best[rng.randrange(len(best))]))

    def result(self, rng: random.Random) -> ScheduleResult:
        """As `choose`, with all that goes with it. Raises `failure()` where the pod does not fit."""
        return ScheduleResult(self.choose(rng), self.state, self.feasible_count, self.evaluated_count, self.scores)

    def failure(self) -> SchedulingFailure:
        """The error for the scheduler if the pod does not fit."""
        if self.error is not None:
            return self.error
        diagnosis = self.diagnosis()
        return NoNodesError(self.pod) if diagnosis is None else FitError(self.pod, diagnosis, self.state)

    def diagnosis(self) -> Diagnosis | None:
        """Why the pod is not on this or that node; None where that was not asked of all nodes."""
        if self._diagnosis is None:
            self._diagnosis = self._diagnose()
        return self._diagnosis

    def _diagnose(self) -> Diagnosis | None:
        pre_filter, order = self.pre_filter, self.snapshot.columns.order
        if pre_filter is None:
            return None
        status, narrowed_by = pre_filter.status, frozenset(pre_filter.narrowed_by)
        if status is not None:
            of_all = NodeStatuses(self.snapshot, order, Verdicts(np.ones(len(order), np.intp), (None, status)))
            return Diagnosis(len(order), of_all, pre_filter_status=status, unschedulable_plugins=narrowed_by)
        if self.filtered is None or (self.on_nominated_node and not self.exhaustive):
            return None
        verdicts = self.filtered.verdicts()
        if len(self.filtered.view) < len(order):
            verdicts = self._with_absent(self.filtered.view, verdicts, pre_filter)
        return Diagnosis(len(order), NodeStatuses(self.snapshot, order, verdicts), unschedulable_plugins=narrowed_by)

    def _with_absent(self, view: RowView, verdicts: Verdicts, pre_filter: PreFilterOutcome) -> Verdicts:
        """Verdicts on all nodes, from those on the candidates and what PreFilter has against the others."""
        columns = self.snapshot.columns
        looked_at = np.zeros(len(columns.generation), np.bool_)
        looked_at[view.rows] = True
        codes = np.full(len(columns.order), len(verdicts.table), np.intp)
        codes[looked_at[columns.order]] = verdicts.codes
        return Verdicts(codes, [*verdicts.table, pre_filter.absent_status()])
