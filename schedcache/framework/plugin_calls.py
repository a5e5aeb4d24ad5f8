"""Calling one plugin: whatever it raises becomes a PluginError that names plugin and extension point.

Error texts are those of kube-scheduler 1.37 (framework/runtime/framework.go).
"""

from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import CycleState, FilterPlugin, ScorePlugin, Scores, Verdicts
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Status
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
        return plugin.filter(state, pod, view)
    except Exception as error:
        raise failed(pod, plugin.name, "filter", error) from error


def call_score(plugin: ScorePlugin, state: CycleState, pod: Pod, view: RowView) -> Scores:
    """Raises PluginError."""
    try:
        return plugin.score(state, pod, view)
    except Exception as error:
        raise failed(pod, plugin.name, "score", error) from error
