"""Some rows of a snapshot, as a filter or score sees them.

A `RowView` shows rows as they are in the snapshot, and cannot be changed. `view.hypothetical()` is a view of the same rows to
which pods can be added, and from which they can be removed, hypothetically: for a nominated node's second pass (pods added).
`HypotheticalView.with_pods_off` makes one for preemption: all candidates at once, each without its own victims, which are put
back one by one. All have the same accessors, so a plugin need not know which one it gets; those of a `HypotheticalView`
describe the hypothetical nodes.

They are separate types because results are kept only for rows as they are (`schedcache.framework.kept`): kept results are never
looked up for a HypotheticalView, whether or not it has changed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from schedcache.framework.amounts import Amounts, add_amounts
from schedcache.framework.lifted import LiftedPods, Mask
from schedcache.model import Pod, PodRequests, PodShape
from schedcache.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from schedcache.cache import Columns, NodeInfo, PodTable, Snapshot

Rows = npt.NDArray[np.intp]
_shape_of: Callable[[Pod], PodShape] = attrgetter("shape")


class _Deltas:
    """What was added and removed one by one, position by position, with its sums kept up to date as columns."""

    __slots__ = ("added", "non_zero", "pod_count", "removed", "requested", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.added: dict[int, list[Pod]] = {}
        self.removed: dict[int, list[Pod]] = {}
        self.requested: dict[str, Amounts] = {}
        self.non_zero = np.zeros((2, size), np.int64)
        self.pod_count = np.zeros(size, np.int64)

    def account(self, position: int, requests: PodRequests, sign: int) -> None:
        for resource, amount in requests.resource.amounts():
            column = self.requested.get(resource)
            if column is None:
                column = self.requested[resource] = np.zeros(self.size, np.int64)
            column[position] = _bounded(int(column[position]) + sign * amount)
        for i, amount in enumerate((requests.non_zero_milli_cpu, requests.non_zero_memory)):
            self.non_zero[i, position] = _bounded(int(self.non_zero[i, position]) + sign * amount)
        self.pod_count[position] += sign

    def account_alike(self, positions: Sequence[int], requests: PodRequests) -> None:
        """As many pods that ask for the same are added to a position as it is named."""
        if max(amount for _, amount in requests.resource.amounts()) > _SAFE:
            for position in positions:
                self.account(position, requests, 1)
            return
        number = np.bincount(positions, minlength=self.size)
        for resource, amount in requests.resource.amounts():
            if amount:
                column = self.requested.get(resource)
                self.requested[resource] = number * amount if column is None else column + number * amount
        self.non_zero[0] += number * requests.non_zero_milli_cpu
        self.non_zero[1] += number * requests.non_zero_memory
        self.pod_count += number

    def take(self, positions: Rows) -> "_Deltas":
        taken = _Deltas(len(positions))
        # Of the rows that preemption tries, hardly any has pods of its own here.
        for new, old in enumerate(positions.tolist()) if self.added or self.removed else ():
            if old in self.added:
                taken.added[new] = list(self.added[old])
            if old in self.removed:
                taken.removed[new] = list(self.removed[old])
        taken.requested = {name: column[positions] for name, column in self.requested.items()}
        taken.non_zero = self.non_zero[:, positions]
        taken.pod_count = self.pod_count[positions]
        return taken


class RowView:
    """Rows of `snapshot.columns` in the order of the snapshot's node list; within the view, they have positions 0..k-1.

    All arrays returned have one entry per position and must not be written to. `rows` is an intp array.
    """

    __slots__ = ("columns", "index", "rows", "snapshot")

    def __init__(self, snapshot: "Snapshot", rows: Rows) -> None:
        self.snapshot = snapshot
        self.columns: Columns = snapshot.columns
        self.rows = rows
        self.index: Rows | slice = rows
        """What to index a column with: `rows`, or the same as a slice, which copies nothing."""

    @staticmethod
    def of_all_rows(snapshot: "Snapshot") -> "RowView":
        """Every live row, in no particular order: for results that are independent for each row."""
        columns = snapshot.columns
        if len(columns.order) < columns.rows:
            return RowView(snapshot, np.sort(columns.order))
        view = RowView(snapshot, np.arange(columns.rows))
        view.index = slice(0, columns.rows)
        return view

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Rows) -> "RowView":
        """The view of a part of the rows; for a hypothetical view, another one with the same pods added and removed."""
        return RowView(self.snapshot, self.rows[positions])

    def hypothetical(self) -> "HypotheticalView":
        """The same rows, for adding and removing pods; changes of either view do not show in the other."""
        return HypotheticalView(self.snapshot, self.rows)

    @property
    def lifted(self) -> LiftedPods:
        """The pods that `HypotheticalView.with_pods_off` took off. Raises ValueError for another view."""
        raise ValueError("no pods were taken off this view in bulk")

    @property
    def changed(self) -> list[int]:
        """The positions that have pods added or removed, ascending."""
        return []

    def moved_shapes(self) -> set[PodShape]:
        """The shapes of the pods added and removed, and maybe of some that have been put back."""
        return set()

    def moved_worth(self, worth: Mapping[PodShape, int]) -> Amounts:
        """What the added pods count for, less what the removed ones do; `worth` has, or makes up, a number for each shape."""
        return np.zeros(len(self.rows), np.int64)

    def added(self, position: int) -> Sequence[Pod]:
        """Pods on the row that the snapshot does not have there."""
        return ()

    def removed(self, position: int) -> Sequence[Pod]:
        """Pods that the snapshot has on the row, but the hypothetical node does not."""
        return ()

    def pods(self, position: int) -> Iterator[Pod]:
        """The pods of the row."""
        return iter(self.node_info(position).pods)

    def node_info(self, position: int) -> "NodeInfo":
        """The snapshot's node, without hypothetical changes."""
        return self.columns.infos[int(self.rows[position])]

    def name(self, position: int) -> str:
        return self.columns.names[int(self.rows[position])]

    def names(self) -> list[str]:
        names = self.columns.names
        return [names[row] for row in self.rows.tolist()]

    def allocatable(self, resource: str) -> Amounts:
        """Milli-CPU, bytes or whole units; 0 if the node has none."""
        columns = self.columns
        number = columns.resource_index.get(resource)
        return np.zeros(len(self.rows), np.int64) if number is None else columns.allocatable[number][self.index]

    def requested(self, resource: str) -> Amounts:
        """The sum of the requests of the row's pods, in the unit of `allocatable`."""
        columns = self.columns
        number = columns.resource_index.get(resource)
        return np.zeros(len(self.rows), np.int64) if number is None else columns.requested[number][self.index]

    def non_zero_requested(self, resource: str) -> Amounts:
        """As `requested` for cpu and memory, but containers without a request count as 100m and 200Mi."""
        amounts: Amounts = self.columns.non_zero_requested[_NON_ZERO[resource]][self.index]
        return amounts

    def pod_count(self) -> Amounts:
        """How many pods the row has."""
        return self.columns.pod_count[self.index]

    def allowed_pods(self) -> Amounts:
        """How many pods the row may have."""
        return self.columns.allowed_pods[self.index]


