"""Dry runs of pods of one spec, one after the other: only rows that have changed in between are tried again.

A burst of pods that preempt comes from few workloads, and each of them changes one node: the one it is nominated to.

What is kept
    For the specs seen last, on the columns of the snapshot seen last: which rows are candidates, with their victims and
    costs, and why the others are hopeless.

What makes a result invalid
    For one row: it was written, or the nominated pods that the preemptor must yield to there are others. For all rows: a
    PodDisruptionBudget has changed, or what the filters go by (`Filters.locality`).

When nothing is kept
    Where a filter looks at more than the row, and where it returned an error for the row.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

from schedcache.framework import CycleState, Filters, Mask, Rows, RowView, StatusTable
from schedcache.model import Pod, PodDisruptionBudget, PodSpec
from schedcache.plugins.preemption.budgets import Budgets
from schedcache.plugins.preemption.costs import Costs
from schedcache.plugins.preemption.dry_run import Candidates, Hopeless, dry_run

if TYPE_CHECKING:
    from schedcache.cache import Columns, Snapshot

_MAX_SPECS = 8
# A table may have twice as many statuses as there are rows, and these: so many changes pay for trying all rows anew.
_SLACK = 256


class KeptDryRuns:
    """`dry_run`, with what it found before."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._columns: ReferenceType[Columns] | None = None
        self._by_spec: OrderedDict[tuple[PodSpec, Any], _Kept] = OrderedDict()

    def run(
        self, filters: Filters, state: CycleState, pod: Pod, snapshot: "Snapshot", rows: Rows
    ) -> tuple[Candidates | None, Hopeless]:
        """As `dry_run`. Raises PluginError."""
        locality = filters.locality(state, pod, snapshot)
        if locality is None:
            return dry_run(filters, state, pod, snapshot, rows, self._budgets)
        kept = self._kept(snapshot.columns, (pod.spec, locality))
        guests = {int(rows[at]): pods for at, pods in filters.guests(pod, RowView(snapshot, rows)).items()}
        rest = kept.rest(snapshot, rows, guests, self._budgets.all())
        if len(rest):
            kept.learn(rest, *dry_run(filters, state, pod, snapshot, rest, self._budgets))
        return kept.told(snapshot, rows)

    def _kept(self, columns: "Columns", key: tuple[PodSpec, Any]) -> "_Kept":
        if self._columns is None or self._columns() is not columns:
            self._columns = ref(columns)
            self._by_spec.clear()
        kept = self._by_spec.pop(key, None) or _Kept()
        self._by_spec[key] = kept
        if len(self._by_spec) > _MAX_SPECS:
            self._by_spec.popitem(last=False)
        return kept


class _Kept:
    """By row, where `known`: `ids` has 0 for candidates, and for others the number of the status that says why.

    `victims` are [row, slot], and `costs` [cost, row], of candidates. `guests`: the nominated pods that count there.
    """

    def __init__(self) -> None:
        self._clear(0)

    def _clear(self, capacity: int) -> None:
        self.version = -1
        self.budgets: Sequence[PodDisruptionBudget] = ()
        self.known: Mask = np.zeros(capacity, np.bool_)
        self.ids: Rows = np.zeros(capacity, np.intp)
        self.statuses = StatusTable()
        self.victims: Mask = np.zeros((capacity, 0), np.bool_)
        self.costs: npt.NDArray[np.int64] = np.zeros((len(Costs._fields), capacity), np.int64)
        self.guests: dict[int, Sequence[Pod]] = {}

    def rest(
        self,
        snapshot: "Snapshot",
        rows: Rows,
        guests: dict[int, Sequence[Pod]],
        budgets: Sequence[PodDisruptionBudget],
    ) -> Rows:
        """Those of the rows that are to be tried."""
        columns = snapshot.columns
        capacity = len(columns.generation)
        if (
            capacity != len(self.known)
            or budgets != self.budgets
            or len(self.statuses.statuses) > 2 * capacity + _SLACK
        ):
            self._clear(capacity)
            self.budgets = budgets
        else:
            self.known[columns.changed_since(self.version)] = False
        self.version = columns.version
        for row in guests.keys() | self.guests.keys():
            if guests.get(row, ()) != self.guests.get(row, ()):
                self.known[row] = False
        # Of rows that are known from here on, these are the guests: the others are tried before they are.
        self.guests = guests
        return rows[~self.known[rows]]

    def learn(self, rows: Rows, candidates: Candidates | None, hopeless: Hopeless) -> None:
        """What became of the rows that were tried."""
        self.known[rows] = True
        numbers = np.array([self.statuses.code(status) for status in hopeless.table], np.intp)
        self.ids[hopeless.rows] = numbers[hopeless.ids]
        errors = [status is not None and not status.rejected for status in hopeless.table]
        self.known[hopeless.rows[np.array(errors, np.bool_)[hopeless.ids]]] = False
        if candidates is not None:
            self.ids[candidates.rows] = 0
            self.costs[:, candidates.rows] = candidates.costs
            width = candidates.victims.shape[1]
            missing = width - self.victims.shape[1]
            if missing > 0:
                self.victims = np.pad(self.victims, ((0, 0), (0, missing)))
            self.victims[candidates.rows, :width] = candidates.victims
            self.victims[candidates.rows, width:] = False

    def told(self, snapshot: "Snapshot", rows: Rows) -> tuple[Candidates | None, Hopeless]:
        """The same for all of the rows."""
        ids = self.ids[rows]
        failed = ids > 0
        hopeless = Hopeless(rows[failed], ids[failed], self.statuses.statuses)
        fit = rows[~failed]
        if not len(fit):
            return None, hopeless
        return Candidates(fit, self.victims[fit], Costs(*self.costs[:, fit]), snapshot.pod_table), hopeless
