"""The scheduling framework: extension points, statuses, the registry of plugins and the runtime that calls them."""

from schedcache.framework.diagnosis import Diagnosis, FitError, NodeStatuses, NoNodesError, PluginError
from schedcache.framework.handle import Handle, PodNominator
from schedcache.framework.interface import CycleState, EventHint, Locality, PreFilterResult, Scores, Verdicts
from schedcache.framework.plugin_sets import PluginSetError
from schedcache.framework.registry import Registry, RegistryError
from schedcache.framework.row_view import RowView
from schedcache.framework.runtime import Framework, ScheduleResult
from schedcache.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from schedcache.framework.waiting_pods import WaitingPod, WaitingPods

__all__ = [
    "SKIP",
    "Code",
    "CycleState",
    "Diagnosis",
    "EventHint",
    "FitError",
    "Framework",
    "Handle",
    "Locality",
    "NoNodesError",
    "NodeStatuses",
    "PluginError",
    "PluginSetError",
    "PodNominator",
    "PreFilterResult",
    "Registry",
    "RegistryError",
    "RowView",
    "ScheduleResult",
    "Scores",
    "Status",
    "Verdicts",
    "WaitingPod",
    "WaitingPods",
    "unresolvable",
    "unschedulable",
]