class HypotheticalView(RowView):
    """Rows with pods hypothetically added and removed, separately for each row.

    The pods may change between two calls; a result is about the view at the time of the call.
    """

    __slots__ = ("_deltas", "_lifted")

    def __init__(self, snapshot: "Snapshot", rows: Rows) -> None:
        super().__init__(snapshot, rows)
        self._deltas = _Deltas(len(rows))
        self._lifted: LiftedPods | None = None

    @classmethod
    def with_pods_off(cls, snapshot: "Snapshot", rows: Rows, table: "PodTable", off: Mask) -> "HypotheticalView":
        """Rows with many pods taken off at once: those in the slots of `table` where `off` [position, slot] is true.

        Of these pods and no others, `lifted` puts back and takes off one a position, by slot. `off` is the view's from now on.
        """
        view = cls(snapshot, rows)
        view._lifted = LiftedPods(table, rows, table.kinds[rows, : off.shape[1]], off)
        return view

    def take(self, positions: Rows) -> "HypotheticalView":
        view = HypotheticalView(self.snapshot, self.rows[positions])
        view._deltas = self._deltas.take(positions)
        if self._lifted is not None:
            view._lifted = self._lifted.take(positions)
        return view

    @property
    def lifted(self) -> LiftedPods:
        return super().lifted if self._lifted is None else self._lifted

    def hypothetical(self) -> "HypotheticalView":
        return self.take(np.arange(len(self)))

    def add_pod(self, position: int, pod: Pod) -> None:
        """Put a pod on the row, or back on it after `remove_pod`."""
        self._move(position, pod, put=True)

    def add_pods(self, pods: Mapping[int, Sequence[Pod]]) -> None:
        """Put pods on rows, by position, that were on none of them before."""
        alike: dict[PodRequests, list[int]] = {}
        for position, some in pods.items():
            self._deltas.added.setdefault(position, []).extend(some)
            for pod in some:
                alike.setdefault(pod.requests, []).append(position)
        for requests, positions in alike.items():
            self._deltas.account_alike(positions, requests)

    def remove_pod(self, position: int, pod: Pod) -> None:
        """Remove a pod from the row: one that runs there, or one that `add_pod` put there."""
        self._move(position, pod, put=False)

    def _move(self, position: int, pod: Pod, *, put: bool) -> None:
        deltas = self._deltas
        undone, done = (deltas.removed, deltas.added) if put else (deltas.added, deltas.removed)
        at = next((i for i, p in enumerate(undone.get(position, ())) if p.uid == pod.uid), None)
        if at is None:
            done.setdefault(position, []).append(pod)
        else:
            del undone[position][at]
            if not undone[position]:
                del undone[position]
        deltas.account(position, pod.requests, 1 if put else -1)

    @property
    def changed(self) -> list[int]:
        moved = self._deltas.added.keys() | self._deltas.removed.keys()
        if self._lifted is not None:
            moved = moved.union(np.flatnonzero(self._lifted.count).tolist())
        return sorted(moved)

    def moved_shapes(self) -> set[PodShape]:
        found = set() if self._lifted is None else self._lifted.shapes()
        found.update(map(_shape_of, chain(*self._deltas.added.values(), *self._deltas.removed.values())))
        return found

    def moved_worth(self, worth: Mapping[PodShape, int]) -> Amounts:
        moved = super().moved_worth(worth)
        for pods, sign in ((self._deltas.added, 1), (self._deltas.removed, -1)):
            # No bytecode a pod: preemption comes here for each pod that it puts back.
            for position, some in pods.items():
                moved[position] += sign * sum(map(worth.__getitem__, map(_shape_of, some)))
        return moved if self._lifted is None else moved - self._lifted.worth(worth)

    def added(self, position: int) -> Sequence[Pod]:
        return self._deltas.added.get(position, ())

    def removed(self, position: int) -> Sequence[Pod]:
        by_hand = self._deltas.removed.get(position, ())
        return by_hand if self._lifted is None else [*by_hand, *self._lifted.pods(position)]

    def pods(self, position: int) -> Iterator[Pod]:
        gone = {p.uid for p in self.removed(position)}
        yield from (p for p in super().pods(position) if p.uid not in gone)
        yield from self.added(position)

    def requested(self, resource: str) -> Amounts:
        amounts = super().requested(resource)
        moved = self._deltas.requested.get(resource)
        if moved is not None:
            amounts = add_amounts(amounts, moved)
        return amounts if self._lifted is None else amounts - self._lifted.requested(resource)

    def non_zero_requested(self, resource: str) -> Amounts:
        index = _NON_ZERO[resource]
        amounts = add_amounts(super().non_zero_requested(resource), self._deltas.non_zero[index])
        return amounts if self._lifted is None else amounts - self._lifted.non_zero_requested(index)

    def pod_count(self) -> Amounts:
        count = super().pod_count() + self._deltas.pod_count
        return count if self._lifted is None else count - self._lifted.count


_NON_ZERO = {CPU: 0, MEMORY: 1}
_BEYOND = 2**62
_SAFE = 2**53


def _bounded(amount: int) -> int:
    # More than any node has, but small enough that sums stay within 64 bits.
    return max(-_BEYOND, min(amount, _BEYOND))
