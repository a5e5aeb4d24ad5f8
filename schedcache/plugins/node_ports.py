"""NodePorts: host ports that are taken already."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from schedcache.framework import (
    SKIP,
    CycleState,
    EventHint,
    Handle,
    Locality,
    RowView,
    Status,
    Verdicts,
    failing,
    one_reason,
    unschedulable,
)
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

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
        state[_STATE_KEY] = True
        return None if pod.spec.host_ports else SKIP

    @staticmethod
    def filter(state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        if _STATE_KEY not in state:
            return failing(len(view), f'reading "{_STATE_KEY}" from cycleState: not found')
        wanted = pod.spec.host_ports
        taken = _taken(wanted, view)
        for position in view.changed:
            used = [port for other in view.pods(position) for port in other.spec.host_ports]
            taken[position] = conflict(wanted, used)
        return one_reason(taken, _REASON)

    @staticmethod
    def events_to_register() -> list[EventHint]:
        return [EventHint("AssignedPod", ("Delete",), _frees_a_port), EventHint("Node", ("Add",))]


def conflict(wanted: Iterable[HostPort], used: Iterable[HostPort]) -> bool:
    """Whether some wanted port is in use."""
    in_use: dict[tuple[str, int], set[str]] = {}
    for ip, protocol, port in used:
        in_use.setdefault((protocol, port), set()).add(ip)
    return any(_overlap(ip, in_use.get((protocol, port), ())) for ip, protocol, port in wanted)


def _overlap(ip: str, ips: Iterable[str]) -> bool:
    """Whether the address is among them, each being every address if it is 0.0.0.0."""
    return any(ip == other or _ANY_ADDRESS in (ip, other) for other in ips)


def _taken(wanted: Iterable[HostPort], view: RowView) -> npt.NDArray[np.bool_]:
    rows: set[int] = set()
    for ip, protocol, port in wanted:
        by_row = view.columns.host_ports.get((protocol, port), {})
        rows.update(row for row, ips in by_row.items() if _overlap(ip, ips))
    by_row_mask = np.zeros(len(view.columns.generation), np.bool_)
    by_row_mask[list(rows)] = True
    taken: npt.NDArray[np.bool_] = by_row_mask[view.rows]
    return taken


def _frees_a_port(pod: Pod, deleted: Pod, _new: Pod | None) -> bool:
    if not (deleted.node_name or deleted.nominated_node_name):
        return False
    return conflict(pod.spec.host_ports, deleted.spec.host_ports)
