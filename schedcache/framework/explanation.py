"""In words: why a pod is not placed, and which nodes came closest."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedcache.framework.diagnosis import Diagnosis
from schedcache.framework.interface import CycleState
from schedcache.framework.row_view import RowView
from schedcache.framework.runtime import Framework
from schedcache.framework.status import Code, Status
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_EXAMPLES = 3
_CLOSEST = 3


class _Group(NamedTuple):
    """Nodes with the same reason from the same plugin; `ids` are their numbers in the diagnosis' table."""

    reason: str
    plugin: str
    code: Code
    nodes: int
    ids: list[int]


def explain_rejection(
    framework: Framework, pod: Pod, snapshot: "Snapshot", diagnosis: Diagnosis, state: CycleState
) -> list[str]:
    """One line a reason, most frequent first, then one for each of the nodes that the fewest plugins object to.

    `snapshot` must be the one that the diagnosis was made on, not updated since. Raises PluginError.
    """
    stopped = diagnosis.pre_filter_status
    if stopped is not None:
        by = f"{stopped.plugin}: " if stopped.plugin else ""
        return [f"no node was looked at: {by}{stopped.message}"]
    groups = _groups(diagnosis)
    lines = [_group_line(group, diagnosis) for group in groups]
    if groups:
        lines += _closest(framework, pod, snapshot, state)
    return lines


def _groups(diagnosis: Diagnosis) -> list[_Group]:
    found: dict[tuple[str, str, Code], _Group] = {}
    table = diagnosis.statuses.table
    numbers = np.bincount(diagnosis.statuses.ids, minlength=len(table)).tolist()
    for i, (status, count) in enumerate(zip(table, numbers, strict=True)):
        for reason in status.reasons if status is not None and count else ():
            key = (reason, status.plugin, status.code)  # type: ignore[union-attr]  # a status with reasons is there
            group = found.get(key, _Group(*key, 0, []))
            found[key] = group._replace(nodes=group.nodes + count, ids=[*group.ids, i])
    return sorted(found.values(), key=lambda group: (-group.nodes, group.reason))


def _group_line(group: _Group, diagnosis: Diagnosis) -> str:
    statuses = diagnosis.statuses
    having = np.isin(statuses.ids, group.ids) if len(group.ids) > 1 else statuses.ids == group.ids[0]
    names = ", ".join(statuses.name_at(i) for i in np.flatnonzero(having)[:_EXAMPLES].tolist())
    more = ", ..." if group.nodes > _EXAMPLES else ""
    hope = "" if group.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else "; evicting pods might help"
    return f"{group.nodes} of {diagnosis.total_nodes} nodes: {group.reason} [{group.plugin}]{hope} ({names}{more})"


def _closest(framework: Framework, pod: Pod, snapshot: "Snapshot", state: CycleState) -> list[str]:
    verdicts = framework.run_each_filter(state, pod, snapshot)
    order = snapshot.columns.order
    objections = np.zeros(len(order), np.int64)
    for _, (codes, table) in verdicts:
        if len(table) > 1:
            objections += codes != 0
    lines = []
    for position in np.argsort(objections, kind="stable")[:_CLOSEST].tolist():
        view = RowView(snapshot, order[position : position + 1])
        told = [
            _objection(plugin, table[int(codes[position])], state, pod, view)
            for plugin, (codes, table) in verdicts
            if len(table) > 1 and codes[position]
        ]
        # A single bare reason is in the lines above already.
        if len(told) > 1 or any(objection.detail for objection in told):
            lines.append(f"node {view.name(0)}: {'; and '.join(map(str, told))}")
    return lines


class _Objection(NamedTuple):
    plugin: str
    reasons: str
    detail: str

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.reasons}{detail} [{self.plugin}]"


def _objection(plugin: Any, status: Status | None, state: CycleState, pod: Pod, view: RowView) -> _Objection:
    # A plugin that could not do its work for want of its PreFilter could not explain it either.
    able = status is not None and status.rejected and hasattr(plugin, "explain")
    detail = plugin.explain(state, pod, view) if able else ""
    return _Objection(plugin.name, status.message if status is not None else "", detail)
