"""Plugins written for one node at a time (`per_node = True`), made to serve many rows.

They are simple to write and cost Python time for each node that is still feasible; `node_info` is what kube-scheduler
calls NodeInfo, with the pods added and removed that the question is about.
"""

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from schedcache.framework.interface import CycleState, Scores, Verdicts
from schedcache.framework.plugin_calls import checked_status, rejection
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Status
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import NodeInfo


class PerNodeFilter:
    """Asks `plugin.filter(state, pod, node_info) -> Status | None` row by row."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._plugin = plugin
        _take_over(self, plugin, "filter_locality", "locality_key", "explain")

    def filter(self, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
        codes = np.zeros(len(view), np.int16)
        table: list[Status | None] = [None]
        for i in range(len(view)):
            status = rejection(checked_status(self._plugin.filter(state, pod, hypothetical_node(view, i))))
            if status is not None:
                if status not in table:
                    table.append(status)
                codes[i] = table.index(status)
        return Verdicts(codes, table)


class PerNodeScore:
    """Asks `plugin.score(state, pod, node_info) -> int` row by row."""

    def __init__(self, plugin: Any) -> None:
        self.name: str = plugin.name
        self._plugin = plugin
        _take_over(self, plugin, "score_locality", "locality_key", "normalize_score")

    def score(self, state: CycleState, pod: Pod, view: RowView) -> Scores:
        # An int and nothing that only looks like one: half a point would silently be none.
        scores = (index(self._plugin.score(state, pod, hypothetical_node(view, i))) for i in range(len(view)))
        return np.fromiter(scores, np.int64, len(view))


def _take_over(adapter: object, plugin: object, *attributes: str) -> None:
    for attribute in attributes:
        if (value := getattr(plugin, attribute, None)) is not None:
            setattr(adapter, attribute, value)


def hypothetical_node(view: RowView, position: int) -> "NodeInfo":
    """The node with the pods that the view adds and removes."""
    info = view.node_info(position)
    added, removed = view.added(position), view.removed(position)
    if not (added or removed):
        return info
    changed = info.copy()
    for pod in removed:
        changed.remove_pod(pod)
    for pod in added:
        changed.add_pod(pod)
    return changed
