"""NodePorts: host ports that are taken already."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.framework import (
    SKIP,
    Amounts,
    CycleState,
    EventHint,
    Handle,
    HypotheticalView,
    Locality,
    Rows,
    RowView,
    Status,
    Verdicts,
    failing,
    one_reason,
    unschedulable,
)
from schedcache.model import Pod
from schedcache.plugins.nodes.domains import Worth

if TYPE_CHECKING:
    from schedcache.cache import Columns, Snapshot

_STATE_KEY = "PreFilterNodePorts"
_REASON = unschedulable("node(s) didn't have free ports for the requested pod ports")
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104  Kubernetes' "any address", compared, never bound

HostPort = tuple[str, str, int]
"""IP, protocol, port."""


class NodePorts:
    """Two pods cannot have the same protocol and port on the same address; 0.0.0.0 is every address."""

    name = "NodePorts"
    filter_locality = Locality.ROW

    def __init__(self, _args: Any, _handle: Handle) -> None:
        pass

    @staticmethod
    def pre_filter(state: CycleState, pod: Pod, _snapshot: "Snapshot") -> Status | None:
        state[_STATE_KEY] = _Clashes(pod.spec.host_ports)
        return None if pod.spec.host_ports else SKIP

    @staticmethod
    def filter(state: CycleState, _pod: Pod, view: RowView) -> Verdicts:
        clashes: _Clashes | None = state.get(_STATE_KEY)
        if clashes is None:
            return failing(len(view), f'reading "{_STATE_KEY}" from cycleState: not found')
        return one_reason(clashes.on(view) > 0, _REASON)

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [EventHint("AssignedPod", ("Delete",), _frees_a_port), EventHint("Node", ("Add",))]


class _Clashes:
    """How often ports in use keep the pod from having its own: a port on every address clashes with each port of that number."""

    __slots__ = ("_by_row", "_of_shape", "_version", "_wanted")

    def __init__(self, wanted: Sequence[HostPort]) -> None:
        self._wanted = wanted
        self._of_shape = Worth(lambda shape: _clashes(wanted, shape.spec.host_ports))
        self._version = -1
        self._by_row: Amounts = np.zeros(0, np.int64)

    def on(self, view: RowView) -> Amounts:
        """By position. Pods that are added and taken off count as what they add and take off."""
        if isinstance(view, HypotheticalView):
            moved: Amounts = self._on_rows(view.columns)[view.rows] + view.moved_worth(self._of_shape)
            return moved
        return self._among(view.columns, view.rows)

    def _on_rows(self, columns: "Columns") -> Amounts:
        """By row. Preemption asks for them again and again."""
        if self._version != columns.version:
            self._version = columns.version
            self._by_row = self._among(columns, np.arange(len(columns.generation)))
        return self._by_row

    def _among(self, columns: "Columns", rows: Rows) -> Amounts:
        """Looks at these rows alone, which are often a few that have changed."""
        by_row: dict[int, int] = {}
        asked = set(rows.tolist())
        for ip, protocol, port in self._wanted:
            taken = columns.host_ports.get((protocol, port), {})
            for row in asked & taken.keys():
                used = columns.infos[row].used_ports
                clashing = (used[other, protocol, port] for other in taken[row] if _overlap(ip, other))
                by_row[row] = by_row.get(row, 0) + sum(clashing)
        found: Amounts = np.zeros(len(columns.generation), np.int64)
        found[list(by_row)] = list(by_row.values())
        of_rows: Amounts = found[rows]
        return of_rows


def conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether some wanted port is in use."""
    return _clashes(wanted, tuple(used)) > 0


def _clashes(wanted: Iterable[HostPort], used: Sequence[HostPort]) -> int:
    return sum(
        (protocol, port) == (their_protocol, their_port) and _overlap(ip, their_ip)
        for ip, protocol, port in wanted
        for their_ip, their_protocol, their_port in used
    )


def _overlap(ip: str, other: str) -> bool:
    return ip == other or _ANY_ADDRESS in (ip, other)


def _frees_a_port(pod: Pod, deleted: Pod, _new: Pod | None) -> bool:
    if not (deleted.node_name or deleted.nominated_node_name):
        return False
    return conflict(pod.spec.host_ports, deleted.spec.host_ports)
