"""Calling one plugin: whatever it raises becomes a PluginError that names plugin and extension point.

An answer that does not make sense is treated the same: it must not pass for a verdict. Error texts are those of
kube-scheduler 1.37 (framework/runtime/framework.go).
"""

from typing import Any

import numpy as np

from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import CycleState, FilterPlugin, ScorePlugin, Scores, Verdicts
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Code, Status
from schedcache.model import Pod


def failed(pod: Pod, plugin: str, point: str, error: object) -> PluginError:
    """The error of an attempt in which a plugin failed."""
    return PluginError(pod, plugin, point, failure_text(plugin, point, error))


def failure_text(plugin: str, point: str, error: object) -> str:
    """What kube-scheduler says about the fault."""
    match point:
        case "filter":
            return f'running "{plugin}" filter plugin: {error}'
        case "score":
            return f'running Score plugins: plugin "{plugin}" failed with: {error}'
        case "normalize_score":
            return f'running Normalize on Score plugins: plugin "{plugin}" failed with: {error}'
    return f'running {_POINT_NAMES[point]} plugin "{plugin}": {error}'


_POINT_NAMES = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "reserve": "Reserve",
    "permit": "Permit",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}


def status_error(pod: Pod, plugin: str, point: str, status: Status) -> PluginError:
    """The error for a status that is neither success nor a rejection."""
    return failed(pod, plugin, point, status.message)


def call_filter(plugin: FilterPlugin, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
    """Raises PluginError."""
    try:
        return _checked_verdicts(plugin.filter(state, pod, view), len(view))
    except Exception as error:
        raise failed(pod, plugin.name, "filter", error) from error


def call_score(plugin: ScorePlugin, state: CycleState, pod: Pod, view: RowView) -> Scores:
    """Raises PluginError."""
    try:
        return _checked_scores(plugin.score(state, pod, view), len(view))
    except Exception as error:
        raise failed(pod, plugin.name, "score", error) from error


def call_normalize_score(plugin: Any, state: CycleState, pod: Pod, scores: Scores) -> Scores:
    """Raises PluginError."""
    try:
        return _checked_scores(plugin.normalize_score(state, pod, scores), len(scores))
    except Exception as error:
        raise failed(pod, plugin.name, "normalize_score", error) from error


def checked_status(answer: object) -> Status | None:
    """What a plugin answered, if it is an answer. Raises TypeError."""
    if answer is None or isinstance(answer, Status):
        return answer
    raise TypeError(f"answered {answer!r}, expected a Status or None")


def rejection(status: Status | None) -> Status | None:
    """None for success, however it was put."""
    return None if status is None or status.code is Code.SUCCESS else status


def _checked_verdicts(verdicts: Verdicts, size: int) -> Verdicts:
    codes, table = verdicts
    if len(codes) != size:
        raise ValueError(f"answered for {len(codes)} rows, expected one verdict for each of {size}")
    if len(table) > 1 and not 0 <= codes.min(initial=0) <= codes.max(initial=0) < len(table):
        raise ValueError(f"answered with codes {codes.min()} to {codes.max()} for a table of {len(table)} statuses")
    return verdicts


def _checked_scores(scores: object, size: int) -> Scores:
    if not isinstance(scores, np.ndarray) or scores.dtype.kind != "i" or scores.shape != (size,):
        raise TypeError(f"answered {scores!r}, expected {size} integers in an array")
    return scores
