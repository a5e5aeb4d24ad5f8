"""Explains in words why a pod is not placed, and which nodes came closest."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schedcache.framework.diagnosis import Diagnosis
from schedcache.framework.interface import CycleState, Verdicts
from schedcache.framework.row_view import RowView
from schedcache.framework.runtime import Framework
from schedcache.framework.status import Code, Status
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot

_EXAMPLES = 3
_CLOSEST = 3


class _Group:
    """Nodes with the same reason from the same plugin; `examples`: positions of the first few of them, ascending."""

    __slots__ = ("code", "examples", "nodes", "plugin", "reason")

    def __init__(self, reason: str, plugin: str, code: Code) -> None:
        self.reason = reason
        self.plugin = plugin
        self.code = code
        self.nodes = 0
        self.examples: list[int] = []

    def add(self, nodes: int, examples: Sequence[int]) -> None:
        self.nodes += nodes
        self.examples = sorted([*self.examples, *examples])[:_EXAMPLES] if self.examples else list(examples)


def explain_rejection(
    framework: Framework, pod: Pod, snapshot: "Snapshot", diagnosis: Diagnosis, state: CycleState
) -> list[str]:
    """One line per reason, most frequent first, then one for each of the nodes that the fewest plugins reject.

    `snapshot` must be the one that the diagnosis was made on, not updated since. Raises PluginError.
    """
    stopped = diagnosis.pre_filter_status
    if stopped is not None:
        by = f"{stopped.plugin}: " if stopped.plugin else ""
        return [f"no node was considered: {by}{stopped.message}"]
    groups = _groups(diagnosis)
    lines = [_group_line(group, diagnosis) for group in groups]
    if groups:
        lines += _closest(framework, pod, snapshot, state)
    return lines


def _groups(diagnosis: Diagnosis) -> list[_Group]:
    found: dict[tuple[str, str, Code], _Group] = {}
    for status, nodes, examples in _first_of_each(diagnosis.statuses.verdicts):
        for reason in status.reasons:
            key = (reason, status.plugin, status.code)
            group = found.get(key)
            if group is None:
                group = found[key] = _Group(*key)
            group.add(nodes, examples)
    return sorted(found.values(), key=lambda group: (-group.nodes, group.reason))


def _first_of_each(verdicts: Verdicts) -> Iterator[tuple[Status, int, Sequence[int]]]:
    """Each status with the number of positions that have it and the first few of these."""
    codes, table = verdicts
    counts = np.bincount(codes, minlength=len(table))
    # Positions by code, ascending within each; small integers are sorted in one go.
    by_code = np.argsort(codes.astype(np.min_scalar_type(len(table))), kind="stable")
    starts = np.cumsum(counts) - counts
    for status, count, start in zip(table, counts.tolist(), starts.tolist(), strict=True):
        if status is not None and count:
            yield status, count, by_code[start : start + min(count, _EXAMPLES)].tolist()


def _group_line(group: _Group, diagnosis: Diagnosis) -> str:
    names = ", ".join(map(diagnosis.statuses.name_at, group.examples))
    more = ", ..." if group.nodes > _EXAMPLES else ""
    hope = "; evicting pods might help" if group.code is Code.UNSCHEDULABLE else ""
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
        # A single reason without details is in the lines above already.
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
    # A plugin that failed because its PreFilter had not run cannot explain it either.
    able = status is not None and status.rejected and hasattr(plugin, "explain")
    detail = plugin.explain(state, pod, view) if able else ""
    return _Objection(plugin.name, status.message if status is not None else "", detail)
