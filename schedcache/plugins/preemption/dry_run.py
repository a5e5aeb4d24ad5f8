"""What would have to go for a pod to fit, on all candidate nodes at once (SelectVictimsOnNode, kube-scheduler 1.37).

All pods of lower priority are taken off every row, one run of the filters tells where that is of no help, and then pods are
put back a step at a time: in step i every row gets back its i-th pod, and one more run tells which rows cannot have it.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from schedcache.framework import (
    Code,
    CycleState,
    Filters,
    HypotheticalView,
    LiftedPods,
    Mask,
    Rows,
    SharedView,
    Status,
    unresolvable,
)
from schedcache.model import Pod
from schedcache.plugins.preemption.budgets import Budgets
from schedcache.plugins.preemption.costs import PRIORITY_OFFSET, Costs

if TYPE_CHECKING:
    from schedcache.cache import PodTable, Snapshot

_NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
Slots = npt.NDArray[np.intp]


class Hopeless(NamedTuple):
    """The rows where no eviction would help: `table[ids[i]]` says why `rows[i]` is one of them."""

    rows: Rows
    ids: Rows
    table: list[Status | None]


class Candidates:
    """Rows on which the pod fits once the `victims` [position, slot] are gone; `costs`, by position."""

    __slots__ = ("_table", "costs", "rows", "victims")

    def __init__(self, rows: Rows, victims: Mask, costs: Costs, table: "PodTable") -> None:
        self.rows = rows
        self.victims = victims
        self.costs = costs
        self._table = table

    @classmethod
    def of(cls, lifted: LiftedPods, violating: Mask | None) -> "Candidates":
        """Those that are off are the victims; `violating` [position, slot] would break a budget, None: nobody would."""
        victims, table, everyone = lifted.off, lifted.table, np.arange(len(lifted.off))
        priorities = np.where(victims, table.priority[lifted.kinds], 0)
        # Slots go by importance: the first victim is of the highest priority, and of those the one that started first.
        first = victims.argmax(axis=1)
        number = victims.sum(axis=1)
        none = np.zeros(len(victims), np.int64)
        costs = Costs(
            violations=none if violating is None else (victims & violating).sum(axis=1),
            top_priority=priorities[everyone, first],
            priority_sum=priorities.sum(axis=1) + number * PRIORITY_OFFSET,
            number=number,
            earliest_start=table.starts[lifted.rows, first],
        )
        return cls(lifted.rows, victims, costs, table)

    def __len__(self) -> int:
        return len(self.rows)

    def pods(self, position: int) -> list[Pod]:
        """The victims on the row, the most important first."""
        pods = self._table.pods(int(self.rows[position]))
        return [pods[slot] for slot in np.flatnonzero(self.victims[position]).tolist()]


def dry_run(
    filters: Filters, state: CycleState, pod: Pod, snapshot: "Snapshot", rows: Rows, budgets: Budgets
) -> tuple[Candidates | None, Hopeless]:
    """Find the victims on each of the rows; None where there are no candidates. Raises PluginError.

    Pods that are put back with the preemptor still fitting are no victims: those whose eviction would break a budget are
    tried first, then the others, by importance. A row that comes out without victims is a fault of the filters.
    """
    view = _without_lower(snapshot, rows, pod.priority)
    if view is None:
        return None, Hopeless(rows, np.ones(len(rows), np.intp), [None, _NO_VICTIMS])
    tried = np.zeros(len(snapshot.columns.generation), np.bool_)
    tried[view.rows] = True
    rest = rows[~tried[rows]]
    hopeless: list[tuple[Rows, Rows]] = [(rest, np.ones(len(rest), np.intp))]
    statuses: list[Status | None] = [None, _NO_VICTIMS]
    shared = filters.share(pod, view)
    found = filters.run_shared_filters(state, pod, shared)
    if len(found.feasible) < len(shared):
        ids, reasons = found.verdicts()
        failed = np.flatnonzero(ids)
        hopeless.append((view.rows[failed], (ids[failed] + 1).astype(np.intp)))
        statuses += reasons[1:]
        shared = shared.take(found.feasible)
    lifted = shared.view.lifted
    violating = budgets.violating(lifted) if len(shared) else None
    _reprieve(filters, state, pod, shared, violating)
    none_left = np.flatnonzero(lifted.count == 0)
    if len(none_left):
        hopeless.append((lifted.rows[none_left], len(statuses) + np.arange(len(none_left))))
        statuses += [_without_victims(name) for name in shared.view.take(none_left).names()]
        remaining = np.flatnonzero(lifted.count)
        lifted = lifted.take(remaining)
        violating = None if violating is None else violating[remaining]
    by_row, by_id = (np.concatenate(parts) for parts in zip(*hopeless, strict=True))
    candidates = Candidates.of(lifted, violating) if len(lifted.rows) else None
    return candidates, Hopeless(by_row, by_id, statuses)


def _without_lower(snapshot: "Snapshot", rows: Rows, priority: int) -> HypotheticalView | None:
    """Those of the rows that have pods of lower priority, without these; None where there are none."""
    # Most pods that fit nowhere are of the lowest priority that there is. For them the table is not even brought up to date.
    rows = snapshot.columns.with_lower_pods(rows, priority)
    if not len(rows):
        return None
    table = snapshot.pod_table
    width = int(snapshot.columns.pod_count[rows].max())
    off = table.priority[table.kinds[rows, :width]] < priority
    prey = off.any(axis=1)
    if not np.count_nonzero(prey):
        return None
    return HypotheticalView.with_pods_off(snapshot, rows[prey], table, off[prey])


def _reprieve(filters: Filters, state: CycleState, pod: Pod, shared: SharedView, violating: Mask | None) -> None:
    """Put back whom the pod can do with; who is off in the end is a victim."""
    lifted = shared.view.lifted
    order, numbers = _in_turn(lifted, violating)
    for step in range(int(numbers.max(initial=0))):
        positions = np.flatnonzero(numbers > step)
        slots = order[positions, step]
        shared.put_back(positions, slots)
        part = shared if len(positions) == len(shared) else shared.take(positions)
        fits = np.zeros(len(positions), np.bool_)
        fits[filters.run_shared_filters(state, pod, part).feasible] = True
        shared.take_off(positions[~fits], slots[~fits])


def _in_turn(lifted: LiftedPods, violating: Mask | None) -> tuple[Slots, npt.NDArray[np.int64]]:
    """[position, turn]: the slot whose pod is put back in that turn; and the number of turns of each position."""
    # A stable sort keeps slots of one rank in their order, which is that of importance.
    rank = np.where(lifted.off, np.int8(1), np.int8(2))
    if violating is not None:
        rank[violating & lifted.off] = 0
    return np.argsort(rank, axis=1, kind="stable"), lifted.count.copy()


def _without_victims(node_name: str) -> Status:
    return Status(Code.ERROR, (f'expected at least one victim pod on node "{node_name}"',))
