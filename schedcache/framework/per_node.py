"""Adapts plugins that are written for one node at a time (`per_node = True`) to many rows.

They are simple to write, but take Python time for each node that is still feasible; `node_info` is what kube-scheduler
calls NodeInfo, with the pods of the hypothetical view added and removed.
"""

from collections.abc import Iterator
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.framework.interface import CycleState, Scores, Verdicts
from schedcache.framework.plugin_calls import checked_status, rejection
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Code, Status
from schedcache.framework.status_table import StatusTable
from schedcache.model import Pod
from schedcache.model.error_text import error_text

if TYPE_CHECKING:
    from schedcache.cache import NodeInfo


class PerNodeFilter:
    """Asks `plugin.filter(state, pod, node_info) -> Status | None` row by row.

    What it raises, or answers in place of a status, is an error of that node: about the others it can be asked all the same.
    """

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._plugin = plugin
        _take_over(self, plugin, "filter_locality", "locality_key", "explain")

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        table = StatusTable()
        answers = (self._ask(state, pod, node) for node in hypothetical_nodes(view))
        codes = np.fromiter(map(table.code, answers), np.int32, len(view))
        return Verdicts(codes, table.statuses)

    def _ask(self, state: CycleState, pod: Pod, node: "NodeInfo") -> Status | None:
        try:
            return rejection(checked_status(self._plugin.filter(state, pod, node)))
        except Exception as error:  # noqa: BLE001  plugins are foreign code; the fault becomes the verdict on this node
            return Status(Code.ERROR, (error_text(error),))


class PerNodeScore:
    """Asks `plugin.score(state, pod, node_info) -> int` row by row."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._plugin = plugin
        _take_over(self, plugin, "score_locality", "locality_key", "normalize_score")

    def score(self, state: CycleState, pod: Pod, view: RowView) -> Scores:
        # A real int: half a point would silently become none.
        scores = (index(self._plugin.score(state, pod, node)) for node in hypothetical_nodes(view))
        return np.fromiter(scores, np.int64, len(view))


def _take_over(adapter: object, plugin: object, *attributes: str) -> None:
    for attribute in attributes:
        if (value := getattr(plugin, attribute, None)) is not None:
            setattr(adapter, attribute, value)


def hypothetical_nodes(view: RowView) -> Iterator["NodeInfo"]:
    """The nodes of the view, with the pods that it adds and removes."""
    infos, changed = view.columns.infos, frozenset(view.changed)
    for position, row in enumerate(view.rows.tolist()):
        yield _hypothetical(infos[row], view, position) if position in changed else infos[row]


def _hypothetical(info: "NodeInfo", view: RowView, position: int) -> "NodeInfo":
    changed = info.copy()
    for pod in view.removed(position):
        changed.remove_pod(pod)
    for pod in view.added(position):
        changed.add_pod(pod)
    return changed
