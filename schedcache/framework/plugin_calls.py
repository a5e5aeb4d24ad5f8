"""Calls one plugin: whatever it raises becomes a PluginError that names plugin and extension point.

An invalid answer is treated the same, since it must not pass for a verdict. Error texts are those of
kube-scheduler 1.37 (framework/runtime/framework.go).
"""

from reprlib import repr as shortened
from typing import Any

import numpy as np

from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import ALL_PASS, CycleState, FilterPlugin, ScorePlugin, Scores, Verdicts
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Code, Status
from schedcache.model import Pod
from schedcache.model.error_text import error_text


def failed(pod: Pod, plugin: str, point: str, error: object) -> PluginError:
    """The error for an attempt in which a plugin failed."""
    return PluginError(pod, plugin, point, failure_text(plugin, point, error))


def failure_text(plugin: str, point: str, error: object) -> str:
    """What kube-scheduler says about the fault."""
    text = error_text(error)
    match point:
        case "filter":
            return f'running "{plugin}" filter plugin: {text}'
        case "score":
            return f'running Score plugins: plugin "{plugin}" failed with: {text}'
        case "normalize_score":
            return f'running Normalize on Score plugins: plugin "{plugin}" failed with: {text}'
        case "pre_bind_pre_flight":
            return f'running PreBindPreFlight "{plugin}": {text}'
    return f'running {POINT_NAMES[point]} plugin "{plugin}": {text}'


POINT_NAMES = {
    "pre_enqueue": "PreEnqueue",
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "post_filter": "PostFilter",
    "pre_score": "PreScore",
    "score": "Score",
    "normalize_score": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "unreserve": "Unreserve",
    "permit": "Permit",
    "pre_bind_pre_flight": "PreBindPreFlight",
    "pre_bind": "PreBind",
    "bind": "Bind",
    "post_bind": "PostBind",
}
"""Method of a plugin -> the extension point's name in kube-scheduler's metrics."""
_INT64 = np.dtype(np.int64)
_STATUS = {Status}
_WITH_PAIRS = frozenset({"permit", "post_filter"})


def status_error(pod: Pod, plugin: str, point: str, status: Status) -> PluginError:
    """The error for a status that is neither success nor a rejection."""
    return failed(pod, plugin, point, status.message)


def call(plugin: Any, point: str, state: CycleState, *arguments: object) -> Any:
    """The plugin's unchecked answer at a point; timed if the attempt is sampled."""
    method = getattr(plugin, point)
    if state.timer is None:
        return method(state, *arguments)
    label_of = _pair_label if point in _WITH_PAIRS else answer_label
    return state.timer.call(plugin.name, POINT_NAMES[point], label_of, method, state, *arguments)


async def call_async(plugin: Any, point: str, state: CycleState, *arguments: object) -> Any:
    """As `call`, for the points that are awaited."""
    method = getattr(plugin, point)
    if state.timer is None:
        return await method(state, *arguments)
    return await state.timer.call_async(plugin.name, POINT_NAMES[point], answer_label, method, state, *arguments)


def answer_label(answer: object) -> str:
    """The name of the status code in a plugin's answer; Error for an invalid answer."""
    parts = answer if isinstance(answer, tuple) else (answer,)
    status = next((part for part in parts if isinstance(part, Status)), None)
    if status is not None:
        return status.code.label
    return (Code.SUCCESS if answer is None or isinstance(answer, tuple) else Code.ERROR).label


def _pair_label(answer: object) -> str:
    return answer_label(answer) if isinstance(answer, tuple) else Code.ERROR.label


