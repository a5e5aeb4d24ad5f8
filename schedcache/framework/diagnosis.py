"""Why a pod cannot be placed: verdicts on all nodes, and the messages about them.

Texts follow kube-scheduler 1.37 (framework.FitError, framework.Diagnosis).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from schedcache.framework.interface import CycleState, Verdicts
from schedcache.framework.row_view import Rows
from schedcache.framework.status import Code, Status
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot


class NodeStatuses(Mapping[str, Status]):
    """Node name -> status of its first failure; nodes that passed are left out.

    `rows` are rows of the snapshot's columns in node list order, `verdicts` has a code for each. Names are looked up in the
    snapshot, so use it before the snapshot is updated, or call `materialize`.
    """

    def __init__(self, snapshot: "Snapshot", rows: Rows, verdicts: Verdicts) -> None:
        self._snapshot = snapshot
        self._names: Sequence[str] | None = None
        self._position_of: dict[str, int] | None = None
        self.rows = rows
        self.verdicts = verdicts

    def __getitem__(self, name: str) -> Status:
        position = self._positions().get(name)
        status = None if position is None else self.verdicts.table[int(self.verdicts.codes[position])]
        if status is None:
            raise KeyError(name)
        return status

    def __iter__(self) -> Iterator[str]:
        names = self.names()
        return (names[i] for i in np.flatnonzero(self.verdicts.codes).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.verdicts.codes))

    def names(self) -> Sequence[str]:
        """Names of all nodes considered, in the order of `rows`."""
        if self._names is None:
            names = self._snapshot.columns.names
            self._names = [names[row] for row in self.rows.tolist()]
        return self._names

    def name_at(self, position: int) -> str:
        """The name of one node."""
        return self._snapshot.columns.names[int(self.rows[position])] if self._names is None else self._names[position]

    def materialize(self) -> "NodeStatuses":
        """Read everything that depends on the snapshot, which may be updated afterwards."""
        self.names()
        return self

    def counts(self) -> list[tuple[Status, int]]:
        """Each status that some node has, with the number of these nodes."""
        codes, table = self.verdicts
        numbers = np.bincount(codes, minlength=len(table)).tolist()
        return [(s, n) for s, n in zip(table, numbers, strict=True) if s is not None and n]

    def rows_with(self, code: Code) -> Rows:
        """The rows rejected with that code, in node list order."""
        codes, table = self.verdicts
        wanted = np.array([s is not None and s.code == code for s in table], np.bool_)
        rows: Rows = self.rows[wanted[codes]]
        return rows

    def _positions(self) -> dict[str, int]:
        if self._position_of is None:
            self._position_of = {name: i for i, name in enumerate(self.names())}
        return self._position_of


class Diagnosis:
    """What an attempt found out about a pod that fits nowhere.

    `pre_filter_message` is set if PreFilter rejected the pod as a whole (`pre_filter_status`); every node then has that status.
    """

    def __init__(
        self,
        total_nodes: int,
        statuses: NodeStatuses,
        *,
        pre_filter_status: Status | None = None,
        unschedulable_plugins: frozenset[str] = frozenset(),
    ) -> None:
        self.total_nodes = total_nodes
        self.statuses = statuses
        self.pre_filter_status = pre_filter_status
        found = [s for s, _ in statuses.counts()] + ([pre_filter_status] if pre_filter_status else [])
        by = {(s.code, s.plugin) for s in found}
        rejecting = (
            plugins.split(",")
            for code, plugins in by
            if code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) and plugins
        )
        self.unschedulable_plugins = unschedulable_plugins.union(*rejecting)
        self.pending_plugins = frozenset(plugin for code, plugin in by if code is Code.PENDING)

    @property
    def pre_filter_message(self) -> str:
        return self.pre_filter_status.message if self.pre_filter_status else ""

    def code_counts(self) -> dict[Code, int]:
        """The number of nodes by the code of their first failure."""
        result: dict[Code, int] = {}
        for status, number in self.statuses.counts():
            result[status.code] = result.get(status.code, 0) + number
        return result

    def reason_counts(self) -> dict[str, int]:
        """The number of nodes by reason; a node counts once for each of its reasons."""
        result: dict[str, int] = {}
        for status, number in self.statuses.counts():
            for reason in status.reasons:
                result[reason] = result.get(reason, 0) + number
        return result

    def errors(self) -> dict[str, list[str]]:
        """What filters failed at, with the nodes on which they did: they are left out as if they had been rejected."""
        result: dict[str, list[str]] = {}
        for status, _ in self.statuses.counts():
            if not status.rejected:
                result[status.message] = []
        if result:
            for name, status in self.statuses.items():
                if not status.rejected:
                    result[status.message].append(name)
        return result

    def message(self) -> str:
        """The text of the FailedScheduling event, without what PostFilter adds."""
        head = f"0/{self.total_nodes} nodes are available:"
        if self.pre_filter_message:
            return f"{head} {self.pre_filter_message}."
        reasons = sorted(f"{number} {reason}" for reason, number in self.reason_counts().items())
        return f"{head} {', '.join(reasons)}." if reasons else head


class SchedulingFailure(Exception):  # noqa: N818  kube-scheduler's word for all outcomes; the subclasses are the errors
    """The attempt did not find a node. Each subclass is an outcome of its own, and asks for something else to be done."""

    def __init__(self, pod: Pod, text: str) -> None:
        self.pod = pod
        super().__init__(text)

    def message(self) -> str:
        """The text of the FailedScheduling event, without what PostFilter adds."""
        return str(self)


class FitError(SchedulingFailure):
    """The pod fits on no node at the moment; `state` is passed on to PostFilter."""

    def __init__(self, pod: Pod, diagnosis: Diagnosis, state: CycleState | None = None) -> None:
        self.diagnosis = diagnosis
        self.state = CycleState() if state is None else state
        super().__init__(pod, diagnosis.message())


class NoNodesError(SchedulingFailure):
    """There are no nodes at all (ErrNoNodesAvailable): nothing to diagnose, and PostFilter cannot help."""

    def __init__(self, pod: Pod) -> None:
        super().__init__(pod, "no nodes available to schedule pods")


class PluginError(SchedulingFailure):
    """A plugin failed (code Error); `plugin` is its name, `point` the extension point.

    `node_name`: the node that a filter failed at, "" where it failed at all that it was asked about. It is named in the string,
    and in `message`, which is kube-scheduler's, it is not.
    """

    def __init__(self, pod: Pod, plugin: str, point: str, text: str, *, node_name: str = "") -> None:
        self.plugin = plugin
        self.point = point
        self.node_name = node_name
        self._text = text
        super().__init__(pod, f"{text} (on node {node_name})" if node_name else text)

    def message(self) -> str:
        return self._text
