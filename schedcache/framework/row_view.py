"""Some rows of a snapshot as a filter or score sees them, with pods put on or taken off each row in thought.

One view type serves all nodes at once (no deltas), a nominated node's second pass (one row, pods added) and preemption
(all candidates, each with its own pods removed). Accessors answer for the hypothetical nodes.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from schedcache.model import Pod
from schedcache.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from schedcache.cache import Columns, NodeInfo, Snapshot

Rows = npt.NDArray[np.intp]
Amounts = npt.NDArray[np.int64]


class _Deltas:
    """What was added and removed, position by position, with its sums kept up to date as columns."""

    __slots__ = ("added", "non_zero", "pod_count", "removed", "requested", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.added: dict[int, list[Pod]] = {}
        self.removed: dict[int, list[Pod]] = {}
        self.requested: dict[str, Amounts] = {}
        self.non_zero = np.zeros((2, size), np.int64)
        self.pod_count = np.zeros(size, np.int64)

    def account(self, position: int, pod: Pod, sign: int) -> None:
        requests = pod.requests
        for resource, amount in requests.resource.amounts():
            column = self.requested.get(resource)
            if column is None:
                column = self.requested[resource] = np.zeros(self.size, np.int64)
            column[position] = _bounded(int(column[position]) + sign * amount)
        for i, amount in enumerate((requests.non_zero_milli_cpu, requests.non_zero_memory)):
            self.non_zero[i, position] = _bounded(int(self.non_zero[i, position]) + sign * amount)
        self.pod_count[position] += sign

    def take(self, positions: Rows) -> "_Deltas":
        taken = _Deltas(len(positions))
        for new, old in enumerate(positions.tolist()):
            if old in self.added:
                taken.added[new] = list(self.added[old])
            if old in self.removed:
                taken.removed[new] = list(self.removed[old])
        taken.requested = {name: column[positions] for name, column in self.requested.items()}
        taken.non_zero = self.non_zero[:, positions]
        taken.pod_count = self.pod_count[positions]
        return taken


class RowView:
    """Rows of `snapshot.columns` in the order of the snapshot's node list; positions 0..k-1 number them here.

    All arrays returned have one entry a position and must not be written to. `rows` is an intp array.
    """

    __slots__ = ("_deltas", "columns", "index", "rows", "snapshot")

    def __init__(self, snapshot: "Snapshot", rows: Rows) -> None:
        self.snapshot = snapshot
        self.columns: Columns = snapshot.columns
        self.rows = rows
        self.index: Rows | slice = rows
        """What to index a column with: `rows`, or the same as a slice, which copies nothing."""
        self._deltas: _Deltas | None = None

    @classmethod
    def of_all_rows(cls, snapshot: "Snapshot") -> "RowView":
        """Every live row, in no meaningful order: for what is answered row by row."""
        columns = snapshot.columns
        if len(columns.order) < columns.rows:
            return cls(snapshot, np.sort(columns.order))
        view = cls(snapshot, np.arange(columns.rows))
        view.index = slice(0, columns.rows)
        return view

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Rows) -> "RowView":
        """The view of a part of the rows, with the pods added and removed there."""
        view = RowView(self.snapshot, self.rows[positions])
        if self._deltas is not None:
            view._deltas = self._deltas.take(positions)
        return view

    def add_pod(self, position: int, pod: Pod) -> None:
        """Put a pod on the row, or back on it where `remove_pod` took it off."""
        self._move(position, pod, put=True)

    def remove_pod(self, position: int, pod: Pod) -> None:
        """Take a pod off the row: one that runs there, or one that `add_pod` put there."""
        self._move(position, pod, put=False)

    def _move(self, position: int, pod: Pod, *, put: bool) -> None:
        if self._deltas is None:
            self._deltas = _Deltas(len(self.rows))
        deltas = self._deltas
        undone, done = (deltas.removed, deltas.added) if put else (deltas.added, deltas.removed)
        at = next((i for i, p in enumerate(undone.get(position, ())) if p.uid == pod.uid), None)
        if at is None:
            done.setdefault(position, []).append(pod)
        else:
            del undone[position][at]
            if not undone[position]:
                del undone[position]
        deltas.account(position, pod, 1 if put else -1)

    @property
    def changed(self) -> list[int]:
        """The positions that have pods added or removed, ascending."""
        return [] if self._deltas is None else sorted(self._deltas.added.keys() | self._deltas.removed.keys())

    def added(self, position: int) -> Sequence[Pod]:
        """Pods on the row that the snapshot does not have there."""
        return () if self._deltas is None else self._deltas.added.get(position, ())

    def removed(self, position: int) -> Sequence[Pod]:
        """Pods that the snapshot has on the row and the hypothetical node has not."""
        return () if self._deltas is None else self._deltas.removed.get(position, ())

    def pods(self, position: int) -> Iterator[Pod]:
        """The pods of the hypothetical node."""
        gone = {p.uid for p in self.removed(position)}
        yield from (p for p in self.node_info(position).pods if p.uid not in gone)
        yield from self.added(position)

    def node_info(self, position: int) -> "NodeInfo":
        """The snapshot's node, without what was added or removed here."""
        return self.columns.infos[int(self.rows[position])]

    def name(self, position: int) -> str:
        return self.columns.names[int(self.rows[position])]

    def names(self) -> list[str]:
        names = self.columns.names
        return [names[row] for row in self.rows.tolist()]

    def allocatable(self, resource: str) -> Amounts:
        """Milli-CPU, bytes or whole units; 0 where the node has none."""
        index = self.columns.resource_index.get(resource)
        if index is None:
            return self._zeros()
        amounts: Amounts = self.columns.allocatable[index][self.index]
        return amounts

    def requested(self, resource: str) -> Amounts:
        """The sum of the requests of the row's pods, in the unit of `allocatable`."""
        index = self.columns.resource_index.get(resource)
        amounts = self._zeros() if index is None else self.columns.requested[index][self.index]
        extra = None if self._deltas is None else self._deltas.requested.get(resource)
        return amounts if extra is None else amounts + extra

    def non_zero_requested(self, resource: str) -> Amounts:
        """As `requested` for cpu and memory, containers that name no request counted with 100m and 200Mi."""
        index = _NON_ZERO[resource]
        amounts: Amounts = self.columns.non_zero_requested[index][self.index]
        if self._deltas is not None:
            amounts = amounts + self._deltas.non_zero[index]
        return amounts

    def pod_count(self) -> Amounts:
        """How many pods the row has."""
        count = self.columns.pod_count[self.index]
        return count if self._deltas is None else count + self._deltas.pod_count

    def allowed_pods(self) -> Amounts:
        """How many pods the row may have."""
        return self.columns.allowed_pods[self.index]

    def _zeros(self) -> Amounts:
        return np.zeros(len(self.rows), np.int64)


_NON_ZERO = {CPU: 0, MEMORY: 1}
_BEYOND = 2**62


def _bounded(amount: int) -> int:
    # More than any node has; what is added to it stays within 64 bits.
    return max(-_BEYOND, min(amount, _BEYOND))