def call_filter(plugin: FilterPlugin, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
    """Raises PluginError."""
    try:
        if state.timer is None:
            return _filtered(plugin, state, pod, view)
        return state.timer.call(plugin.name, "Filter", _verdicts_label, _filtered, plugin, state, pod, view)
    except Exception as error:
        raise failed(pod, plugin.name, "filter", error) from error


def call_score(plugin: ScorePlugin, state: CycleState, pod: Pod, view: RowView) -> Scores:
    """Raises PluginError."""
    try:
        if state.timer is None:
            return _checked_scores(plugin.score(state, pod, view), len(view))
        return state.timer.call(plugin.name, "Score", _success, _scored, plugin, state, pod, view)
    except Exception as error:
        raise failed(pod, plugin.name, "score", error) from error


def call_normalize_score(plugin: Any, state: CycleState, pod: Pod, scores: Scores) -> Scores:
    """Raises PluginError."""
    try:
        if state.timer is None:
            return _checked_scores(plugin.normalize_score(state, pod, scores), len(scores))
        point = POINT_NAMES["normalize_score"]
        return state.timer.call(plugin.name, point, _success, _normalized, plugin, state, pod, scores)
    except Exception as error:
        raise failed(pod, plugin.name, "normalize_score", error) from error


def checked_status(answer: object) -> Status | None:
    """A plugin's answer, if it is valid. Raises TypeError."""
    if answer is None or isinstance(answer, Status):
        return answer
    raise TypeError(f"answered {answer!r}, expected a Status or None")


def rejection(status: Status | None) -> Status | None:
    """None for success in any form."""
    return None if status is None or status.code is Code.SUCCESS else status


def _filtered(plugin: FilterPlugin, state: CycleState, pod: Pod, view: RowView) -> Verdicts:
    verdicts: Any = plugin.filter(state, pod, view)
    # The answer of `passing` is by far the most frequent one, and nobody looks at its codes.
    if type(verdicts) is Verdicts and verdicts.table is ALL_PASS and len(verdicts.codes) == len(view):
        return verdicts
    if not isinstance(verdicts, tuple) or len(verdicts) != 2:
        raise TypeError(f"answered {shortened(verdicts)}, expected Verdicts(codes, table)")
    codes, table = verdicts
    size = len(view)
    if not isinstance(codes, np.ndarray) or codes.dtype.kind not in "iub" or codes.ndim != 1:
        raise TypeError(f"answered with codes {shortened(codes)}, expected an array of integers, one for each row")
    if len(codes) != size:
        raise ValueError(f"answered for {len(codes)} rows, expected one verdict for each of {size}")
    kinds = set(map(type, table[1:]))
    if not len(table) or table[0] is not None or not (kinds <= _STATUS or all(issubclass(k, Status) for k in kinds)):
        raise TypeError(f"answered with a table {shortened(table)}, expected None for code 0 and else a Status")
    if not 0 <= codes.min(initial=0) <= codes.max(initial=0) < len(table):
        raise ValueError(f"answered with codes {codes.min()} to {codes.max()} for a table of {len(table)}")
    # A bare pair will do.
    return verdicts if isinstance(verdicts, Verdicts) else Verdicts(codes, table)


def _verdicts_label(verdicts: Verdicts) -> str:
    """One label for all rows, as for the extension point: Success if any row passes."""
    if verdicts.faulty:
        return Code.ERROR.label
    return (Code.SUCCESS if np.count_nonzero(verdicts.codes) < len(verdicts.codes) else Code.UNSCHEDULABLE).label


def _scored(plugin: ScorePlugin, state: CycleState, pod: Pod, view: RowView) -> Scores:
    return _checked_scores(plugin.score(state, pod, view), len(view))


def _normalized(plugin: Any, state: CycleState, pod: Pod, scores: Scores) -> Scores:
    return _checked_scores(plugin.normalize_score(state, pod, scores), len(scores))


def _success(_scores: Scores) -> str:
    return Code.SUCCESS.label


def _checked_scores(scores: object, size: int) -> Scores:
    if not isinstance(scores, np.ndarray) or scores.dtype.kind not in "iu" or scores.shape != (size,):
        raise TypeError(f"answered {scores!r}, expected {size} integers in an array")
    # Times a weight, and in a total, a smaller type would overflow in silence.
    return scores if scores.dtype is _INT64 else scores.astype(np.int64)
